/*
 * comm.c - communicators as such: the list of them, their state, and what can be asked of them.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* As abi_check.c finds the real ones. */
_Static_assert(sizeof(ncclConfig_t) == 80 && offsetof(ncclConfig_t, blocking) == 16 &&
				   offsetof(ncclConfig_t, commName) == 48 && offsetof(ncclConfig_t, nvlinkCentricSched) == 76,
			   "ncclConfig_t");
_Static_assert(sizeof(ncclSimInfo_t) == 24 && sizeof(ncclUniqueId) == 128, "ncclSimInfo_t, ncclUniqueId");
_Static_assert(ncclInProgress == 7 && ncclAvg == 4 && ncclFloat16 == 6 && ncclBfloat16 == 9 &&
				   ncclNumTypes == 12 && ncclScalarHostImmediate == 1,
			   "enumerations");

struct nc nc = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __thread char last_error[256]; /* of this thread, for ncclGetLastError(NULL) */

void set_last_error(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(last_error, sizeof last_error, fmt, ap);
	va_end(ap);
}

bool comm_has_stopped(const struct comm *c)
{
	return __atomic_load_n(&c->stop, __ATOMIC_SEQ_CST) != STOP_NONE;
}

void comm_fail(struct comm *c, ncclResult_t state, const char *fmt, ...)
{
	va_list ap;
	pthread_mutex_lock(&c->lock);
	va_start(ap, fmt);
	vsnprintf(c->error, sizeof c->error, fmt, ap);
	va_end(ap);
	pthread_mutex_unlock(&c->lock);
	__atomic_store_n(&c->state, (int32_t)state, __ATOMIC_RELEASE);
}

static struct comm *list_find(const struct comm *c)
{
	struct comm *at = nc.comms;
	while (at && at != c)
		at = at->next;
	return at;
}

ncclResult_t comm_check(struct comm *c, const char *function)
{
	if (!c) {
		set_last_error("%s : comm argument is NULL", function);
		return ncclInvalidArgument;
	}
	pthread_mutex_lock(&nc.lock);
	bool known = list_find(c) != NULL;
	pthread_mutex_unlock(&nc.lock);
	if (known && __atomic_load_n(&c->magic, __ATOMIC_ACQUIRE) == COMM_MAGIC)
		return ncclSuccess;
	complain("%s on a communicator that %s", function, known ? "was destroyed" : "never was");
	set_last_error("Error: corrupted comm object detected");
	return ncclInvalidArgument;
}

ncclResult_t comm_ready(struct comm *c, const char *function)
{
	ncclResult_t result = comm_check(c, function);
	if (result != ncclSuccess)
		return result;
	result = (ncclResult_t)__atomic_load_n(&c->state, __ATOMIC_ACQUIRE);
	if (result == ncclInProgress) {
		set_last_error("Attempt to use communicator before the previous operation returned ncclSuccess");
		return ncclInvalidArgument;
	}
	if (result == ncclSuccess && (c->finalized || comm_has_stopped(c))) {
		set_last_error("%s on a communicator that was finalized, revoked or aborted", function);
		return ncclInvalidUsage;
	}
	return result;
}

static bool config_ok(const ncclConfig_t *config)
{
	return !config || (config->magic == NCCL_CONFIG_MAGIC && config->size >= offsetof(ncclConfig_t, netName));
}

struct comm *comm_new(int ranks, int rank, const ncclConfig_t *config, const struct place *place)
{
	struct comm *c = config_ok(config) ? calloc(1, sizeof(*c)) : NULL;
	if (!c)
		return NULL;
	c->config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
	if (config)
		memcpy(&c->config, config, config->size < sizeof(*config) ? config->size : sizeof(*config));
	c->ranks = ranks;
	c->rank = rank;
	c->blocking = c->config.blocking != 0;
	if (place)
		c->place = *place;
	c->state = ncclInProgress;
	c->capture = (cuuint64_t)-1;
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->run, NULL);
	c->magic = COMM_MAGIC;
	pthread_mutex_lock(&nc.lock);
	c->number = nc.created++;
	c->next = nc.comms;
	nc.comms = c;
	nc.live++;
	pthread_mutex_unlock(&nc.lock);
	return c;
}

void comm_free(struct comm *c)
{
	__atomic_store_n(&c->magic, COMM_GONE, __ATOMIC_RELEASE);
	profiler_end(c);
	if (c->shared) {
		__atomic_store_n(&c->shared->rank[c->rank].left, 1, __ATOMIC_RELEASE);
		shared_close(c->shared, c->ranks);
		c->shared = NULL;
	}
	if (c->order)
		dr.cuEventDestroy_v2(c->order);
	if (c->capture_order)
		dr.cuEventDestroy_v2(c->capture_order);
	c->order = c->capture_order = NULL;
	pthread_mutex_lock(&nc.lock);
	nc.live--;
	pthread_mutex_unlock(&nc.lock);
}

