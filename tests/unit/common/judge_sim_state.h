/* judge_sim_state.h - what judge_sim*.c share. */
#ifndef TURBO_JUDGE_SIM_STATE_H
#define TURBO_JUDGE_SIM_STATE_H

#include "judge_sim.h"

#define SIM_MS 1000000ull
#define SIM_ITEMS (SIM_STEPS + 4)
#define SIM_MEMBERS (SIM_RANKS * SIM_COMMS)
#define SIM_NEVER UINT32_MAX
#define SIM_OPS 1024 /* more than any program makes; the record keeps fewer */

/* What a stream has to do. */
struct sim_item {
	enum { ITEM_CALLS, ITEM_WORK, ITEM_ORDER } kind;
	int member;           /* of the calls, */
	uint64_t first, last; /* which they are */
	uint32_t ms;          /* of work */
	int stream, after;    /* of an order: so many items of that stream are done first */
	uint32_t started;     /* + 1; 0: not yet */
};

struct sim_rank {
	int pc;
	uint32_t busy_until, wait_since; /* the latter + 1 */
	int wait_stream, wait_item;
	bool dead, stopped, over, gone;
	enum sim_how how;
	struct sim_item item[SIM_STREAMS][SIM_ITEMS];
	int items[SIM_STREAMS], head[SIM_STREAMS];
	uint32_t publish_at;
};

/* A communicator in a process as it is; the world's members are as it is seen. */
struct sim_member {
	struct flight_op op[SIM_OPS];
	uint64_t issued, sequence, changed, signature;
	uint64_t dirty[SIM_OPS];
	unsigned dirties;
	uint32_t pair[2][SIM_RANKS];
	uint64_t over; /* calls of one communicator follow each other, on whatever streams they are */
};

struct sim_state {
	const struct sim_program *program;
	struct sim_rank rank[SIM_RANKS];
	struct sim_member member[SIM_MEMBERS];
	uint32_t now_ms, moved_ms;
	uint32_t groups, issues; /* one after the other */
	uint64_t *random;
	struct judge_world *world;
	bool overrun;
};
extern struct sim_state sim;

uint64_t sim_time(uint32_t ms);
int sim_rank(int comm, int process);   /* -1: it is not in it */
int sim_member(int comm, int process); /* index, likewise */
/* The operation has changed. */
void sim_soil(struct sim_member *m, uint64_t index);

void sim_run_gpu(int process);
void sim_publish(int process);
void sim_show(int process);

#endif
