/*
 * image.h - a recording in private memory, and how it gets into its file.
 *
 * The memory is laid out as the file's beginning: header, tables, and behind them one chunk, the one that is
 * being filled. image_save() writes what the file does not have yet, in the order that record.h gives: a process
 * may be killed at any moment and leaves a file that is valid, as it was at a save. One thread at a time.
 */
#ifndef TURBO_TIMELINE_IMAGE_H
#define TURBO_TIMELINE_IMAGE_H

#include <stdint.h>

#include "cupti/file.h"
#include "cupti/record.h"

struct image {
	struct file file;
	struct timeline_header *header; /* the memory, not inherited by children; NULL: none */
	struct timeline_chunk *chunk; /* its place in the ring follows from its sequence; 0: none is filled yet */
	uint64_t bytes;
	/* What the file has: its header, and of the chunk's sequence so many records. */
	struct timeline_header saved;
	uint64_t saved_sequence;
	uint32_t saved_records;
	struct timeline_header next; /* of a save, while it is made */
};

/* The file in `dir` and the memory for a recording of that layout (header_layout()), which the memory's header
 * then is. 0, or the error as file_make() gives it. */
int image_make(struct image *m, const char *dir, const struct timeline_header *layout);
/* Writes the content with the magic last, then as file_publish(). */
int image_publish(struct image *m);
/* Makes nothing of it. */
void image_drop(struct image *m);
/* Brings the file up to date: two system calls when it is, half a dozen when it is not. No allocation, no lock.
 * 0, or the error: as file_enter() gives it; EBADMSG: its magic is gone; else its file system's. */
int image_save(struct image *m);
/* Records that were put and are not in the file. */
uint64_t image_unsaved(const struct image *m);
/* Writes the header as it is, shortens the file to its file_bytes, and lets both go; a file that is no longer
 * what it was is left alone. */
void image_end(struct image *m);

#endif
