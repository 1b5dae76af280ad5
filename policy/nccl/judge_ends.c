/*
 * judge_ends.c - where the waiting ends: at a rank that waits for nobody, or on the way between those that all began.
 *
 * One that has not made the call is stopped, or busy elsewhere; one that has made it is held up by other work on its
 * GPU; if all have begun, it is the transport.
 */
#include "judge_view.h"

/* Of a communicator that has not shown yet how fast it is; that of a slow network. */
#define SLOW_RATE (50ull << 20)
/* The first calls set up connections. */
#define SETUP_S 120

/* What waiting at a view ends in. */
struct end {
	enum judge_verdict verdict; /* STOPPED, TRANSPORT, HELD, LAGGARD */
	int32_t view;               /* whose it is, -1: nobody's who is here */
	uint64_t since, limit;
};

/* ---- the rank at the end ---- */

static bool any_wait(const struct judge_process *p)
{
	for (int i = 0; i < FLIGHT_WAITS; i++)
		if (atomic_load_explicit(&p->page->wait[i].thread, memory_order_relaxed) &&
			atomic_load_explicit(&p->page->wait[i].kind, memory_order_relaxed) != FLIGHT_WAIT_NONE)
			return true;
	return false;
}

/* It runs, but neither it nor what it started does anything. What waits for a lock, for a program it has started, for
 * a disk or for its GPU is about to go on. */
static bool is_frozen(const struct judge_scene *s, const struct judge_view *q)
{
	const struct judge_process *p = q->p;

	return p->life == LIFE_RUNS && p->cpu_changed && p->io_changed && !p->children && !p->locked &&
		   !any_wait(p) && judge_age(s, s->active[q->m->process]) >= s->limits->frozen;
}

static struct end end_at(const struct judge_scene *s, const struct judge_view *v, unsigned at, bool called)
{
	const struct judge_view *q = &s->view[at];
	struct end e = {.view = (int32_t)at, .since = v->since, .limit = s->limits->said};
	uint64_t stopped = judge_max(v->since, q->p->life_since);
	bool inside = q->front && !atomic_load_explicit(&q->front->returned, memory_order_relaxed);

	e.verdict = called ? JUDGE_HELD : JUDGE_LAGGARD;
	if (q->p->life == LIFE_STOPPED && (!called || inside || !q->solid) &&
		judge_age(s, stopped) >= s->limits->frozen) {
		e.verdict = JUDGE_STOPPED;
		e.since = stopped;
	} else if (!called && is_frozen(s, q) && judge_age(s, v->since) >= s->limits->frozen) {
		e.verdict = JUDGE_STOPPED;
		e.since = judge_max(v->since, s->active[q->m->process]);
	} else if (called && q->front) {
		e.since = judge_max(judge_max(v->since, q->front->issued), s->progress[q->m->process]);
	}
	return e;
}

/* It waits for nobody: not in a call, and nothing of its process holds it up. */
static bool is_end(const struct judge_view *q)
{
	if (q->p->life == LIFE_DEAD)
		return false; /* judge_dead.c */
	if (q->p->life == LIFE_STOPPED)
		return true;
	return q->stand != STAND_WAITS && judge_set_empty(&q->deps);
}

/* ---- all have begun ---- */

/* Nanoseconds that what is at the front may take. */
static uint64_t allowed(const struct judge_scene *s, const struct judge_view *v)
{
	uint64_t bytes = 0, rate = v->m->best_rate ? v->m->best_rate : SLOW_RATE, ns;
	uint64_t ranks = v->m->ranks > 1 ? (uint64_t)v->m->ranks : 1;

	for (uint64_t i = v->front->index; i <= v->m->issued; i++) {
		const struct flight_op *op = judge_op(v, i);
		if (!op || (op != v->front && (op->group == 0 || op->group != v->front->group)))
			break;
		bytes += op->bytes;
	}
	/* The bytes of some functions are one rank's share. */
	if (__builtin_mul_overflow(bytes, 4 * ranks, &bytes) ||
		__builtin_mul_overflow(bytes / rate + 1, JUDGE_S, &ns) || ns > 86400 * JUDGE_S)
		ns = 86400 * JUDGE_S;
	ns = bytes == 0 ? 0 : bytes < rate ? bytes * (JUDGE_S / 1024) / (rate / 1024 + 1) : ns;
	return s->limits->transport + ns;
}

static struct end end_in_transport(const struct judge_scene *s, const struct judge_view *v)
{
	struct end e = {.verdict = JUDGE_TRANSPORT, .view = -1, .since = v->started_last, .limit = allowed(s, v)};
	uint64_t longer = 0;

