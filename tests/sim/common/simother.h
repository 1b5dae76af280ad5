/*
 * simother.h - a test's second process: the same program again, which obeys orders on a pipe.
 *
 * An order is a letter and a number of 64 bits; its answer a CUresult and such a number (an address has room in it). main()
 * hands argc 3 to st_other_main.
 */
#ifndef SIMOTHER_H
#define SIMOTHER_H

#include <sys/types.h>

#include "simtest.h"

struct st_other {
	pid_t pid;
	int to, from;
};

/* Fail the test on error. */
void st_other_start(struct st_other *o);
/* Sends an order, and its answer (may be NULL). Between them raw bytes may pass. */
CUresult st_other_ask(struct st_other *o, char order, CUdeviceptr value, CUdeviceptr *answer);
void st_other_tell(struct st_other *o, char order, CUdeviceptr value);
CUresult st_other_answer(struct st_other *o, CUdeviceptr *answer);
/* Raw bytes: both sides must know how many. */
void st_other_send(int fd, const void *data, size_t n);
void st_other_receive(int fd, void *data, size_t n);
void st_other_stop(struct st_other *o); /* lets it end; it must have succeeded */
void st_other_kill(struct st_other *o); /* SIGKILL, and waits until it is gone but not reaped */

/* In the other process: obeys until the pipe closes. obey gets both descriptors for raw bytes. */
int st_other_main(char **argv, CUresult (*obey)(char order, CUdeviceptr *value, int in, int out));

#endif
