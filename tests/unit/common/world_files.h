/* world_files.h - flight files of processes that there are, and of such that there are not, in a folder of the test's. */
#ifndef TURBO_WORLD_FILES_H
#define TURBO_WORLD_FILES_H

#include <stddef.h>
#include <sys/types.h>

#include "policy/nccl/flight_page.h"
#include "policy/nccl/world.h"

#define FILES_S 1000000000ull
#define FILES_NOBODY 4000000 /* processes that there are not, from here on */

#define FILES_COMM_OFF ((sizeof(struct flight_page) + 4095) / 4096 * 4096)
#define FILES_BYTES(comms) (FILES_COMM_OFF + (comms) * sizeof(struct flight_comm))

/* A folder below /tmp, for the life of the test. */
const char *files_dir(void);
void files_remove(void);

/* A record in memory with room for `comms`, laid out as a file; free() it. */
struct flight_page *files_page(pid_t pid, unsigned comms);
struct flight_comm *files_comm(struct flight_page *page, unsigned place);
/* Takes the next place: a communicator that lives. */
struct flight_comm *files_add(struct flight_page *page, uint64_t key, int rank, int ranks);
/* Its next operation: a collective call, issued and not begun. */
struct flight_op *files_issue(struct flight_comm *comm, unsigned function, uint64_t bytes, uint64_t now);

void files_path(char path[256], pid_t pid);
/* Writes so many bytes of it. */
void files_write(const struct flight_page *page, pid_t pid, size_t bytes);

/* ---- worlds ---- */

/* Processes that live, to be ranks; of a group of tests. */
extern pid_t files_child[4];
int files_setup(void **state);
int files_teardown(void **state);

/* Child `i` as rank of two in a communicator, with one operation begun. */
struct flight_page *files_rank(int i, uint64_t key, int rank);
/* Of all that is to be found in the folder. */
struct world *files_world(const struct flight_page *own);

#endif
