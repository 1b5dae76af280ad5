/*
 * test_nccl_random_program.c - a program from a seed.
 */
#include <stdlib.h>
#include <string.h>

#include "test_nccl_random.h"

#define TYPES 8
#define BURST 300 /* calls in flight at once: more than are kept */

unsigned program_below(struct program *p, unsigned limit)
{
	p->state = p->state * 1664525u + 1013904223u;
	return (unsigned)((uint64_t)(p->state >> 8) * limit >> 24);
}

static bool chance(struct program *p, unsigned percent)
{
	return program_below(p, 100) < percent;
}

int program_rank_in(const struct program_comm *c, int rank)
{
	for (int i = 0; i < c->n; i++)
		if (c->rank[i] == rank)
			return i;
	return -1;
}

/* ---- scripts ---- */

static void emit(struct program *p, int rank, struct step s)
{
	struct script *t = &p->rank[rank];

	if (t->n == PROGRAM_STEPS)
		abort(); /* no seed makes as many */
	s.place = p->places;
	t->step[t->n++] = s;
}

/* What one rank does between the others' business. */
static void idle_a_little(struct program *p, int rank)
{
	static const uint8_t what[] = {DO_SLEEP, DO_WORK, DO_SYNC, DO_QUERY, DO_SPIN, DO_SYNC};
	struct step s = {.what = what[program_below(p, 6)]};
	bool long_one = chance(p, 3);

	s.stream = (int8_t)program_below(p, PROGRAM_STREAMS);
	if (s.what == DO_SYNC && chance(p, 30))
		s.stream = -1;
	if (s.what == DO_SPIN)
		s.count = program_below(p, 3000);
	else if (s.what == DO_SLEEP || s.what == DO_WORK)
		s.count = s.what == DO_SLEEP && long_one ? 200 + program_below(p, 500) : program_below(p, 8);
	emit(p, rank, s);
}

static void idle(struct program *p)
{
	for (int r = 0; r < p->n; r++)
		if (chance(p, 12))
			idle_a_little(p, r);
	p->places++;
}

/* ---- calls ---- */

static int any_comm(struct program *p)
{
	int i;

	do
		i = (int)program_below(p, (unsigned)p->comms);
	while (p->comm[i].gone);
	return i;
}

static struct step random_call(struct program *p, int comm)
{
	const struct program_comm *c = &p->comm[comm];
	struct step s = {.what = DO_CALL, .comm = (uint8_t)comm, .slot = (uint8_t)c->slot, .times = 1};

	s.func = (uint8_t)program_below(p, F_COLLECTIVES);
	s.type = (uint8_t)program_below(p, TYPES);
	s.count = 1 + program_below(p, chance(p, 10) ? 30000 : 500);
	if (s.func == F_ALLREDUCE || s.func == F_REDUCESCATTER || s.func == F_REDUCE)
		s.op = (uint8_t)program_below(p, 5);
	s.peer = s.func == F_REDUCE || s.func == F_BROADCAST || s.func == F_GATHER || s.func == F_SCATTER
				 ? (int8_t)program_below(p, (unsigned)c->n)
				 : 0;
	return s;
}

/* All its ranks make the call. */
static void call_all(struct program *p, struct step s, int stream)
{
	const struct program_comm *c = &p->comm[s.comm];

	for (int i = 0; i < c->n; i++) {
		s.stream = stream >= 0     ? (int8_t)stream
				   : chance(p, 75) ? 0
								   : (int8_t)program_below(p, PROGRAM_STREAMS);
		emit(p, c->rank[i], s);
	}
	p->places++;
}

static void collective(struct program *p)
{
	struct step s = random_call(p, any_comm(p));

	if (chance(p, 4)) {
		s.times = BURST;
		s.count = 1 + program_below(p, 8);
	}
	call_all(p, s, -1);
}

