/*
 * profiler.c - tells a profiler plugin (NCCL_PROFILER_PLUGIN) of groups, operations, and kernels' starts and ends.
 *
 * Real kernels write their progress to host memory, and a thread of NCCL tells the plugin; here the stream's
 * thread does. Not told: proxy operations, the network, and what version 5 has about calls and launches.
 */
#include "profiler.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "internal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	bool tried;
	const struct profiler_v5 *v5;
	const struct profiler_v4 *v4;
	const struct profile_functions *f; /* NULL: no plugin */
} plugin;                              /* lock until it was tried, then constant */

static const char *const type_names[ncclNumTypes] = {
	"ncclInt8",    "ncclUint8",   "ncclInt32",   "ncclUint32",   "ncclInt64",      "ncclUint64",
	"ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2",
};

static void *open_plugin(const char *name)
{
	char path[512];
	if (!strcasecmp(name, "none"))
		return NULL;
	void *lib = dlopen(strcmp(name, "STATIC_PLUGIN") ? name : NULL, RTLD_NOW | RTLD_LOCAL);
	if (lib)
		return lib;
	snprintf(path, sizeof path, "libnccl-profiler-%s.so", name);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void load(void)
{
	const char *name = getenv("NCCL_PROFILER_PLUGIN");
	void *lib = name ? open_plugin(name) : dlopen("libnccl-profiler.so", RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return;
	plugin.v5 = dlsym(lib, "ncclProfiler_v5");
	plugin.v4 = plugin.v5 ? NULL : dlsym(lib, "ncclProfiler_v4");
	plugin.f = plugin.v5 ? &plugin.v5->f : plugin.v4 ? &plugin.v4->f : NULL;
}

static void log_nothing(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	(void)level;
	(void)flags;
	(void)file;
	(void)line;
	(void)fmt;
}

void profiler_begin(struct comm *c)
{
	ncclResult_t result = ncclInternalError;
	pthread_mutex_lock(&lock);
	if (!plugin.tried)
		load();
	plugin.tried = true;
	pthread_mutex_unlock(&lock);
	if (plugin.v5)
		result = plugin.v5->init(&c->profiler, c->place.nonce, &c->profiled, c->config.commName, 1, c->ranks,
								 c->rank, log_nothing);
	else if (plugin.v4)
		result = plugin.v4->init(&c->profiler, &c->profiled, c->config.commName, c->place.nonce, 1, c->ranks,
								 c->rank, log_nothing);
	if (result != ncclSuccess)
		c->profiled = 0;
}

void profiler_end(struct comm *c)
{
	if (plugin.f && c->profiler)
		plugin.f->finalize(c->profiler);
	c->profiler = NULL;
	c->profiled = 0;
}

static uint64_t device_clock(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *start(const struct comm *c, struct profile_event *event)
{
	void *handle = NULL;
	event->rank = c->rank;
	plugin.f->start(c->profiler, &handle, event);
	return handle;
}

static void start_op(struct comm *c, struct launch *l, struct op *op)
{
	bool p2p = op->func == F_SEND || op->func == F_RECV;
	struct profile_event e = {.type = p2p ? PROFILE_P2P : PROFILE_COLL, .parent = l->group};
	if (!((uint64_t)c->profiled & e.type))
		return;
	if (p2p)
		e.p2p = (struct profile_p2p){func_name[op->func],
									 op->func == F_SEND ? (void *)(uintptr_t)op->send : op->recv,
									 type_names[op->type],
									 op->count,
									 op->root,
									 1,
									 l->group};
	else
		e.coll = (struct profile_coll){c->sequence[op->func]++,
									   func_name[op->func],
									   op->send,
									   op->recv,
									   op->count,
									   op->root,
									   type_names[op->type],
									   1,
									   16,
									   "RING",
									   "LL",
									   l->group};
	op->event = start(c, &e);
}

void profiler_launch(struct comm *c, struct launch *l)
{
	struct profile_event group = {.type = PROFILE_GROUP};
	if (!c->profiled)
		return;
	if (c->profiled & PROFILE_GROUP)
		l->group = start(c, &group);
	for (int i = 0; i < l->count; i++)
		start_op(c, l, &l->op[i]);
}

void profiler_launched(const struct comm *c, const struct launch *l)
{
	if (!c->profiled)
		return;
	for (int i = 0; i < l->count; i++)
		if (l->op[i].event)
			plugin.f->stop(l->op[i].event);
	if (l->group)
		plugin.f->stop(l->group);
}

void profiler_kernel_start(const struct comm *c, const struct launch *l, void **events)
{
	for (int i = 0; i < l->count && c->profiled & PROFILE_KERNEL_CH; i++) {
		struct profile_event e = {.type = PROFILE_KERNEL_CH, .parent = l->op[i].event};
		e.kernel.timer = device_clock();
		events[i] = l->op[i].event ? start(c, &e) : NULL;
	}
}

void profiler_kernel_end(const struct comm *c, const struct launch *l, void **events)
{
	for (int i = 0; i < l->count && c->profiled & PROFILE_KERNEL_CH; i++) {
		if (!events[i])
			continue;
		union profile_state state = {.kernel = {device_clock()}};
		plugin.f->record(events[i], PROFILE_KERNEL_CH_STOP, &state);
		plugin.f->stop(events[i]);
	}
}
