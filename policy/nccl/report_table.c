/* report_table.c - see report_table.h. */
#include "report_table.h"

#include <string.h>

#include "report_facts.h"
#include "report_stacks.h"

#define CALL 36 /* columns of a call */
#define HOST 12
#define CALL_LEAST 12
#define MAIN_LEAST 12
#define RANK_MOST 9999999
#define CELL 160 /* bytes; a character takes up to 4 */

enum column { MARK, RANK, JOB, NODE, PID, STATE, CALLED_WHAT, CALLED, STARTED, DONE, MAIN, COLUMNS };

struct table {
	const struct report *r;
	const struct judge_member *member[JUDGE_MEMBERS];
	unsigned members;
	bool shown[JUDGE_MEMBERS], marked[JUDGE_MEMBERS];
	bool job, host;
	unsigned rows; /* the head is one */
	unsigned width[COLUMNS];
	char cell[REPORT_ROWS + 1][COLUMNS][CELL];
};

unsigned report_members(const struct judge_world *w, const uint64_t key[2],
						const struct judge_member *member[JUDGE_MEMBERS])
{
	unsigned n = 0;

	for (uint32_t i = 0; i < w->members && n < JUDGE_MEMBERS; i++) {
		const struct judge_member *m = report_member(w, i);
		unsigned at = n;
		if (!m || !report_same_comm(m, key))
			continue;
		for (; at > 0 && member[at - 1]->rank > m->rank; at--)
			member[at] = member[at - 1];
		member[at] = m;
		n++;
	}
	return n;
}

/* ---- what the main thread does ---- */

static void doing(struct out *o, const struct report *r, const struct judge_member *m, unsigned columns)
{
	const struct judge_process *p = report_process(r->world, m);
	const struct flight_op *op = report_op_now(m);
	uint64_t since = 0;

	if (p->life == LIFE_DEAD || p->life == LIFE_STOPPED) {
		if (p->life == LIFE_DEAD)
			report_end_of(o, p);
		else
			out_string(o, "stopped");
		out_string(o, " ");
		out_age_short(o, report_ago(r->world, p->life_since));
		out_string(o, " ago");
		return;
	}
	if (report_own_frame(o, report_dump_thread(r, p->page, p->page->pid), columns))
		return;
	enum flight_wait_kind kind = report_wait(p, p->page->pid, &since);
	if (kind != FLIGHT_WAIT_NONE) {
		out_string(o, kind == FLIGHT_WAIT_GPU ? "waits for the GPU, " : "inside NCCL, ");
		out_age_short(o, report_ago(r->world, since));
		return;
	}
	const char *why = report_reason(r->world, p);
	struct report_lines site = report_site(p->page, op ? op->site : 0);
	bool weak = !why || !strcmp(why, REPORT_COMPUTES) || !strcmp(why, REPORT_READS);
	if (weak && site.at < site.end) {
		out_string(o, "past ");
		if (report_own_frame(o, site, columns > 13 ? columns - 5 : 8))
			return;
		out_begin(o, o->text, o->size);
	}
	/* What a process does while it waits is no news. */
	if (why && !(weak && report_waits(r->world, m)))
		out_string(o, why);
}

void report_doing(struct out *o, const struct report *r, const struct judge_member *m, unsigned columns)
{
	char text[512];
	struct out whole;

	out_begin(&whole, text, sizeof(text));
	doing(&whole, r, m, columns);
	out_name_fit(o, text, sizeof(text), columns, OUT_FIRST);
}

/* ---- cells ---- */

static struct out cell(struct table *t, enum column c)
{
	struct out o;

	out_begin(&o, t->cell[t->rows][c], CELL);
	return o;
}

static void put_age(struct table *t, enum column c, const struct judge_member *m, const struct flight_op *op,
					uint64_t time, uint64_t all_up_to)
{
	struct out o = cell(t, c);
	bool runs = !(op->flags & (FLIGHT_CAPTURED | FLIGHT_FAILED));

	(void)m;
	if (time)
		out_age_short(&o, report_ago(t->r->world, time));
	else if (op->index <= all_up_to && runs)
		out_string(&o, "yes");
	else
		out_string(&o, runs && (op->flags & FLIGHT_BLIND) ? "?" : "-");
}

