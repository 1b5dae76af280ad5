/* request.c - see request.h. */
#include "request.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture.h"
#include "detach.h"
#include "proc_stat.h"
#include "recording.h"
#include "session.h"
#include "stats.h"
#include "times.h"

#define HOUR_MS 3600000u
#define DETACH_WAIT_NS 1000000000ull
#define CAPTURE_WAIT_NS 5000000000ull

static struct {
	uint32_t seen;    /* number of the last request that was looked at */
	uint32_t running; /* of the one whose recording runs, 0: none */
	uint64_t owner;   /* who asked for it */
	uint64_t until;   /* CLOCK_MONOTONIC */
	uint32_t word;    /* of header.request when it was looked at last */
	uint32_t ending;  /* of the one that has ended but for CUPTI's leaving */
	uint64_t ended;   /* CLOCK_MONOTONIC */
	uint64_t waits;   /* CLOCK_MONOTONIC: since then a capture holds the request up; 0: none does */
} request;

static struct stats_record *page(void)
{
	return &stats_area.header.record;
}

static uint32_t load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static uint64_t load_owner(void)
{
	return __atomic_load_n(&page()->owner, __ATOMIC_ACQUIRE);
}

bool request_listen(void)
{
	static const char none[sizeof(stats_area.header.magic)];
	if (memcmp(stats_area.header.magic, none, sizeof(none)) == 0)
		return false;
	request.seen = load(&page()->asked);
	__atomic_store_n(&page()->ready, 1, __ATOMIC_RELEASE);
	return true;
}

/* Not FUTEX_PRIVATE: the page is shared with the one that asks. */
void request_sleep(int ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
	if (syscall(SYS_futex, &stats_area.header.request, FUTEX_WAIT, request.word, ms < 0 ? NULL : &t, NULL,
				0) == -1 &&
		errno != EAGAIN && errno != ETIMEDOUT && errno != EINTR) {
		t = (struct timespec){0, SESSION_TICK_MS * 1000000L}; /* no futexes here: look now and then */
		nanosleep(&t, NULL);
	}
	request.word = load(&stats_area.header.request);
}

void request_wake(void)
{
	__atomic_fetch_add(&stats_area.header.request, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &stats_area.header.request, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- answers ---- */

static void answer(uint32_t number, enum stats_record_answer what, const char *text)
{
	snprintf(page()->text, sizeof(page()->text), "%s", text);
	page()->answer = what;
	__atomic_store_n(&page()->answered, number, __ATOMIC_RELEASE);
}

static void tell_end(uint32_t number, const char *text)
{
	snprintf(page()->end_text, sizeof(page()->end_text), "%s", text);
	__atomic_store_n(&page()->ended, number, __ATOMIC_RELEASE);
}

/* ---- what is asked ---- */

/* Who asked was killed, or does not wait for this any more (stats_page.h). */
static bool nobodys(uint64_t owner)
{
	enum proc_life life = proc_life(STATS_RECORD_OWNER_PID(owner), STATS_RECORD_OWNER_TICKS(owner));
	return owner != load_owner() || life == PROC_ENDED || life == PROC_OTHER;
}

static void stop(void)
{
	session_stop(false);
	request.ending = request.running;
	request.running = 0;
	request.ended = times_steady();
}

static void start(uint32_t number)
{
	uint64_t owner = load_owner();
	char dir[sizeof(page()->dir)], why[1024];
	uint32_t mode = load(&page()->mode), ms = load(&page()->ms);
	memcpy(dir, page()->dir, sizeof(dir));
	dir[sizeof(dir) - 1] = '\0';
	if (request.running)
		stop(); /* its owner has left */
	if (nobodys(owner)) {
		answer(number, STATS_RECORD_REFUSED, "who asked is gone");
	} else if (mode != TIMELINE_MODE_KERNEL && mode != TIMELINE_MODE_LAUNCH) {
		answer(number, STATS_RECORD_REFUSED, "it does not know this mode; use the `turbo` of its version");
	} else if (capture_live()) {
		answer(number, STATS_RECORD_REFUSED, "a stream capture is going on in it");
	} else if (session_on()) {
		snprintf(why, sizeof(why), "it is recording already, into %.900s", recording_path());
		answer(number, STATS_RECORD_REFUSED, why);
	} else if (!session_start((enum timeline_mode)mode, true, dir, why, sizeof(why))) {
		answer(number, STATS_RECORD_REFUSED, why);
	} else {
		request.running = number;
		request.owner = owner;
		request.ending = 0;
		request.until = times_steady() + (uint64_t)(ms && ms <= HOUR_MS * 24 ? ms : HOUR_MS) * 1000000;
		answer(number, STATS_RECORD_STARTED, recording_path());
	}
}

/* CUPTI leaves at the program's next driver call, which may be long in coming: who asked waits a little for it. */
static void finish(void)
{
	enum detach d = detach_state();
	if (d == DETACH_ARMED && times_steady() - request.ended < DETACH_WAIT_NS)
		return;
	char why[128], text[sizeof(page()->end_text)] = "";
	if (recording_trouble(why, sizeof(why)))
		snprintf(text, sizeof(text), "the recording has ended before its time: %s", why);
	else if (d == DETACH_KEPT)
		snprintf(text, sizeof(text), "CUPTI stays in the process and makes each launch about 1 us slower");
	tell_end(request.ending, text);
	request.ending = 0;
}

bool request_pending(void)
{
	/* The recording may have ended by itself. */
	return request.ending || (request.running && !session_on()) || request.seen != load(&page()->asked);
}

/* CUPTI's coming would break a capture of the program's; they are short. */
static bool must_wait(void)
{
	uint64_t now = times_steady();
	if (!capture_live()) {
		request.waits = 0;
		return false;
	}
	if (!request.waits)
		request.waits = now;
	return now - request.waits < CAPTURE_WAIT_NS;
}

void request_poll(void)
{
	uint32_t asked = load(&page()->asked);
	if (asked != request.seen && !must_wait()) {
		request.seen = asked;
		if (load(&page()->command) == STATS_RECORD_START)
			start(asked);
		else if (request.running)
			stop();
	}
	if (request.running && (times_steady() >= request.until || !session_on() || nobodys(request.owner)))
		stop();
	if (request.ending)
		finish();
}
