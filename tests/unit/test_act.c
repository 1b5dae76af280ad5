/* test_act.c - a verdict reaches the program, and ends it when it does not heed it; with functions of NCCL that hang. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "hooks.h"
#include "policy/nccl/act.h"
#include "policy/nccl/comms.h"

#define S 1000000000ull
#define PLACES 4

/* ---- in place of the flight record, and of NCCL ---- */

static struct flight_page *page;
static void *handle[PLACES];
static char copy_a, copy_b; /* code of two programs with a copy of NCCL each */
static _Atomic int groups, ends, aborts, in_group;
static _Atomic uintptr_t aborted[PLACES];
static _Atomic bool hang;

struct flight_page *flight_page(void)
{
	return page;
}

struct flight_comm *flight_comm_of(const void *h)
{
	for (unsigned i = 0; h && i < PLACES; i++)
		if (handle[i] == h)
			return comms_at(page, i);
	return NULL;
}

void *flight_comm_handle(const struct flight_comm *comm, const void **caller)
{
	unsigned i = (unsigned)(comm - comms_at(page, 0));

	*caller = i == 3 ? &copy_b : &copy_a;
	return handle[i];
}

static int group_start(void)
{
	groups++;
	in_group = 1;
	return 0;
}

static int other_start(void)
{
	groups++;
	in_group = 2;
	return 0;
}

static int group_end(void)
{
	ends++;
	in_group = 0;
	return 0;
}

static int comm_abort(void *comm)
{
	aborted[aborts++] = (uintptr_t)comm;
	while (hang)
		pause();
	return 0;
}

void *real_resolve_lazy(enum hook_id id, const void *caller)
{
	switch (id) {
	case HOOK_ncclGroupStart: return caller == &copy_b ? (void *)other_start : (void *)group_start;
	case HOOK_ncclGroupEnd: return (void *)group_end;
	case HOOK_ncclCommAbort: return (void *)comm_abort;
	default: abort();
	}
}

/* ---- */

static void make(unsigned i, uintptr_t h)
{
	struct flight_comm *comm = comms_at(page, i);

	handle[i] = (void *)h;
	comm->life++;
	comm->state = FLIGHT_LIVE;
}

/* The program ends one: as hook bodies do. */
static bool end_of_program(unsigned i)
{
	void *h = handle[i];

	comms_at(page, i)->state = FLIGHT_ABORTED;
	handle[i] = NULL;
	return act_tombstone(h);
}

static void wait_for(_Atomic int *n, int least)
{
	const struct timespec ms = {0, 1000000};

	for (int i = 0; *n < least && i < 2000; i++)
		nanosleep(&ms, NULL);
	if (*n < least)
		_exit(99);
}

static void fresh(void)
{
	page = aligned_alloc(64, COMMS_BYTES);
	memset(page, 0, COMMS_BYTES);
	page->comm_off = COMMS_OFF;
	page->comm_bytes = sizeof(struct flight_comm);
	page->comm_high = PLACES;
	page->nccl = 22809;
	for (unsigned i = 0; i < PLACES; i++)
		make(i, 0x1000 * (i + 1));
	act_start();
}

#define MUST(x)                                                     \
	do {                                                            \
		if (!(x)) {                                                 \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
			_exit(98);                                              \
		}                                                           \
	} while (0)

static void *h(uintptr_t i)
{
	return (void *)(0x1000 * i);
}

/* Nothing stands: nothing is answered. */
static int nothing(void)
{
	MUST(act_async_error(h(1)) == 0);
	MUST(act_last_error(NULL) == NULL);
	MUST(!act_tombstone(h(1)));
	act_poll(1000 * S, true);
	return 0;
}

static int told(void)
{
	act_verdict(comms_at(page, 1), "nccl: dead: rank 1");
	MUST(act_async_error(h(2)) == 6);
	MUST(act_async_error(h(1)) == 0);
	MUST(strcmp(act_last_error(h(2)), "nccl: dead: rank 1") == 0);
	MUST(strcmp(act_last_error(NULL), "nccl: dead: rank 1") == 0);
	MUST(act_last_error(h(1)) == NULL);
	MUST(!act_tombstone(h(2)));
	act_verdict(comms_at(page, 1), "again");
	MUST(strcmp(act_last_error(h(2)), "nccl: dead: rank 1") == 0);
	/* The program aborts it itself, and gets another one at the same address. */
	MUST(!end_of_program(1));
	MUST(act_async_error(h(2)) == 0);
	make(1, 0x2000);
	MUST(act_async_error(h(2)) == 0);
	act_poll(S, true);
	act_poll(1000 * S, true);
	MUST(aborts == 0);
	return 0;
}

/* Not told to act: report only. */
static int not_started(void)
{
	act_fork_child();
	act_verdict(comms_at(page, 1), "x");
	MUST(act_async_error(h(2)) == 0);
	return 0;
}

