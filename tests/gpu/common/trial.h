/*
 * trial.h - random programs of several ranks, made from a seed, that end well on any correct NCCL whatever takes how long.
 *
 * A program is a script a rank. All that ranks do together has one order ("places") that every script keeps to, and whatever
 * a rank, its host or its device, waits for has an earlier place: so nothing can hang. Memory is used in units, and each use
 * is ordered behind those that it must follow, by events, by waits of the host or by being on the same stream: so all data is
 * a function of the seed. What is in memory at the end, what host functions and the host have seen on the way, and the order
 * of NCCL's operations come as hashes; they must be the same however the calls are carried out.
 *
 * trial_make.c: uses and their order; trial_parts.c, trial_loops.c, trial_groups.c, trial_more.c: what programs are made of. trial_rank.c: a rank
 * carries out its script, over the simulated CUDA and NCCL or the real ones; trial_steps.c, trial_calls.c: its steps;
 * trial_watch.c: other threads, which ask. trial_jobs.c: the launcher.
 */
#ifndef TURBO_TEST_TRIAL_H
#define TURBO_TEST_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ranks.h"

#define TRIAL_RANKS 8
#define TRIAL_STEPS 3000
#define TRIAL_COMMS 10
#define TRIAL_STREAMS 5 /* 0, 1, 2: CU_STREAM_NON_BLOCKING; 3: not; 4: the legacy default stream */
#define TRIAL_LEGACY 4
#define TRIAL_EVENTS 40
#define TRIAL_GRAPHS 2
#define TRIAL_FLAGS 256

/* Memory of a rank, in units of so many bytes: device memory for good, buffers that come and go, pinned memory. */
#define TRIAL_UNIT 4096u
#define TRIAL_BUFFERS 4
#define TRIAL_BUFFER_UNITS 8
#define TRIAL_ARENA_UNITS 96
#define TRIAL_PINNED_UNITS 32
#define TRIAL_FIRST_BUFFER TRIAL_ARENA_UNITS
#define TRIAL_FIRST_PINNED (TRIAL_FIRST_BUFFER + TRIAL_BUFFERS * TRIAL_BUFFER_UNITS)
#define TRIAL_FIRST_WATCHED (TRIAL_FIRST_PINNED + TRIAL_PINNED_UNITS / 2) /* the rest: trial_watch.c */
#define TRIAL_UNITS (TRIAL_FIRST_PINNED + TRIAL_PINNED_UNITS)

