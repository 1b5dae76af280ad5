/*
 * rank_orders.c - what a rank can be told to do.
 */
#include "rank_orders.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rank_state.h"
#include "util.h"

struct rank_state rank_state;

void rank_say(struct order *o, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(o->answer, RANKS_LINE, fmt, ap);
	va_end(ap);
}

bool rank_good(struct order *o, ncclResult_t result)
{
	if (result == ncclSuccess)
		return true;
	rank_say(o, "error %d %s", (int)result, nccl.ncclGetErrorString(result));
	return false;
}

bool rank_good_cu(struct order *o, CUresult result)
{
	if (result == CUDA_SUCCESS)
		return true;
	rank_say(o, "error cuda %d %s", (int)result, cuda_dl_error(result));
	return false;
}

const char *rank_text(const struct order *o, const char *name, const char *standard)
{
	size_t n = strlen(name);
	for (int i = 0; i < o->options; i++)
		if (!strncmp(o->option[i], name, n) && o->option[i][n] == '=')
			return o->option[i] + n + 1;
	return standard;
}

long rank_number(const struct order *o, const char *name, long standard)
{
	const char *value = rank_text(o, name, NULL);
	return value ? atol(value) : standard;
}

long rank_word(const struct order *o, int i)
{
	return i < o->count ? atol(o->word[i]) : 0;
}

ncclComm_t *rank_comm(const struct order *o)
{
	return &rank_state.comm[rank_number(o, "comm", 0) % RANK_HANDLES];
}

CUstream rank_stream(const struct order *o)
{
	CUstream *s = &rank_state.stream[rank_number(o, "stream", 0) % RANK_HANDLES];
	if (!*s)
		cu.cuStreamCreate(s, CU_STREAM_NON_BLOCKING);
	return *s;
}

/* ---- set-up and data ---- */

bool rank_copy(struct order *o, void *host, CUdeviceptr device, size_t n, bool to_device)
{
	CUresult r = to_device ? cu.cuMemcpyHtoDAsync_v2(device, host, n, rank_state.side)
						   : cu.cuMemcpyDtoHAsync_v2(host, device, n, rank_state.side);
	return rank_good_cu(o, r) && rank_good_cu(o, cu.cuStreamSynchronize(rank_state.side));
}

static bool set_up(struct order *o)
{
	int devices = 0;
	const char *why = rank_state.ready ? NULL : cuda_dl_open();
	if (!why && !rank_state.ready)
		why = nccl_dl_open();
	if (why)
		rank_say(o, "error %s", why);
	if (rank_state.ready || why)
		return !why;
	cu.cuDeviceGetCount(&devices);
	if (!rank_good_cu(o, cu.cuDevicePrimaryCtxRetain(&rank_state.ctx, o->me->rank % devices)) ||
		!rank_good_cu(o, cu.cuCtxSetCurrent(rank_state.ctx)) ||
		!rank_good_cu(o, cu.cuMemAlloc_v2(&rank_state.send, RANK_BUFFER)) ||
		!rank_good_cu(o, cu.cuMemAlloc_v2(&rank_state.recv, RANK_BUFFER)) ||
		!rank_good_cu(o, cu.cuStreamCreate(&rank_state.side, CU_STREAM_NON_BLOCKING)) ||
		!rank_good_cu(o, cu.cuMemHostAlloc((void **)&rank_state.gate, 64, 0)))
		return false;
	why = kernels_load(&rank_state.kernels);
	if (why)
		rank_say(o, "error %s", why);
	kernels_current = &rank_state.kernels;
	rank_state.ready = !why;
	return rank_state.ready;
}

bool rank_wait_ready(struct order *o, ncclComm_t comm)
{
	ncclResult_t state = ncclInProgress;
	while (nccl.ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclInProgress)
		usleep(500);
	return rank_good(o, state);
}

static void init(struct order *o)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id;
	memcpy(&id, o->me->id, sizeof id);
	bool behind = rank_number(o, "nonblocking", 0) != 0;
	config.blocking = !behind;
	ncclComm_t *comm = rank_comm(o);
	ncclResult_t r = nccl.ncclCommInitRankConfig(comm, o->me->ranks, id, o->me->rank, &config);
	if ((behind && r == ncclInProgress ? rank_wait_ready(o, *comm) : rank_good(o, r)))
		rank_fill(o);
}

/* ---- groups, graphs, waiting ---- */

static void end_group(struct order *o)
{
	rank_state.grouped = false;
	ncclResult_t r = nccl.ncclGroupEnd();
	if (r == ncclInProgress)
		rank_wait_ready(o, rank_state.comm[0]);
	else
		rank_good(o, r);
}

