/*
 * flight_thread.h - what the flight record knows of the calling thread, and what flight*.c and comms.c share.
 */
#ifndef TURBO_FLIGHT_THREAD_H
#define TURBO_FLIGHT_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "flight.h"

struct flight_group;

/* Initial-exec and small, as guard.h's: it is in every thread of the program. */
struct flight_thread {
	struct flight_group *group; /* NULL: in none, or there was none left */
	uint32_t id;                /* Linux thread id; 0: not asked yet */
	uint16_t inside;            /* calls of NCCL that this thread is in */
	uint16_t depth;             /* of groups */
};
extern __thread struct flight_thread flight_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* flight_open.c: the page, made at the first communicator. `caller` names the copy of NCCL. */
struct flight_page *flight_open(const void *caller);

/* flight.c. The operation by which a communicator without a parent comes to be. */
void flight_record_making(struct flight_comm *comm, const struct flight_made *how);

/*
 * flight_group.c. An operation that was issued in this thread's group: its launch begins with the group's end. A
 * management call's too: with `on_gpu` false. false: there is no room, nobody follows it.
 */
bool flight_group_add(struct flight_comm *comm, void *stream, uint64_t index, bool on_gpu);
/* A communicator that is being made in this thread's group; false: the thread is in none. */
bool flight_group_making(struct flight_comm *comm, void **handle);
uint32_t flight_group_number(void); /* of this thread's group, 0: none */
uint32_t flight_group_new(void);    /* a number for a group of libturbo's own */
uint16_t flight_group_count(void);  /* operations of it, the one that is being issued included */

#endif