static void send_and_receive(struct program *p, int comm, int from, int to, int stream)
{
	struct step s = random_call(p, comm);

	s.op = 0;
	for (int k = 0; k < 2; k++) {
		s.func = k ? F_RECV : F_SEND;
		s.peer = (int8_t)(k ? from : to);
		s.stream = stream >= 0 ? (int8_t)stream : (int8_t)program_below(p, PROGRAM_STREAMS);
		emit(p, p->comm[comm].rank[k ? to : from], s);
	}
	p->places++;
}

static void pair(struct program *p)
{
	int comm = any_comm(p), n = p->comm[comm].n, from, to;

	if (n < 2)
		return;
	from = (int)program_below(p, (unsigned)n);
	to = (from + 1 + (int)program_below(p, (unsigned)n - 1)) % n;
	send_and_receive(p, comm, from, to, -1);
}

static void brackets(struct program *p, const struct program_comm *a, const struct program_comm *b, bool open)
{
	struct step s = {.what = open ? DO_GROUP : DO_END};

	for (int r = 0; r < p->n; r++)
		if (program_rank_in(a, r) >= 0 || program_rank_in(b, r) >= 0)
			emit(p, r, s);
	p->places++;
}

/* Collectives of one or two communicators, and a ring. */
static void group(struct program *p)
{
	int a = any_comm(p), b = chance(p, 30) ? any_comm(p) : a, n = p->comm[a].n;
	int stream = (int)program_below(p, PROGRAM_STREAMS);
	int shift = 1 + (int)program_below(p, 3);

	brackets(p, &p->comm[a], &p->comm[b], true);
	for (unsigned k = program_below(p, 4); k; k--) {
		struct step s = random_call(p, chance(p, 50) ? a : b);
		s.count = s.count % 500 + 1; /* all of it has room in a buffer */
		call_all(p, s, stream);
	}
	for (int i = 0; i < n && shift < n && chance(p, 95); i++)
		send_and_receive(p, a, i, (i + shift) % n, stream);
	brackets(p, &p->comm[a], &p->comm[b], false);
}

/* ---- graphs ---- */

static void all_of(struct program *p, int comm, struct step s)
{
	for (int i = 0; i < p->comm[comm].n; i++)
		emit(p, p->comm[comm].rank[i], s);
	p->places++;
}

/* Replays are not in order with the communicator's calls on other streams, so these have to be done. */
static void graph(struct program *p)
{
	int comm = any_comm(p), stream = (int)program_below(p, PROGRAM_STREAMS);
	struct step s = {.stream = (int8_t)stream, .comm = (uint8_t)comm};

	s.what = DO_CAPTURE;
	all_of(p, comm, s);
	for (unsigned k = 1 + program_below(p, 3); k; k--)
		call_all(p, random_call(p, comm), stream);
	s.what = DO_CAPTURED;
	all_of(p, comm, s);
	all_of(p, comm, (struct step){.what = DO_SYNC, .stream = -1});
	s.what = DO_REPLAY;
	for (unsigned k = 1 + program_below(p, 4); k; k--) {
		idle(p);
		all_of(p, comm, s);
	}
	all_of(p, comm, (struct step){.what = DO_SYNC, .stream = -1});
	s.what = DO_DROP;
	all_of(p, comm, s);
}

/* ---- communicators ---- */

static int free_slot(const struct program *p)
{
	for (int slot = 1; slot < PROGRAM_SLOTS; slot++) {
		bool used = false;
		for (int i = 0; i < p->comms; i++)
			used |= !p->comm[i].gone && p->comm[i].slot == slot;
		if (!used)
			return slot;
	}
	return -1;
}

/* What is open in one that is being destroyed is nobody's business any more: a wait before it is. */
static void destroy(struct program *p, int comm)
{
	struct program_comm *c = &p->comm[comm];
	struct step s = {.what = DO_DESTROY, .comm = (uint8_t)comm, .slot = (uint8_t)c->slot};

	all_of(p, comm, (struct step){.what = DO_SYNC, .stream = -1});
	all_of(p, comm, s);
	c->gone = true;
}

