/* files.c - the policy: life, and which opens are told. */
#include "files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "helper.h"
#include "learn.h"
#include "life.h"
#include "limits.h"
#include "notes.h"
#include "options.h"
#include "quiet.h"
#include "read.h"
#include "stats.h"
#include "where.h"
#include "../policy.h"

enum { FILES_OFF, FILES_LIMITS, FILES_PREFETCH };

_Atomic bool files_watch, files_limits;
static bool begun; /* the constructor's, or of the thread whose cuInit came first */

void files_opened(int dir, const char *path, int flags, int fd)
{
	size_t length;

	if ((flags & (O_ACCMODE | O_DIRECTORY | O_PATH | O_DIRECT | O_CREAT)) != O_RDONLY)
		return;
	length = strlen(path);
	if (atomic_load_explicit(&learn_on, memory_order_relaxed))
		learn_note(path, length, dir);
	if (where_may_be_data(path, length) && !quiet_is(dir, path, length) && notes_put(path, length, dir, fd))
		helper_wake(path, length);
}

void files_shared_memory(void)
{
	limits_shared_memory();
}

static void begin(bool starting)
{
	int64_t mode = option_get(OPT_FILES);

	if (mode == FILES_OFF || !life_engaged() || begun)
		return;
	begun = true;
	limits_start();
	atomic_store_explicit(&files_limits, true, memory_order_relaxed);
	if (mode != FILES_PREFETCH)
		return;
	quiet_start();
	helper_start(option_get(OPT_FILES_NETWORK) == 1);
	if (starting)
		learn_start(option_get(OPT_FILES_NETWORK) == 1);
	atomic_store_explicit(&files_watch, true, memory_order_relaxed);
}

static void start(void)
{
	begin(true);
}

/* Engaged by CUDA. */
static void cuda_ready(void)
{
	begin(false);
}

static void stop(void)
{
	atomic_store_explicit(&files_watch, false, memory_order_relaxed);
	helper_stop();
	learn_stop();
}

static void fork_child(void)
{
	quiet_fork_child();
	read_fork_child();
	helper_fork_child();
	learn_fork_child();
}

static int summary(char *buf, int size)
{
	uint64_t files = stats_get(STATS_FILES_AHEAD) + stats_get(STATS_FILES_START);
	uint64_t shards = stats_get(STATS_FILES_SHARD_BYTES);
	uint64_t bytes = shards + stats_get(STATS_FILES_AHEAD_BYTES) + stats_get(STATS_FILES_START_BYTES);

	return bytes
			   ? snprintf(buf, (size_t)size, "%llu files%s read ahead, %.1f MB\n", (unsigned long long)files,
						  shards ? " and parts of large ones" : "", (double)bytes / 1e6)
			   : 0;
}

const struct policy files_policy = {
	.name = "files",
	.start = start,
	.cuda_ready = cuda_ready,
	.fork_child = fork_child,
	.stop = stop,
	.summary = summary,
};
