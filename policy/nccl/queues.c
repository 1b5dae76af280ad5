/* queues.c - see queues.h. */
#include "queues.h"

#include <stddef.h>

#include "real.h"

#define QUEUES (2 * FLIGHT_COMMS) /* places, and lives of them that still have something open */
#define MARGIN 8                  /* operations that may be being written over */
#define STREAMS 16                /* of a communicator that are told apart */

struct queue {
	struct flight_comm *comm; /* NULL: free */
	uint32_t life;
	struct launch *oldest, *newest; /* by index; `newer`, `older` */
	uint64_t highest;               /* index of a launch that is done */
};

static struct queue queues[QUEUES];

/* ---- the record ---- */

static bool same_life(const struct flight_comm *comm, uint32_t life)
{
	return atomic_load_explicit(&comm->life, memory_order_acquire) == life;
}

/* True: it was raised. A place that was given away meanwhile gets back what it began with. */
static bool raise(struct flight_comm *comm, uint32_t life, _Atomic uint64_t *field, uint64_t to)
{
	uint64_t was = atomic_load_explicit(field, memory_order_relaxed);

	if (!same_life(comm, life))
		return false;
	do
		if (was >= to)
			return false;
	while (!atomic_compare_exchange_weak(field, &was, to));
	if (same_life(comm, life))
		return true;
	atomic_compare_exchange_strong(field, &to, 0);
	return false;
}

/* Operation `index` has its time, if it still stands in the ring: a newer one there takes its own from us alone, so
 * what was stored into it by mistake is taken back. */
static void stamp(struct flight_comm *comm, uint32_t life, uint64_t index, bool end, uint64_t now)
{
	struct flight_op *op = &comm->op[index % FLIGHT_OPS];
	_Atomic uint64_t *field = end ? &op->done : &op->started;
	uint64_t none = 0;

	if (atomic_load(&comm->issued) >= index + FLIGHT_OPS - MARGIN || !same_life(comm, life))
		return;
	if (!atomic_compare_exchange_strong(field, &none, now))
		return;
	if (atomic_load(&comm->issued) >= index + FLIGHT_OPS - MARGIN || !same_life(comm, life))
		atomic_compare_exchange_strong(field, &now, 0);
}

static bool overlap(const struct launch *l, const struct launch *other)
{
	return other && other->first <= l->index && other->index >= l->first;
}

/* Other launches of a group, on other streams, are not there yet: the last one speaks for all. */
static bool waits_for_others(struct launch *l, bool end, uint64_t *from, uint64_t *to)
{
	bool waits = false;

	*from = l->first;
	*to = l->last;
	for (unsigned side = 0; side < 2; side++) {
		struct launch *other = side ? l->newer : l->older;
		for (; overlap(l, other); other = side ? other->newer : other->older) {
			waits |= end || !other->begun;
			*from = other->first < *from ? other->first : *from;
			*to = other->last > *to ? other->last : *to;
		}
	}
	return waits;
}

static void stamp_all(struct launch *l, bool end, uint64_t now)
{
	uint64_t from, to;

	if (waits_for_others(l, end, &from, &to)) {
		/* Whoever is left has to stamp what this one held. */
		for (struct launch *other = l->older; end && overlap(l, other); other = other->older)
			other->last = to;
		for (struct launch *other = l->newer; end && overlap(l, other); other = other->newer)
			other->last = to;
		return;
	}
	if (to - from >= FLIGHT_OPS)
		from = to - FLIGHT_OPS + 1;
	for (uint64_t i = from; i <= to; i++)
		stamp(l->comm, l->life, i, end, now);
}

/* All before the first launch that is open, or has not begun. */
static void tell(struct queue *q)
{
	uint64_t done = q->oldest ? q->oldest->prior : q->highest, begun = done;
	bool changed;

	for (const struct launch *l = q->oldest; l; l = l->newer) {
		begun = l->begun ? l->index : l->prior;
		if (!l->begun)
			break;
	}
	changed = raise(q->comm, q->life, &q->comm->started, begun);
	changed |= raise(q->comm, q->life, &q->comm->done, done);
	if (changed)
		atomic_store_explicit(&q->comm->changed, progress_now(), memory_order_relaxed);
}

/* ---- speed ---- */

/*
 * Bytes a second, never more than was really reached: of the launches that are seen to be done at one look, from
 * a moment at which the first of them had certainly not begun until one at which the last had certainly ended. A
 * rate over several launches of a communicator, which run one after another, is at most that of the fastest.
 */
struct pace {
	uint64_t since, bytes;
};

static void pace_add(struct pace *p, const struct launch *l)
{
	if (!p->bytes || l->not_begun < p->since)
		p->since = l->not_begun;
	p->bytes += l->bytes;
}

