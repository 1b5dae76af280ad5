/* nccl_show.c - see nccl.h. */
#include "nccl.h"

#include "nccl/report_table.h"

#define TABLES 6 /* communicators of a job in full though nothing is in flight in them */

static struct report report_of(const struct nccl_job *job, const struct judge_finding *found)
{
	return (struct report){.world = job->look, .finding = found, .real = job->real};
}

static const struct judge_finding *finding_of(const struct nccl_job *job, const struct judge_member *m)
{
	for (unsigned i = 0; i < job->findings; i++)
		if (report_same_comm(m, job->found[i].key))
			return &job->found[i];
	return NULL;
}

/* The first member of a communicator stands for it. */
static bool first_of_comm(const struct judge_world *w, uint32_t i)
{
	for (uint32_t k = 0; k < i; k++)
		if (report_same_comm(&w->member[k], w->member[i].key))
			return false;
	return report_member(w, i) != NULL;
}

static bool in_flight(const struct judge_world *w, const uint64_t key[2])
{
	for (uint32_t i = 0; i < w->members; i++)
		if (report_member(w, i) && report_same_comm(&w->member[i], key) && report_op_open(&w->member[i]))
			return true;
	return false;
}

/* ---- text ---- */

/* Without the folders of the program. */
static void put_command(struct out *o, const struct flight_page *page, unsigned columns)
{
	const char *from = page->command;

	for (const char *c = from; c < page->command + sizeof(page->command) && *c && *c != ' '; c++)
		if (*c == '/')
			from = c + 1;
	out_name_fit(o, from, sizeof(page->command) - (size_t)(from - page->command), columns, OUT_FIRST);
}

static void put_job(struct out *o, const struct nccl_job *job)
{
	const struct judge_world *w = job->look;
	const struct flight_page *page = w->processes ? w->process[0].page : NULL;

	out_format(o, "job of %u process%s", job->pids, job->pids == 1 ? "" : "es");
	if (page && page->host[0]) {
		out_string(o, " on ");
		out_name_fit(o, page->host, sizeof(page->host), REPORT_NAME, OUT_FIRST);
	}
	if (page) {
		out_string(o, ": ");
		put_command(o, page, 60);
	}
	out_string(o, "\n");
	if (!job->live) {
		out_string(o, "It has ended; this is how it was at its last sign of life, ");
		report_time(o, job->real);
		out_string(o, ".\n");
	}
}

/* `pid 4241 and 1 more, ended 2026-12-01T04:42:16Z: python3 train.py`, and its worst finding. */
static void put_ended(struct out *o, const struct nccl_job *job)
{
	char line[REPORT_LINE];

	out_format(o, "  pid %d", (int)job->pid[0]);
	if (job->pids > 1)
		out_format(o, " and %u more", job->pids - 1);
	out_string(o, ", ");
	report_time(o, job->real);
	out_string(o, ": ");
	if (job->look->processes)
		put_command(o, job->look->process[0].page, 50);
	out_string(o, "\n");
	if (!job->findings)
		return;
	struct report r = report_of(job, &job->found[0]);
	report_line(&r, line);
	out_format(o, "    %s\n", line);
}

/* `communicator "tp" (8 ranks): nothing in flight, last all_reduce #812 2.1 s ago` */
static void put_idle(struct out *o, const struct judge_world *w, const struct judge_member *m)
{
	const struct flight_op *op = report_op_last(m);

	report_comm(o, m);
	out_string(o, ": nothing in flight");
	if (op) {
		out_string(o, "; rank ");
		out_format(o, "%d called ", m->rank);
		report_call(o, op);
		out_string(o, " ");
		out_age(o, report_ago(w, op->issued));
		out_string(o, " ago");
	}
	out_string(o, "\n");
}

static void put_comms(struct out *o, const struct nccl_job *job)
{
	const struct judge_world *w = job->look;
	unsigned quiet = 0;

	for (uint32_t i = 0; i < w->members; i++) {
		const struct judge_member *m = &w->member[i];
		const struct judge_finding *found;
		char line[REPORT_LINE];
		if (!first_of_comm(w, i))
			continue;
		found = finding_of(job, m);
		struct report r = report_of(job, found);
		out_string(o, "\n");
		if (!found && !in_flight(w, m->key) && ++quiet > TABLES) {
			o->text[--o->used] = '\0';
			put_idle(o, w, m);
			continue;
		}
		if (found) {
			report_line(&r, line);
			out_string(o, line);
			out_string(o, "\n");
		}
		report_table(o, &r, m->key);
	}
	if (w->members == 0)
		out_string(o, "no communicator\n");
	if (w->members == JUDGE_MEMBERS)
		out_string(o, "\nThere are more communicators than are looked at.\n");
}

