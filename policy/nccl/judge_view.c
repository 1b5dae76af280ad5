/* judge_view.c - see judge_view.h. */
#include "judge_view.h"

#include <string.h>

static uint64_t load(const _Atomic uint64_t *p)
{
	return atomic_load_explicit(p, memory_order_relaxed);
}

uint64_t judge_age(const struct judge_scene *s, uint64_t since)
{
	uint64_t t = judge_max(since, s->world->watched);

	return s->world->now > t ? s->world->now - t : 0;
}

const struct flight_op *judge_op(const struct judge_view *v, uint64_t index)
{
	const struct flight_op *op = &v->m->op[index % FLIGHT_OPS];

	return index != 0 && op->index == index && op->function != FLIGHT_NONE ? op : NULL;
}

uint64_t judge_oldest(const struct judge_view *v)
{
	return v->m->issued > FLIGHT_OPS ? v->m->issued - FLIGHT_OPS + 1 : 1;
}

uint64_t judge_op_from(const struct flight_op *op)
{
	if (op->function == FLIGHT_GRAPH && op->count > 0 && op->count <= op->sequence)
		return op->sequence - op->count + 1;
	return op->sequence;
}

const struct flight_op *judge_op_at(const struct judge_view *v, uint64_t sequence)
{
	for (uint64_t i = v->m->issued; i >= judge_oldest(v) && i > 0; i--) {
		const struct flight_op *op = judge_op(v, i);
		if (!op || op->sequence == 0)
			continue;
		if (op->sequence < sequence)
			return NULL;
		if (judge_op_from(op) <= sequence)
			return op;
	}
	return NULL;
}

/* ---- where a rank stands ---- */

static bool is_over(const struct judge_view *v, const struct flight_op *op)
{
	return op->index <= v->over || load(&op->done) || (op->flags & (FLIGHT_CAPTURED | FLIGHT_FAILED));
}

static bool has_begun(const struct judge_view *v, const struct flight_op *op)
{
	return op->index <= v->begun;
}

/* A communicator's calls run in order, whatever streams they are on: one that is done tells of all before it. Of a graph's
 * that is not so. */
static void find_over(struct judge_view *v, uint64_t *progress)
{
	v->over = v->m->done;
	for (uint64_t i = judge_oldest(v); i <= v->m->issued; i++) {
		const struct flight_op *op = judge_op(v, i);
		if (!op || (op->flags & (FLIGHT_CAPTURED | FLIGHT_FAILED)) || !judge_moves_data(op->function))
			continue;
		if (load(&op->done) && op->function != FLIGHT_GRAPH)
			v->over = judge_max(v->over, i);
		v->over_at = judge_max(v->over_at, load(&op->done));
		*progress = judge_max(*progress, judge_max(load(&op->started), load(&op->done)));
	}
}

/* Its stream has come to it, or to a later one. */
static bool is_reached(const struct judge_view *v, const struct flight_op *op)
{
	for (uint64_t i = op->index; i <= v->m->issued; i++) {
		const struct flight_op *o = judge_op(v, i);
		if (o && o->stream == op->stream && !(o->flags & (FLIGHT_CAPTURED | FLIGHT_FAILED)) &&
			load(&o->started))
			return true;
	}
	return op->index <= v->m->started;
}

/*
 * What has begun is the first call that is not over, with its group: where a later one's stream has come to that, it
 * waits for the communicator's first. Of calls of which nothing is heard nobody knows whether they are over.
 */
static void find_begun(struct judge_view *v)
{
	const struct flight_op *first = NULL;

	v->begun = v->over;
	for (uint64_t i = judge_max(v->over + 1, judge_oldest(v)); i <= v->m->issued; i++) {
		const struct flight_op *op = judge_op(v, i);
		if (!op || is_over(v, op) || ((op->flags & FLIGHT_BLIND) && load(&op->returned)))
			continue;
		if (first && (op->group == 0 || op->group != first->group))
			return;
		first = first ? first : op;
		if (is_reached(v, op))
			v->begun = i;
	}
}