/* ---- questions ---- */

NCCL_API(ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *error))
{
	struct comm *c = (struct comm *)comm;
	count_call("ncclCommGetAsyncError");
	ncclResult_t result = comm_check(c, "ncclGetAsyncError");
	if (result != ncclSuccess || !error)
		return ncclInvalidArgument;
	uint64_t ms = fault(c, FAULT_ASYNC_MS);
	if (ms == 1)
		hang_forever();
	sleep_us(ms * 1000);
	*error = (ncclResult_t)__atomic_load_n(&c->state, __ATOMIC_ACQUIRE);
	return ncclSuccess;
}

const char *pncclGetLastError(ncclComm_t comm) __attribute__((alias("ncclGetLastError")));
__attribute__((weak)) const char *ncclGetLastError(ncclComm_t comm)
{
	struct comm *c = (struct comm *)comm;
	return c && comm_check(c, "ncclGetLastError") == ncclSuccess && c->error[0] ? c->error : last_error;
}

const char *pncclGetErrorString(ncclResult_t result) __attribute__((alias("ncclGetErrorString")));
__attribute__((weak)) const char *ncclGetErrorString(ncclResult_t result)
{
	static const char *const text[] = {
		"no error",
		"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
		"unhandled system error (run with NCCL_DEBUG=INFO for details)",
		"internal error - please report this issue to the NCCL developers",
		"invalid argument (run with NCCL_DEBUG=WARN for details)",
		"invalid usage (run with NCCL_DEBUG=WARN for details)",
		"remote process exited or there was a network error",
		"NCCL operation in progress",
	};
	return (unsigned)result < ncclNumResults ? text[result] : "unknown result code";
}

void pncclResetDebugInit(void) __attribute__((alias("ncclResetDebugInit")));
__attribute__((weak)) void ncclResetDebugInit(void) {}

#define QUESTION(name, what, type, value)              \
	NCCL_API(name, (const ncclComm_t comm, type *out)) \
	{                                                  \
		struct comm *c = (struct comm *)comm;          \
		count_call(#name);                             \
		ncclResult_t result = comm_check(c, what);     \
		if (result != ncclSuccess || !out)             \
			return ncclInvalidArgument;                \
		*out = (value);                                \
		return ncclSuccess;                            \
	}
QUESTION(ncclCommCount, "CommCount", int, c->ranks)
QUESTION(ncclCommCuDevice, "CommCuDevice", int, c->dev)
QUESTION(ncclCommUserRank, "CommUserRank", int, c->rank)

NCCL_API(ncclGetVersion, (int *version))
{
	count_call("ncclGetVersion");
	if (!version)
		return ncclInvalidArgument;
	*version = nccl_version();
	return ncclSuccess;
}

/* ---- for tests ---- */

uint64_t sim_nccl_comms(void)
{
	pthread_mutex_lock(&nc.lock);
	uint64_t live = nc.live;
	pthread_mutex_unlock(&nc.lock);
	return live;
}

uint64_t sim_nccl_launches(ncclComm_t comm)
{
	struct comm *c = (struct comm *)comm;
	pthread_mutex_lock(&c->lock);
	uint64_t launches = c->launches;
	pthread_mutex_unlock(&c->lock);
	return launches;
}

uint32_t sim_nccl_launch_ops(ncclComm_t comm, uint64_t nth)
{
	struct comm *c = (struct comm *)comm;
	pthread_mutex_lock(&c->lock);
	bool known = nth < c->launches && nth + PARTITIONS >= c->launches;
	uint32_t ops = known ? c->partition[nth % PARTITIONS] : 0;
	pthread_mutex_unlock(&c->lock);
	return ops;
}

uint64_t sim_nccl_signature(ncclComm_t comm)
{
	struct comm *c = (struct comm *)comm;
	pthread_mutex_lock(&c->lock);
	uint64_t signature = c->signature;
	pthread_mutex_unlock(&c->lock);
	return signature;
}

uint64_t sim_nccl_order(ncclComm_t comm)
{
	struct comm *c = (struct comm *)comm;
	pthread_mutex_lock(&c->lock);
	uint64_t order = c->order_since;
	c->order_since = 0;
	pthread_mutex_unlock(&c->lock);
	return order;
}

static uint64_t counter(ncclComm_t comm, int rank, bool completed)
{
	struct comm *c = (struct comm *)comm;
	struct shared *s = __atomic_load_n(&c->shared, __ATOMIC_ACQUIRE);
	if (!s || rank < 0 || rank >= c->ranks)
		return 0;
	struct rank_shared *r = &s->rank[rank];
	return __atomic_load_n(completed ? &r->completed : &r->started, __ATOMIC_ACQUIRE);
}

uint64_t sim_nccl_started(ncclComm_t comm, int rank)
{
	return counter(comm, rank, false);
}

uint64_t sim_nccl_completed(ncclComm_t comm, int rank)
{
	return counter(comm, rank, true);
}
