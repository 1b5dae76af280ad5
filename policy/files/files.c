/* files.c - the policy: life, and which opens are told. */
#include "files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "helper.h"
#include "life.h"
#include "limits.h"
#include "notes.h"
#include "options.h"
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
	if (where_may_be_data(path, length) && notes_put(path, length, dir, fd))
		helper_wake();
}

void files_shared_memory(void)
{
	limits_shared_memory();
}

static void begin(void)
{
	int64_t mode = option_get(OPT_FILES);

	if (mode == FILES_OFF || !life_engaged() || begun)
		return;
	begun = true;
	limits_start();
	atomic_store_explicit(&files_limits, true, memory_order_relaxed);
	if (mode != FILES_PREFETCH)
		return;
	helper_start(option_get(OPT_FILES_NETWORK) == 1);
	atomic_store_explicit(&files_watch, true, memory_order_relaxed);
}

static void stop(void)
{
	atomic_store_explicit(&files_watch, false, memory_order_relaxed);
	helper_stop();
}

static int summary(char *buf, int size)
{
	uint64_t files = stats_get(STATS_FILES_AHEAD);

	return files ? snprintf(buf, (size_t)size, "%llu files read ahead, %.1f MB\n", (unsigned long long)files,
							(double)stats_get(STATS_FILES_AHEAD_BYTES) / 1e6)
				 : 0;
}

const struct policy files_policy = {
	.name = "files",
	.start = begin,
	.cuda_ready = begin,
	.fork_child = helper_fork_child,
	.stop = stop,
	.summary = summary,
};
