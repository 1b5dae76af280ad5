/* trimmer.c - see trimmer.h. */
#define _GNU_SOURCE
#include "trimmer.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "guard.h"
#include "kept.h"
#include "log.h"
#include "thread.h"
#include "../memory.h"

#define IDLE_MS 10000 /* kept at most */
#define LAZY_MS 250   /* then the system may take the pages when it is short of memory, by itself */
#define TICK_MS 250
#define HURRY_MS 20
#define LOOK_TICKS 4 /* between two looks at the machine's memory */

static struct {
	_Atomic int pid; /* the process whose thread it is; 0: none */
	_Atomic bool there;
	_Atomic uint32_t asleep; /* futex word: 1 while nothing is kept and the thread sleeps */
	_Atomic bool hurry;
} trimmer;

/* What is kept is what others are short of. */
static void look(void)
{
	struct memory memory;

	if (memory_look("", &memory))
		kept_press(memory_is_tight(&memory));
}

static void sleep_for(unsigned ms)
{
	const struct timespec time = {0, ms * 1000000L};

	syscall(SYS_nanosleep, &time, NULL);
}

/* Sequentially consistent against trimmer_wake(): the thread says that it sleeps and then looks whether something is kept;
 * who keeps something counts it and then looks whether the thread sleeps. */
static void sleep_until_some(void)
{
	atomic_store(&trimmer.asleep, 1);
	while (kept_bytes() == 0 && atomic_load(&trimmer.asleep) == 1)
		syscall(SYS_futex, &trimmer.asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
	atomic_store(&trimmer.asleep, 0);
}

static void *run(void *arg)
{
	(void)arg;
	guard_enter();
	for (unsigned tick = 0;; tick++) {
		if (kept_bytes() == 0) {
			sleep_until_some();
			tick = 0;
		}
		if (tick % LOOK_TICKS == 0)
			look();
		kept_round(kept_pressed() ? 0 : IDLE_MS, LAZY_MS);
		sleep_for(atomic_exchange_explicit(&trimmer.hurry, false, memory_order_relaxed) ? HURRY_MS : TICK_MS);
	}
	return NULL;
}

void trimmer_begin(void)
{
	atomic_store(&trimmer.pid, (int)getpid());
}

void trimmer_wake(void)
{
	bool no = false;

	if (atomic_load(&trimmer.there)) {
		if (atomic_load(&trimmer.asleep) == 1 && atomic_exchange(&trimmer.asleep, 0) == 1)
			syscall(SYS_futex, &trimmer.asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
		return;
	}
	/* A child that was made without fork handlers has no business with threads; one of vfork() has our memory. */
	if (atomic_load(&trimmer.pid) != (int)getpid() ||
		!atomic_compare_exchange_strong(&trimmer.there, &no, true))
		return;
	if (!thread_start("turbo-hostmem", run, NULL)) {
		log_once(LOG_INFO, "hostmem: there can be no thread, so no memory is kept");
		kept_stop();
		kept_drop_all(false);
	}
}

void trimmer_hurry(void)
{
	atomic_store_explicit(&trimmer.hurry, true, memory_order_relaxed);
}

void trimmer_fork_child(void)
{
	atomic_store(&trimmer.pid, (int)getpid());
	atomic_store(&trimmer.there, false);
	atomic_store(&trimmer.asleep, 0);
}
