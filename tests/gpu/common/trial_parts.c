/*
 * trial_parts.c - what programs are made of: calls, and what one rank does on its own.
 */
#include <stdlib.h>
#include <string.h>

#include "rank_data.h"
#include "trial_make.h"

#define EVENT_FLAGS 2u /* CU_EVENT_DISABLE_TIMING */

/* ---- one rank ---- */

void make_kernel(struct make *m, int r, int stream)
{
	static const uint8_t what[] = {TRIAL_ADD, TRIAL_ADD, TRIAL_FILL, TRIAL_COPY, TRIAL_MEMSET};
	struct trial_step s = {.what = what[make_below(m, 5)], .stream = (int8_t)stream};

	s.bytes = 4 * (1 + make_below(m, TRIAL_UNIT / 2));
	s.value = make_below(m, 1u << 31);
	s.to = make_pick(m, r, s.bytes, NULL, 0);
	if (s.what == TRIAL_COPY) {
		s.from = make_pick(m, r, s.bytes, (uint32_t[]){s.to, s.bytes}, 1);
		make_needs(m, r, stream, s.from, s.bytes, false);
	}
	make_needs(m, r, stream, s.to, s.bytes, true);
	make_emit(m, r, s);
	make_issue(m, r, stream);
	if (s.what == TRIAL_COPY)
		make_uses(m, r, stream, s.from, s.bytes, false);
	make_uses(m, r, stream, s.to, s.bytes, true);
}

/* Into pinned memory; a host function or the host itself looks at it. */
static void fetch(struct make *m, int r, int stream, bool by_host)
{
	struct trial_step s = {.what = TRIAL_FETCH, .stream = (int8_t)stream};

	s.bytes = 4 * (1 + make_below(m, TRIAL_UNIT / 4));
	s.from = make_pick(m, r, s.bytes, NULL, 0);
	s.to = make_pinned(m);
	make_needs(m, r, stream, s.from, s.bytes, false);
	make_needs(m, r, stream, s.to, s.bytes, true);
	make_emit(m, r, s);
	make_issue(m, r, stream);
	make_uses(m, r, stream, s.from, s.bytes, false);
	make_uses(m, r, stream, s.to, s.bytes, true);
	s.from = s.to;
	s.what = by_host ? TRIAL_LOOK : TRIAL_HOST;
	if (by_host)
		make_host_needs(m, r, s.from, s.bytes, false);
	make_emit(m, r, s);
	if (by_host)
		return;
	make_issue(m, r, stream);
	make_uses(m, r, stream, s.from, s.bytes, false);
}

static void upload(struct make *m, int r, int stream)
{
	struct trial_step s = {.what = TRIAL_PUT, .stream = (int8_t)stream, .value = make_below(m, 1u << 31)};

	s.bytes = 4 * (1 + make_below(m, TRIAL_UNIT / 4));
	s.from = s.to = make_pinned(m);
	make_host_needs(m, r, s.to, s.bytes, true);
	make_emit(m, r, s);
	s.what = TRIAL_UPLOAD;
	s.to = make_pick(m, r, s.bytes, NULL, 0);
	make_needs(m, r, stream, s.to, s.bytes, true);
	make_emit(m, r, s);
	make_issue(m, r, stream);
	make_uses(m, r, stream, s.from, s.bytes, false);
	make_uses(m, r, stream, s.to, s.bytes, true);
}

static void pageable(struct make *m, int r)
{
	struct trial_step s = {.what = TRIAL_PAGEABLE, .stream = TRIAL_LEGACY, .value = make_below(m, 1u << 31)};
	bool up = make_chance(m, 50);

	s.bytes = 4 * (1 + make_below(m, TRIAL_UNIT / 2));
	*(up ? &s.to : &s.from) = make_pick(m, r, s.bytes, NULL, 0);
	s.count = up;
	make_needs(m, r, TRIAL_LEGACY, s.to | s.from, s.bytes, up);
	make_emit(m, r, s);
	make_issue(m, r, TRIAL_LEGACY);
	make_uses(m, r, TRIAL_LEGACY, s.to | s.from, s.bytes, up);
	if (!up)
		make_host_knows(m, r, TRIAL_LEGACY);
}

