/* report_parts.c - see report_parts.h. */
#include "report_parts.h"

#include <signal.h>

/* ---- who is shown ---- */

static unsigned add(struct report_pick *pick, unsigned n, const struct judge_member *m,
					const struct flight_op *op)
{
	if (!m || n == REPORT_PICKS)
		return n;
	for (unsigned i = 0; i < n; i++)
		if (pick[i].m->process == m->process)
			return n;
	pick[n] = (struct report_pick){m, op ? op : report_op_now(m)};
	return n + 1;
}

static unsigned chain_of(const struct judge_finding *f)
{
	unsigned most = sizeof(f->chain) / sizeof(f->chain[0]);

	return f->chained < most ? f->chained : most;
}

unsigned report_picks(const struct report *r, struct report_pick pick[REPORT_PICKS])
{
	const struct judge_world *w = r->world;
	const struct judge_finding *f = r->finding;
	const struct judge_member *culprit = report_member(w, f->member), *other = report_member(w, f->other);
	unsigned n = 0;

	n = add(pick, n, culprit, culprit ? report_op(culprit, f->index) : NULL);
	n = add(pick, n, other, other ? report_op(other, f->other_index) : NULL);
	for (unsigned i = 0; i < chain_of(f); i++)
		n = add(pick, n, report_member(w, f->chain[i]), NULL);
	for (uint32_t i = 0; i < w->members; i++) {
		const struct judge_member *m = report_member(w, i);
		if (m && report_same_comm(m, f->key) && report_waits(w, m))
			n = add(pick, n, m, NULL);
	}
	return n;
}

unsigned report_comms(const struct report *r, const struct judge_member *member[4])
{
	const struct judge_finding *f = r->finding;
	const struct judge_member *m = report_member(r->world, f->other);
	unsigned n = 0;

	if (!m)
		m = report_member(r->world, f->member);
	if (m)
		member[n++] = m;
	for (unsigned i = 0; i < chain_of(f) && n < 4; i++) {
		unsigned k = 0;
		m = report_member(r->world, f->chain[i]);
		while (m && k < n && !report_same_comm(member[k], m->key))
			k++;
		if (m && k == n)
			member[n++] = m;
	}
	return n;
}

/* ---- sentences ---- */

const char *report_sentence(enum judge_verdict verdict)
{
	static const char *const text[] = {
#define JUDGE(id, name, acts, text) text,
#include "judge.def"
#undef JUDGE
	};

	return (unsigned)verdict < JUDGE_VERDICTS ? text[verdict] : "";
}

static const char *hint_dead(const struct judge_process *p)
{
	if (p && p->exit_signal == SIGKILL)
		return "SIGKILL comes from the kernel when memory runs out (see dmesg), from a scheduler, or by hand.";
	if (p && p->exit_signal > 0)
		return "Look at the end of its own output, and for a core dump.";
	if (p && (p->exit_signal == 0 || atomic_load_explicit(&p->page->leaving, memory_order_relaxed)))
		return "It ended by itself while others wait for it: look at the end of its own output.";
	return "Look at the end of its own output, and into dmesg for a process that was killed.";
}

const char *report_hint(const struct report *r)
{
	const struct judge_member *m = report_member(r->world, r->finding->member);
	const struct judge_process *p = m ? report_process(r->world, m) : NULL;

	switch (r->finding->verdict) {
	case JUDGE_DEAD: return hint_dead(p);
	case JUDGE_MISMATCH: return "Look for a branch, or a shape, that depends on the rank or on its data.";
	case JUDGE_CYCLE:
		return "Look for communicators used in different orders, for sends and receives that do not match.";
	case JUDGE_STOPPED:
		return p && p->life == LIFE_STOPPED ? "kill -CONT with its pid lets it go on."
											: "Its stacks say where it hangs.";
	case JUDGE_TIMEOUT: return "A call that may take longer wants a larger TURBO_NCCL_TIMEOUT_S.";
	case JUDGE_TRANSPORT:
		return "Look into dmesg (Xid, NVLink), at nvidia-smi, at the network; NCCL_DEBUG=INFO names the path.";
	case JUDGE_HELD: return "Look for a kernel that does not end, on its GPU, before this call.";
	case JUDGE_LAGGARD: return "No alarm: the others go on when it has called.";
	case JUDGE_NOTHING:
	case JUDGE_VERDICTS: break;
	}
	return "";
}

/* Days to a date as in Howard Hinnant's "chrono-compatible low-level date algorithms"; libc's takes a lock. */
void report_time(struct out *o, uint64_t real)
{
	uint64_t s = real / 1000000000u;
	unsigned day = (unsigned)(s / 86400) + 719468, era = day / 146097, of_era = day % 146097;
	unsigned year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	unsigned of_year = of_era - (365 * year + year / 4 - year / 100), part = (5 * of_year + 2) / 153;
	unsigned month = part < 10 ? part + 3 : part - 9;

	out_format(o, "%04u-%02u-%02uT%02u:%02u:%02uZ", year + era * 400 + (month <= 2), month,
			   of_year - (153 * part + 2) / 5 + 1, (unsigned)(s / 3600 % 24), (unsigned)(s / 60 % 60),
			   (unsigned)(s % 60));
}
