/* test_events.c - the queue of libturbo's own events: whole, in each thread's order, and what is lost is counted. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "events.h"

/* More than fit. */
#define MANY 40000u

static struct event batch[512];

/* An event whose every field follows from two numbers. */
static struct event numbered(uint32_t teller, uint64_t n)
{
	return (struct event){
		.start = n * 3 + teller,
		.duration = n ^ UINT64_C(0x5555555555),
		.value = n,
		.id = (uint32_t)(n % EVENT_COUNT),
		.thread = teller,
		.sequence = (uint32_t)n,
		.detail = (uint32_t)n * 7,
		.type = (uint16_t)(n * 11),
		.name = n % 2 ? "odd" : NULL,
		.failed = n % 3 == 0,
	};
}

static bool is_whole(const struct event *e)
{
	struct event want = numbered(e->thread, e->value);

	return e->start == want.start && e->duration == want.duration && e->id == want.id &&
		   e->sequence == want.sequence && e->detail == want.detail && e->type == want.type &&
		   e->failed == want.failed && (want.name ? e->name && strcmp(e->name, want.name) == 0 : !e->name);
}

static uint64_t drain_all(void)
{
	uint64_t n = 0, got;

	while ((got = events_drain(batch, sizeof(batch) / sizeof(batch[0]))) != 0)
		n += got;
	return n;
}

static int start(void **state)
{
	(void)state;
	return events_start() ? 0 : -1;
}

static int stop(void **state)
{
	(void)state;
	events_stop();
	drain_all();
	events_lost();
	return 0;
}

/* ---- one thread ---- */

static void test_nobody_records(void **state)
{
	(void)state;
	struct event e = numbered(1, 1);

	events_stop();
	assert_false(events_wanted());
	assert_int_equal(events_begin(), 0);
	events_end(EVENT_SYNC, 0, 1, false);
	events_tell(&e);
	assert_int_equal(drain_all(), 0);
	assert_int_equal(events_lost(), 0);
}

static void test_all_fields_arrive(void **state)
{
	(void)state;

	for (uint64_t n = 0; n < 100; n++) {
		struct event e = numbered(7, n);
		events_tell(&e);
	}
	assert_int_equal(events_drain(batch, 10), 10);
	assert_int_equal(events_drain(batch + 10, 512 - 10), 90);
	for (uint64_t n = 0; n < 100; n++) {
		assert_int_equal(batch[n].value, n);
		assert_true(is_whole(&batch[n]));
	}
	assert_int_equal(events_lost(), 0);
}

static void test_span(void **state)
{
	(void)state;
	const struct timespec nap = {0, 2000000};
	uint64_t since = events_begin();

	assert_true(since > UINT64_C(1600000000000000000));
	nanosleep(&nap, NULL);
	errno = 4711;
	events_end(EVENT_COPY_H2D, since, 4096, true);
	assert_int_equal(errno, 4711);
	assert_int_equal(events_drain(batch, 512), 1);
	assert_int_equal(batch[0].start, since);
	assert_in_range(batch[0].duration, 1900000, UINT64_C(60000000000));
	assert_int_equal(batch[0].value, 4096);
	assert_int_equal(batch[0].id, EVENT_COPY_H2D);
	assert_int_equal(batch[0].thread, syscall(SYS_gettid));
	assert_true(batch[0].failed);
	/* A clock that was set back gives no span of centuries. */
	events_end(EVENT_SYNC, since + UINT64_C(3600000000000), 0, false);
	assert_int_equal(events_drain(batch, 512), 1);
	assert_int_equal(batch[0].duration, 0);
}

static void test_full(void **state)
{
	(void)state;
	uint64_t got = 0, n;

	for (n = 0; n < MANY; n++) {
		struct event e = numbered(1, n);
		events_tell(&e);
	}
	/* The oldest stay, in order. */
	for (unsigned part; (part = events_drain(batch, 512)) != 0; got += part)
		for (unsigned i = 0; i < part; i++)
			assert_true(batch[i].value == got + i && is_whole(&batch[i]));
	assert_in_range(got, 1000, MANY - 1);
	assert_int_equal(events_lost(), MANY - got);
	assert_int_equal(events_lost(), 0);
	/* And there is room again. */
	struct event e = numbered(1, 5);
	events_tell(&e);
	assert_int_equal(drain_all(), 1);
}

static void test_start_forgets(void **state)
{
	(void)state;
	struct event e = numbered(1, 1);

	events_tell(&e);
	events_stop();
	assert_true(events_start());
	assert_int_equal(drain_all(), 0);
}