static void anew(struct make *m, int r, bool stream)
{
	struct make_rank *k = &m->r[r];
	struct trial_step s = {.what = stream ? TRIAL_STREAM_ANEW : TRIAL_EVENT_ANEW};
	int event;

	if (!stream) {
		s.event = (int8_t)make_below(m, TRIAL_EVENTS);
		s.value = make_chance(m, 75) ? EVENT_FLAGS : make_chance(m, 50) ? EVENT_FLAGS | 1 : 0;
		make_emit(m, r, s);
		k->event[s.event].recorded = false;
		return;
	}
	/* What was on the old one goes on; the new one is behind it. */
	s.stream = (int8_t)make_below(m, TRIAL_LEGACY);
	event = make_record(m, r, s.stream);
	make_emit(m, r, s);
	make_wait(m, r, s.stream, event);
}

static void asks(struct make *m, int r)
{
	struct trial_step s = {.what = make_chance(m, 50) ? TRIAL_EVENT_ASK : TRIAL_STREAM_ASK};

	s.event = (int8_t)make_below(m, TRIAL_EVENTS);
	s.stream = (int8_t)make_below(m, TRIAL_STREAMS);
	make_emit(m, r, s);
}

static void passes_time(struct make *m, int r)
{
	struct trial_step s = {.what = make_chance(m, 50) ? TRIAL_SLEEP : TRIAL_WORK};

	s.value = make_below(m, make_chance(m, 6) ? 20000 : 600);
	make_emit(m, r, s);
}

static void crosses(struct make *m, int r)
{
	int event = (int)make_below(m, TRIAL_EVENTS), stream = (int)make_below(m, TRIAL_STREAMS);

	if (m->r[r].event[event].recorded)
		make_wait(m, r, stream, event);
	else
		make_record_in(m, r, stream, event);
}

void make_interrupt(struct make *m, int r)
{
	int stream = (int)make_below(m, TRIAL_STREAMS);

	switch (make_below(m, 16)) {
	case 0:
	case 1: asks(m, r); return;
	case 2:
	case 3: passes_time(m, r); return;
	case 4: make_host_waits(m, r, stream); return;
	case 5:
	case 6: make_kernel(m, r, stream); return;
	case 7: fetch(m, r, stream, false); return;
	case 8: fetch(m, r, stream, true); return;
	case 9: upload(m, r, stream); return;
	case 10: pageable(m, r); return;
	case 11: anew(m, r, false); return;
	case 12: anew(m, r, true); return;
	case 13: crosses(m, r); return;
	case 14: make_emit(m, r, (struct trial_step){.what = TRIAL_ASYNC}); return;
	default:
		make_emit(
			m, r,
			(struct trial_step){.what = TRIAL_SPIN, .stream = (int8_t)stream, .value = make_below(m, 800)});
		make_issue(m, r, stream);
		return;
	}
}

void make_idle(struct make *m)
{
	for (int r = 0; r < m->t->n; r++)
		while (make_chance(m, 20))
			make_interrupt(m, r);
}

/* ---- calls ---- */

int make_comm(struct make *m, int at_least)
{
	int c;

	do
		c = make_chance(m, 50) ? 0 : (int)make_below(m, (unsigned)m->t->comms);
	while (m->t->comm[c].gone || m->t->comm[c].n < at_least);
	return c;
}

/* For all-gathers in groups and graphs: nothing of that communicator is held back after them. Communicator 0, which many programs
 * use one after the other, is one only now and then. -1: none. */
int make_comm_to_spoil(struct make *m)
{
	int c = 0;

	if (make_chance(m, 5))
		return make_comm(m, 1);
	for (int tries = 0; !c && tries < 20; tries++)
		c = make_comm(m, 1);
	return c ? c : -1;
}

/* Of all-gathers `bytes` is a rank's share. Unsigned whole numbers are reduced: any bits will do. */
struct trial_step make_call(struct make *m, int comm, unsigned func, uint32_t bytes)
{
	static const uint8_t reduced[] = {ncclUint8, ncclUint32, ncclUint64};
	struct trial_step s = {.what = TRIAL_CALL, .func = (uint8_t)func, .comm = (int8_t)comm};
	bool reduces = func == DATA_ALLREDUCE || func == DATA_REDUCESCATTER || func == DATA_REDUCE;
	uint32_t size;

