/*
 * trial_make.c - uses of memory by the streams of a rank, and how each is put behind those that it must follow.
 */
#include "trial_make.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

unsigned make_below(struct make *m, unsigned limit)
{
	struct trial *t = m->t;

	t->state = t->state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((t->state >> 33) * limit >> 31);
}

bool make_chance(struct make *m, unsigned percent)
{
	return make_below(m, 100) < percent;
}

struct trial_step *make_emit(struct make *m, int r, struct trial_step s)
{
	struct trial *t = m->t;

	if (t->rank[r].n == TRIAL_STEPS)
		abort(); /* trial_make() ends a program long before */
	s.place = (uint16_t)t->places;
	/* Captures and groups are a thread's own. */
	s.other = t->threads && !m->r[r].capturing && !m->r[r].grouped && s.what != TRIAL_GROUP &&
			  s.what != TRIAL_CAPTURE && make_chance(m, 15);
	t->rank[r].step[t->rank[r].n] = s;
	return &t->rank[r].step[t->rank[r].n++];
}

/* ---- clocks ---- */

static void join(struct make_clock *to, const struct make_clock *of)
{
	for (int s = 0; s < TRIAL_STREAMS; s++)
		if (to->at[s] < of->at[s])
			to->at[s] = of->at[s];
}

/* What is over when all is that is on the stream now. */
static struct make_clock clock_of(const struct make_rank *k, int stream)
{
	struct make_clock c = k->knows[stream];

	c.at[stream] = k->issued.at[stream];
	join(&c, &k->host);
	return c;
}

void make_issue(struct make *m, int r, int stream)
{
	struct make_rank *k = &m->r[r];

	if (k->capturing)
		return;
	k->issued.at[stream]++;
	join(&k->knows[stream], &k->host);
}

void make_host_knows(struct make *m, int r, int stream)
{
	struct make_rank *k = &m->r[r];
	struct make_clock c = stream < 0 ? k->issued : clock_of(k, stream);

	join(&k->host, &c);
}

void make_record_in(struct make *m, int r, int stream, int event)
{
	struct make_rank *k = &m->r[r];

	make_emit(m, r,
			  (struct trial_step){.what = TRIAL_RECORD, .stream = (int8_t)stream, .event = (int8_t)event});
	k->event[event].clock = clock_of(k, stream);
	k->event[event].recorded = true;
}

int make_record(struct make *m, int r, int stream)
{
	struct make_rank *k = &m->r[r];
	int event = k->next_event;

	k->next_event = (event + 1) % TRIAL_EVENTS;
	make_record_in(m, r, stream, event);
	return event;
}

void make_wait(struct make *m, int r, int stream, int event)
{
	struct make_rank *k = &m->r[r];

	make_emit(m, r,
			  (struct trial_step){.what = TRIAL_WAIT, .stream = (int8_t)stream, .event = (int8_t)event});
	join(&k->knows[stream], &k->event[event].clock);
}

void make_host_waits(struct make *m, int r, int stream)
{
	struct make_rank *k = &m->r[r];
	unsigned how = make_below(m, 100);
	struct trial_step s = {.stream = (int8_t)stream};

	if (how < 10) {
		s.what = TRIAL_CTX_SYNC;
		make_emit(m, r, s);
		make_host_knows(m, r, -1);
	} else if (how < 50) {
		s.what = how < 35 ? TRIAL_STREAM_SYNC : TRIAL_STREAM_POLL;
		make_emit(m, r, s);
		make_host_knows(m, r, stream);
	} else {
		s.event = (int8_t)make_record(m, r, stream);
		s.what = how < 75 ? TRIAL_EVENT_SYNC : TRIAL_EVENT_POLL;
		make_emit(m, r, s);
		join(&k->host, &k->event[s.event].clock);
	}
}

/* ---- what must come before ---- */

/* An event that is behind it. Old ones serve, as the end of a collective does for whoever waits later. */
static int event_behind(struct make *m, int r, int before, uint32_t number)
{
	struct make_rank *k = &m->r[r];

	for (int i = 1; i <= TRIAL_EVENTS; i++) {
		int event = (k->next_event + TRIAL_EVENTS - i) % TRIAL_EVENTS;
		if (k->event[event].recorded && k->event[event].clock.at[before] >= number)
			return event;
	}
	return make_record(m, r, before);
}

