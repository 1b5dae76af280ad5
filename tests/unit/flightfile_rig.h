/*
 * flightfile_rig.h - a flight record, its file, and what a reader finds in it.
 *
 * In place of the copier the tests copy, so that each step is seen.
 */
#ifndef TURBO_FLIGHTFILE_RIG_H
#define TURBO_FLIGHTFILE_RIG_H

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
#include <cmocka.h>

#include "policy/nccl/comms.h"
#include "policy/nccl/file.h"
#include "policy/nccl/flight_open.h"

extern struct flight_page *page;
extern char path[PATH_MAX]; /* of the file in /dev/shm */
extern char tmp_dir[];      /* TMPDIR, a folder of the test's own */

void path_in(char *to, const char *dir, int pid);
bool read_at(int fd, void *to, size_t bytes, off_t at);
off_t place_of(unsigned comm);
/* The file at `name` says what the record does. */
void assert_whole(const char *name);
/* Until the file is up to date. */
void copy(void);
void *comm_new(void);
void reduce(void *comm, size_t count);

/* Before each test: no communicators, and the file is there. */
int rig_setup(void **state);
/* The cases of test_flightfile_harm.c. */
int harm_tests(void);

#endif
