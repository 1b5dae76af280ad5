/*
 * gpu_processes.c - who has a context on the GPUs, and who of them does nothing.
 *
 * Idle is who has used neither the GPU nor a CPU: NVML's samples of the last seconds, and the times of
 * /proc/PID/stat at the beginning and the end of LOOK_MS.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "doctor.h"
#include "nvml.h"
#include "tools/timeline/units.h"

#define MOST 256
#define LOOK_MS 500
#define SAMPLES_US 5000000u            /* how far back samples count */
#define UNSEEN_BYTES (768.0 * 1048576) /* the driver's own share of a GPU stays below */

struct user {
	unsigned pid, first; /* the first GPU that it is on */
	double bytes;
	bool busy;               /* has used a GPU lately */
	bool seen;               /* there is a /proc/PID, which is not known to be another's */
	bool proved;             /* it has CUDA in memory */
	uint64_t cpu, cpu_later; /* clock ticks used */
	double age;              /* seconds since it was started */
	char state;              /* of /proc/PID/stat */
	char command[160], gpus[64];
};

struct users {
	unsigned count;
	struct user user[MOST];
};

static double uptime(const struct doctor *d)
{
	char text[64];
	return doctor_read(d, text, sizeof(text), "/proc/uptime") ? atof(text) : 0;
}

/* State, CPU time and age; the name may hold blanks and brackets. */
static bool read_stat(const struct doctor *d, struct user *u, uint64_t *ticks)
{
	char text[1024];
	unsigned long long user = 0, system = 0, start = 0;
	if (!doctor_read(d, text, sizeof(text), "/proc/%u/stat", u->pid))
		return false;
	char *after = strrchr(text, ')');
	if (!after || sscanf(after + 1,
						 " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d %llu",
						 &u->state, &user, &system, &start) != 4)
		return false;
	*ticks = user + system;
	u->age = uptime(d) - (double)start / (double)sysconf(_SC_CLK_TCK);
	return true;
}

static void read_command(const struct doctor *d, struct user *u)
{
	char path[512];
	doctor_path(d, path, sizeof(path), "/proc/%u/cmdline", u->pid);
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(u->command, 1, sizeof(u->command) - 1, f) : 0;
	if (f)
		fclose(f);
	while (n && !u->command[n - 1])
		n--;
	u->command[n] = '\0';
	for (size_t i = 0; i < n; i++)
		if (!u->command[i])
			u->command[i] = ' ';
	if (!n)
		doctor_read(d, u->command, sizeof(u->command), "/proc/%u/comm", u->pid);
}

/* A number of another container may be somebody else's here: who uses CUDA has its library in memory. Another user's memory
 * cannot be read, a dead process has none: nothing is known then. */
static void check(const struct doctor *d, struct user *u)
{
	char path[512], *line = NULL;
	size_t size = 0;
	bool any = false;
	doctor_path(d, path, sizeof(path), "/proc/%u/maps", u->pid);
	FILE *f = fopen(path, "re");
	while (f && !u->proved && getline(&line, &size, f) > 0) {
		any = true;
		u->proved = strstr(line, "libcuda.so") || strstr(line, "/dev/nvidia");
	}
	free(line);
	if (f)
		fclose(f);
	u->seen = u->proved || !any;
}

static struct user *user_of(struct doctor *d, struct users *all, unsigned pid, unsigned gpu)
{
	for (unsigned i = 0; i < all->count; i++)
		if (all->user[i].pid == pid)
			return &all->user[i];
	if (all->count == MOST)
		return NULL;
	struct user *u = &all->user[all->count++];
	*u = (struct user){.pid = pid, .first = gpu};
	if (read_stat(d, u, &u->cpu))
		check(d, u);
	if (u->seen)
		read_command(d, u);
	return u;
}

/* Returns the bytes of all that it names. */
static double collect(const struct gpu *g, struct users *all)
{
	static struct nvml_process list[MOST];
	unsigned n = MOST;
	double bytes = 0;
	if (NVML(g->nvml, nvmlDeviceGetComputeRunningProcesses_v3, g->device, &n, list) != NVML_OK) {
		n = MOST;
		if (NVML(g->nvml, nvmlDeviceGetComputeRunningProcesses_v2, g->device, &n, list) != NVML_OK)
			return -1;
	}
	for (unsigned i = 0; i < n && i < MOST; i++) {
		struct user *u = user_of(g->d, all, list[i].pid, g->index);
		if (!u)
			continue;
		double used = list[i].bytes == UINT64_MAX ? 0 : (double)list[i].bytes;
		size_t have = strlen(u->gpus);
		snprintf(u->gpus + have, sizeof(u->gpus) - have, "%s%u", have ? "," : "", g->index);
		u->bytes += used;
		bytes += used;
	}
	return bytes;
}