uint64_t judge_thread_waits(const struct judge_process *p, uint32_t thread, enum flight_wait_kind kind)
{
	for (int i = 0; i < FLIGHT_WAITS && thread; i++) {
		const struct flight_wait *w = &p->page->wait[i];
		uint32_t is = atomic_load_explicit(&w->kind, memory_order_relaxed);
		if (atomic_load_explicit(&w->thread, memory_order_relaxed) != thread || is == FLIGHT_WAIT_NONE)
			continue;
		if (kind == FLIGHT_WAIT_NONE || is == kind)
			return load(&w->since);
	}
	return 0;
}

/* The call has not come back, or the end of its group has not. */
#define WAITS_LATE \
	(20 * JUDGE_S / 1000) /* waits.c: the kernel's coarse clock, at most a tick of 10 ms behind */

static bool inside_call(const struct judge_view *v, const struct flight_op *op)
{
	if (!load(&op->returned))
		return true;
	/* In the group's end, which began after it; by a clock that is behind the operation's. */
	return (op->flags & FLIGHT_GROUPED) &&
		   judge_thread_waits(v->p, op->thread, FLIGHT_WAIT_NCCL) + WAITS_LATE >= op->issued;
}

static void stand_blind(const struct judge_scene *s, struct judge_view *v, const struct flight_op *op)
{
	uint64_t waits = judge_thread_waits(v->p, op->thread, FLIGHT_WAIT_NONE);
	uint64_t sampled = load(&v->p->page->sampled);

	if (!(op->flags & FLIGHT_BLIND)) /* it would be seen, were the sampler not stuck */
		v->since = judge_max(judge_max(load(&op->started), op->issued), sampled);
	else if (waits)
		v->since = judge_max(waits, op->issued);
	else
		return;
	v->front = op;
	v->stand = STAND_WAITS;
	(void)s;
}

static void stand_at(const struct judge_scene *s, struct judge_view *v, const struct flight_op *op)
{
	bool stale = judge_age(s, load(&v->p->page->sampled)) > JUDGE_STALE;

	v->host = !judge_moves_data(op->function) || inside_call(v, op);
	if (!v->host && ((op->flags & FLIGHT_BLIND) || stale)) {
		stand_blind(s, v, op);
		return;
	}
	v->front = op;
	v->solid = true;
	v->stand = v->host || has_begun(v, op) ? STAND_WAITS : STAND_ISSUED;
	v->since = v->host || v->stand == STAND_ISSUED
				   ? op->issued
				   : judge_max(judge_max(load(&op->started), v->over_at), op->issued);
}

static void find_stand(const struct judge_scene *s, struct judge_view *v)
{
	const struct flight_op *blind = NULL;

	for (uint64_t i = judge_max(v->over + 1, judge_oldest(v)); i <= v->m->issued; i++) {
		const struct flight_op *op = judge_op(v, i);
		if (!op || is_over(v, op))
			continue;
		if ((op->flags & FLIGHT_BLIND) && judge_moves_data(op->function) && load(&op->returned)) {
			blind = op;
			continue;
		}
		stand_at(s, v, op);
		return;
	}
	if (blind)
		stand_at(s, v, blind);
}

/* ---- what others have done about it ---- */

static enum judge_reach reach_of(const struct judge_view *q, const struct flight_op *op)
{
	if (op->flags & FLIGHT_FAILED)
		return REACH_NOT_ISSUED;
	if (is_over(q, op))
		return REACH_DONE;
	if (has_begun(q, op))
		return REACH_STARTED;
	/* One that is stopped is known to have got that far when it was. */
	if ((op->flags & FLIGHT_BLIND) || (q->front && !q->solid && q->p->life != LIFE_STOPPED))
		return REACH_UNKNOWN;
	/* A call that all ranks have to make begins when it is made. */
	if (!judge_moves_data(op->function) || inside_call(q, op))
		return REACH_STARTED;
	return REACH_ISSUED;
}

