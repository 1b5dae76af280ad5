/*
 * pass_launch.c - which call started an operation, and why its stream had been idle (HTA's classes).
 */
#include "metrics.h"

/* HTA's default: a shorter gap is the device going from one operation to the next. */
#define KERNEL_WAIT_NS 30000

void pass_launch(struct pass *p, const struct pass_event *event)
{
	const struct trace_event *e = event->e;
	if (!e->correlation)
		return;
	if (!p->launch)
		p->launch = metrics_alloc(LAUNCH_SLOTS, sizeof(*p->launch));
	struct launch *l = &p->launch[e->correlation % LAUNCH_SLOTS];
	if (l->correlation == e->correlation) /* the driver's call inside the runtime's */
		return;
	*l = (struct launch){.correlation = e->correlation, .start = event->start, .end = event->end};
}

static struct launch *launch_of(struct pass *p, const struct trace_event *e)
{
	struct launch *l = p->launch && e->correlation ? &p->launch[e->correlation % LAUNCH_SLOTS] : NULL;
	return l && l->correlation == e->correlation ? l : NULL;
}

void pass_stream(struct pass *p, struct pass_lane *lane, const struct pass_event *e)
{
	struct launch *l = launch_of(p, e->e);
	if (l && !l->used) {
		l->used = true;
		hist_add(&p->launch_delay, e->start > l->end ? e->start - l->end : 0);
	}
	struct report_stream *s = &lane->out; /* Since then; what was not recorded is no gap of the stream. */
	uint64_t since = p->unseen_until > lane->prev_end ? p->unseen_until : lane->prev_end;
	if (s->count && e->start > since) {
		uint64_t gap = e->start - since;
		bool host_wait = l && l->start > lane->prev_end;
		*(host_wait ? &s->host_wait_ns : gap < KERNEL_WAIT_NS ? &s->kernel_wait_ns : &s->other_ns) += gap;
	}
	s->count++;
	s->busy_ns += e->end - e->start;
	if (e->end > lane->prev_end)
		lane->prev_end = e->end;
}