static void split(struct order *o)
{
	ncclComm_t *to = &rank_state.comm[rank_number(o, "to", 1) % RANK_HANDLES];
	ncclResult_t r = nccl.ncclCommSplit(*rank_comm(o), (int)rank_word(o, 1), (int)rank_word(o, 2), to, NULL);
	if (r == ncclInProgress)
		rank_wait_ready(o, *rank_comm(o));
	else
		rank_good(o, r);
}

static void shrink(struct order *o)
{
	int exclude[RANK_WORDS], n = 0;
	ncclComm_t *to = &rank_state.comm[rank_number(o, "to", 1) % RANK_HANDLES];
	while (n + 1 < o->count) {
		exclude[n] = (int)rank_word(o, n + 1);
		n++;
	}
	int flags = rank_number(o, "abort", 0) ? NCCL_SHRINK_ABORT : NCCL_SHRINK_DEFAULT;
	rank_good(o, nccl.ncclCommShrink(*rank_comm(o), exclude, n, to, NULL, flags));
}

static void end_capture(struct order *o)
{
	long g = rank_word(o, 1) % RANK_HANDLES;
	if (rank_good_cu(o, cu.cuStreamEndCapture(rank_stream(o), &rank_state.graph[g])))
		rank_good_cu(o, cu.cuGraphInstantiateWithFlags(&rank_state.exec[g], rank_state.graph[g], 0));
}

static void drop_graph(struct order *o)
{
	long g = rank_word(o, 1) % RANK_HANDLES;
	if (rank_good_cu(o, cu.cuGraphExecDestroy(rank_state.exec[g])))
		rank_good_cu(o, cu.cuGraphDestroy(rank_state.graph[g]));
}

static void query(struct order *o)
{
	CUresult r = cu.cuStreamQuery(rank_stream(o));
	if (r == CUDA_ERROR_NOT_READY)
		rank_say(o, "busy");
	else if (rank_good_cu(o, r))
		rank_say(o, "done");
}

static void work(long ms)
{
	volatile uint64_t sum = 0;
	for (uint64_t end = cpu_ns() + (uint64_t)ms * 1000000; cpu_ns() < end;)
		for (int i = 0; i < 10000; i++)
			sum = sum + 1;
}

/* ---- ends ---- */

static void end_comm(struct order *o, ncclResult_t (*end)(ncclComm_t), bool gone)
{
	ncclComm_t *comm = rank_comm(o);
	ncclResult_t r = end(*comm);
	if (r == ncclInProgress)
		rank_wait_ready(o, *comm);
	else if (rank_good(o, r) && gone)
		*comm = NULL;
}

static void abort_all(struct order *o)
{
	nccl.ncclGroupStart();
	for (int i = 0; i < RANK_HANDLES; i++)
		if (rank_state.comm[i])
			rank_good(o, nccl.ncclCommAbort(rank_state.comm[i]));
	if (rank_good(o, nccl.ncclGroupEnd()))
		memset(rank_state.comm, 0, sizeof(rank_state.comm));
}

static void async_state(struct order *o)
{
	ncclResult_t state = ncclSuccess;
	if (rank_good(o, nccl.ncclCommGetAsyncError(*rank_comm(o), &state)))
		rank_say(o, "%d", (int)state);
}

/* ---- obeying ---- */

static void obey_sim(struct order *o)
{
	const char *what = o->word[0];
	unsigned long long v = 0;
	ncclComm_t c = *rank_comm(o);
	int rank = (int)rank_word(o, 1);
	if (!nccl.sim_nccl_mistakes) {
		rank_say(o, "error not the simulated NCCL");
		return;
	}
	if (!strcmp(what, "fault")) {
		if (o->count < 3 || !nccl.sim_nccl_fault(o->word[1], (uint64_t)rank_word(o, 2)))
			rank_say(o, "error no such fault");
		return;
	}
	if (!strcmp(what, "mistakes"))
		v = nccl.sim_nccl_mistakes();
	else if (!strcmp(what, "launches"))
		v = nccl.sim_nccl_launches(c);
	else if (!strcmp(what, "signature"))
		v = nccl.sim_nccl_signature(c);
	else if (!strcmp(what, "order"))
		v = nccl.sim_nccl_order(c);
	else if (!strcmp(what, "started"))
		v = nccl.sim_nccl_started(c, rank);
	else if (!strcmp(what, "completed"))
		v = nccl.sim_nccl_completed(c, rank);
	else {
		rank_say(o, "error unknown order %s", what);
		return;
	}
	rank_say(o, "%llu", v);
}

