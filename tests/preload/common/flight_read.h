/*
 * flight_read.h - flight files, read as flight_page.h says.
 */
#ifndef TURBO_TEST_FLIGHT_READ_H
#define TURBO_TEST_FLIGHT_READ_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "policy/nccl/flight_page.h"

#define FLIGHT_READ_COMMS 4

struct flight_copy {
	struct flight_page page;
	struct flight_comm comm[FLIGHT_READ_COMMS]; /* by place */
};

/* Its path, in /dev/shm. */
void flight_path(char *to, unsigned size, pid_t pid);
bool flight_there(pid_t pid);
/* false: it is not there, or not whole. */
bool flight_read(struct flight_copy *to, pid_t pid);
/* As soon as it is there and the communicator in `place` has `issued` operations; fails the test after some
 * seconds. */
void flight_await(struct flight_copy *to, pid_t pid, unsigned place, uint64_t issued);
/* The operation; fails the test when it is not kept. */
const struct flight_op *flight_op(const struct flight_copy *of, unsigned place, uint64_t index);
/* The newest one with that function, or NULL. */
const struct flight_op *flight_last(const struct flight_copy *of, unsigned place,
									enum flight_function function);

#endif