static void put_behind(struct make *m, int r, int stream, int before, uint32_t number)
{
	struct make_rank *k = &m->r[r];

	if (before == stream || !number || number <= k->knows[stream].at[before] || number <= k->host.at[before])
		return;
	if (make_chance(m, 85))
		make_wait(m, r, stream, event_behind(m, r, before, number));
	else
		make_host_waits(m, r, before);
}

static void host_behind(struct make *m, int r, int before, uint32_t number)
{
	if (number > m->r[r].host.at[before])
		make_host_waits(m, r, before);
}

static void unit_needs(struct make *m, int r, int stream, int unit, bool write)
{
	const struct make_use *u = &m->r[r].use[unit];

	put_behind(m, r, stream, u->writer, u->written);
	for (int s = 0; s < TRIAL_STREAMS && write; s++)
		put_behind(m, r, stream, s, u->read.at[s]);
}

static void unit_uses(struct make *m, int r, int stream, int unit, bool write)
{
	struct make_rank *k = &m->r[r];
	struct make_use *u = &k->use[unit];

	if (k->capturing) {
		int g = k->capturing - 1;
		if (k->graph[g].n == 64)
			abort(); /* make_graph() has fewer */
		k->graph[g].access[k->graph[g].n++] = (struct make_access){(uint16_t)unit, write};
	} else if (write) {
		*u = (struct make_use){.writer = (uint8_t)stream, .written = k->issued.at[stream]};
	} else {
		u->read.at[stream] = k->issued.at[stream];
	}
}

static int first_of(uint32_t at)
{
	return (int)(at / TRIAL_UNIT);
}

static int last_of(uint32_t at, uint32_t bytes)
{
	return (int)((at + (bytes ? bytes : 1) - 1) / TRIAL_UNIT);
}

void make_needs(struct make *m, int r, int stream, uint32_t at, uint32_t bytes, bool write)
{
	for (int u = first_of(at); u <= last_of(at, bytes) && !m->r[r].capturing; u++)
		unit_needs(m, r, stream, u, write);
}

void make_uses(struct make *m, int r, int stream, uint32_t at, uint32_t bytes, bool write)
{
	for (int u = first_of(at); u <= last_of(at, bytes); u++)
		unit_uses(m, r, stream, u, write);
}

void make_needs_comm(struct make *m, int r, int stream, int comm, bool write)
{
	if (!m->r[r].capturing)
		unit_needs(m, r, stream, TRIAL_UNITS + comm, write);
}

void make_uses_comm(struct make *m, int r, int stream, int comm, bool write)
{
	if (!m->r[r].capturing) /* that of a graph is a replay's */
		unit_uses(m, r, stream, TRIAL_UNITS + comm, write);
}

void make_host_needs(struct make *m, int r, uint32_t at, uint32_t bytes, bool write)
{
	for (int u = first_of(at); u <= last_of(at, bytes); u++) {
		struct make_use *use = &m->r[r].use[u];
		host_behind(m, r, use->writer, use->written);
		for (int s = 0; s < TRIAL_STREAMS && write; s++)
			host_behind(m, r, s, use->read.at[s]);
		if (write)
			*use = (struct make_use){0};
	}
}

void make_replay(struct make *m, int r, int stream, int graph)
{
	struct make_rank *k = &m->r[r];
	struct trial_step s = {.what = TRIAL_REPLAY, .stream = (int8_t)stream, .event = (int8_t)graph};

	for (int i = 0; i < k->graph[graph].n; i++)
		unit_needs(m, r, stream, k->graph[graph].access[i].unit, k->graph[graph].access[i].write);
	make_emit(m, r, s);
	make_issue(m, r, stream);
	for (int i = 0; i < k->graph[graph].n; i++)
		unit_uses(m, r, stream, k->graph[graph].access[i].unit, k->graph[graph].access[i].write);
}

/* ---- memory ---- */

static bool overlaps(uint32_t a, uint32_t an, uint32_t b, uint32_t bn)
{
	/* By units: uses are. */
	return first_of(a) <= last_of(b, bn) && first_of(b) <= last_of(a, an);
}

