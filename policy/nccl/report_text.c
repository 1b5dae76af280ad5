/* report_text.c - a report for people. */
#include "report_parts.h"
#include "report_stacks.h"
#include "report_table.h"

#include <string.h>

#define OWN_FRAMES 12 /* of a stack in the log */

/* ---- operations ---- */

static void put_time(struct out *o, const struct report *r, uint64_t time, const char *none)
{
	char text[32];
	struct out age;

	out_begin(&age, text, sizeof(text));
	if (time)
		out_age_short(&age, report_ago(r->world, time));
	else
		out_string(&age, none);
	out_format(o, "  %7s", text);
}

static void put_operation(struct out *o, const struct report *r, const struct judge_member *m,
						  const struct flight_op *op)
{
	enum report_stage stage = report_stage(m, op);
	const char *none = stage == STAGE_BLIND ? "?" : "-";
	unsigned from = o->used;

	out_string(o, "    ");
	report_call_whole(o, op);
	out_pad(o, from, 58);
	put_time(o, r, op->issued, none);
	put_time(o, r, atomic_load_explicit(&op->started, memory_order_relaxed),
			 stage == STAGE_DONE ? "yes" : none);
	put_time(o, r, atomic_load_explicit(&op->done, memory_order_relaxed), stage == STAGE_DONE ? "yes" : none);
	out_format(o, "  %llx", (unsigned long long)(op->stream & 0xffffffffu));
	if (op->flags & FLIGHT_GROUPED)
		out_format(o, ", group %u", op->group);
	if (stage == STAGE_CAPTURED || stage == STAGE_FAILED)
		out_format(o, ", %s", report_stage_name(stage));
	out_string(o, "\n");
}

static void put_operations(struct out *o, const struct report *r, const struct judge_member *m)
{
	uint64_t from = m->issued > REPORT_LAST ? m->issued - REPORT_LAST + 1 : 1;
	unsigned start = o->used;

	if (m->issued == 0) {
		out_string(o, "  it has made no call of this communicator\n");
		return;
	}
	out_string(o, "  last operations:");
	out_pad(o, start, 58);
	out_string(o, "   called  started     done  stream\n");
	for (uint64_t i = from; i <= m->issued; i++) {
		const struct flight_op *op = report_op(m, i);
		if (op)
			put_operation(o, r, m, op);
	}
}

/* ---- stacks ---- */

static void put_frame(struct out *o, const struct report_frame *f, const char *indent)
{
	out_string(o, indent);
	if (f->kind == FRAME_PYTHON) {
		report_python_frame(o, f);
	} else {
		out_string(o, f->kind == FRAME_NATIVE ? "[native] " : f->kind == FRAME_NOTE ? "note: " : "");
		out_name(o, f->text, f->bytes);
	}
	out_string(o, "\n");
}

static void put_site(struct out *o, const struct report *r, const struct report_pick *pick)
{
	struct report_lines l;
	struct report_frame f;
	unsigned n = 0;

	if (!pick->op)
		return;
	l = report_site(report_process(r->world, pick->m)->page, pick->op->site);
	out_string(o, report_stage(pick->m, pick->op) == STAGE_DONE ? "  its last call, " : "  where it called ");
	report_call(o, pick->op);
	out_string(o, l.at < l.end ? ", innermost first:\n" : ": not known from where\n");
	while (n++ < REPORT_FRAMES && report_next_frame(&l, &f))
		put_frame(o, &f, "    ");
}

static void put_dump(struct out *o, const struct report *r, const struct judge_process *p)
{
	struct report_lines l = report_dump(r, p->page);
	struct report_frame f;
	unsigned n = 0;

	if (l.at >= l.end) {
		out_string(o, p->life == LIFE_DEAD ? "" : "  where it is now: it has not said\n");
		return;
	}
	uint64_t made = p->page->dump.made, now = r->world->now;
	out_string(o, made > now ? "  where it was, innermost first, " : "  where it is, innermost first; ");
	out_age(o, made > now ? made - now : now - made);
	out_string(o, made > now ? " after the verdict:\n" : " ago:\n");
	while (n++ < REPORT_FRAMES && report_next_frame(&l, &f))
		if (f.kind == FRAME_THREAD) {
			out_format(o, "    thread %u%s ", f.thread, f.thread == p->page->pid ? ", the main one," : "");
			out_name(o, f.text, f.bytes);
			out_string(o, "\n");
		} else {
			put_frame(o, &f, "      ");
		}
}

/* Of the stacks in `l` only the frames count, not the numbers of threads. */
static bool same_frames(struct report_lines a, struct report_lines b)
{
	struct report_frame f, g;

	for (;;) {
		bool more = report_next_frame(&a, &f), other = report_next_frame(&b, &g);
		if (!more || !other)
			return more == other;
		if (f.kind != g.kind ||
			(f.kind != FRAME_THREAD && (f.bytes != g.bytes || memcmp(f.text, g.text, f.bytes))))
			return false;
	}
}

