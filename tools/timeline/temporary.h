/*
 * temporary.h - a file that has another name until it is whole, then takes its place; a failure or a signal leaves
 * none of it, and what was there before stays.
 *
 * SIGINT, SIGTERM and SIGHUP, where nobody else takes them, remove the file of the moment and then end the
 * process: at most one file at a time, and one thread. SIGXFSZ is ignored from the first file on: a limit of the
 * size is an error of the write.
 */
#ifndef TURBO_TEMPORARY_H
#define TURBO_TEMPORARY_H

struct temporary {
	char *path, *name; /* name: the one for now; NULL: written to directly, or nothing is open */
};

/* A descriptor to write to, the caller's to close; or -1, errno says why. What exists and is no regular file (a pipe,
 * /dev/null), or is the process's own output, is written to directly. A symbolic link to a file stays one. */
int temporary_open(struct temporary *t, const char *path);
/* It is whole: puts it in its place. 0, or the errno of why not; it is gone then. */
int temporary_place(struct temporary *t);
/* Removes it. Nothing where nothing is open. */
void temporary_remove(struct temporary *t);

#endif
