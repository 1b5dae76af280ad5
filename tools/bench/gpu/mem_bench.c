/*
 * mem_bench.c - nanoseconds for a pair of allocation and free, one line a configuration.
 *
 * Says nothing about what is preloaded: bench_mem.py runs it bare and with libturbo.so and
 * compares. usage: mem_bench [--cells API:THREADS:SIZES]... [--cell-ms N] [--calls DIR]
 *   API sync (cuMemAlloc, cuMemFree) or async (cuMemAllocAsync, cuMemFreeAsync on a stream of the
 *   thread's own, the pool told to keep everything); SIZES 4K,2M,1G. Output:
 *   pair api=async threads=8 bytes=2097152 batches=.. ns=.. p90_ns=..
 * ns: median of batches of pairs, over all threads. All cells are warmed up, three times over, before
 * the first is timed. With libturbo.so preloaded by bench_mem.py, `stats` lines with its counters stand before
 * and after the timed part. With --calls, CUPTI's counter (tests/gpu/hook_coverage/cuptitrace.c)
 * writes DIR/before and DIR/after instead: what driver calls the timed part made.
 * Exit: 0, 1 a driver error, 2 usage, 77 no GPU.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/gpu/common/cuda_dl.h"
#include "tests/gpu/common/util.h"

#define MAX_CELLS 64
#define MAX_THREADS 64
#define MAX_BATCHES 4096 /* a thread */
#define BATCH_NS 20000u  /* long beside the clock's own cost, short beside a time slice */
#define MAX_PAIRS 200    /* in a batch */
#define WARM_PAIRS 600   /* or WARM_NS, whichever is first */
#define WARM_NS 10000000u
#define WARM_ROUNDS 3 /* over all cells: what they take turns with is settled then */

struct cell {
	bool async;
	unsigned threads;
	size_t bytes;
};

struct runner {
	const struct cell *cell;
	pthread_barrier_t *start;
	CUcontext ctx;
	CUstream stream;
	uint64_t ns; /* how long to measure; 0: warm up only */
	CUresult result;
	size_t batches;
	uint64_t batch_ns[MAX_BATCHES]; /* a pair */
	pthread_t thread;
};

static struct cell cells[MAX_CELLS];
static int cell_count;
static struct runner runners[MAX_THREADS];
static CUstream streams[MAX_THREADS];
static CUcontext context;

static CUresult take(const struct runner *r, CUdeviceptr *p)
{
	return r->cell->async ? cu.cuMemAllocAsync(p, r->cell->bytes, r->stream)
						  : cu.cuMemAlloc_v2(p, r->cell->bytes);
}

static CUresult give(const struct runner *r, CUdeviceptr p)
{
	return r->cell->async ? cu.cuMemFreeAsync(p, r->stream) : cu.cuMemFree_v2(p);
}

static CUresult pairs(const struct runner *r, size_t n)
{
	CUdeviceptr p;
	CUresult e = CUDA_SUCCESS;
	for (size_t i = 0; i < n && e == CUDA_SUCCESS; i++) {
		e = take(r, &p);
		e = e ? e : give(r, p);
	}
	return e;
}

/* Every thread has a block at the same time, so that there is one for each afterwards. */
static void warm_up(struct runner *r)
{
	CUdeviceptr p;
	r->result = take(r, &p);
	pthread_barrier_wait(r->start);
	if (!r->result)
		r->result = give(r, p);
	uint64_t started = now_ns();
	for (int i = 0; i < WARM_PAIRS && !r->result && now_ns() - started < WARM_NS; i++)
		r->result = pairs(r, 1);
}

static void measure(struct runner *r)
{
	uint64_t once = now_ns();
	r->result = pairs(r, 3);
	once = (now_ns() - once) / 3;
	size_t n = once >= BATCH_NS ? 1 : BATCH_NS / (once ? once : 1);
	n = n > MAX_PAIRS ? MAX_PAIRS : n;
	uint64_t started = now_ns(), last = started;
	while (!r->result && r->batches < MAX_BATCHES && last - started < r->ns) {
		r->result = pairs(r, n);
		uint64_t now = now_ns();
		r->batch_ns[r->batches++] = (now - last) / n;
		last = now;
	}
}

static void *runner_main(void *arg)
{
	struct runner *r = arg;
	if (cu.cuCtxSetCurrent(r->ctx))
		exit(1); /* the others wait at the barrier */
	if (!r->ns) {
		warm_up(r);
		return NULL;
	}
	pthread_barrier_wait(r->start);
	measure(r);
	return NULL;
}

