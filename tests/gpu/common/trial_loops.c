/*
 * trial_loops.c - what programs are made of: all-gathers one after the other, as frameworks issue them.
 */
#include "rank_data.h"
#include "trial_make.h"

/* As PyTorch issues them: an event on the current stream, a wait for it, the call, an event at its end. */
static void issue_async(struct make *m, const struct trial_comm *c, struct trial_step s, int current,
						int stream, int *end)
{
	for (int i = 0; i < c->n; i++) {
		int r = c->rank[i];
		struct make_ranges g = make_place(m, &s, r, i, NULL, 0);
		s.stream = (int8_t)stream;
		s.from = g.from;
		s.to = g.to;
		make_needs_comm(m, r, stream, s.comm, false);
		make_needs(m, r, current, g.from, g.sends, false);
		make_needs(m, r, current, g.to, g.receives, true);
		make_wait(m, r, stream, make_record(m, r, current));
		make_needs(m, r, stream, g.from, g.sends, false);
		make_needs(m, r, stream, g.to, g.receives, true);
		make_emit(m, r, s);
		make_issue(m, r, stream);
		make_uses_comm(m, r, stream, s.comm, false);
		make_uses(m, r, stream, g.from, g.sends, false);
		make_uses(m, r, stream, g.to, g.receives, true);
		end[r] = make_record(m, r, stream);
	}
	m->t->places++;
}

static void settle(struct make *m, const struct trial_comm *c)
{
	for (int i = 0; i < c->n; i++) {
		make_emit(m, c->rank[i], (struct trial_step){.what = TRIAL_CTX_SYNC});
		make_host_knows(m, c->rank[i], -1);
	}
}

void make_loop(struct make *m)
{
	int comm = make_comm(m, 1), stream = make_chance(m, 85) ? 0 : 1, current = 2 + (int)make_below(m, 3);
	const struct trial_comm *c = &m->t->comm[comm];
	unsigned times = make_chance(m, 5) ? 40 : 2 + make_below(m, 14);
	unsigned restless = make_below(m, 3) * 7, waits = make_below(m, 3), busy = make_below(m, 3) * 30;
	int end[TRIAL_RANKS] = {0};

	if (make_chance(m, 60))
		settle(m, c);
	for (unsigned k = 0; k < times; k++) {
		struct trial_step s = make_call(m, comm, DATA_ALLGATHER, make_size(m));
		for (int i = 0; i < c->n; i++) {
			int r = c->rank[i];
			if (make_chance(m, busy / 3))
				make_kernel(m, r, current);
			while (make_chance(m, restless))
				make_interrupt(m, r);
		}
		issue_async(m, c, s, current, stream, end);
		for (int i = 0; i < c->n; i++) {
			int r = c->rank[i];
			if (waits == 2 || (waits == 1 && make_chance(m, 10))) { /* at once: `async_op=False` */
				make_wait(m, r, current, end[r]);
				make_issue(m, r, current);
			}
		}
	}
	for (int i = 0; i < c->n; i++)
		if (make_chance(m, 70) && m->r[c->rank[i]].event[end[c->rank[i]]].recorded)
			make_wait(m, c->rank[i], current, end[c->rank[i]]);
}

/* ---- nothing between ---- */

/* What the last calls of a rank have used: others that use it cannot be grouped with them. */
struct recent {
	uint32_t ranges[2 * MAKE_NOT];
	int n;
};

static void remember(struct recent *last, const struct make_ranges *g)
{
	uint32_t *two = last->ranges + 4 * (last->n++ % (MAKE_NOT / 2));

	two[0] = g->to;
	two[1] = g->receives;
	two[2] = g->from;
	two[3] = g->sends;
}

static int remembered(const struct recent *last)
{
	return last->n < MAKE_NOT / 2 ? 2 * last->n : MAKE_NOT;
}

/* Each of its ranks is there before any goes on; no call is made. */
static void meet(struct make *m, const struct trial_comm *c)
{
	int first = m->t->flags;

	if (first + c->n > TRIAL_FLAGS)
		return;
	m->t->flags += c->n;
	for (int i = 0; i < c->n; i++)
		make_emit(m, c->rank[i], (struct trial_step){.what = TRIAL_SET, .value = (uint32_t)(first + i)});
	m->t->places++;
	for (int i = 0; i < c->n; i++)
		for (int k = 0; k < c->n; k++)
			make_emit(m, c->rank[i], (struct trial_step){.what = TRIAL_HEED, .value = (uint32_t)(first + k)});
	m->t->places++;
}

/* All ranks are about as far when it begins; then call upon call, with at most an event behind each. */
void make_burst(struct make *m)
{
	int comm = make_comm(m, 1), stream = make_chance(m, 85) ? 0 : 1;
	const struct trial_comm *c = &m->t->comm[comm];
	unsigned times = 4 + make_below(m, 28), restless = make_chance(m, 30) ? 3 : 0;
	bool records = make_chance(m, 40), alike = make_chance(m, 50);
	uint32_t bytes = 1 + make_below(m, 384);
	struct recent last[TRIAL_RANKS] = {{.n = 0}};

	settle(m, c);
	if (make_chance(m, 80))
		meet(m, c);
	for (unsigned k = 0; k < times; k++) {
		struct trial_step s = make_call(m, comm, DATA_ALLGATHER, alike ? bytes : 1 + make_below(m, 384));
		s.stream = (int8_t)stream;
		for (int i = 0; i < c->n; i++) {
			int r = c->rank[i];
			struct make_ranges g = make_place(m, &s, r, i, last[r].ranges, remembered(&last[r]));
			remember(&last[r], &g);
			make_call_by(m, r, s, &g);
			if (records)
				make_record(m, r, stream);
			while (make_chance(m, restless))
				make_interrupt(m, r);
		}
		m->t->places++;
	}
}
