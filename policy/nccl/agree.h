/*
 * agree.h - how the ranks of a communicator agree on where to cut their sequence of operations into groups.
 *
 * All ranks queue the same operations in the same order, each at its own pace, and each comes to the points where it must
 * launch what it has queued at times of its own. Ranks that group alike operations differently hang, so the cuts are in a log
 * that all share: who comes to a cut first decides it, from how far every rank has queued by then, and the others follow.
 * Nobody ever waits for anybody: an operation that the others have not come to yet can always go out alone.
 *
 * No CUDA, no NCCL, no memory, no lock here. Calls of one `struct agree` are made under one lock, which is also held while
 * what agree_step() told is launched: order on the device is order in the log. policy/nccl/AGREE.md has the rules and the proof;
 * tests/model/agree.pml is this code, step by step.
 */
#ifndef TURBO_AGREE_H
#define TURBO_AGREE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AGREE_SLOTS 4096u
#define AGREE_RANKS 256u
#define AGREE_LAYOUT UINT64_C(0x314552474154) /* "TAGRE1" */

/* Written by its rank alone. Both only grow. */
struct agree_place {
	_Atomic uint64_t safe; /* operations queued; release behind what this rank has of them, acquire */
	_Atomic uint64_t used; /* slots read; release behind the reading, acquire: they may be written anew */
	_Atomic uint32_t joined;
} __attribute__((aligned(128))); /* processors fetch lines in pairs */

/* In memory that all ranks share, filled with 0 by who makes it and by nobody else. */
struct agree_area {
	_Atomic uint64_t layout; /* of who came first */
	_Atomic uint64_t ranks;
	/* Group j is in slot j modulo AGREE_SLOTS: its tag, j + 1 modulo 2^32, above the number of its operations. Any rank
	 * writes it, once, by compare-and-swap: release, so that who follows has seen what the writer had seen; acquire. */
	_Atomic uint64_t slot[AGREE_SLOTS] __attribute__((aligned(128)));
	struct agree_place place[];
};

static inline size_t agree_bytes(unsigned ranks)
{
	return sizeof(struct agree_area) + ranks * sizeof(struct agree_place);
}

/* One rank's side. The caller's lock. */
struct agree {
	struct agree_area *area;
	unsigned rank, ranks;
	uint64_t queued, launched; /* operations */
	uint64_t next;             /* slot that the next group is in */
	uint64_t least_used;       /* by any rank, at the last look: it may be more by now */
	bool left;
	bool complete; /* it was, at the last look */
};

/* The area is zeroed memory of agree_bytes(ranks), or one that other ranks of this communicator have joined. false: it is
 * not of this layout or size, or the rank was there before; then it is not to be used, and never complete again. */
bool agree_init(struct agree *a, struct agree_area *area, unsigned rank, unsigned ranks);

/*
 * One more operation is in the caller's queue. false: it is not counted, because the log is full or this rank has left;
 * then the caller launches all that is queued (agree_step), leaves, and launches this one alone.
 */
bool agree_queue(struct agree *a);

/* How many operations, from the oldest queued on, are to be launched now as one group (1: without a group); 0: none is
 * queued. The caller launches them before its next call here, whatever becomes of them. Wait-free. */
unsigned agree_step(struct agree *a);

/* Nothing is queued; every later operation is launched alone and not counted, for ever. The other ranks notice by and by
 * that this one comes no further, and launch alone, too. */
void agree_leave(struct agree *a);

/*
 * How many the next step would launch now, as far as can be seen: 0, one that not all ranks have come to yet. *decided: that is
 * what it will be; else it may be more by and by. Only a hint for who can wait: nothing depends on it.
 */
unsigned agree_ready(const struct agree *a, bool *decided);

/* All ranks have joined, on this host, and none was refused; until agree_step() has seen that, groups are of one. */
bool agree_complete(const struct agree *a);

#endif
