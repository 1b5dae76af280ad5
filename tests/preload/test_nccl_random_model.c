/* test_nccl_random_model.c - see test_nccl_random_model.h. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "test_nccl_random_model.h"

struct model model;

uint64_t model_bytes(const struct step *s)
{
	static const uint8_t size[] = {1, 1, 4, 8, 2, 4, 8, 2};

	return (uint64_t)s->count * size[s->type];
}

/* Equal calls have equal numbers. */
static uint64_t number_of(const struct step *s)
{
	uint64_t n = ((uint64_t)s->func + 1) << 56 | (uint64_t)(s->peer + 1) << 48;

	if (s->func == F_ALLREDUCE || s->func == F_REDUCESCATTER || s->func == F_REDUCE)
		return n | (uint64_t)s->type << 44 | (uint64_t)s->op << 40 | s->count;
	return n | model_bytes(s);
}

static void note(struct model_rank *r, int comm, uint64_t number)
{
	if (r->calls[comm] == MODEL_CALLS)
		abort();
	r->call[comm][r->calls[comm]++] = number;
}

/* ---- issuing ---- */

static void add_kernel(struct model_rank *r, int comm, int stream, int from, int to, bool pairs, bool graph)
{
	if (r->kernels == MODEL_KERNELS)
		abort();
	r->kernel[r->kernels] = (struct kernel){comm, stream, from, to, pairs, graph, false, false, 0};
	for (int i = from; i < to && pairs; i++) {
		const struct step *s = &r->script->step[i];
		if (s->what == DO_CALL && s->comm == comm && model_pairwise(s))
			r->move[r->moves++] = (struct move){.kernel = r->kernels, .step = i};
	}
	r->kernels++;
}

/* Of the calls in [from, to): for each communicator the collectives, then the rest. */
static void launch(struct model_rank *r, int from, int to, bool graph)
{
	uint32_t seen = 0;

	for (int i = from; i < to; i++) {
		const struct step *s = &r->script->step[i];
		bool collectives = false, pairs = false;
		if (s->what != DO_CALL || (!graph && seen >> s->comm & 1))
			continue;
		seen |= 1u << s->comm;
		int last = graph ? i + 1 : to;
		for (int k = i; k < last; k++) {
			const struct step *t = &r->script->step[k];
			if (t->what == DO_CALL && t->comm == s->comm) {
				collectives |= !model_pairwise(t);
				pairs |= model_pairwise(t);
			}
		}
		if (collectives)
			add_kernel(r, model.p->comm[s->comm].n > 1 ? s->comm : -1, s->stream, i, last, false, graph);
		if (pairs)
			add_kernel(r, s->comm, s->stream, i, last, true, graph);
	}
}

static void called(struct model_rank *r, const struct step *s)
{
	if (!model_pairwise(s) && r->capture < 0)
		for (int i = 0; i < s->times; i++)
			note(r, s->comm, number_of(s));
	if (r->group < 0 && r->capture < 0)
		launch(r, r->at, r->at + 1, false);
}

static void replay(struct model_rank *r)
{
	for (int i = r->capture; i < r->captured; i++)
		if (r->script->step[i].what == DO_CALL)
			note(r, r->script->step[i].comm, 0);
	launch(r, r->capture, r->captured, true);
}

bool model_is_idle(const struct model_rank *r, int stream, int comm)
{
	for (int i = 0; i < r->kernels; i++) {
		const struct kernel *k = &r->kernel[i];
		if (!k->done && (stream < 0 || k->stream == stream) && (comm < 0 || k->comm == comm))
			return false;
	}
	return true;
}

bool model_all_met(const struct model_rank *r, int comm)
{
	const struct program_comm *c = &model.p->comm[comm];

	for (int i = 0; i < c->n; i++)
		if (model.rank[c->rank[i]].met[comm] < r->met[comm])
			return false;
	return true;
}

/* False: the rank waits here. */
static bool take_step(struct model_rank *r, const struct step *s)
{
	switch (s->what) {
	case DO_CALL: called(r, s); break;
	case DO_GROUP: r->group = r->at; break;
	case DO_END:
		launch(r, r->group, r->at, false);
		r->group = -1;
		break;
	case DO_CAPTURE: r->capture = r->at; break;
	case DO_CAPTURED: r->captured = r->at; break;
	case DO_REPLAY: replay(r); break;
	case DO_DROP: r->capture = -1; break;
	case DO_SYNC: return model_is_idle(r, s->stream, -1);
	case DO_SPLIT:
		if (!r->meets) {
			note(r, s->comm, 99ull << 56);
			r->met[s->comm]++;
			r->meets = model.moved = true;
		}
		if (!model_all_met(r, s->comm))
			return false;
		r->meets = false;
		break;
	case DO_DESTROY:
		if (!r->meets)
			note(r, s->comm, 98ull << 56);
		r->meets = true;
		if (!model_is_idle(r, -1, s->comm))
			return false;
		r->meets = false;
		break;
	default: break;
	}
	return true;
}

