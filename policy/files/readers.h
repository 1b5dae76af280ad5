/*
 * readers.h - threads that read files ahead of the program.
 *
 * They have a table of descriptors of their own (unshare(CLONE_FILES)), emptied: no number that the program expects is ever
 * taken, no pipe is held open, and no lock of the program's on a file is lost. Where that is refused nothing is read.
 */
#ifndef TURBO_FILES_READERS_H
#define TURBO_FILES_READERS_H

#include <stdbool.h>
#include <stddef.h>

struct seen_folder;

/* Read what is in `root` (absolute, with a slash at its end), below it with `tree`, and ends as `like`; `in_order`: the
 * program comes through the names in order, and is where `seen` says. false: the queue is full. Any thread; starts the first
 * reader at need. Allocates nothing. */
bool readers_ask(const char *root, bool tree, bool in_order, const char *like,
				 const struct seen_folder *seen);
void readers_start(bool network);
/* No more; what is under way ends by itself. */
void readers_stop(void);
void readers_fork_child(void);

#endif
