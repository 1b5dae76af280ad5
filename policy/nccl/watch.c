/*
 * watch.c - see watch.h: when it looks, and how closely.
 *
 * Counters first. Where an operation has been open for longer than a poll, what was called is compared; where it has
 * been for seconds, the processes that the others wait for are looked at.
 */
#define _GNU_SOURCE
#include "watch.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "act.h"
#include "flight.h"
#include "guard.h"
#include "log.h"
#include "sampler.h"
#include "stacks.h"
#include "thread.h"
#include "watch_tell.h"
#include "world.h"

#define S 1000000000ull
#define MS 1000000ull

#define GAP (5 * S)         /* a look that comes so late: this process was stopped, or the machine was */
#define LOOKS_CLOSE (2 * S) /* each poll, that long after somebody died, and when something has got stuck; */
#define LOOKS_APART S       /* then at that distance */
#define SUSPECT (2 * S)     /* who keeps others waiting for so long is measured, each so often */
#define FIND_CLOSE \
	(10 * S) /* other ranks' files are looked for at each poll that long after a communicator is made, */
#define FIND_APART (10 * S) /* and then at that distance, while some are missing */
/* What has been called is compared so often, though nothing is stuck: some mistakes only give wrong data. */
#define COMPARES S
#define FINDINGS 16
#define THREADS 8 /* of a process that are expected to go on */

static _Atomic bool started, ended;
static bool acting;
static uint64_t user_timeout;

struct watch {
	struct world *world;
	struct flight_page *page;
	struct watch_tell tell;
	struct judge_limits limits;
	uint64_t last, found, looked, died, measured, ticked, compared;
	uint64_t asked_python;
	bool lacking; /* ranks of a communicator that was just made */
	bool comparing;
	uint64_t unlike; /* when calls were found that are not alike, and have not been told; 0: none */
	uint64_t calls;  /* when they were compared */
	struct judge_finding finding[FINDINGS];
};

static bool has_ended(void)
{
	return atomic_load_explicit(&ended, memory_order_relaxed);
}

/* ---- the others ---- */

static void find_others(struct watch *t, uint64_t now)
{
	struct world *w = t->world;
	bool apart = now - t->found >= FIND_APART;
	unsigned found = 0;

	t->comparing = now - t->compared >= COMPARES && w->files > 1 && world_calls(w) != t->calls;
	world_read(w, now, apart || t->lacking || t->comparing);
	if (apart)
		t->found = now;
	t->lacking = world_lacks(w, now > FIND_CLOSE ? now - FIND_CLOSE : 0);
	if (!t->lacking && !(apart && world_lacks(w, 0)))
		return;
	while (world_find(w, NULL, 0, !apart) > 0)
		found++;
	if (found)
		world_read(w, now, false);
}

/* Has one that there was ended? */
static void see_who_lives(struct watch *t, uint64_t now)
{
	for (unsigned i = 0; i < t->world->files; i++) {
		struct world_file *f = &t->world->file[i];
		if (f->joined && f->near && !f->memory && f->proc.life != LIFE_DEAD && !proc_lives(&f->proc, now))
			t->died = now;
	}
}

static void measure(struct watch *t, uint32_t process, uint64_t now)
{
	const struct judge_world *w = &t->world->judge;
	struct world_file *f = &t->world->file[t->world->file_of[process]];
	uint32_t thread[THREADS];
	unsigned n = 0;

	for (uint32_t i = 0; i < w->members && n < THREADS; i++) {
		const struct judge_member *m = &w->member[i];
		if (m->process == process && m->issued)
			thread[n++] = m->op[m->issued % FLIGHT_OPS].thread;
	}
	if (f->near)
		proc_measure(&f->proc, thread, n, now);
}

/* Whom others wait for, though nothing of the GPU or of a third one holds it up. Of the rest it is seen who is stopped:
 * the last thing that such a one recorded is no reason to believe that it waits. */
static void measure_suspects(struct watch *t, const struct judge_world *w, uint64_t now)
{
	struct judge_limits soon = t->limits;
	uint64_t seen = 0;
	unsigned n;

	soon.said = SUSPECT;
	n = judge_look_all(w, &soon, t->finding, FINDINGS);
	for (unsigned i = 0; i < n; i++) {
		int32_t who = t->finding[i].culprit;
		if (who < 0 || who >= JUDGE_PROCESSES || (seen >> who & 1) || t->finding[i].verdict == JUDGE_DEAD)
			continue;
		seen |= 1ull << who;
		measure(t, (uint32_t)who, now);
	}
	for (uint32_t i = 0; i < w->processes; i++) {
		struct world_file *f = &t->world->file[t->world->file_of[i]];
		if (!(seen >> i & 1) && f->near && !f->memory)
			proc_see(&f->proc, now);
	}
	t->measured = now;
}

