/*
 * stage.h - one staged copy: its slots, its chunks, its DMAs.
 *
 * h2d.c and d2h.c drive a struct stage from the calling thread. They return the
 * driver's status of the first of our calls that failed; stage_close() then makes
 * sure that no DMA of ours is left behind, and the caller redoes the whole copy
 * with the real call.
 */
#ifndef TURBO_COPY_STAGE_H
#define TURBO_COPY_STAGE_H

#include "copy.h"
#include "ring.h"
#include "workers.h"

struct stage {
	const struct copy_call *call;
	struct copy_ring *ring;
	struct copy_job *job;
	CUstream stream;     /* the chunks' DMAs go here */
	bool stream_ptsz;    /* and by this ABI */
	size_t early;        /* H2D: bytes that may be read before the copy's turn */
	bool on_caller;      /* it is the program's own stream; then no slot is used twice */
	unsigned slots;
	struct copy_slot *slot[COPY_JOB_SLOTS_MAX];
	size_t planned_bytes; /* covered by chunks so far */
	uint64_t planned;     /* chunks planned; */
	uint64_t issued;      /* whose DMA was issued; */
	uint64_t done;        /* whose DMA has run; */
	uint64_t reusable;    /* whose slot may take another chunk */
	bool recorded;        /* the newest issued DMA has an event behind it */
};

/* What stage_open() answers when nothing is free; the call is passed through. */
enum stage_open { STAGE_OPEN, STAGE_BUSY };

enum stage_open stage_open(struct stage *st, const struct copy_call *call, struct copy_ring *ring,
						   size_t early);
/* Ends it: every DMA has run or is covered by its slot's event. After a failure the
 * device is waited for; slots whose DMA cannot be accounted for are lost. */
void stage_close(struct stage *st, CUresult status);

/* Plans the next chunk (bytes not beyond `upto`); false if there is none or no slot. */
bool stage_plan(struct stage *st, size_t upto);
bool stage_planned_all(const struct stage *st);
/* Lets the workers claim all chunks below `n`. */
void stage_allow(struct stage *st, uint64_t n);
/* Issues the DMA of chunk st->issued and the event behind it. */
CUresult stage_issue(struct stage *st);
/* Advances st->done past every chunk whose DMA has run. */
CUresult stage_poll(struct stage *st);
/* Chunk c has been moved by a worker or by us. */
bool stage_moved(const struct stage *st, uint64_t c);
/* Move a chunk on this thread if that helps; `wanted` is the one waited for. */
bool stage_help(struct stage *st, uint64_t wanted);
/* Polls until every issued DMA has run. */
CUresult stage_finish(struct stage *st);

/* An event on the program's stream behind all of its earlier work, polled until it
 * has passed. */
struct turn {
	CUevent event;
	bool passed;
};
CUresult turn_take(struct turn *turn, const struct copy_call *call);
CUresult turn_poll(struct turn *turn);
void turn_drop(struct turn *turn);

CUresult h2d_run(struct stage *st);
CUresult d2h_run(struct stage *st);

#endif
