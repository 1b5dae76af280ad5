/*
 * gathers.c - loops of all-gathers.
 */
#include "gathers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_dl.h"
#include "nccl_dl.h"
#include "rank_orders.h"
#include "util.h"

#define MS 1000000ull
#define LOOPS_MAX 1000
#define DISABLE_TIMING CU_EVENT_DISABLE_TIMING

const char *const gathers_style_name[GATHERS_STYLES] = {"plain", "torch", "grouped"};

/* ---- in a rank ---- */

static struct {
	bool ready;
	CUcontext ctx;
	CUstream stream, current; /* NCCL's, and the program's */
	CUevent begin[GATHERS_MAX], end[GATHERS_MAX];
	ncclComm_t comm;
	CUdeviceptr from, to;
	size_t bytes;
	int count;
	unsigned char *host;
} my;

static char *why_not; /* of the order that is obeyed */

static bool good(int r, const char *what)
{
	if (!r)
		return true;
	snprintf(why_not, RANKS_LINE, "error %s: %d", what, r);
	return false;
}
#define GOOD(call) good((int)(call), #call)

static bool set_up(const struct rank *me)
{
	const char *local = getenv("LOCAL_RANK"), *why = cuda_dl_open();
	int devices = 1;
	ncclUniqueId id;

	if (!why)
		why = nccl_dl_open();
	if (why)
		snprintf(why_not, RANKS_LINE, "error %s", why);
	if (why)
		return false;
	memcpy(&id, me->id, sizeof(id));
	cu.cuDeviceGetCount(&devices);
	if (!GOOD(cu.cuDevicePrimaryCtxRetain(&my.ctx, (local ? atoi(local) : me->rank) % devices)) ||
		!GOOD(cu.cuCtxSetCurrent(my.ctx)) || !GOOD(cu.cuStreamCreate(&my.stream, CU_STREAM_NON_BLOCKING)) ||
		!GOOD(cu.cuStreamCreate(&my.current, CU_STREAM_NON_BLOCKING)))
		return false;
	for (int i = 0; i < GATHERS_MAX; i++)
		if (!GOOD(cu.cuEventCreate(&my.begin[i], DISABLE_TIMING)) ||
			!GOOD(cu.cuEventCreate(&my.end[i], DISABLE_TIMING)))
			return false;
	my.ready = GOOD(nccl.ncclCommInitRank(&my.comm, me->ranks, id, me->rank));
	return my.ready;
}

/* What a rank sends in the ith gather. */
static uint32_t seed_of(int rank, int i)
{
	return (uint32_t)(rank * 1000 + i);
}

static bool make_room(const struct rank *me, int count, size_t bytes)
{
	size_t all = (size_t)count * bytes;

	if (my.from && (!GOOD(cu.cuMemFree_v2(my.from)) || !GOOD(cu.cuMemFree_v2(my.to))))
		return false;
	my.host = realloc(my.host, all * (size_t)me->ranks);
	if (!my.host || !GOOD(cu.cuMemAlloc_v2(&my.from, all)) ||
		!GOOD(cu.cuMemAlloc_v2(&my.to, all * (size_t)me->ranks)))
		return false;
	my.count = count;
	my.bytes = bytes;
	for (int i = 0; i < count; i++)
		pattern_fill(my.host + (size_t)i * bytes, bytes, seed_of(me->rank, i));
	return GOOD(cu.cuMemcpyHtoD_v2(my.from, my.host, all));
}

static bool gather(const struct rank *me, int i)
{
	size_t at = (size_t)i * my.bytes;

	return GOOD(nccl.ncclAllGather((void *)(my.from + at), (void *)(my.to + at * (size_t)me->ranks), my.bytes,
								   ncclUint8, my.comm, my.stream));
}

static bool issue(const struct rank *me, enum gathers_style style)
{
	bool ok = style != GATHERS_GROUPED || GOOD(nccl.ncclGroupStart());

	for (int i = 0; i < my.count && ok; i++) {
		bool torch = style == GATHERS_TORCH;
		ok = (!torch || (GOOD(cu.cuEventRecord(my.begin[i], my.current)) &&
						 GOOD(cu.cuStreamWaitEvent(my.stream, my.begin[i], 0)))) &&
			 gather(me, i) && (!torch || GOOD(cu.cuEventRecord(my.end[i], my.stream)));
	}
	return ok && (style != GATHERS_GROUPED || GOOD(nccl.ncclGroupEnd()));
}

static bool finish(enum gathers_style style)
{
	for (int i = 0; i < my.count && style == GATHERS_TORCH; i++)
		if (!GOOD(cu.cuStreamWaitEvent(my.current, my.end[i], 0)))
			return false;
	return GOOD(cu.cuStreamSynchronize(style == GATHERS_TORCH ? my.current : my.stream));
}

static bool check(const struct rank *me)
{
	size_t share = my.bytes * (size_t)me->ranks;

	if (!GOOD(cu.cuMemcpyDtoH_v2(my.host, my.to, share * (size_t)my.count)))
		return false;
	for (int i = 0; i < my.count; i++)
		for (int r = 0; r < me->ranks; r++)
			if (pattern_check(my.host + (size_t)i * share + (size_t)r * my.bytes, my.bytes, seed_of(r, i)) >=
				0)
				return good(1, "the data of an all-gather is wrong");
	return true;
}

