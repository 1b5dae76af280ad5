/* LINK: turbo */
/*
 * bench_heap.c - what the stream-ordered heap costs, without a driver: its calls are free here.
 *
 * An allocation and a free of the same size on the same stream, warm (no call at all); the same by 8
 * threads on 8 streams; and among 10 to 1,000,000 blocks that live, of 512 bytes to 4 KiB and to 64 KiB.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "bench.h"
#include "policy/devmem/heap.h"

#define MIB ((size_t)1 << 20)
#define THREADS 8
#define BATCHES 15

static uint64_t next_va = (uint64_t)1 << 40, next_handle;

static int do_reserve(void *arg, size_t bytes, uint64_t *va)
{
	(void)arg;
	*va = next_va;
	next_va += bytes;
	return 0;
}

static int do_create(void *arg, size_t bytes, uint64_t *handle)
{
	(void)arg, (void)bytes;
	*handle = ++next_handle;
	return 0;
}

static int do_map(void *arg, uint64_t va, size_t bytes, uint64_t handle)
{
	(void)arg, (void)va, (void)bytes, (void)handle;
	return 0;
}

static int on_range(void *arg, uint64_t va, size_t bytes)
{
	(void)arg, (void)va, (void)bytes;
	return 0;
}

static int do_release(void *arg, uint64_t handle)
{
	(void)arg, (void)handle;
	return 0;
}

static int do_mark(void *arg, void *stream, void **mark)
{
	(void)arg;
	*mark = stream;
	return 0;
}

static int do_done(void *arg, void *mark, bool *done)
{
	(void)arg, (void)mark;
	*done = true;
	return 0;
}

static int do_wait(void *arg, void *stream, void *mark)
{
	(void)arg, (void)stream, (void)mark;
	return 0;
}

static int do_block(void *arg, void *mark, uint64_t ns)
{
	(void)arg, (void)mark, (void)ns;
	return 0;
}

static void do_drop(void *arg, void *mark)
{
	(void)arg, (void)mark;
}

static struct heap *heap_new(void)
{
	static const struct heap_backend backend = {
		.grain = 2 * MIB,
		.reserve = do_reserve,
		.unreserve = on_range,
		.chunk_create = do_create,
		.chunk_release = do_release,
		.map = do_map,
		.unmap = on_range,
		.access = on_range,
		.mark = do_mark,
		.mark_done = do_done,
		.mark_wait = do_wait,
		.mark_block = do_block,
		.mark_drop = do_drop,
	};
	struct heap *heap = heap_create(&backend, (size_t)141 << 30);
	if (!heap) {
		fprintf(stderr, "bench_heap: no heap\n");
		exit(1);
	}
	return heap;
}

static uint64_t get(struct heap_stream *s, size_t bytes)
{
	uint64_t va;
	if (heap_alloc(s, bytes, &va)) {
		fprintf(stderr, "bench_heap: no memory\n");
		exit(1);
	}
	return va;
}

static void put(struct heap *heap, struct heap_stream *s, uint64_t va)
{
	if (heap_free(heap, s, va)) {
		fprintf(stderr, "bench_heap: a block is unknown\n");
		exit(1);
	}
}

/* CPU time: other programs on the machine do not count. */
static double thread_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double pairs(struct heap *heap, struct heap_stream *s, size_t bytes, int n)
{
	double start = thread_ns();
	for (int i = 0; i < n; i++)
		put(heap, s, get(s, bytes));
	return (thread_ns() - start) / n;
}

static double best_pair(struct heap *heap, struct heap_stream *s, size_t bytes)
{
	double best = 1e18;
	for (int b = 0; b < BATCHES; b++) {
		double ns = pairs(heap, s, bytes, 20000);
		best = ns < best ? ns : best;
	}
	return best;
}

struct worker {
	pthread_t thread;
	struct heap *heap;
	struct heap_stream *stream;
	size_t bytes;
	double cpu_ns;
};

static pthread_barrier_t start;

/* Its own CPU time: there may be fewer cores than threads. Going to sleep in a lock and waking counts. */
static void *work(void *arg)
{
	struct worker *w = arg;
	pthread_barrier_wait(&start);
	double begin = thread_ns();
	for (int i = 0; i < 300000; i++)
		put(w->heap, w->stream, get(w->stream, w->bytes));
	w->cpu_ns = (thread_ns() - begin) / 300000;
	return NULL;
}

