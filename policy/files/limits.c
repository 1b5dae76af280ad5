/* limits.c - see limits.h. */
#include "limits.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include "log.h"
#include "tune.h"

/* What Linux services get. select() ends at 1024: a program that keeps more files open and uses it would break, and would without us
 * have been refused the files. */
#define DESCRIPTORS ((rlim_t)65536)
/* A container has 64 MiB unless somebody asks for more; what eight workers of an image loader hand over takes ten times that. */
#define SHARED_LEAST (512 * FILES_MIB)
/* Of a large one, what should be left. */
#define SHARED_LEFT (64 * FILES_MIB)

/* Shared with forked children, since it is the workers that make shared memory. NULL: no memory; nothing is said. */
static _Atomic int *said;

rlim_t limits_wanted(const struct rlimit *limit)
{
	rlim_t to = limit->rlim_max < DESCRIPTORS ? limit->rlim_max : DESCRIPTORS;

	return limit->rlim_cur < to ? to : limit->rlim_cur;
}

void limits_start(void)
{
	struct rlimit limit;
	void *page;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limits_wanted(&limit) != limit.rlim_cur) {
		limit.rlim_cur = limits_wanted(&limit);
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	page = mmap(NULL, sizeof(*said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	said = page == MAP_FAILED ? NULL : page;
}

bool limits_shared_text(uint64_t size, uint64_t left, char *out, size_t room)
{
	if (size == 0 || (size >= SHARED_LEAST && left >= SHARED_LEFT))
		return false;
	snprintf(
		out, room,
		"/dev/shm holds %llu MiB, %llu are free: a loader's workers hand their batches over there, and die of SIGBUS when it is "
		"full; give the container more (docker run --shm-size=8g or --ipc=host)",
		(unsigned long long)(size / FILES_MIB), (unsigned long long)(left / FILES_MIB));
	return true;
}

void limits_shared_memory(void)
{
	struct statvfs fs;
	char text[320];
	int saved = errno;

	if (said && !atomic_load_explicit(said, memory_order_relaxed) && statvfs("/dev/shm", &fs) == 0 &&
		limits_shared_text((uint64_t)fs.f_blocks * fs.f_frsize, (uint64_t)fs.f_bavail * fs.f_frsize, text,
						   sizeof(text)) &&
		!atomic_exchange(said, 1))
		log_warn("%s", text);
	errno = saved;
}
