/*
 * agree_file.h - the memory in which the ranks of one communicator on one host agree (agree.h).
 *
 * A file in /dev/shm by a name that only they know, whole and zeroed before anybody can find it, and nameless again as soon as
 * all have it. Ranks that do not find each other (other hosts, other users, containers with a /dev/shm or process numbers of
 * their own, a name removed too early) have a file each, in which never all have joined: they launch one by one, which is
 * always right.
 *
 * What remains: a process of the same user that truncates the file between its making and agree_file_ready() would give
 * the ranks SIGBUS. A name that is gone cannot be truncated, and the pages are there from the start: a /dev/shm that fills up
 * later does no harm.
 */
#ifndef TURBO_AGREE_FILE_H
#define TURBO_AGREE_FILE_H

#include <sys/types.h>

#include "agree.h"

#define AGREE_FILE_DIR "/dev/shm"
/* (uid, key) as printf's %u and twice %016lx; while it is made with the process and a number before the dot. */
#define AGREE_FILE_FORMAT "turbo-%u-%016llx%016llx"
#define AGREE_FILE_SUFFIX ".agree"
#define AGREE_FILE_MAGIC "TURBOAG1"

/* Nobody starts a communicator for so long: the name of a process that is dead is removed then. */
#define AGREE_FILE_KEPT_S 600
/* Where nothing can be known of the process. To lose its name does a live one no harm (above). */
#define AGREE_FILE_FORGOTTEN_S 86400

/* Before the area; written by who makes the file, before it has its name. */
struct agree_file_head {
	char magic[8];
	uint64_t key[2];
	uint64_t start_ticks, pid_ns; /* of who made it: proc_stat.h */
	uint32_t pid, ranks;
} __attribute__((aligned(128))); /* the area's alignment */

/* The caller's lock, or one thread; a forked child forgets it. Zeroed: not open. */
struct agree_file {
	struct agree_area *area; /* NULL: not open */
	void *map;
	size_t bytes;
	dev_t dev;
	ino_t ino;
	unsigned ranks;
	bool named; /* its name has not been removed by this rank */
	char name[80];
};

/*
 * `key`: all ranks of the communicator have it, and no other communicator. True: f->area is agree_bytes(ranks) of memory,
 * zeroed but for what ranks that came before have written; a forked child does not have it. False: f is as if closed, and a line in
 * the log says why, once a process.
 *
 * Call it, and agree_init(), before the ranks meet in NCCL (AGREE.md), so that whatever is wrong with a rank's place is known to all
 * (agree_complete()) before anything is launched in groups.
 * Several ranks may be in one process. Takes below a millisecond, and up to some more the first time, which sweeps.
 */
bool agree_file_open(struct agree_file *f, const uint64_t key[2], unsigned rank, unsigned ranks);

/* All have joined, or the communicator ends: the name is removed, the memory stays. Any number of times. */
void agree_file_ready(struct agree_file *f);

/* The memory is gone, and so is the name: without this rank there is nothing to find each other for. What is closed already
 * is left alone. */
void agree_file_close(struct agree_file *f);

/* Removes the names that dead processes of our user have left in `dir`. */
void agree_file_sweep(const char *dir);

#endif