/* It went on after all. */
static int withdrawn(void)
{
	act_verdict(comms_at(page, 1), "x");
	act_poll(S, true);
	act_poll((ACT_GRACE_S + 2) * S, false);
	MUST(act_async_error(h(2)) == 0);
	MUST(aborts == 0);
	act_verdict(comms_at(page, 1), "y");
	MUST(act_async_error(h(2)) == 6);
	MUST(strcmp(act_last_error(h(2)), "y") == 0 && strcmp(act_last_error(NULL), "y") == 0);
	/* However often. */
	for (uint64_t i = 1; i < 3 * FLIGHT_COMMS; i++) {
		char line[16];
		snprintf(line, sizeof(line), "%d", (int)i);
		act_poll(1000 * i * S, true);
		act_poll((1000 * i + ACT_GRACE_S + 2) * S, false);
		MUST(act_async_error(h(2)) == 0);
		act_verdict(comms_at(page, 1), line);
		MUST(act_async_error(h(2)) == 6 && act_last_error(h(2)));
	}
	return 0;
}

/* After the grace, not before, all are aborted, those of each copy of NCCL in one group; the program sees it. */
static int aborts_all(void)
{
	act_verdict(comms_at(page, 1), "x");
	comms_at(page, 2)->state = FLIGHT_ENDING; /* the program is at it */
	act_poll(S, true);
	act_poll(ACT_GRACE_S * S, true);
	MUST(groups == 0);
	act_poll((ACT_GRACE_S + 1) * S, true);
	wait_for(&ends, 2);
	MUST(groups == 2 && aborts == 3);
	for (int i = 0; i < 3; i++)
		MUST(aborted[i] != 0x3000);
	MUST(act_async_error(h(1)) == 6 && act_async_error(h(2)) == 6 && act_async_error(h(4)) == 6);
	MUST(act_async_error(h(3)) == 0);
	MUST(strcmp(act_last_error(h(2)), "x") == 0);
	MUST(end_of_program(0));
	MUST(end_of_program(1));
	MUST(act_async_error(h(1)) == 6);
	MUST(!end_of_program(2));
	/* It reacts, so it may go on to its end. */
	act_poll((ACT_GRACE_S + 2) * S, false);
	act_poll((ACT_GRACE_S + 100) * S, false);
	/* A new communicator at an old address is none of them. */
	make(0, 0x1000);
	MUST(act_async_error(h(1)) == 0);
	MUST(!act_tombstone(h(1)));
	return 0;
}

/* An NCCL that knows no abort in groups. */
static int aborts_alone(void)
{
	page->nccl = 22105;
	hang = true;
	act_verdict(comms_at(page, 1), "x");
	act_poll(S, true);
	act_poll((ACT_GRACE_S + 1) * S, true);
	wait_for(&aborts, 4);
	MUST(groups == 0);
	return 0;
}

/* The abort hangs, or the program does not heed it: SIGABRT. */
static int abort_hangs(void)
{
	hang = true;
	act_verdict(comms_at(page, 1), "x");
	act_poll(S, true);
	act_poll((ACT_GRACE_S + 1) * S, true);
	wait_for(&aborts, 1);
	act_poll((ACT_GRACE_S + ACT_ABORT_S) * S, true);
	act_poll((ACT_GRACE_S + 1 + ACT_ABORT_S) * S, true);
	pause();
	return 0;
}

static int not_heeded(void)
{
	act_verdict(comms_at(page, 1), "x");
	act_poll(S, true);
	act_poll((ACT_GRACE_S + 1) * S, true);
	wait_for(&aborts, 4);
	act_poll((ACT_GRACE_S + 1 + ACT_ABORT_S) * S, false);
	pause();
	return 0;
}

/* SIGABRT is ignored. */
static int nor_the_signal(void)
{
	signal(SIGABRT, SIG_IGN);
	hang = true;
	act_verdict(comms_at(page, 1), "x");
	act_poll(S, true);
	act_poll((ACT_GRACE_S + 1) * S, true);
	act_poll((ACT_GRACE_S + 1 + ACT_ABORT_S) * S, true);
	act_poll((ACT_GRACE_S + 1 + ACT_ABORT_S + 60) * S, true);
	pause();
	return 0;
}

static int status_of(int (*run)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		fresh();
		alarm(10);
		_exit(run());
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void test_act(void **state)
{
	static const struct {
		const char *what;
		int (*run)(void);
		int signal;
	} rows[] = {
		{"nothing", nothing, 0},
		{"told", told, 0},
		{"not started", not_started, 0},
		{"withdrawn", withdrawn, 0},
		{"aborts all", aborts_all, 0},
		{"aborts alone", aborts_alone, 0},
		{"abort hangs", abort_hangs, SIGABRT},
		{"not heeded", not_heeded, SIGABRT},
		{"nor the signal", nor_the_signal, SIGKILL},
	};
	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int status = status_of(rows[i].run);
		if (rows[i].signal ? !WIFSIGNALED(status) || WTERMSIG(status) != rows[i].signal : status != 0)
			fail_msg("%s: status %#x", rows[i].what, status);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_act)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
