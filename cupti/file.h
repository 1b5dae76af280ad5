/*
 * file.h - a timeline file as a file: made, reserved in full, mapped, let go.
 *
 * The name appears when the file is whole, where the file system can do that; no descriptor is kept. One
 * thread.
 */
#ifndef TURBO_TIMELINE_FILE_H
#define TURBO_TIMELINE_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct file {
	unsigned char *base; /* MAP_SHARED, not inherited by children; NULL: none */
	uint64_t bytes;
	int fd; /* until file_publish() or file_drop(), else -1 */
	dev_t dev;
	ino_t ino;
	bool named; /* it has its name already */
	char dir[PATH_MAX], path[PATH_MAX];
};

/*
 * A file of `bytes` zeros in `dir` (absolute or not), mode 0600, every byte of it reserved, so that no store
 * into the mapping meets a full disk. Leaves at least as much free as it takes. 0, or the error: ENOSPC,
 * EDQUOT and EFBIG say that a smaller one may do.
 */
int file_make(struct file *f, const char *dir, uint64_t bytes);
/* Its content is complete: gives it its name, a new one, and closes the descriptor. 0, or the error; EAGAIN:
 * another file_make() makes one that has its name from the start. */
int file_publish(struct file *f);
/* Makes nothing of it: unmaps, closes and removes. */
void file_drop(struct file *f);
/* Unmaps, and cuts off what lies behind the first `bytes`. */
void file_end(struct file *f, uint64_t bytes);
/* Pages of the mapping are there for the next stores. false: the file system has none (it promised them). */
bool file_ready(const struct file *f, uint64_t offset, uint64_t bytes);

#endif