/* One that was shown before, and stands just so; NULL: none. */
static const struct report_pick *twin(const struct report *r, const struct report_pick *pick, unsigned i)
{
	const struct flight_page *page = report_process(r->world, pick[i].m)->page;
	struct report_lines now = report_dump(r, page);

	for (unsigned k = 0; k < i && pick[i].op && now.at < now.end; k++) {
		const struct flight_page *other = report_process(r->world, pick[k].m)->page;
		if (pick[k].op && same_frames(now, report_dump(r, other)) &&
			same_frames(report_site(page, pick[i].op->site), report_site(other, pick[k].op->site)))
			return &pick[k];
	}
	return NULL;
}

static void put_process(struct out *o, const struct report *r, const struct report_pick *pick,
						const struct report_pick *like, bool culprit)
{
	const struct judge_process *p = report_process(r->world, pick->m);

	out_string(o, "\n");
	report_who(o, r->world, pick->m, false);
	out_string(o, culprit ? ", the culprit: " : ": ");
	out_name_fit(o, p->page->command, sizeof(p->page->command), 160, OUT_FIRST);
	out_string(o, "\n");
	if (like) {
		out_format(o, "  it stands where rank %d does\n", like->m->rank);
	} else {
		put_site(o, r, pick);
		put_dump(o, r, p);
	}
	put_operations(o, r, pick->m);
}

/* ---- other machines ---- */

static void put_ras(struct out *o, const struct ras_answer *a)
{
	out_string(o, a->none ? "\nNCCL's RAS service (" : "\nwhat NCCL's RAS service (");
	out_name(o, a->where, sizeof(a->where));
	if (a->none) {
		out_format(o, ") says nothing of the other hosts: %s\n", a->none);
		return;
	}
	out_string(o, ") says of the other hosts:\n");
	for (const char *line = a->text; *line;) {
		size_t bytes = strcspn(line, "\n");
		out_string(o, bytes ? "  " : "");
		out_name(o, line, bytes);
		out_string(o, "\n");
		line += bytes + (line[bytes] == '\n');
	}
	if (a->cut)
		out_format(o, "  (%s)\n", a->cut);
}

/* ---- the whole ---- */

static void put_doing(struct out *o, const struct report *r)
{
	if (!judge_acts(r->finding->verdict))
		return;
	out_string(
		o, r->acts ? "TURBO_NCCL_WATCHDOG=abort: the framework is told, so that it ends the job.\n"
				   : "TURBO_NCCL_WATCHDOG=report: nothing else is done about it; abort would end the job.\n");
}

void report_as_text(struct out *o, const struct report *r, const char *line)
{
	const struct judge_member *comm[4];
	struct report_pick pick[REPORT_PICKS];
	unsigned comms = report_comms(r, comm), picks = report_picks(r, pick);

	out_string(o, line);
	out_string(o, "\n\n");
	report_time(o, r->real);
	out_format(o, ", libturbo %s. %s\n%s\n", TURBO_VERSION, report_sentence(r->finding->verdict),
			   report_hint(r));
	put_doing(o, r);
	for (unsigned i = 0; i < comms; i++) {
		out_string(o, "\n");
		report_table(o, r, comm[i]->key);
	}
	for (unsigned i = 0; i < picks; i++)
		put_process(o, r, &pick[i], twin(r, pick, i),
					pick[i].m == report_member(r->world, r->finding->member));
	if (r->ras)
		put_ras(o, r->ras);
	if (o->cut)
		o->text[o->used - 1] = '\n';
}

/* ---- for the log ---- */

static unsigned put_python(struct out *o, struct report_lines l, unsigned most)
{
	struct report_frame f;
	unsigned n = 0;

	while (n < most && report_next_frame(&l, &f))
		if (f.kind == FRAME_PYTHON || f.kind == FRAME_NOTE) {
			put_frame(o, &f, "    ");
			n++;
		}
	return n;
}

static unsigned put_native(struct out *o, struct report_lines l, unsigned most)
{
	struct report_frame f;
	unsigned n = 0;

	while (n < most && report_next_frame(&l, &f))
		if (f.kind == FRAME_NATIVE) {
			put_frame(o, &f, "    ");
			n++;
		}
	return n;
}

void report_stacks_short(struct out *o, const struct report *r, unsigned most)
{
	struct report_pick pick[REPORT_PICKS];
	unsigned picks = report_picks(r, pick);

	for (unsigned i = 0; i < picks && i < 2 && most > 2; i++) {
		const struct flight_page *page = report_process(r->world, pick[i].m)->page;
		struct report_lines now = report_dump_thread(r, page, page->pid);
		struct report_lines site = report_site(page, pick[i].op ? pick[i].op->site : 0);
		bool has_now = now.at < now.end;
		unsigned frames = most - 1 < OWN_FRAMES ? most - 1 : OWN_FRAMES, n;
		if (!has_now && site.at == site.end)
			continue;
		out_string(o, "  ");
		report_who(o, r->world, pick[i].m, true);
		out_string(o, has_now ? ", its main thread now:\n" : ", where it made its call:\n");
		n = put_python(o, has_now ? now : site, frames);
		if (n == 0)
			n = put_native(o, has_now ? now : site, frames);
		most -= n + 1;
	}
}