static void go_on(struct model_rank *r)
{
	while (r->at < r->script->n && take_step(r, &r->script->step[r->at])) {
		r->at++;
		/* What is captured is in `capture` until it is dropped. */
		model.moved = true;
	}
}

/* ---- running ---- */

static bool is_first(const struct model_rank *r, int kernel)
{
	const struct kernel *k = &r->kernel[kernel];

	for (int i = 0; i < kernel; i++) {
		const struct kernel *o = &r->kernel[i];
		if (!o->done && (o->stream == k->stream || (o->comm == k->comm && k->comm >= 0 && !k->graph)))
			return false;
	}
	return true;
}

struct kernel *model_started_as(int rank, int comm, int number)
{
	struct model_rank *r = &model.rank[rank];

	for (int i = 0; i < r->kernels; i++)
		if (r->kernel[i].started && r->kernel[i].comm == comm && !r->kernel[i].pairwise &&
			r->kernel[i].number == number)
			return &r->kernel[i];
	return NULL;
}

static bool alike(const struct model_rank *a, const struct kernel *k, const struct model_rank *b,
				  const struct kernel *l)
{
	int i = k->from, j = l->from;

	for (;; i++, j++) {
		const struct step *s = a->script->step, *t = b->script->step;
		while (i < k->to && (s[i].what != DO_CALL || s[i].comm != k->comm || model_pairwise(&s[i])))
			i++;
		while (j < l->to && (t[j].what != DO_CALL || t[j].comm != k->comm || model_pairwise(&t[j])))
			j++;
		if (i == k->to || j == l->to)
			return i == k->to && j == l->to;
		if (s[i].func != t[j].func || s[i].count != t[j].count || s[i].type != t[j].type ||
			s[i].op != t[j].op || s[i].peer != t[j].peer || s[i].times != t[j].times)
			return false;
	}
}

static bool meets_all(const struct model_rank *r, const struct kernel *k)
{
	const struct program_comm *c = &model.p->comm[k->comm];

	for (int i = 0; i < c->n; i++) {
		const struct kernel *l = model_started_as(c->rank[i], k->comm, k->number);
		if (!l || !alike(r, k, &model.rank[c->rank[i]], l))
			return false;
	}
	return true;
}

struct move *model_other_side(int rank, const struct move *v)
{
	const struct model_rank *r = &model.rank[rank];
	const struct step *s = &r->script->step[v->step];
	struct model_rank *q = &model.rank[model.p->comm[s->comm].rank[s->peer]];
	int me = program_rank_in(&model.p->comm[s->comm], rank);

	for (int i = 0; i < q->moves; i++) {
		const struct step *t = &q->script->step[q->move[i].step];
		if (q->move[i].posted && t->comm == s->comm && t->func != s->func && t->peer == me &&
			q->move[i].number == v->number)
			return &q->move[i];
	}
	return NULL;
}

static void run_pairs(int rank, int kernel)
{
	struct model_rank *r = &model.rank[rank];
	uint32_t busy[2] = {0, 0};
	bool left = false;

	for (int i = 0; i < r->moves; i++) {
		struct move *v = &r->move[i];
		const struct step *s = &r->script->step[v->step];
		int receives = s->func == F_RECV;
		if (v->kernel != kernel || v->done || busy[receives] >> s->peer & 1)
			continue;
		if (!v->posted) {
			v->posted = model.moved = true;
			v->number = r->posted[s->comm][receives][s->peer]++;
		}
		struct move *o = model_other_side(rank, v);
		int q = model.p->comm[s->comm].rank[s->peer];
		if (o && model_bytes(&model.rank[q].script->step[o->step]) == model_bytes(s)) {
			v->done = model.moved = true;
		} else {
			busy[receives] |= 1u << s->peer;
			left = true;
		}
	}
	if (!left)
		r->kernel[kernel].done = model.moved = true;
}

static void run(int rank)
{
	struct model_rank *r = &model.rank[rank];

	for (int i = 0; i < r->kernels; i++) {
		struct kernel *k = &r->kernel[i];
		if (k->done || (!k->started && !is_first(r, i)))
			continue;
		if (!k->started) {
			k->started = model.moved = true;
			k->number = k->comm >= 0 && !k->pairwise ? r->started[k->comm]++ : 0;
		}
		if (k->pairwise)
			run_pairs(rank, i);
		else if (k->comm < 0 || meets_all(r, k))
			k->done = model.moved = true;
	}
}

void model_run(const struct program *p)
{
	model.p = p;
	for (int i = 0; i < p->n; i++) {
		struct model_rank *r = &model.rank[i];
		memset(r, 0, offsetof(struct model_rank, call));
		r->script = &p->rank[i];
		r->group = r->capture = -1;
	}
	do {
		model.moved = false;
		for (int i = 0; i < p->n; i++) {
			go_on(&model.rank[i]);
			run(i);
		}
	} while (model.moved);
}