static void put_call(struct table *t, const struct judge_member *m, const struct flight_op *op)
{
	struct out o = cell(t, CALLED_WHAT), whole;
	uint64_t more = m->issued > op->index ? m->issued - op->index : 0;
	char text[CELL];

	out_begin(&whole, text, sizeof(text));
	report_call(&whole, op);
	if (op->bytes) {
		out_string(&whole, ", ");
		out_size(&whole, op->bytes);
	}
	if (op->flags & (FLIGHT_CAPTURED | FLIGHT_FAILED))
		out_format(&whole, ", %s", report_stage_name(report_stage(m, op)));
	if (more && report_op_open(m) == op)
		out_format(&whole, " +%u", more < 10000 ? (unsigned)more : 9999);
	out_name_fit(&o, text, sizeof(text), CALL, OUT_FIRST);
}

static void put_row(struct table *t, unsigned i, const char *mark)
{
	const struct judge_member *m = t->member[i];
	const struct judge_process *p = report_process(t->r->world, m);
	const struct flight_op *op = report_op_now(m);
	struct out o = cell(t, MARK);

	out_string(&o, mark);
	o = cell(t, RANK);
	out_format(&o, m->rank >= 0 && m->rank <= RANK_MOST ? "%d" : "?", m->rank);
	o = cell(t, JOB);
	if (t->job)
		out_format(&o, p->page->rank >= 0 && p->page->rank <= RANK_MOST ? "%d" : "-", p->page->rank);
	o = cell(t, NODE);
	if (t->host)
		out_name_fit(&o, p->page->host, sizeof(p->page->host), HOST, OUT_FIRST);
	o = cell(t, PID);
	out_format(&o, "%u", p->pid);
	o = cell(t, STATE);
	out_string(&o, report_state(t->r->world, m));
	if (op) {
		put_call(t, m, op);
		put_age(t, CALLED, m, op, op->issued, 0);
		put_age(t, STARTED, m, op, atomic_load_explicit(&op->started, memory_order_relaxed), m->started);
		put_age(t, DONE, m, op, atomic_load_explicit(&op->done, memory_order_relaxed), m->done);
	} else {
		o = cell(t, CALLED_WHAT);
		out_string(&o, m->state == FLIGHT_MAKING ? "it is being made" : "no call yet");
	}
	t->rows++;
}

static void put_head(struct table *t)
{
	static const char *const name[] = {"",     "rank",   "job",     "host", "pid",        "state",
									   "call", "called", "started", "done", "main thread"};

	for (unsigned c = 0; c < COLUMNS; c++)
		if ((c != JOB || t->job) && (c != NODE || t->host)) {
			struct out o = cell(t, (enum column)c);
			out_string(&o, name[c]);
		}
	t->rows = 1;
}

/* ---- choice of rows ---- */

static bool is_about(const struct report *r, const struct judge_member *m)
{
	const struct judge_finding *f = r->finding;
	int64_t i = m - r->world->member;

	if (!f || f->verdict == JUDGE_NOTHING)
		return false;
	if (i == f->member || i == f->other)
		return true;
	for (uint32_t k = 0; k < f->chained && k < sizeof(f->chain) / sizeof(f->chain[0]); k++)
		if (f->chain[k] == i)
			return true;
	return false;
}

static bool is_culprit(const struct report *r, const struct judge_member *m)
{
	return r->finding && r->finding->verdict != JUDGE_NOTHING && m - r->world->member == r->finding->member;
}

static void choose(struct table *t)
{
	unsigned left = REPORT_ROWS;

	for (unsigned pass = 0; pass < 3; pass++)
		for (unsigned i = 0; i < t->members && left > 0; i++) {
			bool wanted = pass == 0   ? is_culprit(t->r, t->member[i])
						  : pass == 1 ? is_about(t->r, t->member[i])
									  : true;
			if (!wanted || t->shown[i])
				continue;
			t->shown[i] = true;
			left--;
		}
}

static void look(struct table *t)
{
	const struct judge_world *w = t->r->world;
	const struct flight_page *first = t->members ? report_process(w, t->member[0])->page : NULL;

	for (unsigned i = 0; i < t->members; i++) {
		const struct flight_page *page = report_process(w, t->member[i])->page;
		t->job |= report_job_rank(w, t->member[i]) >= 0;
		t->host |= strncmp(page->host, first->host, sizeof(page->host)) != 0;
	}
}

/* ---- lines ---- */

