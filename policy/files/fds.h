/*
 * fds.h - a table of descriptors of one's own.
 *
 * A thread of libturbo that opened files in the program's table would take the lowest free numbers for moments, which a
 * program that closes 0 and opens again counts on, and would hand them to children of a fork. Threads that it starts
 * share its table. Record locks that are taken there are its own, and end with it.
 */
#ifndef TURBO_FILES_FDS_H
#define TURBO_FILES_FDS_H

#include <stdbool.h>

/* For the calling thread, once: an empty table. False: the system does not allow it, and the program's is still there. */
bool fds_own(void);

#endif
