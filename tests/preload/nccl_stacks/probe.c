/*
 * probe.c - libturbo's stacks for a real interpreter: a shared object that it loads by ctypes, which releases the GIL
 * around each call as PyTorch does.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "policy/nccl/python.h"
#include "policy/nccl/python_gil.h"
#include "policy/nccl/stacks.h"

#define EXPORT __attribute__((visibility("default")))

static struct flight_page *page;
static _Atomic uint64_t tick;

static void *watch(void *result)
{
	*(uint32_t *)result = stacks_python();
	return NULL;
}

/* As the watch does: on a thread of its own. */
EXPORT uint32_t probe_start(void)
{
	uint32_t version = 0;
	pthread_t thread;
	if (!page)
		page = calloc(1, sizeof(*page));
	if (pthread_create(&thread, NULL, watch, &version) == 0)
		pthread_join(thread, NULL);
	return version;
}

EXPORT int probe_readable(void)
{
	const struct python *p = python_get();
	return p && python_readable(p);
}

EXPORT uint32_t probe_site(void)
{
	return stacks_site(page, __builtin_return_address(0), __builtin_frame_address(0));
}

EXPORT const char *probe_text(uint32_t site)
{
	return site ? page->sites + site - 1 : "";
}

EXPORT unsigned probe_used(void)
{
	return page->site_bytes;
}

/* ns of a site that is known. */
EXPORT double probe_time(int n)
{
	struct timespec a, b;
	double best = 1e9;
	probe_site();
	for (int turn = 0; turn < 50; turn++) {
		clock_gettime(CLOCK_MONOTONIC, &a);
		for (int i = 0; i < n; i++)
			stacks_site(page, probe_time, &page);
		clock_gettime(CLOCK_MONOTONIC, &b);
		double ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / n;
		best = ns < best ? ns : best;
	}
	return best;
}

static struct {
	char *text;
	unsigned size, count, ms, bytes;
	const uint32_t *threads;
} dump;

static void *run_dump(void *arg)
{
	(void)arg;
	dump.bytes = stacks_dump(dump.text, dump.size, dump.threads, dump.count, dump.ms);
	return NULL;
}

/* On a thread of its own, too; the caller waits. */
EXPORT unsigned probe_dump(char *text, unsigned size, const uint32_t *threads, unsigned count, unsigned ms)
{
	pthread_t thread;
	dump.text = text;
	dump.size = size;
	dump.threads = threads;
	dump.count = count;
	dump.ms = ms;
	dump.bytes = 0;
	if (pthread_create(&thread, NULL, run_dump, NULL) == 0)
		pthread_join(thread, NULL);
	return dump.bytes;
}

EXPORT void probe_tick(void)
{
	stacks_tick(&tick);
}

EXPORT unsigned long long probe_ticked(void)
{
	return tick;
}

EXPORT void probe_fork_child(void)
{
	stacks_fork_child();
}

/* Sits there, holding the GIL if the caller does (ctypes.PyDLL). */
EXPORT void probe_sleep(int ms)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += ms % 1000 * 1000000L;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000L;
	}
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
		;
}

EXPORT void probe_block_signals(int how)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(how ? SIG_BLOCK : SIG_UNBLOCK, &all, NULL);
}

/* Real-time signals whose disposition is not the default. */
EXPORT int probe_handlers(void)
{
	int n = 0;
	for (int sig = SIGRTMIN; sig <= SIGRTMAX; sig++) {
		struct sigaction a;
		n += sigaction(sig, NULL, &a) == 0 && a.sa_handler != SIG_DFL;
	}
	return n;
}

/* Issues for ever, without ever coming back to the interpreter. */
EXPORT void probe_issue(void)
{
	for (;;)
		probe_site();
}
