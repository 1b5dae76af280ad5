/* read.h - one file read ahead, so that nobody notices. Threads with a table of descriptors of their own (fds.h). */
#ifndef TURBO_FILES_READ_H
#define TURBO_FILES_READ_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct read_file {
	int fd;
	bool silent; /* O_NOATIME: reading leaves no trace */
	dev_t device;
	ino_t inode;
	uint64_t size;
};

/* Where a file may be. */
struct read_where {
	dev_t device;  /* here it may in any case: its directory is on it. READ_NO_DEVICE: none */
	bool network;  /* elsewhere, on a network file system, too */
	uint64_t most; /* bytes */
};
#define READ_NO_DEVICE ((dev_t)-1)

/*
 * Opens a regular file that is not empty. Nothing else is ever opened, nor a file whose lock is mandatory or that somebody has a
 * lease on (read_leases()); what turns out to be elsewhere is closed again. False: it is left alone.
 */
bool read_open(int dir, const char *path, const struct read_where *where, struct read_file *out);
void read_close(struct read_file *f);

/* Asks the disk for bytes [from, to) and goes on; the time of access stays. */
void read_ahead(const struct read_file *f, uint64_t from, uint64_t to);

/* Waits for the byte at `at`, where that leaves no trace: what was asked for before has come then, mostly. */
void read_wait(const struct read_file *f, uint64_t at);

/* Is the byte at `at` in memory? 1 yes, 0 no, -1 cannot be told without a trace. Asking does not bring it there. */
int read_is_resident(const struct read_file *f, uint64_t at);

/* Looks anew for leases, which another process must give up when its file is opened. Before a batch of files; any thread of ours.
 * False: it could not be done, and the batch must not be read. */
bool read_leases(void);

/* Forked child. */
void read_fork_child(void);

#endif
