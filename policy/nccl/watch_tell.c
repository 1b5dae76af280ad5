/* watch_tell.c - see watch_tell.h. */
#include "watch_tell.h"

#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "act.h"
#include "comms.h"
#include "report.h"
#include "stacks.h"

#define S 1000000000ull
#define MS 1000000ull

#define FRESH (2 * S)       /* a heartbeat of a watch that goes on */
#define PATIENCE (5 * S)    /* with one that is to speak; then another one does */
#define STACKS_MS 1500      /* for one process's own stacks */
#define STACKS_WAIT (3 * S) /* for all */
#define THREADS 16
#define SAID 64

/* What was said; of others' words only what would be said again. */
struct said {
	enum judge_verdict verdict;
	uint64_t key[2];
	uint32_t sequence, culprit; /* pid, 0: nobody */
	uint64_t at;                /* when; 0: not yet, and */
	uint64_t found;             /* found when */
};
static struct said said[SAID];
static unsigned said_next;

uint64_t watch_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * S + (uint64_t)t.tv_nsec;
}

static uint64_t real_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * S + (uint64_t)t.tv_nsec;
}

/* ---- own stacks ---- */

/* What it reads may change meanwhile: a thread more or less. */
__attribute__((no_sanitize("thread"))) static unsigned busy_threads(struct flight_page *page,
																	uint32_t *thread)
{
	unsigned n = 0;

	for (unsigned i = 0; i < page->comm_high && i < FLIGHT_COMMS && n < THREADS; i++) {
		const struct flight_comm *comm = comms_at(page, i);
		uint64_t issued = comm->issued;
		if (issued > comm->done)
			thread[n++] = comm->op[issued % FLIGHT_OPS].thread;
	}
	for (unsigned i = 0; i < FLIGHT_WAITS && n < THREADS; i++)
		if (page->wait[i].kind != FLIGHT_WAIT_NONE && page->wait[i].thread)
			thread[n++] = page->wait[i].thread;
	for (unsigned i = 1; i < n; i++)
		for (unsigned k = 0; k < i; k++)
			if (thread[i] == thread[k]) {
				thread[i--] = thread[--n];
				break;
			}
	return n;
}

static void dump_own(struct flight_page *page, uint64_t asked_by)
{
	static char text[sizeof(page->dump.text)];
	struct flight_dump *dump = &page->dump;
	uint32_t thread[THREADS];
	unsigned n = busy_threads(page, thread);
	unsigned bytes = stacks_dump(text, sizeof(text), thread, n, STACKS_MS);

	atomic_fetch_add_explicit(&dump->version, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release); /* odd before any of it changes */
	memcpy(dump->text, text, sizeof(text));
	dump->bytes = bytes < sizeof(text) ? bytes : (unsigned)sizeof(text);
	dump->asked_by = asked_by;
	dump->made = watch_now();
	atomic_fetch_add_explicit(&dump->version, 1, memory_order_release);
}

void watch_answer(const struct watch_tell *t, struct world *w)
{
	uint64_t asked_by = 0;

	for (unsigned i = 0; i < w->files; i++) {
		struct world_file *f = &w->file[i];
		if (f->memory || !f->joined || f->asks == w->page[i].asks)
			continue;
		f->asks = w->page[i].asks;
		asked_by = (uint64_t)(uint32_t)f->pid << 32 | f->asks;
	}
	if (asked_by)
		dump_own(t->page, asked_by);
}

/* ---- others' ---- */

static bool answers(const struct judge_process *p, uint64_t asked)
{
	return p->life == LIFE_DEAD || p->life == LIFE_STOPPED || p->page->dump.made >= asked ||
		   p->page->heartbeat + FRESH < asked;
}

static void gather_stacks(const struct watch_tell *t, struct world *w, uint64_t asked)
{
	const struct timespec pause = {0, 100 * MS};

	atomic_fetch_add_explicit(&t->page->asks, 1, memory_order_relaxed);
	dump_own(t->page, (uint64_t)(uint32_t)getpid() << 32 | t->page->asks);
	while (!t->ended() && watch_now() < asked + STACKS_WAIT) {
		bool all = true;
		atomic_store_explicit(&t->page->heartbeat, watch_now(), memory_order_relaxed);
		world_texts(w);
		for (uint32_t i = 0; i < w->judge.processes; i++)
			all = all && answers(&w->process[i], asked);
		if (all)
			return;
		nanosleep(&pause, NULL);
	}
}

/* ---- other machines ---- */

static bool goes_on(void *arg)
{
	const struct watch_tell *t = arg;

	atomic_store_explicit(&t->page->heartbeat, watch_now(), memory_order_relaxed);
	return !t->ended();
}

/* After all else is said: it may take its time, or never answer. */
static void ask_ras(const struct watch_tell *t, struct report *r, struct report_given *given)
{
	static struct ras_answer answer;
	struct watch_tell asker = *t;

	if (!ras_wanted(t->page->nccl, r->finding->missing) || t->ended())
		return;
	ras_ask(&answer, RAS_MS, goes_on, &asker);
	r->ras = &answer;
	report_ras(r, given);
}

/* ---- who speaks ---- */

static bool before(const struct judge_process *a, const struct judge_process *b)
{
	return a->page->rank != b->page->rank ? (uint32_t)a->page->rank < (uint32_t)b->page->rank
										  : a->pid < b->pid;
}

