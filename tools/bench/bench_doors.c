/* LINK: turbo */
/*
 * bench_doors.c - what it costs a call that pending all-gathers may have to be launched before it: while coalescing is
 * off, which is a limit; and on, with nothing pending, and with something pending elsewhere. Real functions do nothing.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "bench.h"
#include "policy/nccl/coalesce.h"
#include "shim/real.h"

#define CALLS 100000
#define ROUNDS 41

static CUstream stream = (CUstream)(uintptr_t)0x7000000;
static CUevent event = (CUevent)(uintptr_t)0x7100000;

static CUresult nothing(void)
{
	return CUDA_SUCCESS;
}

static CUresult no_context(CUcontext *ctx)
{
	*ctx = NULL;
	return CUDA_SUCCESS;
}

/* Every call is through a pointer that the compiler does not know, as a program's calls are. */
static void *volatile fn;
#define CALLS_OF(name, type, args)      \
	static void name(void)              \
	{                                   \
		__typeof__(type) *call = fn;    \
		for (int i = 0; i < CALLS; i++) \
			call args;                  \
	}
CALLS_OF(of_id, cuStreamGetId, (stream, NULL))
CALLS_OF(of_memset, cuMemsetD8Async, (1, 0, 0, stream))
CALLS_OF(of_query, cuEventQuery, (event))
CALLS_OF(of_record, cuEventRecord, (event, stream))

struct line {
	const char *title;
	enum hook_id id;
	void (*calls)(void);
	bool alone, on;
	uint32_t pending;
	double more; /* ns than the line before it; 0: no limit */
};
static const struct line line[] = {
	{"a function alone", HOOK_cuStreamGetId, of_id, true, false, 0, 0},
	{"counted, never a door", HOOK_cuStreamGetId, of_id, false, false, 0, 10},
	{"counted, a door, off", HOOK_cuMemsetD8Async, of_memset, false, false, 0, 1},
	{"counted, a door, on, nothing pending", HOOK_cuMemsetD8Async, of_memset, false, true, 0, 0},
	{"counted, a door, on, pending", HOOK_cuMemsetD8Async, of_memset, false, true, 1, 0},
	{"cuEventQuery, off", HOOK_cuEventQuery, of_query, false, false, 0, 0},
	{"cuEventQuery, on, nothing pending", HOOK_cuEventQuery, of_query, false, true, 0, 0},
	{"cuEventQuery, on, pending", HOOK_cuEventQuery, of_query, false, true, 1, 0},
	{"cuEventRecord, off", HOOK_cuEventRecord, of_record, false, false, 0, 0},
	{"cuEventRecord, on, nothing pending", HOOK_cuEventRecord, of_record, false, true, 0, 0},
};
#define LINES (int)(sizeof(line) / sizeof(line[0]))

static double once(const struct line *l)
{
	fn = l->alone ? (void *)nothing : hook_table[l->id].ours;
	atomic_store(&coalesce_on, l->on);
	atomic_store(&coalesce_pending, l->pending);
	double since = bench_now_ns();
	l->calls();
	double ns = (bench_now_ns() - since) / CALLS;
	atomic_store(&coalesce_on, false);
	atomic_store(&coalesce_pending, 0);
	return ns;
}

/* In turns, and the least of each: what the others took more was not the call's doing. */
int main(void)
{
	double least[LINES];
	int missed = 0;

	for (int i = 0; i < LINES; i++) {
		real_fn[line[i].id] = (void *)nothing;
		least[i] = 1e18;
	}
	real_fn[HOOK_cuCtxGetCurrent] = (void *)no_context;
	for (int r = 0; r < ROUNDS; r++)
		for (int i = 0; i < LINES; i++) {
			double ns = once(&line[i]);
			least[i] = ns < least[i] ? ns : least[i];
		}
	printf("calls that pending all-gathers go before, ns a call, least of %d\n%-44s %8s %8s %8s\n", ROUNDS,
		   "", "", "more", "limit");
	for (int i = 0; i < LINES; i++) {
		double more = i ? least[i] - least[i - 1] : 0;
		printf("%-44s %8.1f", line[i].title, least[i]);
		if (line[i].more > 0) {
			printf(" %8.1f %8.0f  %s", more, line[i].more, more <= line[i].more ? "PASS" : "MISS");
			missed += more > line[i].more;
		}
		puts("");
	}
	puts("");
	return missed ? 1 : 0;
}
