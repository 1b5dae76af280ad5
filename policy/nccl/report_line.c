/* report_line.c - a verdict in one sentence: who, where, since when, who waits. */
#include "report.h"

#include <string.h>

#include "report_facts.h"
#include "report_stacks.h"

#define PLACE 44 /* columns of a Python line */
#define LINKS 3  /* of a circle that are told */

/* What the sentence is about. Members and operations may be NULL. */
struct scene {
	const struct report *r;
	const struct judge_world *w;
	const struct judge_finding *f;
	const struct judge_member *culprit, *other;
	const struct flight_op *op, *other_op; /* theirs; the other's falls back to the one it is in */
};

static struct scene scene_of(const struct report *r)
{
	const struct judge_finding *f = r->finding;
	struct scene s = {.r = r, .w = r->world, .f = f};

	s.culprit = report_member(r->world, f->member);
	s.other = report_member(r->world, f->other);
	if (s.culprit)
		s.op = report_op(s.culprit, f->index);
	if (s.other)
		s.other_op = report_op(s.other, f->other_index);
	if (s.other && !s.other_op)
		s.other_op = report_op_now(s.other);
	return s;
}

/* ---- parts ---- */

static void put_culprit(struct out *o, const struct scene *s)
{
	const struct judge_finding *f = s->f;

	if (s->culprit) {
		report_who(o, s->w, s->culprit, false);
	} else if (f->culprit >= 0 && f->culprit < (int64_t)s->w->processes) {
		out_format(o, "process %u", s->w->process[f->culprit].pid);
	} else if (f->missing) {
		out_format(o, "%u rank%s not here (on another machine, or ended)", f->missing,
				   f->missing == 1 ? " that is" : "s that are");
	} else {
		out_string(o, "a rank");
	}
}

static void put_call(struct out *o, const struct scene *s)
{
	const struct judge_member *m = s->other ? s->other : s->culprit;

	if (s->other_op)
		report_call_size(o, s->other_op);
	else
		out_string(o, "a call");
	if (m) {
		out_string(o, " of ");
		report_comm(o, m);
	}
}

/* `rank 0 waits`, `ranks 0 and 2-7 wait`; 0: nobody does. */
static unsigned put_waiters(struct out *o, const struct scene *s)
{
	int32_t rank[JUDGE_MEMBERS];
	unsigned n = 0;

	for (uint32_t i = 0; i < s->w->members && n < JUDGE_MEMBERS; i++) {
		const struct judge_member *m = report_member(s->w, i);
		if (m && m != s->culprit && report_same_comm(m, s->f->key) &&
			(m == s->other || report_waits(s->w, m)))
			rank[n++] = m->rank;
	}
	if (n == 0)
		return 0;
	report_ranks(o, rank, n);
	out_string(o, n == 1 ? " waits" : " wait");
	return n;
}

static uint64_t waited(const struct scene *s)
{
	uint64_t since = s->f->since;

	if (s->other_op) {
		since = atomic_load_explicit(&s->other_op->started, memory_order_relaxed);
		since = since ? since : s->other_op->issued;
	}
	return report_ago(s->w, since);
}

static void put_for(struct out *o, uint64_t ns)
{
	out_string(o, " for ");
	out_age(o, ns);
}

/* Those that are not where the others are, beside the culprit. */
static void put_company(struct out *o, const struct scene *s)
{
	unsigned n = s->f->chained;

	if (n > 1)
		out_format(o, " and %u other%s", n - 1, n == 2 ? "" : "s");
}

/* Where the program made the call. */
static void put_place(struct out *o, const struct scene *s, const struct judge_member *m,
					  const struct flight_op *op)
{
	unsigned from = o->used;

	out_string(o, " at ");
	if (!report_own_frame(o, report_site(report_process(s->w, m)->page, op->site), PLACE)) {
		o->used = from;
		o->text[from] = '\0';
	}
}

/* ---- a sentence for each verdict ---- */

static void say_dead(struct out *o, const struct scene *s)
{
	put_culprit(o, s);
	out_string(o, s->culprit && report_process(s->w, s->culprit)->exit_signal > 0 ? " was " : " ");
	if (s->culprit)
		report_end_of(o, report_process(s->w, s->culprit));
	else
		out_string(o, "died");
	out_string(o, " ");
	out_age(o, report_ago(s->w, s->f->since));
	out_string(o, " ago; ");
	if (!put_waiters(o, s))
		out_string(o, "it was");
	out_string(o, " in ");
	put_call(o, s);
}

static void say_mismatch(struct out *o, const struct scene *s)
{
	if (!s->culprit || !s->other || !s->op || !s->other_op) {
		out_string(o, "ranks called different things in ");
		if (s->other)
			report_comm(o, s->other);
		return;
	}
	report_who(o, s->w, s->culprit, false);
	out_string(o, " called ");
	report_call_whole(o, s->op);
	put_place(o, s, s->culprit, s->op);
	out_string(o, ", ");
	report_who(o, s->w, s->other, true);
	out_string(o, " ");
	report_call_whole(o, s->other_op);
	put_place(o, s, s->other, s->other_op);
	out_string(o, ", in ");
	report_comm(o, s->other);
}

