/* hostmem.c - the policy: when it is on, how much is kept, and the thread that gives back what is idle. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "blocks.h"
#include "guard.h"
#include "hostmem.h"
#include "libc.h"
#include "life.h"
#include "log.h"
#include "options.h"
#include "stats.h"
#include "thread.h"
#include "../memory.h"
#include "../policy.h"

#define MIN_MB 32 /* glibc's mmap threshold never grows beyond */
#define CACHE_MB 2048
#define RAM_PART 20 /* 5 % of the machine's or the cgroup's */
#define FREE_PART 8
#define IDLE_MS 10000
#define TICK_S 2

static _Atomic bool started;

/* ---- giving back ---- */

static void *keeper(void *arg)
{
	struct memory memory;

	(void)arg;
	guard_enter();
	for (;;) {
		const struct timespec tick = {TICK_S, 0};
		uint32_t seen = atomic_load_explicit(&blocks_kept_some, memory_order_acquire);
		bool tight = memory_look("", &memory) && memory_is_tight(&memory);
		if (blocks_trim(tight ? 0 : IDLE_MS) == 0)
			syscall(SYS_futex, &blocks_kept_some, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
		else
			nanosleep(&tick, NULL);
	}
	return NULL;
}

void hostmem_kept(void)
{
	bool no = false;

	if (!atomic_load_explicit(&started, memory_order_relaxed) &&
		atomic_compare_exchange_strong(&started, &no, true) && !thread_start("turbo-hostmem", keeper, NULL))
		blocks_stop(); /* nobody would give back: nothing more is kept than there is */
}

/* ---- life ---- */

/* The user wants to see or test libc's own allocator. */
static bool libc_is_watched(void)
{
	static const char *const names[] = {"MALLOC_CHECK_", "MALLOC_PERTURB_", "MALLOC_TRACE",
										"MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_"};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (getenv(names[i]))
			return true;
	const char *tunables = getenv("GLIBC_TUNABLES");
	return tunables && strstr(tunables, "glibc.malloc.");
}

static size_t cache_bytes(void)
{
	int64_t mb = option_get(OPT_HOSTMEM_CACHE_MB);
	uint64_t most = (uint64_t)CACHE_MB << 20;
	struct memory memory;

	if (mb != OPTION_AUTO)
		return (size_t)mb << 20;
	if (!memory_look("", &memory))
		return 0;
	most = memory.total / RAM_PART < most ? memory.total / RAM_PART : most;
	return (size_t)(memory.available / FREE_PART < most ? memory.available / FREE_PART : most);
}

static void start(void)
{
	int64_t mb = option_get(OPT_HOSTMEM_MIN_MB);

	if (!option_get(OPT_HOSTMEM) || !life_engaged() || !libc_allocator_is_ours() || libc_is_watched())
		return;
	if (!libc_allocates() && !option_is_set(OPT_HOSTMEM)) {
		log_info("hostmem: another allocator is loaded, and left alone");
		return;
	}
	blocks_start((size_t)(mb == OPTION_AUTO ? MIN_MB : mb) << 20, cache_bytes());
}

static void fork_child(void)
{
	atomic_store(&started, false);
	blocks_fork_child();
}

static int summary(char *buf, int size)
{
	uint64_t hits = stats_get(STATS_HOSTMEM_HITS), all = hits + stats_get(STATS_HOSTMEM_MISSES);

	return all ? snprintf(buf, (size_t)size, "%llu of %llu large blocks were there already\n",
						  (unsigned long long)hits, (unsigned long long)all)
			   : 0;
}

const struct policy hostmem_policy = {
	.name = "hostmem",
	.start = start,
	.fork_child = fork_child,
	.stop = blocks_stop,
	.summary = summary,
};