static void test_forked_child(void **state)
{
	(void)state;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct event e = numbered(1, 1);
		events_fork_child();
		events_tell(&e);
		_exit(events_wanted() || events_begin() != 0 || drain_all() != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(events_wanted());
}

/* ---- many threads ---- */

#define TELLERS 6
#define EACH 30000u

static _Atomic unsigned telling;

static void *tell(void *arg)
{
	uint32_t teller = (uint32_t)(uintptr_t)arg;

	for (uint64_t n = 0; n < EACH; n++) {
		struct event e = numbered(teller, n);
		events_tell(&e);
	}
	telling--;
	return NULL;
}

static void test_many_tellers(void **state)
{
	(void)state;
	pthread_t thread[TELLERS];
	uint64_t next[TELLERS] = {0}, got = 0;
	bool last = false;

	telling = TELLERS;
	for (uintptr_t i = 0; i < TELLERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, tell, (void *)i), 0);
	while (!last) {
		last = telling == 0;
		for (unsigned part; (part = events_drain(batch, 512)) != 0; got += part)
			for (unsigned i = 0; i < part; i++) {
				assert_true(is_whole(&batch[i]) && batch[i].thread < TELLERS);
				/* In order, so none twice. */
				assert_true(batch[i].value >= next[batch[i].thread]);
				next[batch[i].thread] = batch[i].value + 1;
			}
	}
	for (unsigned i = 0; i < TELLERS; i++)
		pthread_join(thread[i], NULL);
	assert_true(got > 0);
	assert_int_equal(got + events_lost(), TELLERS * EACH);
}

/* ---- signals ---- */

static volatile sig_atomic_t signals;

static void tell_in_handler(int sig)
{
	(void)sig;
	struct event e = numbered(2, (uint64_t)signals++);
	events_tell(&e);
}

static void every_100_us(void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler};
	const struct itimerval period = {{0, 100}, {0, 100}}, none = {{0, 0}, {0, 0}};

	if (!handler) {
		setitimer(ITIMER_REAL, &none, NULL);
		signal(SIGALRM, SIG_IGN); /* one that is still on its way would jump into a frame that is gone */
		return;
	}
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &period, NULL);
}

static void test_tellers_in_handlers(void **state)
{
	(void)state;
	uint64_t told = 0, got = 0;

	signals = 0;
	every_100_us(tell_in_handler);
	while (signals < 200) {
		struct event e = numbered(1, told++);
		events_tell(&e);
		unsigned n = told % 64 ? 0 : events_drain(batch, 512);
		for (unsigned i = 0; i < n; i++)
			assert_true(is_whole(&batch[i]));
		got += n;
	}
	every_100_us(NULL);
	got += drain_all();
	assert_int_equal(got + events_lost(), told + (uint64_t)signals);
}

static sigjmp_buf away;

static void leave(int sig)
{
	(void)sig;
	signals++;
	siglongjmp(away, 1);
}

/* Tells until a signal takes it away. */
static uint64_t tell_and_leave(void)
{
	static volatile uint64_t told; /* begun to be told */

	told = 0;
	signals = 0;
	if (sigsetjmp(away, 1) == 0) {
		every_100_us(leave);
		for (;;) {
			struct event e = numbered(1, told);
			told++;
			events_tell(&e);
		}
	}
	every_100_us(NULL);
	return told;
}

/* Whoever leaves in the middle of telling costs its own event, and holds the others up for a second. */
static void test_tellers_that_vanish(void **state)
{
	(void)state;
	const struct timespec second = {1, 50000000};
	uint64_t told, got;
	int tries = 0;

	do {
		struct event e = numbered(2, 1);
		assert_true(tries++ < 5000);
		told = tell_and_leave();
		got = drain_all() + events_lost();
		events_tell(&e);
		assert_true(got == told || got == told - 1);
	} while (events_drain(batch, 512) != 0); /* it left outside, or before it had a place */
	assert_int_equal(events_lost(), 0);
	/* The second counts from the drain that first sees the place empty, which may come late. */
	unsigned n = 0;
	for (int i = 0; i < 4 && !n; i++) {
		nanosleep(&second, NULL);
		n = events_drain(batch, 512);
	}
	assert_int_equal(n, 1);
	assert_true(batch[0].thread == 2 && is_whole(&batch[0]));
	assert_int_equal(got + events_lost(), told);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nobody_records, start, stop),
		cmocka_unit_test_setup_teardown(test_all_fields_arrive, start, stop),
		cmocka_unit_test_setup_teardown(test_span, start, stop),
		cmocka_unit_test_setup_teardown(test_full, start, stop),
		cmocka_unit_test_setup_teardown(test_start_forgets, start, stop),
		cmocka_unit_test_setup_teardown(test_forked_child, start, stop),
		cmocka_unit_test_setup_teardown(test_many_tellers, start, stop),
		cmocka_unit_test_setup_teardown(test_tellers_in_handlers, start, stop),
		cmocka_unit_test_setup_teardown(test_tellers_that_vanish, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
