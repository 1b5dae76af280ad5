/*
 * judge_sim.h - ranks that run a program against GPUs of their own, in steps of some milliseconds, and are seen as the
 * judge sees them: by what their samplers have learnt and their copiers have written.
 *
 * All ranks run one list of steps in order, each those that concern it. So it always comes to an end, however long
 * anything takes, unless a fault is put in.
 */
#ifndef TURBO_JUDGE_SIM_H
#define TURBO_JUDGE_SIM_H

#include "judge_world.h"

#define SIM_RANKS 8
#define SIM_COMMS 6
#define SIM_STEPS 320
#define SIM_STREAMS 3
#define SIM_TICK_MS 10
#define SIM_POLL_MS 200

enum sim_kind {
	SIM_COLLECTIVE, /* all of the communicator */
	SIM_PAIR,       /* `a` sends to `b`, both ranks of the communicator */
	SIM_EXCHANGE,   /* a group: all send to and receive from all */
	SIM_CPU,        /* process `a` does something else for `ms`, as `how` says */
	SIM_GPU,        /* so does a stream of its GPU */
	SIM_SYNC,       /* process `a` waits for a stream */
	SIM_ORDER,      /* a stream of process `a` waits for another one, `b` */
};

/* What a process looks like that is not at its next call. */
enum sim_how { HOW_BUSY, HOW_IO, HOW_CHILD, HOW_LOCK, HOW_TRACED, HOW_DISK, HOW_IDLE, SIM_HOWS };

struct sim_step {
	enum sim_kind kind;
	int comm, stream, a, b;
	unsigned function;
	uint64_t bytes;
	uint32_t ms;
	enum sim_how how;
};

enum sim_fault {
	FAULT_NONE,
	FAULT_KILLED,  /* at a step */
	FAULT_EXITED,  /* in order, but before its last step */
	FAULT_SKIPS,   /* one call */
	FAULT_DIFFERS, /* calls something else */
	FAULT_SWAPS,   /* a call and its next one */
	FAULT_STOPPED, /* SIGSTOP */
	FAULT_FROZEN,  /* sleeps for ever */
	FAULT_SPINS,   /* computes for ever */
	FAULT_GPU,     /* so does a stream of its GPU */
	FAULT_STUCK,   /* a collective call that all have begun does not complete */
	SIM_FAULTS
};

struct sim_program {
	int ranks, comms, steps;
	int size[SIM_COMMS], member[SIM_COMMS][SIM_RANKS]; /* processes by rank */
	int blind;                                         /* of this communicator nothing is heard; -1 */
	struct sim_step step[SIM_STEPS];
	enum sim_fault fault;
	int culprit, at;                   /* process, and step */
	uint32_t sampler_from, sampler_ms; /* the sampler of process 0 is stuck then */
	bool exits;                        /* processes end after their last step */
};

uint64_t sim_random(uint64_t *state);
void sim_make(struct sim_program *p, uint64_t *random, enum sim_fault fault);

void sim_start(const struct sim_program *p, uint64_t *random);
/* Some milliseconds on. */
void sim_tick(void);
/* What the judge sees. */
const struct judge_world *sim_world(void);
uint32_t sim_ms(void);
/* All have done all of their steps. */
bool sim_over(void);
/* Nothing has moved for so long. */
uint32_t sim_still_ms(void);
/* Somebody was further ahead of its GPU than a record reaches back: not everything can be told any more. */
bool sim_overran(void);

#endif
