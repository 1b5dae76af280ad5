/* LINK: turbo */
/*
 * bench_recording.c - what recording costs, without CUPTI and without a driver: a record into the file, which
 * is written over and over; a kernel with its name, grid and stream looked up; libturbo's own events.
 */
#include "bench.h"
#include "cupti/recording.h"
#include "shim/events.h"
#include "shim/nccl_comm.h"

#define BATCHES 15
#define RECORDS 200000
#define BRACKET 4096 /* about what a buffer of CUPTI's holds */
#define KERNELS 400
#define GRIDS 5

/* CPU time: other programs on the machine do not count. */
static double thread_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static char names[KERNELS][160];

static void put_records(int n)
{
	struct timeline_record r = {.start = 1, .kind = TIMELINE_KERNEL, .duration = 1000};
	for (int i = 0; i < n; i++) {
		if (i % BRACKET == 0 && !recording_begin())
			exit(1);
		r.start += 2000;
		r.correlation++;
		recording_put(&r);
		if (i % BRACKET == BRACKET - 1 || i == n - 1)
			recording_end();
	}
}

static void put_kernels(int n)
{
	struct timeline_record r = {.start = 1, .kind = TIMELINE_KERNEL, .duration = 1000};
	struct timeline_entry e = {.kind = TIMELINE_KERNEL};
	struct timeline_lane lane = {.kind = TIMELINE_LANE_STREAM};
	for (int i = 0; i < n; i++) {
		if (i % BRACKET == 0 && !recording_begin())
			exit(1);
		e.kernel.grid[0] = (uint32_t)(i % GRIDS) + 1;
		e.kernel.block[0] = 256;
		lane.stream = (uint32_t)(i % 3);
		r.entry = recording_entry(&e, names[i % KERNELS]);
		r.lane = recording_lane(&lane, NULL);
		recording_put(&r);
		if (i % BRACKET == BRACKET - 1 || i == n - 1)
			recording_end();
	}
}

static void brackets(int n)
{
	for (int i = 0; i < n; i++) {
		if (!recording_begin())
			exit(1);
		recording_end();
	}
}

static void tell_nobody(int n)
{
	for (int i = 0; i < n; i++)
		events_end(EVENT_SYNC, events_begin(), 0, false);
}

static void tell(int n)
{
	static struct event out[512];
	for (int i = 0; i < n; i++) {
		events_end(EVENT_SYNC, events_begin(), 0, false);
		if (i % 512 == 511)
			events_drain(out, 512);
	}
	while (events_drain(out, 512))
		;
}

static void count_collectives(int n)
{
	for (int i = 0; i < n; i++) {
		struct nccl_comm *c = nccl_comm_get((const void *)(uintptr_t)(0x7f0000000000 + (i % 8) * 4096));
		nccl_comm_enter(c, NCCL_COLLECTIVE);
		nccl_comm_leave(c);
	}
}

/* The fastest of BATCHES, or their mean. */
static int measure(const char *title, void (*body)(int), int n, bool mean, double limit)
{
	double best = 1e18, sum = 0;
	for (int b = 0; b < BATCHES; b++) {
		double since = thread_ns();
		body(n);
		double ns = (thread_ns() - since) / n;
		best = ns < best ? ns : best;
		sum += ns;
	}
	double ns = mean ? sum / BATCHES : best;
	printf("%-64s %8.1f %8.0f  %s\n", title, ns, limit, ns <= limit ? "PASS" : "MISS");
	return ns > limit;
}

int main(void)
{
	struct recording_setup setup = {.dir = bench_env("BUILD"), .bytes = 64 << 20, .least_bytes = 64 << 20};
	char why[300];
	int missed = 0;
	for (int i = 0; i < KERNELS; i++)
		snprintf(
			names[i], sizeof(names[i]),
			"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEE"
			"viT0_T1_ILi%dEE",
			i);
	if (!recording_open(&setup, why, sizeof(why))) {
		fprintf(stderr, "bench_recording: %s\n", why);
		return 1;
	}
	printf("recording, ns of CPU time each, fastest of %d\n%-64s %8s %8s\n", BATCHES, "", "", "limit");
	missed += measure("a record put, and its way into the file, mean", put_records, RECORDS * 5, true, 30);
	missed += measure("the same, fastest", put_records, RECORDS, false, 30);
	missed += measure("a kernel: name, entry, stream and record", put_kernels, RECORDS, false, 120);
	missed += measure("entering and leaving as the only writer", brackets, RECORDS, false, 500);
	missed += measure("an event while nobody records", tell_nobody, RECORDS, false, 2);
	events_start();
	missed += measure("an event told and drained", tell, RECORDS, false, 500);
	events_stop();
	missed += measure("a collective counted in its communicator", count_collectives, RECORDS, false, 20);
	recording_close();
	unlink(recording_path());
	puts("");
	return missed ? 1 : 0;
}