/* ---- looking ---- */

static bool is_time_to_look(const struct watch *t, uint64_t now)
{
	return t->world->stuck_new >= t->looked || (t->died && now - t->died < LOOKS_CLOSE) ||
		   now - t->looked >= LOOKS_APART;
}

static void look(struct watch *t, uint64_t now)
{
	struct world *w = t->world;
	const struct judge_world *world;
	unsigned n;

	see_who_lives(t, now);
	if (!is_time_to_look(t, now))
		return;
	t->looked = now;
	world = world_look(w, now);
	if (now - w->stuck_old >= SUSPECT && now - t->measured >= SUSPECT) {
		measure_suspects(t, world, now);
		world = world_look(w, now);
	}
	n = judge_look_all(world, &t->limits, t->finding, FINDINGS);
	watch_tell(&t->tell, w, t->finding, n);
}

/* ---- comparing ---- */

/* Ranks that call unlike things need not hang. */
static void compare(struct watch *t, uint64_t now)
{
	struct world *w = t->world;
	unsigned n, mismatches = 0;

	if (t->comparing) {
		t->compared = now;
		t->calls = world_calls(w);
		if (world_unlike(w) && !t->unlike)
			t->unlike = now;
	}
	/* Where they hang, all see it, and one tells. */
	if (!t->unlike || now - t->unlike < COMPARES || w->stuck)
		return;
	t->unlike = 0;
	w->whole = true;
	n = judge_look_all(world_look(w, now), &t->limits, t->finding, FINDINGS);
	w->whole = false;
	for (unsigned i = 0; i < n; i++)
		if (t->finding[i].verdict == JUDGE_MISMATCH)
			t->finding[mismatches++] = t->finding[i];
	t->tell.alone = true;
	if (mismatches)
		watch_tell(&t->tell, w, t->finding, mismatches);
	t->tell.alone = false;
}

/* Does Python get on? Asked only when something does not. */
static void look_at_python(struct watch *t, uint64_t now)
{
	if (!t->page->python && now >= t->asked_python) {
		t->page->python = stacks_python();
		t->asked_python = now + 10 * S;
	}
	if (t->page->python && t->world->stuck && now - t->world->stuck_old >= SUSPECT &&
		now - t->ticked >= SUSPECT) {
		stacks_tick(&t->page->python_tick);
		t->ticked = now;
	}
}

static void resume(struct watch *t, uint64_t now)
{
	t->world->watched = now;
	for (unsigned i = 0; i < t->world->files; i++)
		proc_resume(&t->world->file[i].proc, now);
}

static void poll_once(struct watch *t)
{
	uint64_t now = watch_now();

	if (now - t->last >= GAP)
		resume(t, now);
	t->last = now;
	atomic_store_explicit(&t->page->heartbeat, now, memory_order_relaxed);
	sampler_tick();
	find_others(t, now);
	atomic_store_explicit(&t->page->stuck, t->world->stuck_own, memory_order_relaxed);
	look_at_python(t, now);
	watch_answer(&t->tell, t->world);
	if (t->world->stuck)
		look(t, now);
	else
		atomic_store_explicit(&t->page->verdict, JUDGE_NOTHING, memory_order_relaxed);
	compare(t, now);
	act_poll(now, t->world->stuck > 0);
	t->last = watch_now(); /* a report takes its time */
}

static void *watch(void *arg)
{
	static struct watch t;
	const struct timespec pause = {0, WATCH_POLL_MS * 1000000L};

	(void)arg;
	guard_enter(); /* never leaves: whatever this thread calls is ours */
	memset(&t, 0, sizeof(t));
	t.page = flight_page();
	t.world = t.page ? world_new(t.page) : NULL;
	if (!t.world) {
		log_once(LOG_INFO, "collectives are not watched: no memory");
		return NULL;
	}
	t.limits = judge_limits_default;
	t.limits.user = user_timeout;
	t.tell = (struct watch_tell){.page = t.page, .acts = acting, .timeout = user_timeout, .ended = has_ended};
	if (acting)
		act_start();
	while (!has_ended()) {
		poll_once(&t);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

void nccl_watch_start(bool acts, uint64_t timeout)
{
	if (atomic_exchange_explicit(&started, true, memory_order_relaxed))
		return;
	acting = acts;
	user_timeout = timeout;
	if (!thread_start("turbo-watch", watch, NULL))
		log_once(LOG_INFO, "collectives are not watched: no thread for it");
}

void nccl_watch_stop(void)
{
	atomic_store_explicit(&ended, true, memory_order_relaxed);
}

void nccl_watch_fork_child(void)
{
	atomic_store_explicit(&started, false, memory_order_relaxed);
	atomic_store_explicit(&ended, false, memory_order_relaxed);
}
