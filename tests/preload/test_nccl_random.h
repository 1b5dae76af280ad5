/*
 * test_nccl_random.h - random programs of several ranks, made from a seed; and what must be found where one goes wrong.
 *
 * A program is a script a rank. Fault-free ones cannot hang: all operations have one order that every rank keeps to, and a
 * rank waits only for what is before in it. Streams, pauses and waits differ between ranks.
 */
#ifndef TEST_NCCL_RANDOM_H
#define TEST_NCCL_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/gpu/common/rank_orders.h"

#define PROGRAM_RANKS 8
#define PROGRAM_STEPS 512
#define PROGRAM_COMMS 32  /* made in the course of a program */
#define PROGRAM_SLOTS 7   /* that a rank has at once */
#define PROGRAM_STREAMS 3 /* 0 .. */

enum fault {
	FAULT_NONE,
	FAULT_KILLED,  /* in the middle */
	FAULT_EXITS,   /* in the middle, in order */
	FAULT_OTHER,   /* another function, size, reduction, type or root */
	FAULT_SKIPS,   /* a collective call is left out */
	FAULT_CROSSED, /* two calls on different communicators, in the other order */
	FAULT_NO_RECV, /* a receive is left out */
	FAULT_SIZE,    /* a receive of another size */
	FAULT_STOPPED, /* SIGSTOP */
	FAULT_STUCK,   /* all have begun, and nothing arrives */
	FAULT_HELD,    /* a kernel does not end */
	FAULT_SLEEPS,  /* for longer than the limit */
	FAULTS
};
extern const char *const fault_name[FAULTS];

enum what {
	DO_CALL,  /* a collective, send or receive */
	DO_GROUP, /* until DO_END */
	DO_END,
	DO_SYNC, /* stream, or all: -1 */
	DO_QUERY,
	DO_SPLIT, /* `comm` into `to`, which is in `slot`; to -1: this rank is in none */
	DO_DESTROY,
	DO_CAPTURE,
	DO_CAPTURED,
	DO_REPLAY,
	DO_DROP,
	DO_SLEEP,
	DO_WORK,
	DO_SPIN,
	DO_GATE,
	DO_OPEN,
	DO_STOP,
	DO_DIE,
	DO_EXIT,
	DO_STUCK
};

enum func {
	F_ALLGATHER,
	F_ALLREDUCE,
	F_REDUCESCATTER,
	F_REDUCE,
	F_BROADCAST,
	F_ALLTOALL,
	F_GATHER,
	F_SCATTER
};
#define F_COLLECTIVES 8
#define F_SEND 8
#define F_RECV 9

struct step {
	uint8_t what, comm, slot, func, type, op;
	int8_t stream, to, peer; /* peer: or root; ranks of the communicator */
	uint16_t times;
	int color, key;
	unsigned count; /* or milliseconds, or microseconds of DO_SPIN */
	int place;      /* in the program; equal on all ranks */
};

struct program_comm {
	int n, slot;
	int8_t rank[PROGRAM_RANKS]; /* of the job, by rank of the communicator */
	bool gone;
};

struct script {
	int n;
	struct step step[PROGRAM_STEPS];
};

struct program {
	unsigned seed, state;
	int n; /* ranks */
	enum fault fault;
	int culprit;      /* -1: nobody */
	bool one_culprit; /* of a circle, rather than all that are in it */
	int comms, places;
	int tail; /* place from which on all ranks need each other */
	struct program_comm comm[PROGRAM_COMMS];
	struct script rank[PROGRAM_RANKS];
};

/* Ranks and everything else from the seed: the first of a row in which there is a place for the fault. */
void program_make(struct program *p, unsigned seed, enum fault fault);
unsigned program_below(struct program *p, unsigned limit);
/* The rank in a communicator, -1: it is not in it. */
int program_rank_in(const struct program_comm *c, int rank);
bool program_inject(struct program *p);
void program_print(const struct program *p);
/* As an order for rank_obey(). */
void program_order(const struct step *s, char order[RANKS_LINE]);

/* How it ends, whatever takes how long. */
enum outcome { ENDS_WELL, ENDS_MISMATCH, ENDS_CYCLE, ENDS_WAITING, ENDS_UNCLEAR };
struct expected {
	enum outcome outcome;
	uint32_t culprits; /* ranks of the job that may be named */
};
void program_expect(const struct program *p, struct expected *e);

/* In a rank: orders "id", "run SEED FAULT RANK ID", "result", "cancel"; all else is rank_obey()'s. */
void program_obey(struct rank *me, char *order, char *answer);

#endif