/* In the arena, whose last unit is never written (make_watched), or a buffer that is there. */
uint32_t make_pick(struct make *m, int r, uint32_t bytes, const uint32_t * not, int n)
{
	const struct make_rank *k = &m->r[r];
	int units = last_of(0, bytes) + 1;

	for (;;) {
		int b = (int)make_below(m, TRIAL_BUFFERS * 3), first;
		bool buffer = b < TRIAL_BUFFERS && k->live[b] && !k->capturing && units <= TRIAL_BUFFER_UNITS;
		bool clear = true;
		if (buffer)
			first = TRIAL_FIRST_BUFFER + b * TRIAL_BUFFER_UNITS +
					(int)make_below(m, (unsigned)(TRIAL_BUFFER_UNITS - units + 1));
		else
			first = (int)make_below(m, (unsigned)(TRIAL_ARENA_UNITS - 1 - units + 1));
		uint32_t at = (uint32_t)first * TRIAL_UNIT, slack = (uint32_t)units * TRIAL_UNIT - bytes;
		if (slack >= 64 && make_chance(m, 30))
			at += make_below(m, slack / 16) * 16;
		for (int i = 0; i < n; i++)
			clear = clear && !overlaps(at, bytes, not [2 * i], not [2 * i + 1]);
		if (clear)
			return at;
	}
}

uint32_t make_pinned(struct make *m)
{
	return (TRIAL_FIRST_PINNED + make_below(m, TRIAL_FIRST_WATCHED - TRIAL_FIRST_PINNED)) * TRIAL_UNIT;
}

/* ---- all of it ---- */

/* Before one of the culprit's steps, but not within a group or a capture. */
static void put_fault(struct make *m)
{
	struct trial *t = m->t;
	int r = (int)make_below(m, (unsigned)t->n), n = t->rank[r].n, at;
	struct trial_step *step = t->rank[r].step;
	struct trial_step wait = {.what = TRIAL_CTX_SYNC}, die = {.what = TRIAL_DIE, .value = SIGKILL};
	int depth;

	do {
		at = n / 5 + (int)make_below(m, (unsigned)(n - n / 5));
		depth = 0;
		for (int i = 0; i < at; i++)
			depth += (step[i].what == TRIAL_GROUP || step[i].what == TRIAL_CAPTURE) -
					 (step[i].what == TRIAL_END || step[i].what == TRIAL_CAPTURED);
	} while (depth);
	memmove(step + at + 2, step + at, (size_t)(n - at) * sizeof(*step));
	die.value = t->fault == TRIAL_STOPPED ? SIGSTOP : t->fault == TRIAL_ENDED ? 0 : SIGKILL;
	if (t->fault == TRIAL_TORN || (t->fault == TRIAL_STOPPED && make_chance(m, 50)))
		wait = (struct trial_step){.what = TRIAL_WORK, .value = make_below(m, 200)};
	step[at] = wait;
	step[at + 1] = die;
	step[at].place = step[at + 1].place = at ? step[at - 1].place : 0;
	t->rank[r].n += 2;
	t->culprit = r;
}

static bool has_room(const struct trial *t)
{
	for (int r = 0; r < t->n; r++)
		if (t->rank[r].n > TRIAL_STEPS - 1100)
			return false;
	return true;
}

void trial_make(struct trial *t, unsigned seed, int ranks, enum trial_fault fault)
{
	static __thread struct make m; /* too large for a stack */

	memset(t, 0, sizeof(*t));
	memset(&m, 0, sizeof(m));
	m.t = t;
	t->seed = seed;
	t->state = (seed * 64ull + (unsigned)ranks * 8 + fault) * 0x9e3779b97f4a7c15u + 1;
	t->fault = fault;
	t->culprit = -1;
	t->n = ranks;
	t->comms = 1;
	t->comm[0].n = ranks;
	t->threads = make_chance(&m, 20);
	for (int i = 0; i < ranks; i++)
		t->comm[0].rank[i] = (int8_t)i;
	for (unsigned k = 4 + make_below(&m, 12); k && has_room(t); k--) {
		make_idle(&m);
		make_part(&m);
		t->places++;
	}
	for (int r = 0; r < ranks; r++)
		make_emit(&m, r, (struct trial_step){.what = TRIAL_CTX_SYNC});
	for (int c = t->comms; --c > 0;)
		if (!t->comm[c].gone)
			make_destroy(&m, c);
	if (fault != TRIAL_FAULTLESS)
		put_fault(&m);
}
