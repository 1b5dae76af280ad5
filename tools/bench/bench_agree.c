/* LINK: turbo */
/*
 * bench_agree.c - what the agreement costs a rank: an operation queued and its step, by as many processes at once as there are
 * ranks, pinned round robin, over the file that they share (policy/nccl/agree_file.h).
 *
 * Judged is the CPU time of the slowest rank: with fewer cores than ranks the time on the wall is the others', too. Batches begin
 * together, since ranks are never far apart where collectives are launched; a full log is another matter.
 */
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "bench.h"
#include "policy/nccl/agree_file.h"

#define MOST 8u
#define BATCHES 301
#define OPERATIONS 1024u /* of a batch: there is room for each in the log */
#define HELD 64u
#define LIMIT 300.0
#define SPINS 2000

enum way { STEP_EACH, HELD_BACK, TOGETHER, WAYS };
static const char *const way_name[WAYS] = {"a step each", "64 queued, then drained",
										   "64 queued by all, then drained"};

struct figures {
	double cpu, wall;  /* ns an operation, medians of the batches */
	double operations; /* a group */
};

static struct shared {
	_Atomic unsigned arrived;
	_Atomic bool failed;
	struct figures of[MOST];
} * shared;

struct watch {
	double cpu, wall;
};

/* The time on the wall inside: reading it takes less. */
static void watch_start(struct watch *w)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	w->cpu = (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
	w->wall = bench_now_ns();
}

/* What has gone by is added. */
static void watch_stop(const struct watch *since, struct figures *f)
{
	double wall = bench_now_ns();
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	f->cpu += (double)t.tv_sec * 1e9 + (double)t.tv_nsec - since->cpu;
	f->wall += wall - since->wall;
}

/* What the watch itself takes of the CPU just now. */
static double watch_cost(void)
{
	struct figures f = {.cpu = 0};
	struct watch w;

	watch_start(&w);
	watch_stop(&w, &f);
	return f.cpu;
}

static void meet(unsigned ranks, unsigned *times)
{
	unsigned wanted = ranks * ++*times;

	atomic_fetch_add(&shared->arrived, 1);
	for (unsigned i = 0; atomic_load(&shared->arrived) < wanted && !atomic_load(&shared->failed); i++)
		if (i > SPINS)
			sched_yield();
}

static bool queue(struct agree *a, unsigned n)
{
	while (n-- > 0)
		if (!agree_queue(a))
			return false;
	return true;
}

/* Adds the groups to *groups; false: what was launched is not what was queued. */
static bool drain(struct agree *a, unsigned queued, unsigned *groups)
{
	unsigned launched = 0, n;

	for (; (n = agree_step(a)); launched += n)
		++*groups;
	return launched == queued;
}

/* Each at its own pace, `held` at a time. */
static bool apart(struct agree *a, unsigned held, struct figures *f, unsigned *groups)
{
	bool ok = true;
	struct watch w;

	watch_start(&w);
	for (unsigned i = 0; i < OPERATIONS && ok; i += held)
		ok = queue(a, held) && drain(a, held, groups);
	watch_stop(&w, f);
	return ok;
}

/* Nobody drains before all have queued. */
static bool together(struct agree *a, unsigned ranks, unsigned *met, struct figures *f, unsigned *groups)
{
	struct watch w;
	bool ok;

	watch_start(&w);
	ok = queue(a, HELD);
	watch_stop(&w, f);
	meet(ranks, met);
	watch_start(&w);
	ok = ok && drain(a, HELD, groups);
	watch_stop(&w, f);
	return ok;
}

static int rank_main(const uint64_t key[2], unsigned rank, unsigned ranks, enum way way)
{
	static double cpu[BATCHES], wall[BATCHES];
	struct agree_file file;
	struct agree agree;
	unsigned met = 0, groups = 0, operations = way == TOGETHER ? HELD : OPERATIONS;

	if (!agree_file_open(&file, key, rank, ranks) || !agree_init(&agree, file.area, rank, ranks))
		return 1;
	meet(ranks, &met);
	agree_file_ready(&file);
	for (int b = 0; b < BATCHES; b++) {
		struct figures f = {.cpu = 0};
		meet(ranks, &met);
		f.cpu = (way == TOGETHER ? -2 : -1) * watch_cost();
		if (!agree_complete(&agree) ||
			!(way == TOGETHER ? together(&agree, ranks, &met, &f, &groups)
							  : apart(&agree, way == STEP_EACH ? 1 : HELD, &f, &groups)))
			return 1;
		cpu[b] = f.cpu / operations;
		wall[b] = f.wall / operations;
	}
	shared->of[rank] = (struct figures){.cpu = bench_median(cpu, BATCHES),
										.wall = bench_median(wall, BATCHES),
										.operations = (double)operations * BATCHES / groups};
	return 0;
}

static void pin(unsigned rank)
{
	cpu_set_t allowed, one;
	int wanted, cpu = -1;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		return;
	wanted = (int)rank % CPU_COUNT(&allowed);
	do
		wanted -= CPU_ISSET(++cpu, &allowed) != 0;
	while (wanted >= 0);
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/* Of the slowest rank; false: one of them failed. */
static bool measure(unsigned ranks, enum way way, struct figures *slowest)
{
	uint64_t key[2] = {(uint64_t)getpid() << 32 | way, (uint64_t)bench_now_ns()};
	bool ok = true;
	int status;

	atomic_store(&shared->arrived, 0);
	fflush(stdout);
	for (unsigned r = 0; r < ranks; r++)
		if (fork() == 0) {
			pin(r);
			int failed = rank_main(key, r, ranks, way);
			if (failed)
				atomic_store(&shared->failed, true);
			_exit(failed);
		}
	while (wait(&status) > 0)
		ok &= status == 0;
	*slowest = shared->of[0];
	for (unsigned r = 1; r < ranks; r++)
		if (shared->of[r].cpu > slowest->cpu)
			*slowest = shared->of[r];
	return ok;
}

static int line(unsigned ranks, enum way way)
{
	struct figures f;

	if (!measure(ranks, way, &f)) {
		fprintf(stderr, "bench: a rank of %u failed\n", ranks);
		return 1;
	}
	printf("%u rank%s, %-36s %8.1f %8.1f %8.1f %8.0f  %s%s\n", ranks, ranks == 1 ? " " : "s", way_name[way],
		   f.cpu, f.wall, f.operations, LIMIT, f.cpu <= LIMIT ? "PASS" : "MISS",
		   (long)ranks > sysconf(_SC_NPROCESSORS_ONLN) ? "  cores are shared" : "");
	return f.cpu > LIMIT;
}

int main(void)
{
	int missed = 0;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	printf(
		"the agreement, ns an operation, medians of %d batches, the slowest rank's, %ld cores\n%-45s %8s %8s "
		"%8s %8s\n",
		BATCHES, sysconf(_SC_NPROCESSORS_ONLN), "", "CPU", "wall", "group of", "limit");
	for (enum way way = 0; way < WAYS; way++)
		for (unsigned ranks = 1; ranks <= MOST; ranks *= 2)
			missed += line(ranks, way);
	puts("");
	return missed != 0;
}
