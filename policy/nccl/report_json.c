/* report_json.c - a report for programs. Times are ages in milliseconds; null: not yet, or not known. */
#include "report_parts.h"

#include <string.h>
#include <unistd.h>

#include "report_stacks.h"
#include "report_table.h"

static void put_ms(struct out_json *j, const char *key, const struct report *r, uint64_t time)
{
	if (time)
		json_put_number(j, key, (int64_t)(report_ago(r->world, time) / 1000000u));
	else
		json_put_null(j, key);
}

static void put_rank(struct out_json *j, const char *key, int32_t rank)
{
	if (rank >= 0)
		json_put_number(j, key, rank);
	else
		json_put_null(j, key);
}

static uint64_t load(const _Atomic uint64_t *p)
{
	return atomic_load_explicit(p, memory_order_relaxed);
}

/* ---- parts ---- */

/* Members of a call, without its braces. */
static void put_call(struct out_json *j, const struct flight_op *op)
{
	json_put_text(j, "function", judge_function_name(op->function), SIZE_MAX);
	/* Of sends and receives their number for that peer. */
	json_put_number(j, "sequence", op->sequence ? op->sequence : op->pair);
	json_put_number(j, "bytes", (int64_t)op->bytes);
	json_put_number(j, "count", (int64_t)op->count);
	json_put_text(j, "type", report_type(op->type), SIZE_MAX);
	if (op->function == FLIGHT_ALL_REDUCE || op->function == FLIGHT_REDUCE ||
		op->function == FLIGHT_REDUCE_SCATTER)
		json_put_text(j, "reduction", report_reduction(op->reduction), SIZE_MAX);
	put_rank(j, "peer", op->peer);
}

void report_json_call(struct out_json *j, const char *key, const struct flight_op *op)
{
	char stream[32];
	struct out o;

	if (!op) {
		json_put_null(j, key);
		return;
	}
	out_begin(&o, stream, sizeof(stream));
	out_format(&o, "0x%llx", (unsigned long long)op->stream);
	json_begin(j, key, '{');
	put_call(j, op);
	json_put_text(j, "stream", stream, sizeof(stream));
	json_end(j, '}');
}

static void put_who(struct out_json *j, const struct judge_world *w, const struct judge_member *m)
{
	const struct judge_process *p = report_process(w, m);

	put_rank(j, "rank", m->rank);
	put_rank(j, "job_rank", p->page->rank);
	json_put_number(j, "pid", p->pid);
	json_put_text(j, "host", p->page->host, sizeof(p->page->host));
}

void report_json_who(struct out_json *j, const char *key, const struct judge_world *w,
					 const struct judge_member *m, bool state)
{
	if (!m) {
		json_put_null(j, key);
		return;
	}
	json_begin(j, key, '{');
	put_who(j, w, m);
	if (state)
		json_put_text(j, "state", report_state(w, m), SIZE_MAX);
	json_end(j, '}');
}

void report_json_comm(struct out_json *j, const char *key, const struct judge_world *w,
					  const struct judge_member *m)
{
	const struct judge_member *here[JUDGE_MEMBERS];
	char text[40];
	struct out o;

	out_begin(&o, text, sizeof(text));
	out_format(&o, "%016llx%016llx", (unsigned long long)m->key[0], (unsigned long long)m->key[1]);
	int64_t missing = (int64_t)m->ranks - report_members(w, m->key, here);
	json_begin(j, key, '{');
	json_put_text(j, "key", text, sizeof(text));
	json_put_text(j, "name", m->name ? m->name : "", sizeof(((struct flight_comm *)0)->name));
	put_rank(j, "ranks", m->ranks);
	json_put_number(j, "missing", missing > 0 ? missing : 0);
	json_end(j, '}');
}

static void put_last(struct out_json *j, const char *key, const struct report *r,
					 const struct judge_member *m, const struct flight_op *op)
{
	if (!op) {
		json_put_null(j, key);
		return;
	}
	json_begin(j, key, '{');
	put_call(j, op);
	put_ms(j, "age_ms", r, op->issued);
	json_put_text(j, "state", report_stage_name(report_stage(m, op)), SIZE_MAX);
	json_end(j, '}');
}

