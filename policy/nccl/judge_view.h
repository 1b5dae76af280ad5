/*
 * judge_view.h - the judge's view of a world: where each rank stands, and whom it waits for.
 *
 * A communicator's operations run in order, so a rank stands at its first one that is not over: the front. What it
 * waits for there are the ranks that have not begun the same operation.
 */
#ifndef TURBO_JUDGE_VIEW_H
#define TURBO_JUDGE_VIEW_H

#include "judge.h"

#define JUDGE_S 1000000000ull
#define JUDGE_MS 1000000ull
/* A sampler that has not been seen for so long is stuck in the driver: what it last said may have changed. */
#define JUDGE_STALE (2 * JUDGE_S)

/* Sets of views. */
#define JUDGE_WORDS (JUDGE_MEMBERS / 64)
struct judge_set {
	uint64_t word[JUDGE_WORDS];
};

enum judge_stand {
	STAND_IDLE,   /* nothing is open, or nothing is known about it */
	STAND_ISSUED, /* the call is made, the GPU has not begun */
	STAND_WAITS,  /* begun on the GPU, or inside a call that waits for the others */
};

/* What a rank has done about an operation of another one. */
enum judge_reach { REACH_UNKNOWN, REACH_NOT_ISSUED, REACH_ISSUED, REACH_STARTED, REACH_DONE };

struct judge_view {
	const struct judge_member *m;
	const struct judge_process *p;
	const struct flight_op *front; /* NULL: idle */
	int32_t first, next;           /* views of one communicator, as a list; -1: the end */
	enum judge_stand stand;
	bool judged;    /* its own waits count: the process runs and has not begun to leave the communicator */
	bool solid;     /* `since` is known, not inferred from a call of which nothing is heard */
	bool host;      /* inside a call, rather than on the GPU */
	bool complete;  /* all ranks are here, and have begun what is at its front */
	uint64_t since; /* it stands so since then */
	uint64_t
		started_last;     /* of all that have begun what is at the front: when the last one did; `complete` */
	uint64_t over, begun; /* all operations up to these indices are over, have begun */
	uint64_t over_at;     /* when the last one was over, as far as is known */
	struct judge_set lacks;  /* it waits for these, which have not made the call, */
	struct judge_set holds;  /* and these, which have, but have not begun; */
	struct judge_set with;   /* these have begun, too, and are not done, */
	struct judge_set unsure; /* and of these only that they have called is known */
	struct judge_set deps;   /* of its own process: what has to be over before it goes on itself */
	struct judge_set weak;   /* those of `deps` where that is only likely */
};

struct judge_scene {
	const struct judge_world *world;
	const struct judge_limits *limits;
	uint32_t count;                     /* of views: one a member of the world, same index */
	uint64_t active[JUDGE_PROCESSES];   /* when the process was last seen to do anything, */
	uint64_t progress[JUDGE_PROCESSES]; /* and when the GPU last got on with an operation of it */
	struct judge_view view[JUDGE_MEMBERS];
};

void judge_scene_make(struct judge_scene *s, const struct judge_world *world,
					  const struct judge_limits *limits);

/* How long it has been so, as far as it has been watched. */
uint64_t judge_age(const struct judge_scene *s, uint64_t since);

/* Operation `index` of a view, NULL when it is not kept (any more). */
const struct flight_op *judge_op(const struct judge_view *v, uint64_t index);
/* The one that holds its collective call `sequence`, NULL: it is not kept. */
const struct flight_op *judge_op_at(const struct judge_view *v, uint64_t sequence);
/* Lowest index that may be kept. */
uint64_t judge_oldest(const struct judge_view *v);
/* The first of the collective calls that an operation holds; its `sequence` is the last. */
uint64_t judge_op_from(const struct flight_op *op);
/* What `q` has done about `op` of `v`; *theirs, where it is kept. */
enum judge_reach judge_reach(const struct judge_view *q, const struct judge_view *v,
							 const struct flight_op *op, const struct flight_op **theirs);
/* The wait that a thread of the process is in, since when; 0: none. */
uint64_t judge_thread_waits(const struct judge_process *p, uint32_t thread, enum flight_wait_kind kind);

static inline void judge_set_add(struct judge_set *set, unsigned i)
{
	set->word[i / 64] |= 1ull << (i % 64);
}
static inline bool judge_set_has(const struct judge_set *set, unsigned i)
{
	return set->word[i / 64] >> (i % 64) & 1;
}
static inline bool judge_set_empty(const struct judge_set *set)
{
	for (int i = 0; i < JUDGE_WORDS; i++)
		if (set->word[i])
			return false;
	return true;
}
static inline bool judge_moves_data(unsigned function)
{
	return function < FLIGHT_INIT || function == FLIGHT_GRAPH;
}
static inline bool judge_pairwise(unsigned function)
{
	return function == FLIGHT_SEND || function == FLIGHT_RECV;
}
static inline uint64_t judge_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The finders. Each hands what it finds to judge_found(). */
struct judge_finds {
	struct judge_finding *found;
	unsigned max, count;
};
void judge_found(struct judge_finds *finds, const struct judge_finding *f);
/* A finding about a view's front, as far as the view tells. */
struct judge_finding judge_about(const struct judge_scene *s, enum judge_verdict verdict, unsigned view);

void judge_find_dead(const struct judge_scene *s, struct judge_finds *finds);
void judge_find_mismatch(const struct judge_scene *s, struct judge_finds *finds);
void judge_find_cycle(const struct judge_scene *s, struct judge_finds *finds);
void judge_find_ends(const struct judge_scene *s, struct judge_finds *finds);

#endif
