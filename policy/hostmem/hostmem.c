/* hostmem.c - the policy: when it is on, and how much is kept. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate.h"
#include "kept.h"
#include "libc.h"
#include "life.h"
#include "log.h"
#include "options.h"
#include "stats.h"
#include "sys.h"
#include "trimmer.h"
#include "../memory.h"
#include "../policy.h"

/* Above, glibc maps and unmaps each block: its own threshold never grows beyond, and does not learn from what we take. */
#define MIN_MB 32
#define CACHE_MB 2048
#define RAM_PART 20 /* 5 % of the machine's or the cgroup's */
#define FREE_PART 8

static bool begun; /* the constructor's thread, or the one whose cuInit came first */

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

/* The system counts memory when it is mapped: what is kept would be missing elsewhere. */
static bool memory_is_counted(void)
{
	char text[16];

	return sys_slurp("/proc/sys/vm/overcommit_memory", text, sizeof(text)) > 0 && text[0] == '2';
}

static size_t most_kept(void)
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

static void begin(void)
{
	int64_t mb = option_get(OPT_HOSTMEM_MIN_MB);
	size_t min = (size_t)(mb == OPTION_AUTO ? MIN_MB : mb) << 20;

	if (begun || !option_get(OPT_HOSTMEM) || !life_engaged())
		return;
	begun = true;
	if (!libc_allocator_is_ours() || libc_is_watched() || memory_is_counted())
		return;
	if (!libc_allocates() && !option_is_set(OPT_HOSTMEM)) {
		log_info("hostmem: another allocator is loaded, and left alone");
		return;
	}
	kept_start(most_kept());
	trimmer_begin();
	gate_open(min);
}

static void fork_child(void)
{
	kept_fork_child();
	trimmer_fork_child();
}

static void stop(void)
{
	gate_shut();
	kept_stop();
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
	.start = begin,
	.cuda_ready = begin,
	.fork_child = fork_child,
	.stop = stop,
	.summary = summary,
};