static void sample(const struct gpu *g, struct users *all)
{
	static struct nvml_sample list[1024];
	unsigned n = sizeof(list) / sizeof(list[0]);
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	uint64_t since = (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u - SAMPLES_US;
	if (NVML(g->nvml, nvmlDeviceGetProcessUtilization, g->device, list, &n, since) != NVML_OK)
		return;
	for (unsigned i = 0; i < n && i < sizeof(list) / sizeof(list[0]); i++)
		for (unsigned k = 0; k < all->count; k++)
			if (all->user[k].pid == list[i].pid && list[i].time >= since && (list[i].sm || list[i].memory))
				all->user[k].busy = true;
}

/* What NVML counts as used and no process has. */
static void unseen(const struct gpu *g, double named)
{
	struct nvml_memory m = {0};
	unsigned current = 0, pending = 0;
	NVML(g->nvml, nvmlDeviceGetMigMode, g->device, &current, &pending);
	if (named < 0 || current || NVML(g->nvml, nvmlDeviceGetMemoryInfo, g->device, &m) != NVML_OK)
		return;
	if ((double)m.used < named + UNSEEN_BYTES)
		return;
	struct finding *f = doctor_say(g->d, F_gpu_unseen, DOCTOR_WARN, g->where,
								   "%s are in use, and the processes that are seen here have %s",
								   units_gib((double)m.used).s, units_gib(named).s);
	doctor_value(f, "used_bytes", (double)m.used);
}

static struct units_text age_of(const struct user *u)
{
	struct units_text t;
	double s = u->age > 0 ? u->age : 0;
	if (s >= 172800)
		snprintf(t.s, sizeof(t.s), "%.0f days", s / 86400);
	else if (s >= 7200)
		snprintf(t.s, sizeof(t.s), "%.0f h", s / 3600);
	else if (s >= 120)
		snprintf(t.s, sizeof(t.s), "%.0f min", s / 60);
	else
		snprintf(t.s, sizeof(t.s), "%.0f s", s);
	return t;
}

static void tell(struct doctor *d, struct user *u)
{
	bool stopped = u->state == 'T' || u->state == 'Z';
	bool idle = u->seen && !u->busy && (stopped || u->cpu_later == u->cpu);
	char where[96];
	const char *state = u->state == 'T' ? ", stopped" : u->state == 'Z' ? ", dead but not taken down" : "";
	snprintf(where, sizeof(where), "GPU %s", u->gpus);
	struct finding *f;
	if (!u->seen)
		f = doctor_say(d, F_gpu_busy, DOCTOR_WARN, where, "pid %u, %s, of another container or user", u->pid,
					   units_gib(u->bytes).s);
	else
		f = doctor_say(d, idle ? F_gpu_idle : F_gpu_busy, DOCTOR_WARN, where, "pid %u, %s, for %s%s: %s",
					   u->pid, units_gib(u->bytes).s, age_of(u).s, state, u->command);
	if (idle && u->proved)
		doctor_do(f, "If nobody needs it: kill %u", u->pid);
	doctor_value(f, "pid", u->pid);
	doctor_value(f, "bytes", u->bytes);
}

static int by_bytes(const void *a, const void *b)
{
	const struct user *x = a, *y = b;
	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

void gpu_processes(struct doctor *d, const struct nvml *n, const struct gpu *gpu, unsigned count)
{
	static struct users all;
	double named[32] = {0};
	(void)n;
	for (unsigned i = 0; i < count && i < 32; i++) {
		named[i] = collect(&gpu[i], &all);
		unseen(&gpu[i], named[i]);
	}
	if (!all.count) {
		if (count && named[0] >= 0)
			doctor_say(d, F_gpu_busy, DOCTOR_OK, NULL, "none");
		return;
	}
	nanosleep(&(struct timespec){0, LOOK_MS * 1000000L}, NULL);
	for (unsigned i = 0; i < count && i < 32; i++)
		sample(&gpu[i], &all);
	for (unsigned i = 0; i < all.count; i++)
		if (all.user[i].seen && !read_stat(d, &all.user[i], &all.user[i].cpu_later))
			all.user[i].cpu_later = all.user[i].cpu + 1; /* it has ended meanwhile */
	qsort(all.user, all.count, sizeof(all.user[0]), by_bytes);
	for (unsigned i = 0; i < all.count; i++)
		tell(d, &all.user[i]);
}