static void count_launches(unsigned long long *operations, unsigned long long *launches)
{
	unsigned long long n = nccl.sim_nccl_launches ? nccl.sim_nccl_launches(my.comm) : 0;

	*operations = 0;
	for (unsigned long long i = *launches; i < n; i++)
		*operations += nccl.sim_nccl_launch_ops(my.comm, i);
	*launches = n - *launches;
}

static bool run(const struct rank *me, const char *words, char *answer)
{
	uint64_t all[LOOPS_MAX], host[LOOPS_MAX];
	unsigned style, count, loops;
	size_t bytes;
	unsigned long long operations, launches = 0;

	if (sscanf(words, "%u %u %zu %u", &style, &count, &bytes, &loops) != 4 || count > GATHERS_MAX || !loops ||
		loops > LOOPS_MAX || style >= GATHERS_STYLES)
		return good(1, "no such loop");
	if ((my.count != (int)count || my.bytes != bytes) && !make_room(me, (int)count, bytes))
		return false;
	for (unsigned i = 0; i < 2; i++) /* connects, and warms up */
		if (!gather(me, 0) || !GOOD(cu.cuStreamSynchronize(my.stream)) || !issue(me, style) || !finish(style))
			return false;
	if (nccl.sim_nccl_launches)
		launches = nccl.sim_nccl_launches(my.comm);
	for (unsigned i = 0; i < loops; i++) {
		uint64_t since = now_ns();
		if (!issue(me, style))
			return false;
		host[i] = now_ns() - since;
		if (!finish(style))
			return false;
		all[i] = now_ns() - since;
	}
	count_launches(&operations, &launches);
	if (!check(me))
		return false;
	snprintf(answer, RANKS_LINE, "ok %.3f %.3f %llu %llu", (double)median_u64(all, loops) / 1e3,
			 (double)median_u64(host, loops) / 1e3, operations, launches);
	return true;
}

void gathers_obey(struct rank *me, char *order, char *answer)
{
	if (strncmp(order, "gathers ", 8) != 0) {
		rank_obey(me, order, answer);
		return;
	}
	why_not = answer;
	if (!my.ready && !set_up(me))
		return;
	cu.cuCtxSetCurrent(my.ctx);
	run(me, order + 8, answer);
}

/* ---- the launcher ---- */

bool gathers_open(struct ranks *jobs, int count, int n, const char *const *const *env)
{
	for (int j = 0; j < count; j++) {
		if (ranks_start(&jobs[j], n, env[j]))
			continue;
		fprintf(stderr, "no NCCL, or no processes\n");
		while (j-- > 0)
			ranks_kill(&jobs[j]);
		return false;
	}
	return true;
}

static bool turn(struct ranks *job, const char *order, int ms, struct gathers_figures *f)
{
	uint64_t end = now_ns() + (uint64_t)ms * MS;
	bool ok = true;

	*f = (struct gathers_figures){0};
	for (int i = 0; i < job->n; i++)
		ranks_tell(job, i, "%s", order);
	for (int i = 0; i < job->n; i++) {
		uint64_t now = now_ns();
		const char *answer = ranks_answer(job, i, now < end ? (int)((end - now) / MS) : 1);
		struct gathers_figures one = {0};
		if (!answer || sscanf(answer, "ok %lf %lf %llu %llu", &one.us, &one.host_us, &one.operations,
							  &one.launches) != 4) {
			fprintf(stderr, "rank %d: %s: %s\n", i, order, answer ? answer : "no answer");
			ok = false;
			continue;
		}
		f->us = one.us > f->us ? one.us : f->us;
		f->host_us = one.host_us > f->host_us ? one.host_us : f->host_us;
		f->operations += one.operations;
		f->launches += one.launches;
	}
	return ok;
}

static double median(double *v, int n)
{
	uint64_t whole[64];

	for (int i = 0; i < n; i++)
		whole[i] = (uint64_t)(v[i] * 1e3);
	return (double)median_u64(whole, (size_t)n) / 1e3;
}

bool gathers_turns(struct ranks *jobs, int count, enum gathers_style style, int gathers, size_t bytes,
				   int loops, int rounds, int ms, struct gathers_figures *out)
{
	char order[RANKS_LINE];
	double us[8][64], host_us[8][64];

	if (rounds > 64 || count > 8)
		return false;
	snprintf(order, sizeof(order), "gathers %d %d %zu %d", (int)style, gathers, bytes, loops);
	memset(out, 0, (size_t)count * sizeof(*out));
	for (int k = 0; k < rounds * count; k++) {
		int round = k / count, j = round % 2 ? count - 1 - k % count : k % count;
		struct gathers_figures f;
		if (!turn(&jobs[j], order, ms, &f))
			return false;
		us[j][round] = f.us;
		host_us[j][round] = f.host_us;
		out[j].operations += f.operations;
		out[j].launches += f.launches;
	}
	for (int j = 0; j < count; j++) {
		out[j].us = median(us[j], rounds);
		out[j].host_us = median(host_us[j], rounds);
	}
	return true;
}

void gathers_close(struct ranks *jobs, int count)
{
	for (int j = 0; j < count; j++)
		ranks_kill(&jobs[j]);
}