static bool can_speak(const struct world *w, uint32_t process)
{
	const struct judge_process *p = &w->process[process];
	bool own = w->file[w->file_of[process]].memory != NULL;

	return p->life != LIFE_DEAD && p->life != LIFE_STOPPED &&
		   (own || (p->page->heartbeat + PATIENCE >= w->judge.now && !p->page->leaving));
}

/* The live one of the lowest rank, or of the lowest number where ranks are not told. */
static const struct judge_process *speaker(const struct world *w)
{
	const struct judge_process *best = NULL;

	for (uint32_t i = 0; i < w->judge.processes; i++)
		if (can_speak(w, i) && (!best || before(&w->process[i], best)))
			best = &w->process[i];
	return best;
}

/* Somebody who comes before this process has found it: if the first one does not speak, that one does. */
static bool another_speaks(const struct world *w, const struct judge_finding *f)
{
	const struct judge_process *own = NULL;

	for (uint32_t i = 0; i < w->judge.processes; i++)
		if (w->file[w->file_of[i]].memory)
			own = &w->process[i];
	for (uint32_t i = 0; i < w->judge.processes && own; i++) {
		const struct judge_process *p = &w->process[i];
		if (p != own && can_speak(w, i) && before(p, own) && p->page->verdict != JUDGE_NOTHING &&
			p->page->verdict <= f->verdict)
			return true;
	}
	return false;
}

static bool is_alarm(enum judge_verdict verdict)
{
	return verdict < JUDGE_HELD;
}

static struct said *entry_of(const struct world *w, const struct judge_finding *f)
{
	uint32_t culprit = f->culprit >= 0 ? w->process[f->culprit].pid : 0;
	struct said *s;

	for (unsigned i = 0; i < SAID; i++) {
		s = &said[i];
		if (s->verdict == f->verdict && s->key[0] == f->key[0] && s->key[1] == f->key[1] &&
			s->sequence == f->sequence && s->culprit == culprit)
			return s;
	}
	s = &said[said_next++ % SAID];
	*s = (struct said){f->verdict, {f->key[0], f->key[1]}, f->sequence, culprit, 0, w->judge.now};
	return s;
}

/* While what an alarm was about goes on, only a worse one is news: the rest are its consequences. */
static bool is_consequence(const struct world *w, const struct judge_finding *f)
{
	for (unsigned i = 0; i < SAID; i++)
		if (said[i].at && is_alarm(said[i].verdict) && said[i].verdict <= f->verdict &&
			said[i].at >= w->stuck_old)
			return true;
	return false;
}

/* ---- acting ---- */

static void act_on_comm(const struct watch_tell *t, const uint64_t key[2], enum judge_verdict verdict,
						const char *line)
{
	for (unsigned i = 0; i < t->page->comm_high && i < FLIGHT_COMMS; i++) {
		struct flight_comm *comm = comms_at(t->page, i);
		if (atomic_load(&comm->state) != FLIGHT_LIVE || comm->key[0] != key[0] || comm->key[1] != key[1])
			continue;
		atomic_store_explicit(&comm->verdict, verdict, memory_order_relaxed);
		act_verdict(comm, line);
	}
}

static void act(const struct watch_tell *t, const struct world *w, const struct judge_finding *f,
				const struct report *r)
{
	char line[REPORT_LINE];

	if (!t->acts || !judge_acts(f->verdict))
		return;
	report_line(r, line);
	act_on_comm(t, f->key, f->verdict, line);
	for (uint32_t i = 0; f->verdict == JUDGE_CYCLE && i < f->chained; i++)
		if (f->chain[i] < w->judge.members)
			act_on_comm(t, w->member[f->chain[i]].key, f->verdict, line);
}

/* ---- all of it ---- */

static void tell(const struct watch_tell *t, struct world *w, const struct judge_finding *f)
{
	static struct report_given given;
	const struct judge_process *who = speaker(w);
	struct said *s = entry_of(w, f);
	bool own = t->alone || (who && w->file[w->file_of[who - w->process]].memory);
	struct report r = {
		.world = &w->judge,
		.finding = f,
		.real = real_now(),
		.timeout = t->timeout,
		.acts = t->acts,
	};

	if (s->at || is_consequence(w, f)) {
		act(t, w, f, &r);
		return;
	}
	/* The speaker has found it, too, or will soon. */
	if (!own && (!is_alarm(f->verdict) || s->found + PATIENCE > w->judge.now)) {
		if (who && who->page->verdict != JUDGE_NOTHING && who->page->verdict <= f->verdict)
			s->at = w->judge.now;
		act(t, w, f, &r);
		return;
	}
	s->at = w->judge.now;
	if (!own && another_speaks(w, f)) {
		act(t, w, f, &r);
		return;
	}
	world_texts(w);
	memset(&given, 0, sizeof(given));
	report_begin(&r, &given);
	act(t, w, f, &r);
	if (is_alarm(f->verdict)) {
		r.asked = watch_now();
		gather_stacks(t, w, r.asked);
		report_end(&r, &given);
	}
	ask_ras(t, &r, &given);
}

void watch_tell(const struct watch_tell *t, struct world *w, const struct judge_finding *found,
				unsigned count)
{
	atomic_store_explicit(&t->page->verdict, count ? found[0].verdict : JUDGE_NOTHING, memory_order_relaxed);
	for (unsigned i = 0; i < count && !t->ended(); i++)
		tell(t, w, &found[i]);
}