	if (v->front->function == FLIGHT_GRAPH)
		longer = s->limits->frozen; /* other work is in it, too */
	for (int32_t i = v->first; i >= 0; i = s->view[i].next) {
		const struct judge_view *q = &s->view[i];
		if (q->host && q->stand == STAND_WAITS)
			longer = judge_max(longer, SETUP_S * JUDGE_S);
		/* Threads of NCCL's own move the data on the CPU's side. */
		if (q->judged && q->p->life == LIFE_STOPPED) {
			e = (struct end){JUDGE_STOPPED, i, judge_max(v->since, q->p->life_since), s->limits->frozen};
			return e;
		}
	}
	e.limit = judge_max(e.limit, longer);
	return e;
}

/* ---- */

static void tell(const struct judge_scene *s, unsigned view, const struct end *e, struct judge_finds *finds)
{
	const struct judge_view *v = &s->view[view], *q = e->view >= 0 ? &s->view[e->view] : NULL;
	struct judge_finding f = judge_about(s, e->verdict, view);

	f.since = judge_max(e->since, s->world->watched);
	if (q) {
		f.culprit = (int32_t)q->m->process;
		f.member = e->view;
		f.index = q->front ? q->front->index : q->m->issued;
	}
	for (int32_t i = v->first; i >= 0; i = s->view[i].next)
		if (f.chained < sizeof(f.chain) / sizeof(f.chain[0]) &&
			(judge_set_has(&v->lacks, (unsigned)i) || judge_set_has(&v->holds, (unsigned)i) ||
			 (q == v && i == (int32_t)view)))
			f.chain[f.chained++] = (uint32_t)i;
	if (judge_age(s, e->since) >= e->limit)
		judge_found(finds, &f);
}

/* The program's own limit, TURBO_NCCL_TIMEOUT_S, whatever it is that takes so long. */
static void tell_timeout(const struct judge_scene *s, unsigned view, const struct end *e,
						 struct judge_finds *finds)
{
	const struct judge_view *v = &s->view[view];
	uint64_t sampled = atomic_load_explicit(&v->p->page->sampled, memory_order_relaxed);
	bool open_still = v->host || (v->solid && sampled >= v->front->issued + s->limits->user) ||
					  judge_thread_waits(v->p, v->front->thread, FLIGHT_WAIT_NONE);
	struct end late = *e;

	if (!s->limits->user || !open_still || judge_age(s, v->front->issued) < s->limits->user)
		return;
	late.verdict = JUDGE_TIMEOUT;
	late.since = v->front->issued;
	late.limit = 0;
	tell(s, view, &late, finds);
}

static void found_end(const struct judge_scene *s, unsigned view, const struct end *e,
					  struct judge_finds *finds)
{
	tell(s, view, e, finds);
	tell_timeout(s, view, e, finds);
}

/* Ranks on other machines, or such that have told nothing: it may be any of them. */
static bool some_are_missing(const struct judge_scene *s, const struct judge_view *v)
{
	int32_t here = 0;

	for (int32_t i = v->first; i >= 0; i = s->view[i].next)
		here++;
	return v->m->ranks > here;
}

static void look_at_waiting(const struct judge_scene *s, unsigned view, struct judge_finds *finds)
{
	const struct judge_view *v = &s->view[view];
	bool found = false;

	for (int32_t i = v->first; i >= 0; i = s->view[i].next) {
		bool lacks = judge_set_has(&v->lacks, (unsigned)i), holds = judge_set_has(&v->holds, (unsigned)i);
		if ((!lacks && !holds) || !is_end(&s->view[i]))
			continue;
		struct end e = end_at(s, v, (unsigned)i, holds);
		found_end(s, view, &e, finds);
		found = true;
	}
	if (found)
		return;
	if (v->complete) {
		struct end e = end_in_transport(s, v);
		found_end(s, view, &e, finds);
	} else if (judge_set_empty(&v->lacks) && judge_set_empty(&v->holds) && some_are_missing(s, v)) {
		struct end e = {JUDGE_LAGGARD, -1, v->since, s->limits->said};
		found_end(s, view, &e, finds);
	}
}

/* A rank whose call the GPU has not begun, though nothing of this process that others wait in is before it. */
static void look_at_issued(const struct judge_scene *s, unsigned view, struct judge_finds *finds)
{
	const struct judge_view *v = &s->view[view];
	struct end e = {JUDGE_HELD, (int32_t)view, judge_max(v->since, s->progress[v->m->process]),
					s->limits->said};

	if (judge_set_empty(&v->deps))
		found_end(s, view, &e, finds);
}

void judge_find_ends(const struct judge_scene *s, struct judge_finds *finds)
{
	for (unsigned i = 0; i < s->count; i++) {
		const struct judge_view *v = &s->view[i];
		if (!v->judged || !v->front)
			continue;
		if (v->stand == STAND_WAITS)
			look_at_waiting(s, i, finds);
		else if (v->stand == STAND_ISSUED && v->p->life != LIFE_STOPPED)
			look_at_issued(s, i, finds);
	}
}
