/*
 * judge_cycle.c - ranks that wait for each other in a circle.
 *
 * An edge of the graph is a rank that waits in a call for one that has not begun it, or a rank that has not begun it
 * and is held up by what its process waits in elsewhere. In each process the latter was issued before the former, so
 * a circle means that two ranks have the same calls in another order: where all have one order, there is none,
 * whatever takes how long.
 */
#include "judge_view.h"

#include <string.h>

#define CHAIN 16 /* judge_finding.chain */

struct graph {
	const struct judge_scene *s;
	uint64_t limit;
	bool weak;                    /* likely edges count, too */
	uint8_t state[JUDGE_MEMBERS]; /* 0: not seen, 1: on the path, 2: leads nowhere */
	uint32_t path[JUDGE_MEMBERS];
	unsigned length;
};

/* It has stood so for long enough, and knows what it waits for. */
static bool stands(const struct graph *g, const struct judge_view *v)
{
	if (!v->judged || v->p->life == LIFE_STOPPED || v->p->life == LIFE_TRACED || v->since == 0)
		return false;
	if (v->stand != STAND_IDLE && !v->solid)
		return false;
	return judge_age(g->s, v->since) >= g->limit;
}

static bool edge(const struct graph *g, const struct judge_view *v, unsigned to)
{
	if (v->stand == STAND_WAITS)
		return judge_set_has(&v->lacks, to) || judge_set_has(&v->holds, to);
	return judge_set_has(&v->deps, to) && (g->weak || !judge_set_has(&v->weak, to));
}

/* Walks on from the end of the path; true: the end of it closes a circle, which begins at *from. No recursion: a
 * path may be as long as there are views. */
static bool walk(struct graph *g, unsigned start, unsigned *from)
{
	uint16_t next[JUDGE_MEMBERS] = {0};

	g->length = 1;
	g->path[0] = start;
	g->state[start] = 1;
	while (g->length > 0) {
		unsigned at = g->path[g->length - 1];
		if (next[at] == g->s->count) {
			g->state[at] = 2;
			g->length--;
			continue;
		}
		unsigned to = next[at]++;
		if (!edge(g, &g->s->view[at], to) || !stands(g, &g->s->view[to]) || g->state[to] == 2)
			continue;
		if (g->state[to] == 1) {
			for (*from = 0; g->path[*from] != to; ++*from) {
			}
			return true;
		}
		g->state[to] = 1;
		g->path[g->length++] = to;
	}
	return false;
}

/* Ranks that are with it in what it waits in. */
static unsigned company(const struct judge_scene *s, const struct judge_view *v)
{
	unsigned n = 0;

	for (int32_t i = v->first; i >= 0; i = s->view[i].next)
		n += !judge_set_has(&v->lacks, (unsigned)i) && !judge_set_has(&v->holds, (unsigned)i);
	return n;
}

/* The culprit is who is the loneliest: most ranks keep to the order that was meant. */
static void tell(const struct graph *g, unsigned from, struct judge_finds *finds)
{
	const struct judge_scene *s = g->s;
	struct judge_finding f;
	uint64_t since = 0;
	int32_t alone = -1, other = -1;

	for (unsigned i = from; i < g->length; i++) {
		const struct judge_view *v = &s->view[g->path[i]];
		since = judge_max(since, v->since);
		if (v->stand == STAND_WAITS &&
			(alone < 0 || company(s, v) < company(s, &s->view[alone]) ||
			 (company(s, v) == company(s, &s->view[alone]) && v->m->process > s->view[alone].m->process)))
			alone = (int32_t)g->path[i];
	}
	for (unsigned i = from; i < g->length && alone >= 0; i++) {
		const struct judge_view *v = &s->view[g->path[i]];
		if (v->stand == STAND_WAITS && v->p != s->view[alone].p)
			other = (int32_t)g->path[i];
	}
	if (other < 0)
		return;
	f = judge_about(s, JUDGE_CYCLE, (unsigned)other);
	f.since = judge_max(since, s->world->watched);
	f.culprit = (int32_t)s->view[alone].m->process;
	f.member = alone;
	f.index = s->view[alone].front->index;
	for (unsigned i = from; i < g->length && f.chained < CHAIN; i++)
		if (s->view[g->path[i]].stand == STAND_WAITS)
			f.chain[f.chained++] = g->path[i];
	judge_found(finds, &f);
}

static void look(const struct judge_scene *s, uint64_t limit, bool weak, struct judge_finds *finds)
{
	struct graph g = {.s = s, .limit = limit, .weak = weak};
	unsigned from;

	for (unsigned i = 0; i < s->count; i++)
		if (g.state[i] == 0 && s->view[i].stand == STAND_WAITS && stands(&g, &s->view[i]) &&
			walk(&g, i, &from)) {
			tell(&g, from, finds);
			for (unsigned k = 0; k < g.length; k++)
				g.state[g.path[k]] = 2;
		}
}

void judge_find_cycle(const struct judge_scene *s, struct judge_finds *finds)
{
	look(s, s->limits->cycle, false, finds);
	if (s->limits->transport > s->limits->cycle)
		look(s, s->limits->transport, true, finds);
}
