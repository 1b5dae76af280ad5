/*
 * file.h - the flight file: made, kept up to date with the record, removed.
 *
 * All of this is the copier's, a thread of ours, but for flight_file_end() and the child's.
 */
#ifndef TURBO_FLIGHT_FILE_H
#define TURBO_FLIGHT_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "flight_page.h"

/* A dead process's file is kept so long for those who want to know what it died of; one that nobody has written
 * to for the longer time has no live writer in any pid namespace. */
#define FLIGHT_FILE_KEPT_S 300
#define FLIGHT_FILE_FORGOTTEN_S 86400

/* Starts the copier. Once; any thread. */
void flight_file_start(struct flight_page *page);

/* A communicator has come: the copier copies now. A rank may be killed at once, and the others are to know of it. `wait`:
 * returns when it has, or after 20 ms. */
void flight_file_hurry(bool wait);

/* Makes the file when there is none (any more), and writes what has changed. false: there is none. */
bool flight_file_copy(void);

/* At exit: a last copy, which says that the process leaves, and the file is gone; but for one of a rank that leaves a
 * communicator so soon that the others may not have seen it yet. Waits 100 ms at most. */
void flight_file_end(void);

/* A file of our user, whose header can be read; `st` of it. */
bool flight_file_header(const char *name, struct flight_page *header, struct stat *st);

/* Removes files of dead processes of our user in `dir`. */
void flight_file_sweep(const char *dir);

void flight_file_fork_child(void);

#endif