void report_json_ranks(struct out_json *j, const char *key, const struct report *r, const uint64_t comm[2])
{
	const struct judge_member *member[JUDGE_MEMBERS];
	unsigned n = report_members(r->world, comm, member);

	json_begin(j, key, '[');
	for (unsigned i = 0; i < n; i++) {
		const struct judge_member *m = member[i];
		char doing[256];
		struct out o;
		out_begin(&o, doing, sizeof(doing));
		report_doing(&o, r, m, 80);
		json_begin(j, NULL, '{');
		put_who(j, r->world, m);
		json_put_text(j, "state", report_state(r->world, m), SIZE_MAX);
		json_put_number(j, "issued", (int64_t)m->issued);
		json_put_number(j, "started", (int64_t)m->started);
		json_put_number(j, "done", (int64_t)m->done);
		json_put_number(j, "sequence", (int64_t)m->sequence);
		put_last(j, "last", r, m, report_op_last(m));
		put_last(j, "open", r, m, report_op_open(m));
		json_put_bool(j, "waits", report_waits(r->world, m));
		json_put_text(j, "main_thread", doing, sizeof(doing));
		json_end(j, '}');
	}
	json_end(j, ']');
}

/* ---- processes ---- */

static void put_frames(struct out_json *j, const char *key, struct report_lines l,
					   enum report_frame_kind kind)
{
	struct report_frame f;
	unsigned n = 0;

	json_begin(j, key, '[');
	while (n < REPORT_FRAMES && report_next_frame(&l, &f))
		if (f.kind == kind) {
			json_put_text(j, NULL, f.text, f.bytes);
			n++;
		}
	json_end(j, ']');
}

static void put_threads(struct out_json *j, const struct report *r, const struct flight_page *page)
{
	struct report_lines l = report_dump(r, page), part;
	struct report_frame f;
	unsigned n = 0;

	json_begin(j, "threads", '[');
	while (n < 32 && report_next_frame(&l, &f)) {
		if (f.kind != FRAME_THREAD)
			continue;
		n++;
		part = report_dump_thread(r, page, f.thread);
		json_begin(j, NULL, '{');
		json_put_number(j, "thread", f.thread);
		json_put_text(j, "name", f.text, f.bytes);
		put_frames(j, "python", part, FRAME_PYTHON);
		put_frames(j, "native", part, FRAME_NATIVE);
		put_frames(j, "notes", part, FRAME_NOTE);
		json_end(j, '}');
	}
	json_end(j, ']');
}

static void put_flags(struct out_json *j, const struct flight_op *op)
{
	json_begin(j, "flags", '[');
	if (op->flags & FLIGHT_GROUPED)
		json_put_text(j, NULL, "grouped", SIZE_MAX);
	if (op->flags & FLIGHT_CAPTURED)
		json_put_text(j, NULL, "captured", SIZE_MAX);
	if (op->flags & FLIGHT_FAILED)
		json_put_text(j, NULL, "failed", SIZE_MAX);
	if (op->flags & FLIGHT_BLIND)
		json_put_text(j, NULL, "blind", SIZE_MAX);
	json_end(j, ']');
}

static void put_operations(struct out_json *j, const struct report *r, const struct judge_member *m)
{
	uint64_t from = m->issued > REPORT_LAST ? m->issued - REPORT_LAST + 1 : 1;

	json_begin(j, "last_operations", '[');
	for (uint64_t i = from; i <= m->issued; i++) {
		const struct flight_op *op = report_op(m, i);
		if (!op)
			continue;
		json_begin(j, NULL, '{');
		put_call(j, op);
		put_ms(j, "issued_ms", r, op->issued);
		put_ms(j, "started_ms", r, load(&op->started));
		put_ms(j, "done_ms", r, load(&op->done));
		json_put_text(j, "state", report_stage_name(report_stage(m, op)), SIZE_MAX);
		json_put_number(j, "group", op->group);
		put_flags(j, op);
		json_end(j, '}');
	}
	json_end(j, ']');
}