/* Words: `to`, `from` are places in memory in bytes, as if all units were in a row. */
enum trial_what {
	/* work of the device, on `stream` */
	TRIAL_FILL,   /* to, bytes, value: a kernel */
	TRIAL_ADD,    /* the same */
	TRIAL_COPY,   /* to, from, bytes: a kernel */
	TRIAL_MEMSET, /* to, bytes, value */
	TRIAL_UPLOAD, /* to, from (pinned), bytes */
	TRIAL_FETCH,  /* to (pinned), from, bytes */
	TRIAL_HOST,   /* a host function that looks at from, bytes (pinned) */
	TRIAL_SPIN,   /* value microseconds */
	TRIAL_CALL,   /* func, type, op, peer (root), comm, count, from, to */
	TRIAL_GROUP,
	TRIAL_END,
	TRIAL_SET_HOST, /* flag `value`, by a host function, by a kernel */
	TRIAL_SET_KERNEL,
	TRIAL_AWAIT, /* flag `value`, by a kernel */
	/* order */
	TRIAL_RECORD, /* event; value: what is watched, plus one */
	TRIAL_WAIT,   /* stream waits for event */
	TRIAL_EVENT_SYNC,
	TRIAL_EVENT_POLL,
	TRIAL_STREAM_SYNC,
	TRIAL_STREAM_POLL,
	TRIAL_CTX_SYNC,
	TRIAL_EVENT_ASK, /* once, whatever the answer is */
	TRIAL_STREAM_ASK,
	TRIAL_EVENT_ANEW,  /* destroyed and made; value: flags */
	TRIAL_STREAM_ANEW, /* destroyed with what is on it, and made */
	/* the host */
	TRIAL_PUT,      /* to (pinned), bytes, value: written by the host */
	TRIAL_LOOK,     /* from (pinned), bytes: read by the host */
	TRIAL_PAGEABLE, /* to or from (the other is 0), bytes, value: a synchronous copy on the legacy stream */
	TRIAL_SET,      /* flag `value` */
	TRIAL_HEED,     /* until that flag is set, without a call */
	TRIAL_SLEEP,    /* value microseconds */
	TRIAL_WORK,
	TRIAL_DIE, /* value: a signal, or 0: exit */
	/* memory: buffer in `event`; value: on `stream` */
	TRIAL_ALLOC,
	TRIAL_FREE,
	/* graphs: in `event` */
	TRIAL_CAPTURE, /* stream; value: mode */
	TRIAL_CAPTURED,
	TRIAL_REPLAY,
	TRIAL_DROP,
	/* communicators */
	TRIAL_SPLIT,   /* comm into peer (-1: none); from: color, to: key; value: non-blocking */
	TRIAL_INIT,    /* comm, in which this rank is `peer`; value: non-blocking */
	TRIAL_DESTROY, /* comm */
	TRIAL_ASYNC,
	/* trial_watch.c */
	TRIAL_UNWATCH, /* `value` */
};

struct trial_step {
	uint8_t what, func, type, op;
	int8_t stream, comm, peer, event;
	bool other; /* by another thread, for which this one waits */
	uint16_t place;
	uint32_t from, to, bytes, count, value;
};

struct trial_comm {
	int n;
	int8_t rank[TRIAL_RANKS]; /* of the job, by rank of the communicator */
	bool gone, nonblocking, graphed;
};

enum trial_fault {
	TRIAL_FAULTLESS,
	TRIAL_KILLED, /* when all that it has done is over */
	TRIAL_ENDED,  /* the same, by exit() */
	TRIAL_TORN,   /* killed amid its work */
	TRIAL_STOPPED,
	TRIAL_FAULTS
};

struct trial {
	unsigned seed;
	uint64_t state;
	int n, comms, places, flags;
	enum trial_fault fault;
	int culprit; /* -1: none */
	bool threads;
	struct trial_comm comm[TRIAL_COMMS];
	struct {
		int n;
		struct trial_step step[TRIAL_STEPS];
	} rank[TRIAL_RANKS];
};

/* Everything from the seed, the ranks and the kind of fault. */
void trial_make(struct trial *t, unsigned seed, int ranks, enum trial_fault fault);
void trial_print(const struct trial *t);
const char *trial_step_text(const struct trial_step *s); /* static */

/* ---- what a job's processes share with the launcher: one page, TRIAL_PAGE=descriptor, zeroed between programs ---- */
struct trial_page {
	uint32_t flag[TRIAL_FLAGS];
	struct {
		unsigned char id[128];
		uint32_t ready;
	} id[TRIAL_COMMS];
	struct {
		uint32_t at, running; /* steps that have begun; release */
		uint32_t aborted;     /* all its communicators are */
	} rank[TRIAL_RANKS];
	uint32_t abort; /* set by the launcher: all are to be aborted, by the watching thread */
};

struct trial_result { /* of a rank */
	uint64_t data, seen, order;
	unsigned long long operations,
		launches; /* NCCL's; all-gathers and their launches, of the simulated one */
};

/* In a rank. Orders: "init", "trial SEED FAULT" (answers "ok DATA SEEN ORDER OPERATIONS LAUNCHES" or "error …"), "end";
 * what else there is: rank_obey(). */
void trial_obey(struct rank *me, char *order, char *answer);
bool trial_result_read(const char *answer, struct trial_result *r);

#endif
