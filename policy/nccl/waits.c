/* waits.c - see waits.h; progress_wait_begin() and progress_wait_end() of progress.h. */
#define _GNU_SOURCE
#include "waits.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "flight.h"
#include "glibc.h"
#include "progress.h"

/* Waits of a thread without a row, between two looks for one. */
#define PATIENCE 1024

_Atomic bool progress_waits_shown;

static __thread struct {
	struct flight_wait *row;
	uint32_t depth;
	uint32_t patience;
} mine __attribute__((tls_model("initial-exec")));

static pthread_key_t at_thread_end;
static _Atomic int key_made; /* 0 no, 1 being made, 2 yes */

static void thread_ends(void *row)
{
	struct flight_wait *w = row;

	/* A destructor of the program's may wait again: then a row is taken anew. */
	mine.row = NULL;
	mine.depth = 0;
	atomic_store_explicit(&w->kind, FLIGHT_WAIT_NONE, memory_order_relaxed);
	atomic_store_explicit(&w->since, 0, memory_order_relaxed);
	atomic_store_explicit(&w->thread, 0, memory_order_release);
}

void waits_start(void)
{
	int none = 0;

	if (!atomic_compare_exchange_strong(&key_made, &none, 1))
		return;
	if (!glibc_has_threads() || pthread_key_create(&at_thread_end, thread_ends) != 0)
		return;
	atomic_store_explicit(&key_made, 2, memory_order_release);
	atomic_store_explicit(&progress_waits_shown, true, memory_order_release);
}

static struct flight_wait *row_take(void)
{
	struct flight_page *page = flight_page();
	uint32_t me = (uint32_t)syscall(SYS_gettid);

	for (unsigned i = 0; page && i < FLIGHT_WAITS; i++) {
		struct flight_wait *w = &page->wait[i];
		uint32_t nobody = 0;
		if (atomic_load_explicit(&w->thread, memory_order_relaxed) ||
			!atomic_compare_exchange_strong(&w->thread, &nobody, me))
			continue;
		if (pthread_setspecific(at_thread_end, w) == 0)
			return w;
		thread_ends(w); /* nobody would free it */
		return NULL;
	}
	return NULL;
}

static __attribute__((noinline)) void find_row(void)
{
	int saved = errno;

	if (mine.patience) {
		mine.patience--;
		return;
	}
	mine.row = row_take();
	if (!mine.row)
		mine.patience = PATIENCE;
	errno = saved;
}

/* Some milliseconds old at most, and a quarter of the price. */
static uint64_t about_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void progress_wait_begin_shown(enum flight_wait_kind kind)
{
	if (mine.depth++)
		return;
	if (__builtin_expect(!mine.row, 0))
		find_row();
	if (!mine.row)
		return;
	atomic_store_explicit(&mine.row->since, about_now(), memory_order_relaxed);
	atomic_store_explicit(&mine.row->kind, (uint32_t)kind, memory_order_release);
}

void progress_wait_end_shown(void)
{
	/* 0: thread_ends() came in between. */
	if (!mine.depth || --mine.depth || !mine.row)
		return;
	atomic_store_explicit(&mine.row->kind, FLIGHT_WAIT_NONE, memory_order_relaxed);
	atomic_store_explicit(&mine.row->since, 0, memory_order_relaxed);
}

void waits_fork_child(void)
{
	atomic_store(&progress_waits_shown, false);
	mine.row = NULL;
	mine.depth = 0;
}
