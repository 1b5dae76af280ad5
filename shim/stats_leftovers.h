/* stats_leftovers.h - files of processes that were killed before they could unlink them. */
#ifndef TURBO_STATS_LEFTOVERS_H
#define TURBO_STATS_LEFTOVERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Field 22 of /proc/PID/stat (start time in clock ticks since boot), or 0. */
uint64_t stats_start_ticks(pid_t pid);

/* Inode of this process's pid namespace, or 0. */
uint64_t stats_pid_namespace(void);

/* Unlinks `path` if it is our user's stats file of a process that is no more; says whether
 * it did. `pid` is the number in its name. A file of another pid namespace is left alone:
 * containers may share /dev/shm, and the number means nothing here. */
bool stats_remove_if_dead(const char *path, pid_t pid);

/* Removes the dead processes' files of our user in `dir`: at most 64 of them, looking at
 * 4096 entries. */
void stats_sweep(const char *dir);

#endif
