/*
 * stage.h - one staged copy: its part of the ring, its pieces, its DMAs.
 *
 * The copy holds a run of adjacent slots and uses it as a circular buffer of bytes.
 * Workers move pieces; DMAs are cut independently of pieces, so that a device that is
 * behind gets few large ones (each costs it 2.6 us, measured) and an idle one is fed
 * at once.
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
	CUstream stream;  /* the DMAs go here */
	bool stream_ptsz; /* and by this ABI */
	bool on_caller;   /* it is the program's own stream; then no ring byte is used twice */
	unsigned slots;
	struct copy_slot *slot[COPY_JOB_SLOTS_MAX]; /* adjacent in memory */
	size_t room;                                /* bytes of ring memory held */

	/* Positions in the copy, in bytes; reusable <= ... <= call->bytes. */
	size_t planned;  /* covered by pieces (H2D) or DMAs (D2H) */
	size_t issued;   /* whose DMA was issued */
	size_t done;     /* whose DMA has run */
	size_t moved;    /* moved by workers, without a gap */
	size_t reusable; /* whose ring memory may be used again */

	uint64_t first_piece;  /* pieces are numbered on from the job's last use */
	uint64_t pieces;       /* the next one's number */
	uint64_t moved_pieces; /* pieces below it are in `moved` */

	/* DMAs in flight that have an event, oldest first: numbers [first_dma, next_dma).
	 * DMA k ends at dma_end[k % slots] and its event is that slot's. */
	uint64_t first_dma, next_dma;
	size_t dma_end[COPY_JOB_SLOTS_MAX];
	bool recorded; /* an event stands behind the newest DMA */
};

/* What stage_open() answers when nothing is free; the call is passed through. */
enum stage_open { STAGE_OPEN, STAGE_BUSY };

/* This copy may go on the program's stream and be read at once: at most `early` bytes, and
 * the ring has room for every one, because there a copy must not wait for its own DMAs,
 * which may be behind anything. */
bool stage_fits_caller(const struct copy_call *call, const struct copy_ring *ring, size_t early);
/* `on_caller`: as above; otherwise the copy's turn must have come (turn.h). */
enum stage_open stage_open(struct stage *st, const struct copy_call *call, struct copy_ring *ring,
						   bool on_caller);
/* Ends it: every DMA has run or is covered by the slots' fence. After a failure the
 * device is waited for; slots whose DMA cannot be accounted for are lost. */
void stage_close(struct stage *st, CUresult status);

/* Bytes of the next piece when `left` bytes of the copy are not in pieces yet: few
 * enough at the end that all movers finish together. */
size_t stage_piece_bytes(const struct stage *st, size_t left);
/* Ring bytes that may be planned now at the position `planned`, without a wrap. */
size_t stage_room(const struct stage *st);
/* A piece of `bytes` at `at`, for the workers once stage_allow() has been called;
 * false when too many are unfinished. */
bool stage_piece(struct stage *st, size_t at, size_t bytes);
/* Lets the workers claim all pieces planned so far. */
void stage_allow(struct stage *st);
/* Advances `moved` past every finished piece. */
void stage_moved(struct stage *st);
/* Move a piece on this thread if that helps. */
bool stage_help(struct stage *st);

/* Issues the DMA of [issued, end), which must not wrap, with an event behind it
 * unless it is on the program's stream. */
CUresult stage_dma(struct stage *st, size_t end);
unsigned stage_dmas(const struct stage *st);
/* Advances `done` past every DMA that has run. */
CUresult stage_poll(struct stage *st);
/* Polls until every issued DMA has run. */
CUresult stage_finish(struct stage *st);
/* The event behind the newest DMA, recorded now if there is none yet. */
CUresult stage_fence(struct stage *st, CUevent *fence);

CUresult h2d_run(struct stage *st);
CUresult d2h_run(struct stage *st);

#endif
