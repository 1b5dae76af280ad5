/*
 * cgroup.c - limits of this process's control groups, of version 2 and 1, all the way up.
 *
 * In a container the path that /proc/self/cgroup names is often not below /sys/fs/cgroup as it is mounted there: what is found at the
 * mount's top counts then.
 */
#include <limits.h>
#include <sched.h>
#include <string.h>

#include "doctor.h"
#include "tools/timeline/units.h"

#define CGROUP "/sys/fs/cgroup"

struct group {
	char path[PATH_MAX]; /* relative to the controller's folder; "" is its top */
	const char *folder;
	bool v1;
};

/* The process's group in the hierarchy of `controller`, that of version 2 where it has none. */
static void find(const struct doctor *d, const char *controller, struct group *g)
{
	static char folder[64];
	char file[PATH_MAX], line[PATH_MAX];
	g->path[0] = '\0';
	g->folder = CGROUP;
	g->v1 = false;
	doctor_path(d, file, sizeof(file), "/proc/self/cgroup");
	FILE *f = fopen(file, "re");
	while (f && fgets(line, sizeof(line), f)) {
		char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
		if (!path)
			continue;
		line[strcspn(line, "\n")] = '\0';
		*path++ = '\0';
		names++;
		char padded[256], wanted[64];
		snprintf(padded, sizeof(padded), ",%s,", names);
		snprintf(wanted, sizeof(wanted), ",%s,", controller);
		bool v1 = strstr(padded, wanted) != NULL;
		if (!v1 && *names)
			continue;
		if (v1) {
			snprintf(folder, sizeof(folder), CGROUP "/%s", controller);
			g->folder = folder;
		}
		g->v1 = v1;
		snprintf(g->path, sizeof(g->path), "%s", strcmp(path, "/") ? path : "");
		if (v1)
			break;
	}
	if (f)
		fclose(f);
	if (!doctor_exists(d, "%s%s", g->folder, g->path))
		g->path[0] = '\0';
}

/* The next group up; false at the top. */
static bool up(struct group *g)
{
	char *slash = strrchr(g->path, '/');
	if (slash)
		*slash = '\0';
	return slash != NULL;
}

/* The tightest limit and what is used of it. */
static void memory(struct doctor *d)
{
	struct group g;
	int64_t limit = INT64_MAX, used = -1, kills = 0;
	find(d, "memory", &g);
	do {
		int64_t l =
			doctor_number(d, "%s%s/%s", g.folder, g.path, g.v1 ? "memory.limit_in_bytes" : "memory.max");
		int64_t high = g.v1 ? -1 : doctor_number(d, "%s%s/memory.high", g.folder, g.path);
		if (high > 0 && high < l)
			l = high;
		if (l > 0 && l < limit && l < INT64_MAX / 2) {
			char stat[4096], *cache;
			limit = l;
			used = doctor_number(d, "%s%s/%s", g.folder, g.path,
								 g.v1 ? "memory.usage_in_bytes" : "memory.current");
			/* Cached files give way. */
			if (doctor_read(d, stat, sizeof(stat), "%s%s/memory.stat", g.folder, g.path) &&
				(cache = strstr(stat, g.v1 ? "total_inactive_file " : "inactive_file "))) {
				long long n = 0;
				if (sscanf(cache, "%*s %lld", &n) == 1 && n <= used)
					used -= n;
			}
		}
		char events[1024], *kill;
		long long n = 0;
		if (doctor_read(d, events, sizeof(events), "%s%s/%s", g.folder, g.path,
						g.v1 ? "memory.oom_control" : "memory.events") &&
			(kill = strstr(events, "oom_kill ")) && sscanf(kill, "%*s %lld", &n) == 1 && n > kills)
			kills = n;
	} while (up(&g));
	if (kills)
		doctor_say(d, F_oom_kills, DOCTOR_WARN, NULL, "%lld so far", (long long)kills);
	if (limit == INT64_MAX) {
		doctor_say(d, F_cgroup_memory, DOCTOR_OK, NULL, "none");
		return;
	}
	double share = used > 0 ? (double)used / (double)limit : 0;
	struct finding *f = doctor_say(d, F_cgroup_memory,
								   share > 0.97   ? DOCTOR_FAIL
								   : share > 0.85 ? DOCTOR_WARN
												  : DOCTOR_OK,
								   NULL, "%s, %s of it in use without cached files",
								   units_bytes((double)limit).s, units_share(share).s);
	doctor_value(f, "limit_bytes", (double)limit);
	doctor_value(f, "used_bytes", (double)used);
}

/* CPUs' worth of time that a group gets; 0: no limit. */
static double quota_of(const struct doctor *d, const struct group *g)
{
	long long quota = -1, period = 0;
	char text[64];
	if (g->v1) {
		quota = doctor_number(d, "%s%s/cpu.cfs_quota_us", g->folder, g->path);
		period = doctor_number(d, "%s%s/cpu.cfs_period_us", g->folder, g->path);
	} else if (!doctor_read(d, text, sizeof(text), "%s%s/cpu.max", g->folder, g->path) ||
			   sscanf(text, "%lld %lld", &quota, &period) != 2) {
		return 0;
	}
	return quota > 0 && period > 0 ? (double)quota / (double)period : 0;
}

static void cpu(struct doctor *d)
{
	struct group g;
	double quota = 0;
	long long throttled = 0, periods = 0;
	cpu_set_t set;
	int cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
	find(d, "cpu", &g);
	do {
		double q = quota_of(d, &g);
		char stat[1024], *at;
		if (!(q > 0) || (quota > 0 && q >= quota))
			continue;
		quota = q;
		if (!doctor_read(d, stat, sizeof(stat), "%s%s/cpu.stat", g.folder, g.path))
			continue;
		if ((at = strstr(stat, "nr_periods ")))
			sscanf(at, "%*s %lld", &periods);
		if ((at = strstr(stat, "nr_throttled ")))
			sscanf(at, "%*s %lld", &throttled);
	} while (up(&g));
	if (!(quota > 0)) {
		doctor_say(d, F_cgroup_cpu, DOCTOR_OK, NULL, "none");
		return;
	}
	double share = periods > 0 ? (double)throttled / (double)periods : 0;
	struct finding *f =
		doctor_say(d, F_cgroup_cpu, quota < cpus - 0.01 || share > 0.05 ? DOCTOR_WARN : DOCTOR_OK, NULL,
				   "time of %.3g CPUs, where programs see %d; stopped in %s of the periods so far", quota,
				   cpus, units_share(share).s);
	doctor_value(f, "quota", quota);
	doctor_value(f, "cpus", cpus);
}

static void pids(struct doctor *d)
{
	struct group g;
	find(d, "pids", &g);
	do {
		int64_t most = doctor_number(d, "%s%s/pids.max", g.folder, g.path),
				now = doctor_number(d, "%s%s/pids.current", g.folder, g.path);
		if (most > 0 && most < INT64_MAX && now >= 0 && most - now < 1024)
			doctor_say(d, F_pids, DOCTOR_WARN, NULL, "%lld of %lld that the control group allows",
					   (long long)now, (long long)most);
	} while (up(&g));
}

void probe_cgroup(struct doctor *d)
{
	memory(d);
	cpu(d);
	pids(d);
}
