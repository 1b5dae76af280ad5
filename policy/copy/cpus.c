#define _GNU_SOURCE
#include "cpus.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Written in the constructor, constant afterwards. */
static cpu_set_t mask;
static bool mask_known; /* false on machines of more than 1,024 cores */

void cpus_start(void)
{
	mask_known = sched_getaffinity(0, sizeof(mask), &mask) == 0;
}

void cpus_widen(void)
{
	if (mask_known)
		sched_setaffinity(0, sizeof(mask), &mask); /* refused: stay where the creator is */
}

static unsigned affinity(void)
{
	if (mask_known)
		return (unsigned)CPU_COUNT(&mask);
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	return n > 0 ? (unsigned)n : 1;
}

static int slurp(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, buf, size - 1);
	close(fd);
	if (n <= 0)
		return 0;
	buf[n] = '\0';
	return 1;
}

unsigned cpus_quota_v2(const char *cpu_max)
{
	unsigned long long quota, period;
	if (sscanf(cpu_max, "%llu %llu", &quota, &period) != 2 || !quota || !period)
		return 0; /* "max 100000" */
	return (unsigned)((quota + period - 1) / period);
}

static unsigned smaller(unsigned a, unsigned b)
{
	return !b || (a && a < b) ? a : b;
}

/* The tightest quota on the way from our cgroup to the root; in a container the
 * path is often "/" and the limit stands at the mount point itself. */
static unsigned quota_v2(char *path)
{
	unsigned best = 0;
	char file[1200], text[64];
	for (;;) {
		snprintf(file, sizeof(file), "/sys/fs/cgroup%s/cpu.max", path);
		if (slurp(file, text, sizeof(text)))
			best = smaller(best, cpus_quota_v2(text));
		char *slash = strrchr(path, '/');
		if (!slash)
			return best;
		*slash = '\0';
	}
}

static unsigned quota_v1(void)
{
	char quota[32], period[32], text[70];
	if (!slurp("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof(quota)) ||
		!slurp("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof(period)) || quota[0] == '-')
		return 0;
	snprintf(text, sizeof(text), "%s %s", quota, period);
	return cpus_quota_v2(text);
}

static unsigned quota(void)
{
	char text[1024];
	if (!slurp("/proc/self/cgroup", text, sizeof(text)))
		return 0;
	char *line = strstr(text, "0::");
	if (!line)
		return quota_v1();
	line += 3;
	line[strcspn(line, "\n")] = '\0';
	return smaller(quota_v2(line), quota_v1());
}

unsigned cpus_share(void)
{
	unsigned n = smaller(affinity(), quota());
	const char *ranks = getenv("LOCAL_WORLD_SIZE"); /* set by torchrun before we start */
	unsigned long r = ranks ? strtoul(ranks, NULL, 10) : 1;
	if (r > 1)
		n = (unsigned)(n / r);
	return n ? n : 1;
}