static double threads(struct heap *heap, size_t bytes)
{
	struct worker worker[THREADS];
	double best = 1e18;
	for (int i = 0; i < THREADS; i++)
		worker[i] =
			(struct worker){.heap = heap, .stream = heap_stream_open(heap, &worker[i]), .bytes = bytes};
	for (int round = 0; round < 5; round++) {
		double worst = 0;
		pthread_barrier_init(&start, NULL, THREADS);
		for (int i = 0; i < THREADS; i++)
			pthread_create(&worker[i].thread, NULL, work, &worker[i]);
		for (int i = 0; i < THREADS; i++) {
			pthread_join(worker[i].thread, NULL);
			worst = worker[i].cpu_ns > worst ? worker[i].cpu_ns : worst;
		}
		pthread_barrier_destroy(&start);
		best = worst < best ? worst : best;
	}
	for (int i = 0; i < THREADS; i++)
		heap_stream_close(worker[i].stream);
	return best;
}

/* Among `n` live blocks of 512 bytes to `most`: one random block is freed and another allocated, so that most
 * requests find no block of their size in the bins. */
struct grown {
	double fill, pair, churn;
};

static struct grown grown(unsigned n, size_t most)
{
	struct heap *heap = heap_new();
	struct heap_stream *s = heap_stream_open(heap, NULL);
	uint64_t *va = malloc(n * sizeof(*va)), x = 88172645463325252u;
	struct grown g;
	double begin = thread_ns();
	for (unsigned i = 0; i < n; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		va[i] = get(s, 512 + (x >> 20) % (most - 511));
	}
	g.fill = (thread_ns() - begin) / n;
	g.pair = best_pair(heap, s, 3000);
	begin = thread_ns();
	for (unsigned i = 0; i < 200000; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		unsigned k = (unsigned)((x >> 40) % n);
		put(heap, s, va[k]);
		va[k] = get(s, 512 + (x >> 20) % (most - 511));
	}
	g.churn = (thread_ns() - begin) / 200000;
	for (unsigned i = 0; i < n; i++)
		put(heap, s, va[i]);
	free(va);
	heap_destroy(heap);
	return g;
}

static int missed;

static void line(const char *title, double ns, double limit)
{
	bool ok = ns <= limit;
	printf("%-56s %10.1f %8.0f  %s\n", title, ns, limit, ok ? "PASS" : "MISS");
	missed += !ok;
}

/* How the time grows with what lives. */
static void among(size_t most)
{
	static const unsigned blocks[] = {10, 1000, 100000, 1000000};
	struct grown first = {0};
	char title[80];
	printf("among live blocks of 512 bytes to %zu KiB\n", most >> 10);
	for (unsigned i = 0; i < sizeof(blocks) / sizeof(*blocks); i++) {
		struct grown g = grown(blocks[i], most);
		first = i ? first : g;
		snprintf(title, sizeof(title), "%u live, warm", blocks[i]);
		line(title, g.pair, first.pair * 1.5 > 120 ? first.pair * 1.5 : 120);
		snprintf(title, sizeof(title), "%u live, sizes at random", blocks[i]);
		line(title, g.churn, 2000);
		printf("%-56s %10.1f\n", "  an allocation while they are made", g.fill);
		printf("%-56s %6.2f x and %.2f x\n", "  against the fewest: warm, at random", g.pair / first.pair,
			   g.churn / first.churn);
	}
}

int main(void)
{
	static const size_t size[] = {512, 64 << 10, 2 * MIB, 64 * MIB, 1024 * MIB};
	char title[80];
	struct heap *heap = heap_new();
	struct heap_stream *s = heap_stream_open(heap, NULL);
	struct heap_usage before, after;
	printf("stream-ordered heap, ns for an allocation and a free\n%-56s %10s %8s\n", "", "ns", "limit");
	for (unsigned i = 0; i < sizeof(size) / sizeof(*size); i++) {
		put(heap, s, get(s, size[i]));
		heap_usage(heap, &before);
		snprintf(title, sizeof(title), "one thread, warm, %zu KiB", size[i] >> 10);
		line(title, best_pair(heap, s, size[i]), 120);
		heap_usage(heap, &after);
		missed += after.driver_calls != before.driver_calls;
	}
	line("8 threads on 8 streams, warm, 64 KiB (CPU time each)", threads(heap, 64 << 10), 300);
	line("8 threads on 8 streams, warm, 64 MiB (CPU time each)", threads(heap, 64 * MIB), 300);
	heap_stream_close(s);
	heap_destroy(heap);
	among(4 << 10);
	among(64 << 10);
	puts("");
	return missed ? 1 : 0;
}