/* The ranks of the circle from the culprit on, each waiting for the next. */
static void say_cycle(struct out *o, const struct scene *s)
{
	const struct judge_finding *f = s->f;
	uint32_t n = f->chained < sizeof(f->chain) / sizeof(f->chain[0]) ? f->chained : 0, first = 0;

	for (uint32_t i = 0; i < n; i++)
		if ((int32_t)f->chain[i] == f->member)
			first = i;
	for (uint32_t i = 0; i < n && i < LINKS; i++) {
		const struct judge_member *m = report_member(s->w, f->chain[(first + i) % n]);
		const struct flight_op *op = m ? report_op_open(m) : NULL;
		if (!m)
			continue;
		if (i > 0)
			out_string(o, " for ");
		report_who(o, s->w, m, i > 0);
		out_string(o, i > 0 ? ", which waits in " : " waits in ");
		if (op)
			report_call(o, op);
		out_string(o, " of ");
		report_comm_name(o, m);
	}
	if (n > LINKS)
		out_format(o, " and so on, %u in all", n);
	else if (n > 0 && report_member(s->w, f->chain[first]))
		out_format(o, " for pid %u", report_process(s->w, report_member(s->w, f->chain[first]))->pid);
	else
		out_string(o, "ranks wait for each other in a circle");
	out_string(o, "; it has been so");
	put_for(o, report_ago(s->w, f->since));
}

static void say_stopped(struct out *o, const struct scene *s)
{
	const struct judge_process *p = s->culprit ? report_process(s->w, s->culprit) : NULL;

	put_culprit(o, s);
	if (p && p->life == LIFE_STOPPED)
		out_string(o, " has been stopped (SIGSTOP or Ctrl-Z)");
	else
		out_string(o, " has used no CPU time and done no I/O");
	put_for(o, report_ago(s->w, s->f->since));
	out_string(o, "; ");
	if (put_waiters(o, s))
		out_string(o, " in ");
	put_call(o, s);
}

/* Has the culprit made the call that it is about? */
static bool has_called(const struct scene *s)
{
	return s->culprit && s->other_op &&
		   (s->culprit == s->other || (s->other_op->sequence ? s->culprit->sequence >= s->other_op->sequence
															 : report_op_open(s->culprit) != NULL));
}

static void say_timeout(struct out *o, const struct scene *s)
{
	uint64_t age = s->other_op ? report_ago(s->w, s->other_op->issued) : report_ago(s->w, s->f->since);

	if (s->culprit || s->f->culprit >= 0 || s->f->missing) {
		put_culprit(o, s);
		put_company(o, s);
		out_string(o, has_called(s)       ? " called "
					  : s->f->chained > 1 ? " have not called "
										  : " has not called ");
		put_call(o, s);
		out_string(o, has_called(s) ? ", but its GPU has not begun it after " : "; others have waited for ");
	} else {
		put_call(o, s);
		out_string(o, " has begun on all ranks, but is not done after ");
	}
	out_age(o, age);
	out_format(o, " (TURBO_NCCL_TIMEOUT_S=%u)", (unsigned)(s->r->timeout / 1000000000u));
}

static void say_transport(struct out *o, const struct scene *s)
{
	put_call(o, s);
	out_string(o, " has begun on the GPUs of all ranks, and none completes");
	put_for(o, report_ago(s->w, s->f->since));
	if (s->other) {
		out_string(o, "; ");
		report_who(o, s->w, s->other, false);
		out_string(o, " is one of them");
	}
}

static void say_held(struct out *o, const struct scene *s)
{
	put_culprit(o, s);
	put_company(o, s);
	out_string(o, " called ");
	put_call(o, s);
	out_string(o, ", but other work on its GPU holds it up");
	if (s->culprit != s->other) {
		out_string(o, "; ");
		if (!put_waiters(o, s))
			out_string(o, "it has stood");
	}
	put_for(o, waited(s));
}

static void say_laggard(struct out *o, const struct scene *s)
{
	put_culprit(o, s);
	put_company(o, s);
	out_string(o, s->f->chained > 1 || s->f->missing > 1 ? " have not called " : " has not called ");
	put_call(o, s);
	const char *why = s->culprit ? report_reason(s->w, report_process(s->w, s->culprit)) : NULL;
	if (why && s->f->chained <= 1)
		out_format(o, ": it %s", why);
	out_string(o, "; ");
	if (!put_waiters(o, s))
		out_string(o, "others wait");
	put_for(o, waited(s));
}

unsigned report_line(const struct report *r, char line[REPORT_LINE])
{
	struct scene s = scene_of(r);
	struct out o;

	out_begin(&o, line, REPORT_LINE);
	out_format(&o, "nccl: %s: ", judge_name(r->finding->verdict));
	switch (r->finding->verdict) {
	case JUDGE_DEAD: say_dead(&o, &s); break;
	case JUDGE_MISMATCH: say_mismatch(&o, &s); break;
	case JUDGE_CYCLE: say_cycle(&o, &s); break;
	case JUDGE_STOPPED: say_stopped(&o, &s); break;
	case JUDGE_TIMEOUT: say_timeout(&o, &s); break;
	case JUDGE_TRANSPORT: say_transport(&o, &s); break;
	case JUDGE_HELD: say_held(&o, &s); break;
	case JUDGE_LAGGARD: say_laggard(&o, &s); break;
	case JUDGE_NOTHING:
	case JUDGE_VERDICTS: out_string(&o, "no rank waits, or each for a moment only"); break;
	}
	out_end_cut(&o);
	return o.used;
}