static void put_process(struct out_json *j, const struct report *r, const struct report_pick *pick)
{
	const struct flight_page *page = report_process(r->world, pick->m)->page;
	struct report_lines site = report_site(page, pick->op ? pick->op->site : 0);
	struct report_lines now = report_dump_thread(r, page, page->pid);

	json_begin(j, NULL, '{');
	put_who(j, r->world, pick->m);
	json_put_text(j, "command", page->command, sizeof(page->command));
	put_frames(j, "python_at_issue", site, FRAME_PYTHON);
	put_frames(j, "native_at_issue", site, FRAME_NATIVE);
	put_frames(j, "python_now", now, FRAME_PYTHON);
	put_frames(j, "native", now, FRAME_NATIVE);
	put_threads(j, r, page);
	put_operations(j, r, pick->m);
	json_end(j, '}');
}

/* ---- the whole ---- */

/* What the culprit called where the others called something else. */
static void put_other(struct out_json *j, const struct report *r)
{
	const struct judge_member *m = report_member(r->world, r->finding->other);

	if (!m || r->finding->verdict != JUDGE_MISMATCH) {
		json_put_null(j, "other");
		return;
	}
	json_begin(j, "other", '{');
	put_who(j, r->world, m);
	report_json_call(j, "call", report_op(m, r->finding->other_index));
	json_end(j, '}');
}

static void put_finding(struct out_json *j, const struct report *r)
{
	const struct judge_finding *f = r->finding;
	const struct judge_member *culprit = report_member(r->world, f->member),
							  *other = report_member(r->world, f->other);
	const struct judge_member *any = other ? other : culprit;
	const struct flight_op *op = other ? report_op(other, f->other_index) : NULL;

	if (f->verdict == JUDGE_MISMATCH && culprit)
		op = report_op(culprit, f->index);
	if (!op && other)
		op = report_op_now(other);
	json_put_text(j, "text", report_sentence(f->verdict), SIZE_MAX);
	json_put_text(j, "hint", report_hint(r), SIZE_MAX);
	json_put_number(j, "stuck_ms", (int64_t)(report_ago(r->world, f->since) / 1000000u));
	report_json_who(j, "culprit", r->world, culprit, true);
	if (any)
		report_json_comm(j, "communicator", r->world, any);
	else
		json_put_null(j, "communicator");
	report_json_call(j, "call", op);
	put_other(j, r);
	report_json_ranks(j, "ranks", r, f->key);
}

static void put_ras(struct out_json *j, const struct ras_answer *a)
{
	if (!a || a->none) {
		json_put_null(j, "ras");
		return;
	}
	json_begin(j, "ras", '[');
	for (const char *line = a->text; *line;) {
		size_t bytes = strcspn(line, "\n");
		json_put_text(j, NULL, line, bytes);
		line += bytes + (line[bytes] == '\n');
	}
	json_end(j, ']');
}

void report_as_json(struct out *o, const struct report *r, const char *line)
{
	struct report_pick pick[REPORT_PICKS];
	unsigned picks = report_picks(r, pick);
	struct out_json j = {.o = o};
	char host[65] = "", time[40];
	struct out t;

	gethostname(host, sizeof(host) - 1);
	out_begin(&t, time, sizeof(time));
	report_time(&t, r->real);
	json_begin(&j, NULL, '{');
	json_put_number(&j, "format", REPORT_FORMAT);
	json_put_text(&j, "version", TURBO_VERSION, SIZE_MAX);
	json_put_text(&j, "line", line, SIZE_MAX);
	json_put_text(&j, "verdict", judge_name(r->finding->verdict), SIZE_MAX);
	json_put_bool(&j, "acts", r->acts && judge_acts(r->finding->verdict));
	json_put_text(&j, "host", host, sizeof(host));
	json_put_text(&j, "time", time, sizeof(time));
	put_finding(&j, r);
	json_begin(&j, "processes", '[');
	for (unsigned i = 0; i < picks; i++)
		put_process(&j, r, &pick[i]);
	json_end(&j, ']');
	put_ras(&j, r->ras);
	json_end(&j, '}');
	out_string(o, "\n");
}