static void pace_tell(struct queue *q, const struct pace *p, uint64_t now)
{
	if (!p->bytes || now <= p->since)
		return;
	raise(q->comm, q->life, &q->comm->best_rate,
		  (uint64_t)((double)p->bytes * 1e9 / (double)(now - p->since)));
}

/* ---- the lists ---- */

static struct queue *queue_of(const struct launch *l)
{
	struct queue *unused = NULL;

	for (unsigned i = 0; i < QUEUES; i++) {
		struct queue *q = &queues[i];
		if (q->comm == l->comm && q->life == l->life)
			return q;
		if (!q->comm || (!q->oldest && !same_life(q->comm, q->life)))
			unused = unused ? unused : q;
	}
	if (unused)
		*unused = (struct queue){.comm = l->comm, .life = l->life};
	return unused;
}

/* All up to `prior` is done when this launch is the oldest; of its own operations nothing is, even if one of its group was
 * done before it, or a newer launch before it was pushed. */
static void cap_prior(struct launch *l, uint64_t prior)
{
	l->prior = prior < l->first ? prior : l->first - 1;
}

void queues_add(struct launch *l)
{
	struct queue *q = l->recorded ? queue_of(l) : NULL;
	struct launch *before;

	if (!q) {
		launch_give(l);
		return;
	}
	for (before = q->newest; before && before->index > l->index; before = before->older)
		;
	l->older = before;
	l->newer = before ? before->newer : q->oldest;
	if (before)
		l->prior = before->index < l->index ? before->index : before->prior;
	else
		l->prior = l->newer ? l->newer->prior : q->highest;
	cap_prior(l, l->prior);
	if (l->newer)
		l->newer->older = l;
	else
		q->newest = l;
	*(before ? &before->newer : &q->oldest) = l;
	for (struct launch *n = l->newer; n && n->prior < l->index && n->index > l->index; n = n->newer)
		cap_prior(n, l->index);
}

static void remove_from(struct queue *q, struct launch *l)
{
	if (l->older)
		l->older->newer = l->newer;
	else
		q->oldest = l->newer;
	if (l->newer)
		l->newer->older = l->older;
	else
		q->newest = l->older;
	if (l->index > q->highest)
		q->highest = l->index;
	launch_give(l);
}

/* ---- looking ---- */

enum answer { PASSED, AHEAD, NO_ANSWER };

static enum answer ask(const struct queues_driver *driver, const struct launch *l, CUevent event)
{
	CUresult r = CUDA_ERROR_NOT_READY;
	bool asked = driver->enter();

	if (asked && launch_alive(l))
		r = REAL(cuEventQuery)(event);
	else
		asked = false;
	driver->leave();
	if (asked && r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY)
		gpu_failed(l->gpu, r);
	return !asked ? NO_ANSWER : r == CUDA_SUCCESS ? PASSED : r == CUDA_ERROR_NOT_READY ? AHEAD : NO_ANSWER;
}

static void begins(struct launch *l)
{
	if (l->begun)
		return;
	l->begun = progress_now();
	stamp_all(l, false, l->begun);
}

static void ends(struct queue *q, struct launch *l)
{
	begins(l);
	stamp_all(l, true, progress_now());
	remove_from(q, l);
}

/* False: not done, nor is anything behind it on its stream. */
static bool look_at(const struct queues_driver *driver, struct queue *q, struct launch *l, struct pace *pace)
{
	uint64_t now = progress_now();

	/* The work of a context that ended is over: nobody waits for it. */
	if (!launch_alive(l)) {
		ends(q, l);
		return true;
	}
	if (atomic_load_explicit(&l->gpu->state, memory_order_relaxed) != GPU_LIVE)
		return false;
	switch (ask(driver, l, l->end)) {
	case PASSED:
		pace_add(pace, l);
		ends(q, l);
		return true;
	case AHEAD: break;
	case NO_ANSWER: return false;
	}
	if (!l->begun && ask(driver, l, l->begin) == PASSED)
		begins(l);
	else if (!l->begun)
		l->not_begun = now;
	return false;
}

static unsigned queue_look(const struct queues_driver *driver, struct queue *q)
{
	uint64_t held_up[STREAMS];
	unsigned n = 0, open = 0;
	struct pace pace = {0, 0};

	for (struct launch *l = q->oldest, *next; l; l = next) {
		unsigned i = 0;
		next = l->newer;
		while (i < n && held_up[i] != l->stream)
			i++;
		if (i < n || n == STREAMS)
			open++;
		else if (!look_at(driver, q, l, &pace)) {
			open++;
			held_up[n++] = l->stream;
		}
	}
	pace_tell(q, &pace, progress_now());
	tell(q);
	return open;
}

unsigned queues_look(const struct queues_driver *driver)
{
	unsigned open = 0;

	for (unsigned i = 0; i < QUEUES; i++)
		if (queues[i].oldest)
			open += queue_look(driver, &queues[i]);
	return open;
}