/* Runs a cell in its threads; false after a driver error. */
static bool run_cell(const struct cell *c, uint64_t ns)
{
	pthread_barrier_t start;
	pthread_barrier_init(&start, NULL, c->threads);
	for (unsigned i = 0; i < c->threads; i++) {
		struct runner *r = &runners[i];
		r->cell = c;
		r->start = &start;
		r->ctx = context;
		r->stream = streams[i];
		r->ns = ns;
		r->batches = 0;
		if (pthread_create(&r->thread, NULL, runner_main, r))
			exit(1); /* the others wait at the barrier */
	}
	CUresult e = CUDA_SUCCESS;
	for (unsigned i = 0; i < c->threads; i++) {
		pthread_join(runners[i].thread, NULL);
		e = e ? e : runners[i].result;
	}
	pthread_barrier_destroy(&start);
	if (!e && !ns)
		e = cu.cuCtxSynchronize(); /* not in the timed part, whose driver calls are counted */
	if (e)
		printf("error %s: %s, %zu bytes\n", c->async ? "async" : "sync", cuda_dl_error(e), c->bytes);
	return e == CUDA_SUCCESS;
}

static void print_cell(const struct cell *c)
{
	static uint64_t all[MAX_THREADS * MAX_BATCHES];
	size_t n = 0;
	for (unsigned i = 0; i < c->threads; i++) {
		memcpy(all + n, runners[i].batch_ns, runners[i].batches * sizeof(all[0]));
		n += runners[i].batches;
	}
	uint64_t median = median_u64(all, n);
	printf("pair api=%s threads=%u bytes=%zu batches=%zu ns=%llu p90_ns=%llu\n", c->async ? "async" : "sync",
		   c->threads, c->bytes, n, (unsigned long long)median,
		   (unsigned long long)(n ? all[n * 9 / 10] : 0));
	fflush(stdout);
}

/* API:THREADS:SIZES; false when malformed. */
static bool add_cells(char *spec)
{
	char *api = strsep(&spec, ":"), *threads = strsep(&spec, ":");
	int n = threads ? atoi(threads) : 0;
	if (!spec || n < 1 || n > MAX_THREADS || (strcmp(api, "sync") && strcmp(api, "async")))
		return false;
	for (char *s; (s = strsep(&spec, ","));) {
		size_t bytes = parse_size(s);
		if (!bytes || cell_count == MAX_CELLS)
			return false;
		cells[cell_count++] = (struct cell){!strcmp(api, "async"), (unsigned)n, bytes};
	}
	return true;
}

static bool open_device(void)
{
	CUmemoryPool pool;
	uint64_t all = UINT64_MAX;
	CUresult e = cu.cuDevicePrimaryCtxRetain(&context, 0);
	e = e ? e : cu.cuCtxSetCurrent(context);
	e = e ? e : cu.cuDeviceGetDefaultMemPool(&pool, 0);
	e = e ? e : cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all);
	for (int i = 0; i < MAX_THREADS && !e; i++)
		e = cu.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING);
	if (e)
		printf("error opening the device: %s\n", cuda_dl_error(e));
	return e == CUDA_SUCCESS;
}

/* One look at the counters: CUPTI's, when `dir` is given, else libturbo's. */
static bool count_calls(const char *dir, const char *name)
{
	char path[4096], line[65536];
	if (dir) {
		const char *trace = getenv("CUDA_INJECTION64_PATH");
		void *lib = trace ? dlopen(trace, RTLD_NOW | RTLD_NOLOAD) : NULL;
		int (*dump)(const char *) = NULL;
		if (lib)
			*(void **)(void *)&dump = dlsym(lib, "cuptitrace_dump");
		snprintf(path, sizeof(path), "%s/%s", dir, name);
		return dump && dump(path) == 0;
	}
	const char *turbo = getenv("GPU_TEST_TURBO");
	if (!turbo || !getenv("LD_PRELOAD"))
		return true;
	snprintf(path, sizeof(path), "env -u LD_PRELOAD '%s' stats %d --json", turbo, (int)getpid());
	FILE *f = popen(path, "r");
	if (f && fgets(line, sizeof(line), f))
		printf("stats %s %s", name, line);
	if (f)
		pclose(f);
	return true;
}

static int usage(void)
{
	fputs("usage: mem_bench [--cells sync|async:THREADS:SIZES]... [--cell-ms N] [--calls DIR]\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	uint64_t cell_ms = 100;
	const char *calls = NULL;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--cells") && i + 1 < argc && add_cells(argv[++i]))
			continue;
		if (!strcmp(argv[i], "--cell-ms") && i + 1 < argc && (cell_ms = strtoull(argv[++i], NULL, 10)) > 0)
			continue;
		if (!strcmp(argv[i], "--calls") && i + 1 < argc && (calls = argv[++i]))
			continue;
		return usage();
	}
	const char *why = cuda_dl_open();
	if (why) {
		printf("skipped: %s\n", why);
		return 77;
	}
	if (!cell_count) {
		char sync[] = "sync:1:4K,2M,1G", async[] = "async:1:4K,2M,64M";
		add_cells(sync);
		add_cells(async);
	}
	bool ok = open_device();
	for (int i = 0; i < WARM_ROUNDS * cell_count && ok; i++)
		ok = run_cell(&cells[i % cell_count], 0);
	ok = ok && count_calls(calls, "before");
	for (int i = 0; i < cell_count && ok; i++) {
		ok = run_cell(&cells[i], cell_ms * 1000000u);
		if (ok)
			print_cell(&cells[i]);
	}
	return ok && count_calls(calls, "after") ? 0 : 1;
}