	s.type = reduces ? reduced[make_below(m, 3)] : (uint8_t)make_below(m, ncclNumTypes);
	s.op = reduces ? (uint8_t)make_below(m, 5) : 0;
	size = (uint32_t)data_size((ncclDataType_t)s.type);
	s.count = bytes / size ? bytes / size : 1;
	s.bytes = s.count * size;
	s.peer = (int8_t)make_below(m, (unsigned)m->t->comm[comm].n);
	return s;
}

struct make_ranges make_place(struct make *m, const struct trial_step *s, int r, int rank,
							  const uint32_t * not, int n)
{
	struct data_op op = {.func = (enum data_func)s->func,
						 .ranks = m->t->comm[s->comm].n,
						 .rank = rank,
						 .root = s->peer,
						 .count = s->count};
	uint32_t size = s->bytes / s->count, all[2 + 2 * MAKE_NOT];
	struct make_ranges g = {.sends = (uint32_t)data_sends(&op) * size,
							.receives = (uint32_t)data_receives(&op) * size};

	if (s->func == DATA_BCAST)
		g.sends = 0;
	if (n)
		memcpy(all, not, (size_t)n * 2 * sizeof(*not ));
	g.to = make_pick(m, r, g.receives ? g.receives : 1, all, n);
	if (s->func == DATA_ALLGATHER && make_chance(m, 25)) { /* in place */
		g.from = g.to + (uint32_t)rank * s->bytes;
		return g;
	}
	all[2 * n] = g.to;
	all[2 * n + 1] = g.receives;
	g.from = make_pick(m, r, g.sends ? g.sends : 1, all, n + 1);
	return g;
}

/* Rank r makes it, on s.stream. */
void make_call_by(struct make *m, int r, struct trial_step s, const struct make_ranges *g)
{
	s.from = g->from;
	s.to = g->to;
	make_needs_comm(m, r, s.stream, s.comm, false);
	if (g->sends)
		make_needs(m, r, s.stream, g->from, g->sends, false);
	if (g->receives)
		make_needs(m, r, s.stream, g->to, g->receives, true);
	make_emit(m, r, s);
	make_issue(m, r, s.stream);
	make_uses_comm(m, r, s.stream, s.comm, false);
	if (g->sends)
		make_uses(m, r, s.stream, g->from, g->sends, false);
	if (g->receives)
		make_uses(m, r, s.stream, g->to, g->receives, true);
}

/* All its ranks make the call, each with memory of its own. stream < 0: each on its own. */
void make_call_all(struct make *m, struct trial_step s, int stream)
{
	const struct trial_comm *c = &m->t->comm[s.comm];

	for (int i = 0; i < c->n; i++) {
		int r = c->rank[i];
		struct make_ranges g = make_place(m, &s, r, i, NULL, 0);
		s.stream = (int8_t)(stream >= 0          ? stream
							: make_chance(m, 80) ? 0
												 : (int)make_below(m, TRIAL_STREAMS));
		make_call_by(m, r, s, &g);
	}
	m->t->places++;
}

uint32_t make_size(struct make *m)
{
	return 1 + make_below(m, make_chance(m, 10) ? 8192 : make_chance(m, 50) ? 1024 : 512);
}

/* ---- any part ---- */

static void collective(struct make *m)
{
	static const uint8_t any[] = {DATA_ALLREDUCE, DATA_REDUCESCATTER, DATA_REDUCE,  DATA_BROADCAST,
								  DATA_BCAST,     DATA_ALLTOALL,      DATA_SCATTER, DATA_GATHER};
	unsigned func = make_chance(m, 40) ? DATA_ALLGATHER : any[make_below(m, 8)];

	make_call_all(m, make_call(m, make_comm(m, 1), func, make_size(m) / (func == DATA_ALLGATHER ? 1 : 2)),
				  -1);
}

void make_part(struct make *m)
{
	unsigned k = make_below(m, 100);

	if (make_chance(m, 60))
		make_burst(m);
	if (k < 40)
		make_loop(m);
	else if (k < 54)
		collective(m);
	else if (k < 61)
		make_watched(m);
	else if (k < 67)
		make_group(m);
	else if (k < 71)
		make_pair(m);
	else if (k < 76)
		make_dependency(m);
	else if (k < 80)
		make_silent(m);
	else if (k < 86)
		make_graph(m);
	else if (k < 91)
		make_buffer(m);
	else if (k < 95)
		make_split(m);
	else
		make_init(m);
}
