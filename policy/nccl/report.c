/*
 * report.c - see report.h. A report is put together in memory of its own, logged, and written by a thread that nobody
 * waits for long: the working directory may be on the file server that the job hangs on.
 */
#include "report.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "guard.h"
#include "log.h"
#include "log_sink.h"
#include "report_parts.h"
#include "report_table.h"
#include "thread.h"

#define TEXT_BYTES (4u << 20) /* more than stacks of five processes can take; untouched pages cost nothing */
#define JSON_BYTES (12u << 20)
#define LOG_BYTES 4000 /* that are written at once: within PIPE_BUF, so that ranks do not mix */
#define STACK_LINES 30 /* in the log */
#define WRITE_MS 2000  /* that the watch waits for the files */

enum { WORK_GOES_ON, WORK_DONE, WORK_LEFT };

struct work {
	_Atomic uint32_t state; /* whoever comes second unmaps it: exchanged, acquire and release; a futex */
	bool written;
	int error;
	struct report_given given;
	struct out text, json;
	char room[];
};
#define WORK_BYTES (sizeof(struct work) + TEXT_BYTES + JSON_BYTES)

/* ---- the log ---- */

/* Whole lines, in parts that are written at once. */
static void log_lines(const char *text, unsigned bytes)
{
	while (bytes > 0) {
		unsigned part = bytes < LOG_BYTES ? bytes : LOG_BYTES, n = part;
		if (part < bytes)
			while (n > 0 && text[n - 1] != '\n')
				n--;
		n = n ? n : part;
		log_emit(text, n);
		text += n;
		bytes -= n;
	}
}

/* Each line of `from` after two blanks. */
static void indent(struct out *to, const char *from)
{
	while (*from) {
		const char *end = strchr(from, '\n');
		int n = (int)(end ? end - from : (long)strlen(from));
		out_format(to, "  %.*s\n", n, from);
		from += n + (end != NULL);
	}
}

static void log_table(const struct report *r)
{
	const struct judge_member *comm[4];
	static char table[16384], text[16384]; /* the watch's thread alone */
	unsigned n = report_comms(r, comm);
	struct out t, o;

	out_begin(&t, table, sizeof(table));
	out_begin(&o, text, sizeof(text));
	for (unsigned i = 0; i < n; i++)
		report_table(&t, r, comm[i]->key);
	indent(&o, table);
	out_format(&o, "  %s\n", report_hint(r));
	log_lines(text, o.used);
}

static void log_stacks(const struct report *r)
{
	static char text[16384];
	struct out o;

	out_begin(&o, text, sizeof(text));
	report_stacks_short(&o, r, STACK_LINES);
	log_lines(text, o.used);
}

/* ---- the files ---- */

static void *write_files(void *arg)
{
	struct work *w = arg;

	guard_enter();
	w->written = report_files(&w->given, w->text.text, w->text.used, w->json.text, w->json.used, &w->error);
	if (atomic_exchange_explicit(&w->state, WORK_DONE, memory_order_acq_rel) == WORK_LEFT)
		munmap(w, WORK_BYTES);
	else
		syscall(SYS_futex, &w->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	guard_leave();
	return NULL;
}

/* Until the files are written, or it takes too long. */
static void wait_for(struct work *w)
{
	struct timespec now, rest;
	clock_gettime(CLOCK_MONOTONIC, &now);
	int64_t until = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + WRITE_MS;

	while (atomic_load_explicit(&w->state, memory_order_acquire) == WORK_GOES_ON) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		int64_t ms = until - (int64_t)now.tv_sec * 1000 - now.tv_nsec / 1000000;
		if (ms <= 0)
			return;
		rest = (struct timespec){ms / 1000, ms % 1000 * 1000000};
		syscall(SYS_futex, &w->state, FUTEX_WAIT_PRIVATE, WORK_GOES_ON, &rest, NULL, 0);
	}
}

static struct work *work_of(const struct report *r, const struct report_given *given)
{
	struct work *w =
		mmap(NULL, WORK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (w == MAP_FAILED)
		return NULL;
	w->given = *given;
	out_begin(&w->text, w->room, TEXT_BYTES);
	out_begin(&w->json, w->room + TEXT_BYTES, JSON_BYTES);
	report_as_text(&w->text, r, given->line);
	report_as_json(&w->json, r, given->line);
	return w;
}

static void say_unwritten(int error)
{
	errno = error;
	log_warn("nccl: the report's files could not be written: %m");
}

/* true: they are written. */
static bool give_files(const struct report *r, struct report_given *given)
{
	struct work *w = given->closed ? NULL : work_of(r, given);
	bool written = false;

	if (!w)
		return false;
	if (!thread_start("turbo-report", write_files, w))
		write_files(w);
	wait_for(w);
	if (atomic_exchange_explicit(&w->state, WORK_LEFT, memory_order_acq_rel) == WORK_GOES_ON) {
		given->closed = true;
		log_warn("nccl: writing the report's files takes long; it goes on");
		return false;
	}
	written = w->written;
	*given = w->given;
	if (!written)
		say_unwritten(w->error);
	given->closed = !written;
	munmap(w, WORK_BYTES);
	return written;
}

/* ---- */

static bool is_alarm(const struct report *r)
{
	return r->finding->verdict != JUDGE_HELD && r->finding->verdict != JUDGE_LAGGARD;
}

void report_begin(const struct report *r, struct report_given *given)
{
	int saved = errno;

	report_line(r, given->line);
	if (!is_alarm(r)) {
		log_info("%s", given->line);
		errno = saved;
		return;
	}
	log_warn("%s", given->line);
	if (LOG_WARN <= log_level)
		log_table(r);
	if (give_files(r, given))
		log_warn("nccl: the whole report, with stacks in a moment: %s, and .json", given->path);
	errno = saved;
}

void report_end(const struct report *r, struct report_given *given)
{
	int saved = errno;

	if (!is_alarm(r))
		return;
	if (LOG_WARN <= log_level)
		log_stacks(r);
	give_files(r, given);
	errno = saved;
}

static void say_ras(const struct ras_answer *a, enum log_level level)
{
	char text[160];
	struct out o;

	out_begin(&o, text, sizeof(text));
	if (a->dead)
		out_format(&o, "takes %u process%s of the job for dead", a->dead, a->dead == 1 ? "" : "es");
	if (a->silent)
		out_format(&o, "%s %u process%s", a->dead ? ", and has no answer from" : "has no answer from",
				   a->silent, a->silent == 1 ? "" : "es");
	if (o.used)
		log_at(level, "nccl: NCCL's RAS service %s", text);
}

void report_ras(const struct report *r, struct report_given *given)
{
	int saved = errno;

	say_ras(r->ras, is_alarm(r) ? LOG_WARN : LOG_INFO);
	if (is_alarm(r))
		give_files(r, given);
	errno = saved;
}
