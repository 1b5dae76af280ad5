/* report_words.c - see report_facts.h: how it is said. */
#include "report_facts.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define RANGES 4 /* of ranks that are listed; the rest are counted */

static const char *name_in(const char *const *names, unsigned count, unsigned i)
{
	return i < count ? names[i] : "unknown";
}

const char *report_type(unsigned type)
{
	static const char *const name[] = {"int8",    "uint8",    "int32",      "uint32",
									   "int64",   "uint64",   "float16",    "float32",
									   "float64", "bfloat16", "float8e4m3", "float8e5m2"};

	return name_in(name, sizeof(name) / sizeof(name[0]), type);
}

const char *report_reduction(unsigned reduction)
{
	static const char *const name[] = {"sum", "product", "max", "min", "average"};

	return reduction < sizeof(name) / sizeof(name[0]) ? name[reduction] : "own reduction";
}

static bool reduces(unsigned function)
{
	return function == FLIGHT_ALL_REDUCE || function == FLIGHT_REDUCE || function == FLIGHT_REDUCE_SCATTER;
}

static bool has_root(unsigned function)
{
	return function == FLIGHT_BROADCAST || function == FLIGHT_REDUCE || function == FLIGHT_GATHER ||
		   function == FLIGHT_SCATTER;
}

/* ---- calls ---- */

static void graph_call(struct out *o, const struct flight_op *op)
{
	if (op->sequence == 0)
		out_string(o, "graph launch");
	else if (op->count > 1 && op->count <= op->sequence)
		out_format(o, "graph launch with #%u-#%u", op->sequence - (uint32_t)op->count + 1, op->sequence);
	else
		out_format(o, "graph launch with #%u", op->sequence);
}

void report_call(struct out *o, const struct flight_op *op)
{
	if (op->function == FLIGHT_GRAPH) {
		graph_call(o, op);
		return;
	}
	out_string(o, judge_function_name(op->function));
	if (op->sequence)
		out_format(o, " #%u", op->sequence);
	else if (op->pair)
		out_format(o, " #%u", op->pair);
	if (op->function == FLIGHT_RECV)
		out_format(o, " from rank %d", op->peer);
	else if (op->function >= FLIGHT_SEND && op->function <= FLIGHT_WAIT_SIGNAL && op->peer >= 0)
		out_format(o, " to rank %d", op->peer);
}

void report_call_size(struct out *o, const struct flight_op *op)
{
	report_call(o, op);
	if (!op->bytes)
		return;
	out_string(o, " (");
	out_size(o, op->bytes);
	out_string(o, ")");
}

void report_call_whole(struct out *o, const struct flight_op *op)
{
	report_call(o, op);
	if (op->function == FLIGHT_GRAPH || op->function >= FLIGHT_INIT)
		return;
	out_format(o, " (%llu %s", (unsigned long long)op->count, report_type(op->type));
	if (op->bytes) {
		out_string(o, " = ");
		out_size(o, op->bytes);
	}
	if (reduces(op->function))
		out_format(o, ", %s", report_reduction(op->reduction));
	if (has_root(op->function))
		out_format(o, ", root %d", op->peer);
	out_string(o, ")");
}

/* ---- who ---- */

void report_comm_name(struct out *o, const struct judge_member *m)
{
	if (!m->name || !m->name[0]) {
		out_format(o, "communicator %08x", (unsigned)(m->key[0] ^ m->key[1]));
		return;
	}
	out_string(o, "\"");
	out_name_fit(o, m->name, sizeof(((struct flight_comm *)0)->name), REPORT_NAME, OUT_FIRST);
	out_string(o, "\"");
}

void report_comm(struct out *o, const struct judge_member *m)
{
	if (m->name && m->name[0])
		out_string(o, "communicator ");
	report_comm_name(o, m);
	if (m->ranks > 0)
		out_format(o, " (%d rank%s)", m->ranks, m->ranks == 1 ? "" : "s");
}

void report_who(struct out *o, const struct judge_world *w, const struct judge_member *m, bool brief)
{
	const struct judge_process *p = report_process(w, m);
	int32_t job = report_job_rank(w, m);

	if (m->rank >= 0)
		out_format(o, "rank %d (", m->rank);
	else
		out_string(o, "a rank ("); /* its number is not known yet */
	if (job >= 0)
		out_format(o, "job rank %d, ", job);
	if (!brief && p->page->host[0]) {
		out_string(o, "host ");
		out_name_fit(o, p->page->host, sizeof(p->page->host), REPORT_NAME, OUT_FIRST);
		out_string(o, ", ");
	}
	out_format(o, "pid %u)", p->pid);
}

static void sort(int32_t *rank, unsigned count)
{
	for (unsigned i = 1; i < count; i++)
		for (unsigned k = i; k > 0 && rank[k] < rank[k - 1]; k--) {
			int32_t t = rank[k];
			rank[k] = rank[k - 1];
			rank[k - 1] = t;
		}
}

void report_ranks(struct out *o, int32_t *rank, unsigned count)
{
	unsigned ranges = 0, i = 0;

	sort(rank, count);
	out_string(o, count == 1 ? "rank " : "ranks ");
	while (i < count) {
		unsigned end = i + 1;
		while (end < count && rank[end] == rank[end - 1] + 1)
			end++;
		if (end - i == 2)
			end--; /* two: "3, 4" */
		if (i > 0)
			out_string(o, end == count || ranges == RANGES ? " and " : ", ");
		if (ranges++ == RANGES) {
			out_format(o, "%u more", count - i);
			return;
		}
		out_format(o, "%d", rank[i]);
		if (end - i > 1)
			out_format(o, "-%d", rank[end - 1]);
		i = end;
	}
}

/* ---- processes ---- */

const char *report_reason(const struct judge_world *w, const struct judge_process *p)
{
	static const uint64_t lately = 3000000000u;

	if (p->life == LIFE_TRACED)
		return "is in a debugger";
	if (p->life == LIFE_DISK)
		return "waits for a disk or a file server";
	if (p->children)
		return "waits for a child process";
	if (p->locked)
		return "waits for a lock";
	if (p->cpu_changed && report_ago(w, p->cpu_changed) < lately)
		return REPORT_COMPUTES;
	if (p->io_changed && report_ago(w, p->io_changed) < lately)
		return REPORT_READS;
	return NULL;
}

const char *report_signal(int number, char buf[24])
{
	static const struct {
		int number;
		const char *name;
	} known[] = {{SIGKILL, "SIGKILL"}, {SIGSEGV, "SIGSEGV"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},
				 {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"},   {SIGHUP, "SIGHUP"},   {SIGQUIT, "SIGQUIT"},
				 {SIGILL, "SIGILL"},   {SIGFPE, "SIGFPE"},   {SIGTRAP, "SIGTRAP"}, {SIGPIPE, "SIGPIPE"},
				 {SIGSYS, "SIGSYS"},   {SIGALRM, "SIGALRM"}, {SIGXCPU, "SIGXCPU"}, {SIGUSR1, "SIGUSR1"},
				 {SIGUSR2, "SIGUSR2"}};

	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].number == number)
			return known[i].name;
	snprintf(buf, 24, "signal %d", number);
	return buf;
}

void report_end_of(struct out *o, const struct judge_process *p)
{
	char buf[24];

	if (p->exit_signal > 0)
		out_format(o, "killed by %s", report_signal(p->exit_signal, buf));
	else if (p->exit_signal == 0 || atomic_load_explicit(&p->page->leaving, memory_order_relaxed))
		out_string(o, "exited");
	else
		out_string(o, "died");
}