/* The k-th receive from a rank takes its k-th send. */
static enum judge_reach reach_pair(const struct judge_view *q, const struct judge_view *v,
								   const struct flight_op *op, const struct flight_op **theirs)
{
	unsigned want = op->function == FLIGHT_SEND ? FLIGHT_RECV : FLIGHT_SEND;

	for (uint64_t i = q->m->issued; i >= judge_oldest(q) && i > 0; i--) {
		const struct flight_op *o = judge_op(q, i);
		if (!o || o->function != want || o->peer != v->m->rank || o->pair == 0)
			continue;
		if (o->pair == op->pair) {
			*theirs = o;
			return reach_of(q, o);
		}
		if (o->pair < op->pair)
			return REACH_NOT_ISSUED;
	}
	/* None at all: if every operation is still kept, there was none. */
	return q->m->issued <= FLIGHT_OPS && op->pair ? REACH_NOT_ISSUED : REACH_UNKNOWN;
}

enum judge_reach judge_reach(const struct judge_view *q, const struct judge_view *v,
							 const struct flight_op *op, const struct flight_op **theirs)
{
	const struct flight_op *o;

	*theirs = NULL;
	if (judge_pairwise(op->function))
		return reach_pair(q, v, op, theirs);
	if (op->sequence == 0)
		return REACH_UNKNOWN;
	if (q->m->sequence < op->sequence)
		return REACH_NOT_ISSUED;
	*theirs = o = judge_op_at(q, op->sequence);
	if (!o) /* so many calls ago that it is not kept */
		return q->over >= judge_oldest(q) ? REACH_DONE : REACH_UNKNOWN;
	return reach_of(q, o);
}

/* ---- whom it waits for ---- */

struct need {
	uint32_t here;    /* ranks that are here and in question */
	bool unsure;      /* of one of them nothing is known, or it lacks */
	uint64_t started; /* the last start seen */
};

static void need_of(struct judge_scene *s, struct judge_view *v, const struct flight_op *op, struct need *n)
{
	for (int32_t i = v->first; i >= 0; i = s->view[i].next) {
		const struct judge_view *q = &s->view[i];
		const struct flight_op *theirs;
		if (q == v || q->m->rank == v->m->rank || (judge_pairwise(op->function) && q->m->rank != op->peer))
			continue;
		n->here++;
		switch (judge_reach(q, v, op, &theirs)) {
		case REACH_NOT_ISSUED: judge_set_add(&v->lacks, (unsigned)i); break;
		case REACH_ISSUED: judge_set_add(&v->holds, (unsigned)i); break;
		case REACH_UNKNOWN:
			if (theirs)
				judge_set_add(&v->unsure, (unsigned)i);
			n->unsure = true;
			break;
		case REACH_STARTED: judge_set_add(&v->with, (unsigned)i); __attribute__((fallthrough));
		case REACH_DONE:
			if (theirs)
				n->started =
					judge_max(judge_max(n->started, load(&theirs->returned)),
							  judge_max(load(&theirs->started), load(&theirs->done) ? 0 : q->over_at));
			break;
		}
	}
}

static void find_needs(struct judge_scene *s, struct judge_view *v)
{
	bool all = v->solid;
	uint64_t last = v->since;

	if (v->stand != STAND_WAITS)
		return;
	for (uint64_t i = v->front->index; i <= v->m->issued; i++) {
		const struct flight_op *op = judge_op(v, i);
		struct need need = {.here = 0};
		uint32_t wanted;
		/* With the front, what its group holds. */
		if (!op || (op != v->front && (op->group == 0 || op->group != v->front->group)))
			break;
		if (is_over(v, op))
			continue;
		if (!judge_pairwise(op->function) && op->sequence == 0) {
			all = false; /* signals: nobody knows whose */
			continue;
		}
		need_of(s, v, op, &need);
		wanted = judge_pairwise(op->function) ? op->peer != v->m->rank
				 : v->m->ranks > 0            ? (uint32_t)v->m->ranks - 1
											  : UINT32_MAX;
		all = all && !need.unsure && need.here == wanted;
		last = judge_max(last, judge_max(need.started, load(&op->returned)));
	}
	v->complete = all && judge_set_empty(&v->lacks) && judge_set_empty(&v->holds);
	v->started_last = last;
}

