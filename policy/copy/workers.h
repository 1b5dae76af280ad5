/*
 * workers.h - the threads that move pieces, and the job they share with a caller.
 *
 * A job is one staged copy. Its caller plans pieces, publishes how many may be
 * claimed, talks to the driver, and lends a hand when the workers are late.
 * Workers claim pieces, move bytes and make no driver call, so nothing they do
 * can wait for the device: a caller's progress depends on no other job.
 */
#ifndef TURBO_COPY_WORKERS_H
#define TURBO_COPY_WORKERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tune.h"

/* One piece in flight; piece c lives in cell c % COPY_CELLS. All but `moved` is
 * written by the caller before `limit` is raised above c. */
struct copy_cell {
	unsigned char *ring; /* ring memory */
	size_t offset;       /* of the piece in the copy */
	size_t bytes;
	/* c + 1 once piece c has been moved. Release by the mover; the caller's acquire
	 * sees the bytes in the ring (H2D) or knows that they have left it (D2H). */
	_Atomic uint64_t moved;
} __attribute__((aligned(64)));

struct copy_job {
	/* seq_cst against `visitors`: a worker that saw active == true is counted
	 * before the caller, having cleared it, reads visitors. */
	_Atomic bool active;
	_Atomic int visitors;
	_Atomic bool taken; /* owner flag, CAS acq/rel: one caller has the job */

	/* Workers that it is for; written before `active`, relaxed: a worker that looks while
	 * the job changes hands looks again once it is counted as a visitor. */
	_Atomic int crew;

	bool to_device;      /* constant while active, like everything below */
	bool fresh;          /* D2H: the destination is yet to be faulted in */
	bool past_caches;    /* H2D: how the ring is written, see COPY_STREAM_BYTES */
	unsigned char *host; /* user memory */

	/* Both count on from one use of the job to the next, so that no `moved` of an
	 * earlier use can be taken for one of this. */
	/* Pieces below `limit` may be claimed. Release by the caller after the cells
	 * are filled in; acquire by claimers. */
	_Atomic uint64_t limit __attribute__((aligned(64)));
	/* Next piece to claim; CAS, relaxed is enough: cells are ordered by `limit`. */
	_Atomic uint64_t next __attribute__((aligned(64)));
	struct copy_cell cell[COPY_CELLS];
};

/* Number of workers wanted; set before the first job, constant afterwards. */
extern unsigned workers_wanted;

/* A free job, or NULL when all are in use. */
struct copy_job *workers_job_get(void);
/* Make it visible to the workers and return the number of its first piece. Starts the
 * threads on first use. */
uint64_t workers_job_start(struct copy_job *job);
/* Pieces below `limit` may be moved now. */
void workers_job_allow(struct copy_job *job, uint64_t limit);
/* Claim and move one piece on the calling thread; false when none may be claimed. */
bool workers_job_help(struct copy_job *job);
/* Withdraw it; returns once no worker touches user or ring memory for it. */
void workers_job_end(struct copy_job *job);

/* Forked child: no thread survived, no job is active. */
void workers_fork_child(void);

#endif