static void obey_nccl(struct order *o)
{
	const char *what = o->word[0];
	for (int i = 0; i < DATA_FUNCS; i++) {
		if (!strcmp(what, data_func_names[i])) {
			rank_operate(o, (enum data_func)i);
			return;
		}
	}
	if (!strcmp(what, "init"))
		init(o);
	else if (!strcmp(what, "split"))
		split(o);
	else if (!strcmp(what, "shrink"))
		shrink(o);
	else if (!strcmp(what, "group"))
		rank_state.grouped = rank_good(o, nccl.ncclGroupStart());
	else if (!strcmp(what, "end"))
		end_group(o);
	else if (!strcmp(what, "abort"))
		end_comm(o, nccl.ncclCommAbort, true);
	else if (!strcmp(what, "abortall"))
		abort_all(o);
	else if (!strcmp(what, "destroy"))
		end_comm(o, nccl.ncclCommDestroy, true);
	else if (!strcmp(what, "finalize"))
		end_comm(o, nccl.ncclCommFinalize, false);
	else if (!strcmp(what, "revoke"))
		rank_good(o, nccl.ncclCommRevoke(*rank_comm(o), 0));
	else if (!strcmp(what, "async"))
		async_state(o);
	else if (!strcmp(what, "last"))
		rank_say(o, "%s", nccl.ncclGetLastError(*rank_comm(o)));
	else
		obey_sim(o);
}

static void obey_one(struct order *o)
{
	const char *what = o->word[0];
	if (!strcmp(what, "fill"))
		rank_fill(o);
	else if (!strcmp(what, "check"))
		rank_check(o);
	else if (!strcmp(what, "sync"))
		rank_good_cu(o, cu.cuStreamSynchronize(rank_stream(o)));
	else if (!strcmp(what, "query"))
		query(o);
	else if (!strcmp(what, "spin"))
		rank_good_cu(o, launch_spin_us(rank_stream(o), (uint64_t)rank_word(o, 1)));
	else if (!strcmp(what, "gate")) {
		__atomic_store_n(rank_state.gate, 0, __ATOMIC_SEQ_CST);
		rank_good_cu(o, launch_spin_on(rank_stream(o), (CUdeviceptr)(uintptr_t)rank_state.gate));
	} else if (!strcmp(what, "open"))
		__atomic_store_n(rank_state.gate, 1, __ATOMIC_SEQ_CST);
	else if (!strcmp(what, "capture"))
		rank_good_cu(o, cu.cuStreamBeginCapture_v2(rank_stream(o), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	else if (!strcmp(what, "captured"))
		end_capture(o);
	else if (!strcmp(what, "replay"))
		rank_good_cu(o, cu.cuGraphLaunch(rank_state.exec[rank_word(o, 1) % RANK_HANDLES], rank_stream(o)));
	else if (!strcmp(what, "drop"))
		drop_graph(o);
	else if (!strcmp(what, "sleep"))
		sleep_ms((unsigned)rank_word(o, 1));
	else if (!strcmp(what, "work"))
		work(rank_word(o, 1));
	else if (!strcmp(what, "stop"))
		raise(SIGSTOP);
	else if (!strcmp(what, "exit"))
		exit((int)rank_word(o, 1));
	else
		obey_nccl(o);
}

/* ---- `behind` ---- */

static struct {
	pthread_t thread;
	struct rank *me;
	char order[RANKS_LINE], answer[RANKS_LINE];
} behind;

static void *behind_main(void *unused)
{
	(void)unused;
	rank_obey(behind.me, behind.order, behind.answer);
	return NULL;
}

static bool obey_behind(struct rank *me, char *line, char *answer)
{
	if (!strncmp(line, "behind ", 7)) {
		behind.me = me;
		snprintf(behind.order, sizeof behind.order, "%s", line + 7);
		behind.answer[0] = 0;
		if (pthread_create(&behind.thread, NULL, behind_main, NULL))
			strcpy(answer, "error no thread");
	} else if (!strcmp(line, "joined")) {
		pthread_join(behind.thread, NULL);
		strcpy(answer, behind.answer);
	} else {
		return false;
	}
	return true;
}

void rank_obey(struct rank *me, char *line, char *answer)
{
	struct order o = {.me = me, .answer = answer};
	char *save = NULL;
	strcpy(answer, "ok");
	if (obey_behind(me, line, answer))
		return;
	for (char *w = strtok_r(line, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		if (strchr(w, '=') && o.options < RANK_WORDS)
			o.option[o.options++] = w;
		else if (o.count < RANK_WORDS)
			o.word[o.count++] = w;
	}
	if (!o.count || !set_up(&o))
		return;
	cu.cuCtxSetCurrent(rank_state.ctx);
	obey_one(&o);
}
