/*
 * timeline.c - the recorder's life: the policy, and the helper thread.
 *
 * TURBO_TIMELINE begins a recording when cuInit has succeeded, on that thread, so that the first launch is in it. All
 * that follows is the helper's: nothing is measured, fetched or written on a thread of the program's but for what CUPTI
 * itself does there, and for stepping aside when another client calls (client.h).
 */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <stdio.h>
#include <unistd.h>

#include <cuda.h>

#include "client.h"
#include "debugger.h"
#include "detach.h"
#include "events.h"
#include "guard.h"
#include "log.h"
#include "options.h"
#include "real.h"
#include "request.h"
#include "recording.h"
#include "session.h"
#include "stats.h"
#include "thread.h"
#include "times.h"
#include "../policy/policy.h"

/* The exit waits so long for CUPTI to give back what it has; a device that hangs must not keep the process. */
#define EXIT_NS 2000000000ull

static _Atomic uint32_t leaving; /* the process exits */
static _Atomic uint32_t gone;    /* futex word: 1 once the helper has ended the recording for it */
static _Atomic int helper;       /* 0: there is none, 1: it runs */

/* ---- the process exits ---- */

static void end_session(void)
{
	uint64_t since = times_steady(), waited;
	request_wake();
	while (!atomic_load(&gone) && (waited = times_steady() - since) < EXIT_NS) {
		struct timespec t = {0, (long)(EXIT_NS - waited) % 1000000000L};
		syscall(SYS_futex, &gone, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
	}
	if (!atomic_load(&gone)) {
		log_warn("timeline: CUPTI does not give back what it has; the last second is lost");
		client_dead();
		recording_close();
	}
}

/* Before the driver's and CUPTI's own handlers, which were registered before this one: they are run backwards. */
static void at_exit(void)
{
	if (!atomic_load(&helper))
		return;
	guard_enter();
	detach_cancel(); /* the driver's own end is no place for it */
	if (session_on() && !atomic_exchange(&leaving, 1))
		end_session();
	guard_leave();
}

/* Once CUPTI is there, whose handlers are older then. */
static void exit_handler(void)
{
	static bool registered; /* cuda_ready's thread, then the helper's */
	if (!registered)
		registered = atexit(at_exit) == 0;
}

/* ---- the helper ---- */

/* What CUPTI does in this thread must not break captures of others. */
static void relax_capture(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	if (REAL_HAS(cuThreadExchangeStreamCaptureMode))
		REAL(cuThreadExchangeStreamCaptureMode)(&mode);
}

static void *helper_main(void *arg)
{
	bool listens;
	(void)arg;
	guard_enter(); /* never leaves: whatever this thread calls is ours */
	relax_capture();
	listens = request_listen();
	if (!listens && !session_on())
		return NULL; /* nobody can ask */
	for (;;) {
		request_sleep(session_on() || (listens && request_pending()) ? SESSION_TICK_MS : -1);
		if (atomic_load(&leaving))
			break;
		if (listens)
			request_poll();
		if (!session_on())
			continue;
		exit_handler();
		session_tick();
	}
	session_stop(true);
	atomic_store(&gone, 1);
	syscall(SYS_futex, &gone, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	return NULL;
}

static bool helper_start(void)
{
	if (!thread_start("turbo-timeline", helper_main, NULL))
		return false;
	atomic_store(&helper, 1);
	return true;
}

/* ---- the policy ---- */

/* Tools that bring a CUPTI client of their own, or with which CUPTI does not work. */
static const char *in_the_way(void)
{
	static const struct {
		const char *name, *found;
	} set[] = {
		{"CUDA_INJECTION64_PATH", "CUDA_INJECTION64_PATH is set: another tool watches this process"},
		{"NVTX_INJECTION64_PATH", "NVTX_INJECTION64_PATH is set: another tool watches this process"},
	};
	for (unsigned i = 0; i < sizeof(set) / sizeof(set[0]); i++) {
		const char *value = getenv(set[i].name);
		if (value && *value)
			return set[i].found;
	}
	return debugger_attached();
}

static void cuda_ready(void)
{
	enum timeline_mode mode = (enum timeline_mode)option_get(OPT_TIMELINE);
	const char *obstacle = in_the_way();
	char why[1024];
	if (obstacle) {
		if (mode != TIMELINE_MODE_OFF)
			log_warn("timeline: nothing is recorded: %s", obstacle);
		return;
	}
	recording_read_environment();
	if (mode != TIMELINE_MODE_OFF &&
		!session_start(mode, false, option_text(OPT_TIMELINE_DIR), why, sizeof(why)))
		log_warn("timeline: nothing is recorded: %s", why);
	if (session_on())
		exit_handler();
	if (!helper_start() && session_on()) {
		log_warn("timeline: nothing is recorded: no thread for it");
		session_stop(true);
	}
}

static int summary(char *buf, int size)
{
	uint64_t sessions = stats_get(STATS_TIMELINE_SESSIONS);
	if (!sessions)
		return 0;
	return snprintf(buf, (size_t)size, "recorded into %s", recording_path());
}

/* The calls of CUPTI that the parent's thread was in the middle of do not end here. */
static void fork_child(void)
{
	client_dead();
	detach_fork_child();
	events_fork_child();
	recording_fork_child();
	session_fork_child();
	atomic_store(&helper, 0);
}

const struct policy timeline_policy = {
	.name = "timeline",
	.cuda_ready = cuda_ready,
	.quiet = client_quiet,
	.fork_child = fork_child,
	.summary = summary,
};
