/*
 * file.h - a timeline file as a file: made, reserved in full, written, let go.
 *
 * Written with pwrite and never mapped. Whoever may write to it can take its pages away at any time (truncate,
 * a hole, a quota, a file system that fails), and a store into a mapping would then end the program by SIGBUS;
 * a system call returns an error. The name appears when the file is whole, where the file system can do that.
 *
 * The descriptor is kept, so that a later chroot, another user id or too many open files do not matter: out of
 * the way, closed by exec and in forked children. A daemon may close it and use its number for something else,
 * so it is looked at before each use. One thread at a time.
 */
#ifndef TURBO_TIMELINE_FILE_H
#define TURBO_TIMELINE_FILE_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct file {
	uint64_t bytes;
	int fd; /* believed when it is dev's ino */
	dev_t dev;
	ino_t ino;
	bool named;     /* it has its name already */
	bool too_large; /* a store raised SIGXFSZ, which is pending */
	char dir[PATH_MAX], path[PATH_MAX];
};

/*
 * A file of `bytes` zeros in `dir` (absolute or not), mode 0600, every byte of it reserved, so that a disk that
 * fills up later does not end the recording. Leaves at least as much free as it takes. 0, or the error: ENOSPC,
 * EDQUOT and EFBIG say that a smaller one may do.
 */
int file_make(struct file *f, const char *dir, uint64_t bytes);
/* Its content is complete: gives it its name, a new one. 0, or the error; EAGAIN: another file_make() makes one
 * that has its name from the start. */
int file_publish(struct file *f);
/* Makes nothing of it: closes and removes. */
void file_drop(struct file *f);
/* Async-signal-safe. */
void file_close(struct file *f);

/*
 * Around any of the three below, which allocate nothing, take no lock and are no cancellation points. 0, or what
 * has become of the file: ENOENT: removed or replaced, ENODATA: shortened, another: its descriptor was closed, and
 * it cannot be opened again. SIGXFSZ is blocked until file_leave(), which is called in either case.
 */
int file_enter(struct file *f, sigset_t *mask);
void file_leave(struct file *f, const sigset_t *mask);
/* 0, or the error. */
int file_store(struct file *f, uint64_t offset, const void *from, size_t bytes);
/* Whether it still has these bytes, 64 at most. */
bool file_holds(const struct file *f, uint64_t offset, const void *what, size_t bytes);
/* Cuts off what lies behind the first `bytes`. */
void file_cut(struct file *f, uint64_t bytes);

#endif
