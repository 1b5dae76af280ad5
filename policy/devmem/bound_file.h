/*
 * bound_file.h - what the processes of one user keep on one device, in a small shared file.
 *
 * /dev/shm/turbo-UID-UUID.kept, mode 0600, one page: a slot a process, told apart by number and
 * start time. Made whole under another name and then linked, mapped, and closed at once. Slots of
 * dead processes are taken back by the living ones; the last one out unlinks it. A wrong number in it costs
 * memory or speed, nothing else. Any thread.
 */
#ifndef TURBO_DEVMEM_BOUND_FILE_H
#define TURBO_DEVMEM_BOUND_FILE_H

#include <stddef.h>

struct bound_file;

/* NULL: not to be had; said once at info. */
struct bound_file *bound_file_open(const char *uuid, size_t length);
/* This process keeps that many bytes. */
void bound_file_set(struct bound_file *file, size_t bytes);
/* What the others keep. Looks for dead ones at most once a second. */
size_t bound_file_others(struct bound_file *file);
void bound_file_leave(struct bound_file *file);
/* The mappings are the parent's: forgets them all. */
void bound_file_fork_child(void);

#endif