void nccl_show_text(struct out *o, const struct nccl_jobs *jobs, bool brief)
{
	unsigned ended = 0, full = 0;

	for (unsigned i = 0; i < jobs->count; i++) {
		if (brief && !jobs->job[i].live) {
			ended += jobs->job[i].look->members > 0;
			continue;
		}
		if (full++)
			out_string(o, "\n");
		put_job(o, &jobs->job[i]);
		put_comms(o, &jobs->job[i]);
	}
	if (!ended)
		return;
	out_format(o, "%s%u job%s ended and left records (turbo nccl PID shows more):\n", full ? "\n" : "", ended,
			   ended == 1 ? " has" : "s have");
	for (unsigned i = 0; i < jobs->count; i++)
		if (!jobs->job[i].live && jobs->job[i].look->members > 0)
			put_ended(o, &jobs->job[i]);
}

/* ---- JSON ---- */

static void put_processes(struct out_json *j, const struct judge_world *w)
{
	static const char *const life[] = {"runs", "stopped", "traced", "disk", "dead"};

	json_begin(j, "processes", '[');
	for (uint32_t i = 0; i < w->processes; i++) {
		const struct judge_process *p = &w->process[i];
		json_begin(j, NULL, '{');
		json_put_number(j, "pid", p->pid);
		if (p->page->rank >= 0)
			json_put_number(j, "job_rank", p->page->rank);
		else
			json_put_null(j, "job_rank");
		json_put_text(j, "host", p->page->host, sizeof(p->page->host));
		json_put_text(j, "command", p->page->command, sizeof(p->page->command));
		json_put_text(j, "state", life[p->life], SIZE_MAX);
		json_end(j, '}');
	}
	json_end(j, ']');
}

static void put_comm(struct out_json *j, const struct nccl_job *job, const struct judge_member *m)
{
	const struct judge_finding *found = finding_of(job, m);
	struct report r = report_of(job, found);
	char line[REPORT_LINE];

	json_begin(j, NULL, '{');
	report_json_comm(j, "communicator", job->look, m);
	if (found) {
		report_line(&r, line);
		json_put_text(j, "verdict", judge_name(found->verdict), SIZE_MAX);
		json_put_text(j, "line", line, sizeof(line));
		report_json_who(j, "culprit", job->look, report_member(job->look, found->member), true);
		json_put_number(j, "stuck_ms", (int64_t)(report_ago(job->look, found->since) / 1000000u));
	} else {
		json_put_null(j, "verdict");
		json_put_null(j, "line");
		json_put_null(j, "culprit");
		json_put_null(j, "stuck_ms");
	}
	report_json_ranks(j, "ranks", &r, m->key);
	json_end(j, '}');
}

static void put_json_job(struct out_json *j, const struct nccl_job *job)
{
	const struct judge_world *w = job->look;
	char time[40];
	struct out t;

	out_begin(&t, time, sizeof(time));
	report_time(&t, job->real);
	json_begin(j, NULL, '{');
	json_put_bool(j, "live", job->live);
	json_put_text(j, "time", time, sizeof(time));
	put_processes(j, w);
	json_begin(j, "communicators", '[');
	for (uint32_t i = 0; i < w->members; i++)
		if (first_of_comm(w, i))
			put_comm(j, job, &w->member[i]);
	json_end(j, ']');
	json_end(j, '}');
}

void nccl_show_json(struct out *o, const struct nccl_jobs *jobs)
{
	struct out_json j = {.o = o};

	json_begin(&j, NULL, '{');
	json_put_number(&j, "format", REPORT_FORMAT);
	json_begin(&j, "jobs", '[');
	for (unsigned i = 0; i < jobs->count; i++)
		put_json_job(&j, &jobs->job[i]);
	json_end(&j, ']');
	json_end(&j, '}');
	out_string(o, "\n");
}
