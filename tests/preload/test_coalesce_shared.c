/* LINK: nccl ENV: TURBO_NCCL_COALESCE=on BARE */
/*
 * test_coalesce_shared.c - an event that another process sees: behind all-gathers that are held back it is over when they are, and
 * it is over although its owner makes no further call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/gpu/common/cuda_dl.h"
#include "tests/gpu/common/kernels.h"
#include "tests/gpu/common/nccl_dl.h"
#include "tests/gpu/common/ranks.h"
#include "tests/gpu/common/util.h"

#define MUST_MS 20000
#define GATHERS 6
#define BYTES 512
#define SHARED (CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)

/* ---- in a process ---- */

static struct {
	bool ready;
	CUcontext ctx;
	struct kernels kernels;
	CUstream stream;
	CUevent event;
	ncclComm_t comm;
	unsigned char *from, *to;
	uint32_t *gate;
} my;
static char *why;

static bool good(int r, const char *what)
{
	if (r)
		snprintf(why, RANKS_LINE, "error %s: %d", what, r);
	return !r;
}
#define GOOD(call) good((int)(call), #call)

static bool set_up(void)
{
	ncclUniqueId id;

	if (my.ready)
		return true;
	my.ready = !cuda_dl_open() && !nccl_dl_open() && GOOD(cu.cuDevicePrimaryCtxRetain(&my.ctx, 0)) &&
			   GOOD(cu.cuCtxSetCurrent(my.ctx)) && !kernels_load(&my.kernels) &&
			   GOOD(cu.cuStreamCreate(&my.stream, CU_STREAM_NON_BLOCKING)) &&
			   GOOD(cu.cuMemHostAlloc((void **)&my.gate, 64, 0)) &&
			   GOOD(cu.cuMemHostAlloc((void **)&my.from, GATHERS * BYTES, 0)) &&
			   GOOD(cu.cuMemHostAlloc((void **)&my.to, GATHERS * BYTES, 0)) &&
			   GOOD(nccl.ncclGetUniqueId(&id)) && GOOD(nccl.ncclCommInitRank(&my.comm, 1, id, 0));
	kernels_current = &my.kernels;
	pattern_fill(my.from, GATHERS * BYTES, 5);
	return my.ready;
}

static bool gather(int i)
{
	return GOOD(
		nccl.ncclAllGather(my.from + i * BYTES, my.to + i * BYTES, BYTES, ncclUint8, my.comm, my.stream));
}

static bool issue(void)
{
	memset(my.to, 0, GATHERS * BYTES);
	__atomic_store_n(my.gate, 0, __ATOMIC_SEQ_CST);
	if (!GOOD(launch_spin_on(my.stream, (CUdeviceptr)(uintptr_t)my.gate)))
		return false;
	for (int i = 0; i < GATHERS; i++)
		if (!gather(i))
			return false;
	return GOOD(cu.cuEventRecord(my.event, my.stream));
}

static bool make_event(void)
{
	return GOOD(cu.cuEventCreate(&my.event, SHARED)) && gather(0) && GOOD(cu.cuStreamSynchronize(my.stream));
}

static void put_handle(char *answer)
{
	CUipcEventHandle handle;

	if (!GOOD(cu.cuIpcGetEventHandle(&handle, my.event)))
		return;
	for (size_t i = 0; i < sizeof(handle); i++)
		sprintf(answer + 2 * i, "%02x", (unsigned char)handle.reserved[i]);
}

static bool open_handle(const char *digits)
{
	CUipcEventHandle handle;

	for (size_t i = 0; i < sizeof(handle); i++)
		if (sscanf(digits + 2 * i, "%2hhx", (unsigned char *)&handle.reserved[i]) != 1)
			return GOOD(1);
	return GOOD(cu.cuIpcOpenEventHandle(&my.event, handle));
}

static void obey(struct rank *me, char *order, char *answer)
{
	CUresult r;

	(void)me;
	why = answer;
	strcpy(answer, "ok");
	if (!set_up())
		return;
	cu.cuCtxSetCurrent(my.ctx);
	if (!strcmp(order, "new"))
		make_event();
	else if (!strcmp(order, "handle"))
		put_handle(answer);
	else if (!strncmp(order, "open ", 5))
		open_handle(order + 5);
	else if (!strcmp(order, "issue"))
		issue();
	else if (!strcmp(order, "let go"))
		__atomic_store_n(my.gate, 1, __ATOMIC_SEQ_CST);
	else if (!strcmp(order, "check"))
		good(pattern_check(my.to, GATHERS * BYTES, 5) >= 0, "the data has not arrived");
	else if (!strcmp(order, "drop"))
		GOOD(cu.cuEventDestroy_v2(my.event));
	else if (!strcmp(order, "query")) {
		r = cu.cuEventQuery(my.event);
		if (r == CUDA_ERROR_NOT_READY)
			strcpy(answer, "busy");
		else
			GOOD(r);
	}
}

/* ---- the test ---- */

static struct ranks job;

static bool say(int who, const char *order, const char *wanted)
{
	const char *answer = ranks_ask(&job, who, MUST_MS, "%s", order);
	bool ok = answer && !strcmp(answer, wanted);

	if (!ok)
		fprintf(stderr, "process %d, %.20s: %s instead of %s\n", who, order, answer ? answer : "no answer",
				wanted);
	return ok;
}

static bool show(void)
{
	const char *answer = ranks_ask(&job, 0, MUST_MS, "handle");
	char order[RANKS_LINE];

	if (!answer || strlen(answer) != 2 * CU_IPC_HANDLE_SIZE)
		return false;
	snprintf(order, sizeof(order), "open %.200s", answer);
	return say(1, order, "ok");
}

/* The owner says nothing meanwhile. */
static bool is_over(int who)
{
	for (uint64_t end = now_ns() + MUST_MS * 1000000ull; now_ns() < end; sleep_ms(1)) {
		const char *answer = ranks_ask(&job, who, MUST_MS, "query");
		if (!answer || strcmp(answer, "busy") != 0)
			return answer && !strcmp(answer, "ok");
	}
	fprintf(stderr, "process %d never sees that it is over\n", who);
	return false;
}

static bool once(bool shown_late)
{
	bool ok = say(0, "issue", "ok") && (!shown_late || show());

	for (int i = 0; i < 8 && ok; i++)
		ok = say(1, "query", "busy");
	ok = ok && say(0, "let go", "ok") && is_over(1) && say(0, "check", "ok") && is_over(0);
	return ok && (!shown_late || say(1, "drop", "ok"));
}

int main(int argc, char **argv)
{
	bool ok;

	if (ranks_is_rank(argc, argv))
		return ranks_main(argv, obey);
	if (!ranks_start(&job, 2, NULL))
		return 1;
	ok = say(0, "new", "ok") && show();
	for (int i = 0; i < 10 && ok; i++)
		ok = once(false);
	ok = ok && say(1, "drop", "ok") && say(0, "drop", "ok");
	/* Shown when it is recorded behind what is held back. */
	for (int i = 0; i < 5 && ok; i++)
		ok = say(0, "new", "ok") && once(true) && say(0, "drop", "ok");
	ok = ranks_stop(&job, MUST_MS) && ok;
	puts(ok ? "an event is the same to both processes" : "FAILED");
	return !ok;
}
