/*
 * trial_make.h - a program as it is being made: who has used what, and what is ordered behind what.
 */
#ifndef TURBO_TEST_TRIAL_MAKE_H
#define TURBO_TEST_TRIAL_MAKE_H

#include "trial.h"

/* Communicators' launches are ordered as memory's uses are: replays of graphs write, calls read. */
#define MAKE_UNITS (TRIAL_UNITS + TRIAL_COMMS)

/* Operations of each stream, counted from 1: what lies at or before them. */
struct make_clock {
	uint32_t at[TRIAL_STREAMS];
};

struct make_use {
	uint8_t writer;
	uint32_t written; /* 0: never, or long ago */
	struct make_clock read;
};

struct make_access {
	uint16_t unit;
	bool write;
};

struct make_rank {
	struct make_clock issued, host; /* host: known to be over */
	struct make_clock knows[TRIAL_STREAMS];
	struct {
		struct make_clock clock;
		bool recorded;
	} event[TRIAL_EVENTS];
	int next_event;
	struct make_use use[MAKE_UNITS];
	bool live[TRIAL_BUFFERS];
	bool watched[TRIAL_PINNED_UNITS]; /* by units from TRIAL_FIRST_WATCHED */
	struct {
		int n;
		struct make_access access[64];
	} graph[TRIAL_GRAPHS];
	int capturing; /* graph plus one */
	bool grouped;
};

struct make {
	struct trial *t;
	struct make_rank r[TRIAL_RANKS];
};

unsigned make_below(struct make *m, unsigned limit);
bool make_chance(struct make *m, unsigned percent);
#define make_rank_of(m, c, i) ((m)->t->comm[c].rank[i])

struct trial_step *make_emit(struct make *m, int r, struct trial_step s);

/* Orders stream behind what the use of units first … last must follow. */
void make_needs(struct make *m, int r, int stream, uint32_t at, uint32_t bytes, bool write);
void make_host_needs(struct make *m, int r, uint32_t at, uint32_t bytes, bool write);
/* An operation is on the stream now. */
void make_issue(struct make *m, int r, int stream);
/* … and uses that. */
void make_uses(struct make *m, int r, int stream, uint32_t at, uint32_t bytes, bool write);
void make_needs_comm(struct make *m, int r, int stream, int comm, bool write);
void make_uses_comm(struct make *m, int r, int stream, int comm, bool write);
void make_replay(struct make *m, int r, int stream, int graph);

void make_host_knows(struct make *m, int r, int stream); /* all of it; -1: of all streams */
int make_record(struct make *m, int r, int stream);      /* the event */
void make_record_in(struct make *m, int r, int stream, int event);
void make_wait(struct make *m, int r, int stream, int event);
/* The host waits, in one way or another. */
void make_host_waits(struct make *m, int r, int stream);

/* A piece of memory that nothing in `not` (n ranges, pairs of place and bytes) overlaps. */
uint32_t make_pick(struct make *m, int r, uint32_t bytes, const uint32_t * not, int n);
uint32_t make_pinned(struct make *m);
void make_kernel(struct make *m, int r, int stream); /* some work */
void make_interrupt(struct make *m, int r);          /* what one rank does between the others' business */
void make_idle(struct make *m);
int make_comm(struct make *m, int at_least);
int make_comm_to_spoil(struct make *m);

/* trial_parts.c, trial_loops.c, trial_groups.c, trial_more.c */
struct make_ranges {
	uint32_t from, to, sends, receives;
};
#define MAKE_NOT 16 /* ranges that a call's memory must not overlap, at most */
uint32_t make_size(struct make *m);
struct trial_step make_call(struct make *m, int comm, unsigned func, uint32_t bytes);
struct make_ranges make_place(struct make *m, const struct trial_step *s, int r, int rank,
							  const uint32_t * not, int n);
void make_call_by(struct make *m, int r, struct trial_step s, const struct make_ranges *g);
void make_call_all(struct make *m, struct trial_step s, int stream);
void make_loop(struct make *m);
void make_burst(struct make *m);
void make_part(struct make *m);
void make_dependency(struct make *m);
void make_silent(struct make *m);
void make_graph(struct make *m);
void make_group(struct make *m);
void make_pair(struct make *m);
void make_watched(struct make *m);
void make_buffer(struct make *m);
void make_split(struct make *m);
void make_init(struct make *m);
void make_destroy(struct make *m, int comm);

/* Functions as rank_data.h has them. */
#define MAKE_SEND 9
#define MAKE_RECV 10

#endif