/* The thread that will make its next call, or the one that waits for `x`, is inside a wait; *weak: the latter. */
static uint64_t thread_blocked(const struct judge_view *v, const struct judge_view *x, bool *weak)
{
	const struct flight_op *newest = judge_op(v, v->m->issued);
	uint64_t since = newest ? judge_thread_waits(v->p, newest->thread, FLIGHT_WAIT_NONE) : 0;

	*weak = newest && !since;
	return since ? since : judge_thread_waits(v->p, x->front->thread, FLIGHT_WAIT_NONE);
}

/* A rank that has not begun is held up by what its process has begun elsewhere, and issued before. */
static void find_deps(struct judge_scene *s, struct judge_view *v)
{
	if (v->stand == STAND_WAITS || v->p->life == LIFE_STOPPED || v->p->life == LIFE_TRACED)
		return;
	for (uint32_t i = 0; i < s->count; i++) {
		const struct judge_view *x = &s->view[i];
		bool weak = false;
		if (x == v || x->p != v->p || x->stand != STAND_WAITS || !x->judged || !x->solid)
			continue;
		if (v->stand == STAND_ISSUED) {
			/* Inside a group there is no order. */
			if (x->front->issued >= v->front->issued ||
				(x->front->group && x->front->group == v->front->group))
				continue;
			weak = x->front->stream != v->front->stream && x->front->thread != v->front->thread;
		} else {
			uint64_t since = thread_blocked(v, x, &weak);
			if (!since)
				continue;
			v->since = v->since ? (v->since < since ? v->since : since) : since;
		}
		judge_set_add(&v->deps, i);
		if (weak)
			judge_set_add(&v->weak, i);
	}
}

/* ---- all of it ---- */

static void link_views(struct judge_scene *s)
{
	for (uint32_t i = 0; i < s->count; i++) {
		struct judge_view *v = &s->view[i];
		v->first = (int32_t)i;
		v->next = -1;
		for (uint32_t k = i; k-- > 0;)
			if (memcmp(s->view[k].m->key, v->m->key, sizeof(v->m->key)) == 0) {
				v->first = s->view[k].first;
				s->view[k].next = (int32_t)i;
				break;
			}
	}
}

void judge_scene_make(struct judge_scene *s, const struct judge_world *world,
					  const struct judge_limits *limits)
{
	memset(s, 0, sizeof(*s));
	s->world = world;
	s->limits = limits ? limits : &judge_limits_default;
	s->count = world->members < JUDGE_MEMBERS ? world->members : JUDGE_MEMBERS;
	for (uint32_t i = 0; i < s->count; i++) {
		struct judge_view *v = &s->view[i];
		v->m = &world->member[i];
		v->p = &world->process[v->m->process];
		v->judged = v->p->life != LIFE_DEAD && (v->m->state == FLIGHT_LIVE || v->m->state == FLIGHT_MAKING);
		s->active[v->m->process] = judge_max(s->active[v->m->process], v->m->changed);
		find_over(v, &s->progress[v->m->process]);
		find_begun(v);
		find_stand(s, v);
	}
	for (uint32_t i = 0; i < world->processes && i < JUDGE_PROCESSES; i++) {
		const struct judge_process *p = &world->process[i];
		uint64_t tick = load(&p->page->python_tick);
		s->active[i] = judge_max(judge_max(s->active[i], tick), judge_max(p->cpu_changed, p->io_changed));
	}
	link_views(s);
	for (uint32_t i = 0; i < s->count; i++)
		find_needs(s, &s->view[i]);
	for (uint32_t i = 0; i < s->count; i++)
		find_deps(s, &s->view[i]);
}