static void measure(struct table *t)
{
	for (unsigned c = 0; c < MAIN; c++)
		for (unsigned row = 0; row < t->rows; row++) {
			struct out o = {.text = t->cell[row][c], .used = (unsigned)strlen(t->cell[row][c])};
			unsigned n = out_columns(&o, 0);
			t->width[c] = n > t->width[c] ? n : t->width[c];
		}
	unsigned all = 1, *call = &t->width[CALLED_WHAT];
	for (unsigned c = RANK; c < MAIN; c++)
		all += t->width[c] ? t->width[c] + 2 : 0;
	if (all + MAIN_LEAST > REPORT_COLUMNS) {
		unsigned excess = all + MAIN_LEAST - REPORT_COLUMNS;
		*call = *call > CALL_LEAST + excess ? *call - excess : *call < CALL_LEAST ? *call : CALL_LEAST;
	}
}

/* Numbers stand on the right. */
static bool right(enum column c)
{
	return c == RANK || c == JOB || c == PID || c == CALLED || c == STARTED || c == DONE;
}

static unsigned put_cells(struct out *o, const struct table *t, unsigned row)
{
	unsigned start = o->used;

	for (unsigned c = 0, end = 0; c < MAIN; c++) {
		const char *text = t->cell[row][c];
		struct out cell = {.text = (char *)(uintptr_t)text, .used = (unsigned)strlen(text)};
		if (t->width[c] == 0 && c != MARK)
			continue;
		end += t->width[c] + (c == MARK ? 1 : 2);
		if (right((enum column)c))
			out_pad(o, start, end - 2 - out_columns(&cell, 0));
		out_name_fit(o, text, CELL, t->width[c] ? t->width[c] : 1, OUT_FIRST);
		out_pad(o, start, end);
	}
	return out_columns(o, start);
}

static void end_line(struct out *o)
{
	while (o->used > 0 && o->text[o->used - 1] == ' ')
		o->text[--o->used] = '\0';
	out_string(o, "\n");
}

static void put_title(struct out *o, const struct table *t)
{
	const struct flight_page *page;

	report_comm(o, t->member[0]);
	page = report_process(t->r->world, t->member[0])->page;
	if (!t->host && page->host[0]) {
		out_string(o, " on ");
		out_name_fit(o, page->host, sizeof(page->host), 30, OUT_FIRST);
	}
	out_string(o, "; times are ages\n");
}

/* `  ... 48 more ranks, by state: waits 47, late 1` */
static void put_rest(struct out *o, const struct table *t)
{
	const char *state[JUDGE_MEMBERS];
	unsigned count[JUDGE_MEMBERS], states = 0, rest = 0;

	for (unsigned i = 0; i < t->members; i++) {
		unsigned k = 0;
		if (t->shown[i])
			continue;
		const char *s = report_state(t->r->world, t->member[i]);
		rest++;
		while (k < states && strcmp(state[k], s) != 0)
			k++;
		if (k == states) {
			state[states] = s;
			count[states++] = 0;
		}
		count[k]++;
	}
	if (rest == 0)
		return;
	out_format(o, "  ... %u more rank%s, by state: ", rest, rest == 1 ? "" : "s");
	for (unsigned k = 0; k < states; k++)
		out_format(o, "%s%s %u", k ? ", " : "", state[k], count[k]);
	out_string(o, "\n");
}

static void put_missing(struct out *o, const struct table *t)
{
	int64_t missing = (int64_t)t->member[0]->ranks - (int64_t)t->members;

	if (missing > 0)
		out_format(o, "  %d more rank%s on other machines, ended, or not heard of yet\n", (int)missing,
				   missing == 1 ? " is" : "s are");
}

void report_table(struct out *o, const struct report *r, const uint64_t key[2])
{
	struct table t;

	memset(&t, 0, sizeof(t));
	t.r = r;
	t.members = report_members(r->world, key, t.member);
	if (t.members == 0)
		return;
	look(&t);
	choose(&t);
	put_head(&t);
	for (unsigned i = 0; i < t.members; i++)
		if (t.shown[i])
			put_row(&t, i, is_culprit(r, t.member[i]) ? ">" : " ");
	measure(&t);
	put_title(o, &t);
	unsigned columns = put_cells(o, &t, 0);
	if (columns < REPORT_COLUMNS)
		out_name_fit(o, "main thread", SIZE_MAX, REPORT_COLUMNS - columns, OUT_FIRST);
	end_line(o);
	for (unsigned i = 0, row = 1; i < t.members; i++)
		if (t.shown[i]) {
			put_cells(o, &t, row++);
			if (columns < REPORT_COLUMNS - 8)
				report_doing(o, r, t.member[i], REPORT_COLUMNS - columns);
			end_line(o);
		}
	put_rest(o, &t);
	put_missing(o, &t);
}
