/*
 * judge.h - who is stuck, where, and why: a pure function of what the ranks have recorded.
 *
 * No call of the operating system, of CUDA or of NCCL, no clock, no allocation: the watch (watch.c) and `turbo nccl`
 * put a world together, the judge says what it shows. So every verdict is a unit test, and the same in a live job
 * and over the files of a dead one.
 */
#ifndef TURBO_JUDGE_H
#define TURBO_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flight_page.h"

#define JUDGE_PROCESSES 64 /* on one machine */
#define JUDGE_MEMBERS 128  /* (communicator, rank) pairs with something open that are looked at */

/* JUDGE(ID, "name", acts, "one sentence"): with `acts`, TURBO_NCCL_WATCHDOG=abort acts on it. */
enum judge_verdict {
#define JUDGE(id, name, acts, text) JUDGE_##id,
#include "judge.def"
#undef JUDGE
	JUDGE_VERDICTS
};

enum judge_life {
	LIFE_RUNS,
	LIFE_STOPPED, /* SIGSTOP, or a job control's */
	LIFE_TRACED,  /* a debugger has it */
	LIFE_DISK,    /* in an uninterruptible wait */
	LIFE_DEAD,    /* it is gone, or a zombie */
};

/* A process, as the operating system shows it. */
struct judge_process {
	const struct flight_page *page; /* a copy, without its communicators */
	uint32_t pid;
	enum judge_life life;
	uint64_t life_since;  /* when it was first seen so */
	uint64_t cpu_changed; /* its process tree last used CPU time, */
	uint64_t io_changed;  /* or read or wrote anything */
	bool children;        /* it waits for a child process, or has one that runs another program */
	bool locked;          /* it waits for a lock that another process may hold */
	int exit_signal;      /* of a dead one: the signal, 0 none, -1 not known */
};

/* One rank in one communicator. */
struct judge_member {
	uint32_t process; /* index in judge_world.process */
	uint32_t place;   /* index of the communicator in that process */
	uint64_t key[2];
	int32_t rank, ranks;
	uint64_t issued, sequence, started, done; /* as in struct flight_comm */
	uint64_t changed, made, best_rate;
	uint32_t state, nonblocking, parent, number;
	int32_t device;
	const char *name; /* as the program named it, ends in 0; NULL or "": none */
	const struct flight_op
		*op; /* FLIGHT_OPS copies; an operation that has been overwritten has another index */
};

struct judge_world {
	uint64_t now;
	uint64_t watched; /* from then on without a gap: nothing counts as older. 0: one look */
	uint32_t processes, members;
	const struct judge_process *process;
	const struct judge_member *member;
};

struct judge_limits {
	uint64_t cycle, transport, frozen, said; /* ns; see judge_limits_default */
	uint64_t user;                           /* TURBO_NCCL_TIMEOUT_S, ns; 0: auto */
};
extern const struct judge_limits judge_limits_default;

/* What was found, and about which operation. */
struct judge_finding {
	enum judge_verdict verdict;
	uint64_t key[2];
	uint64_t since;    /* when it began to be so */
	uint32_t sequence; /* of the collective call, 0: a send or receive */
	int32_t culprit;   /* index in judge_world.process; -1: none of those that are here */
	int32_t member;    /* the culprit's, in judge_world.member; -1: none */
	int32_t other;     /* member that it is told by: a rank that waits, or that called something else; -1 */
	uint64_t index, other_index; /* their operations; 0: none */
	uint32_t waiting;            /* ranks that wait */
	uint32_t missing;            /* ranks of the communicator that are not on this machine */
	/* The ranks of a cycle, or the ranks that never started: members. */
	uint32_t chain[16], chained;
};

/*
 * The worst finding of the world, JUDGE_NOTHING when all is well. `limits` may be NULL. A finding is of one look:
 * the watch gives it out when it stands for as long as the limits say, which the judge finds from the times in the
 * world alone.
 */
void judge_look(const struct judge_world *world, const struct judge_limits *limits,
				struct judge_finding *found);

/* All at most `max` findings, worst first, for tables. Returns how many. */
unsigned judge_look_all(const struct judge_world *world, const struct judge_limits *limits,
						struct judge_finding *found, unsigned max);

const char *judge_name(enum judge_verdict verdict); /* "dead", "mismatch", ... */
bool judge_acts(enum judge_verdict verdict);
const char *judge_function_name(unsigned function); /* "all_reduce", ...; never NULL */

#endif