/* Of the parent's ranks each has a colour; within one they are in the parent's order, or in the opposite one. */
static void split(struct program *p)
{
	int parent = any_comm(p), slot = free_slot(p), first = p->comms;
	unsigned colors = 1 + program_below(p, 3), how = program_below(p, 3);
	bool backwards = chance(p, 30);
	const struct program_comm *c = &p->comm[parent];

	if (slot < 0 || p->comms + (int)colors > PROGRAM_COMMS || c->n < 2)
		return;
	for (unsigned k = 0; k < colors; k++)
		p->comm[p->comms++] = (struct program_comm){.slot = slot};
	for (int at = 0; at < c->n; at++) {
		int i = backwards ? c->n - 1 - at : at;
		int color = how == 0 ? i % (int)colors : (int)program_below(p, colors + (how == 2)) - (how == 2);
		struct step s = {.what = DO_SPLIT, .comm = (uint8_t)parent, .slot = (uint8_t)slot};
		s.color = color;
		s.key = at;
		s.to = color < 0 ? -1 : (int8_t)(first + color);
		if (color >= 0) {
			struct program_comm *child = &p->comm[first + color];
			child->rank[child->n++] = c->rank[i];
		}
		/* `slot` of the parent is its own. */
		s.count = (unsigned)c->slot;
		emit(p, c->rank[i], s);
	}
	p->places++;
	for (int i = first; i < p->comms; i++)
		p->comm[i].gone = p->comm[i].n == 0;
}

static void destroy_one(struct program *p)
{
	int comm = any_comm(p);

	if (comm != 0)
		destroy(p, comm);
}

/* A rank's GPU is busy while it goes on. */
static void gated(struct program *p)
{
	int r = (int)program_below(p, (unsigned)p->n);
	struct step s = {.what = DO_GATE, .stream = (int8_t)program_below(p, PROGRAM_STREAMS)};

	emit(p, r, s);
	collective(p);
	s.what = DO_SLEEP;
	s.count = program_below(p, 60);
	emit(p, r, s);
	s.what = DO_OPEN;
	emit(p, r, s);
	p->places++;
}

/* ---- all of it ---- */

static void one_thing(struct program *p)
{
	unsigned k = program_below(p, 100);

	idle(p);
	if (k < 45)
		collective(p);
	else if (k < 58)
		group(p);
	else if (k < 68)
		pair(p);
	else if (k < 79)
		split(p);
	else if (k < 84)
		destroy_one(p);
	else if (k < 92)
		graph(p);
	else
		gated(p);
}

/* Whatever happened before, all ranks need each other here. */
static void end(struct program *p)
{
	struct step s = random_call(p, 0);

	p->tail = p->places;
	s.func = F_ALLREDUCE;
	s.peer = 0;
	call_all(p, s, 0);
	s.func = F_ALLGATHER;
	s.op = 0;
	call_all(p, s, 0);
	all_of(p, 0, (struct step){.what = DO_SYNC, .stream = -1});
	for (int i = p->comms; i-- > 0;)
		if (!p->comm[i].gone)
			destroy(p, i);
}

static bool make(struct program *p, unsigned seed, enum fault fault, unsigned attempt)
{
	memset(p, 0, sizeof(*p));
	p->seed = seed;
	p->state = (seed * 64 + attempt) * 2654435761u + 12345;
	p->fault = fault;
	p->culprit = -1;
	p->n = 2 << program_below(p, 3);
	p->comms = 1;
	p->comm[0].n = p->n;
	for (int i = 0; i < p->n; i++)
		p->comm[0].rank[i] = (int8_t)i;
	for (unsigned k = 5 + program_below(p, 15); k; k--)
		one_thing(p);
	end(p);
	return fault == FAULT_NONE || program_inject(p);
}

void program_make(struct program *p, unsigned seed, enum fault fault)
{
	for (unsigned attempt = 0; !make(p, seed, fault, attempt); attempt++) {
	}
}
