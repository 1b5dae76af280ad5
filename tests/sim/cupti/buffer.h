/*
 * buffer.h - what buffer.c and fill.c share. cu.lock guards it, and is held for all calls.
 */
#ifndef SIM_CUPTI_BUFFER_H
#define SIM_CUPTI_BUFFER_H

#include "internal.h"

struct name { /* of a kernel, with SIM_CUPTI_STALE */
	struct name *next;
	char text[];
};

struct buffer {
	uint8_t *at;
	size_t size, used, max, count; /* count: records; max: of them, 0 unlimited */
	unsigned pending;              /* records that have not run */
	bool full;
	struct item *items; /* the pending ones */
	struct name *names;
	struct buffer *next;
};

/* The one that the calling thread fills. */
struct slot *slot_mine(void);
/* No more records go into the slot's buffer. */
void slot_retire(struct slot *slot);
/* For the worker. */
void buffer_queue(struct buffer *b);
/* A full buffer has got all its records. */
void buffer_ready(struct buffer *b);
void worker_start(void);

#endif
