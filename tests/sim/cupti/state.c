/*
 * state.c - the library's state: finding the driver, attaching to it, detaching.
 */
#include <dlfcn.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define FUNCTIONS 128

struct cu cu = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.control = PTHREAD_MUTEX_INITIALIZER,
	.full_tail = &cu.full,
	.ready_tail = &cu.ready,
	.work = PTHREAD_COND_INITIALIZER,
	.delivered = PTHREAD_COND_INITIALIZER,
};
__thread struct thread me;

static pid_t owner; /* the process that attached; 0: none yet. Atomic. */

/* Calls by function; a name is release-stored once its slot is taken. */
static struct {
	const char *name;
	uint64_t calls;
} functions[FUNCTIONS];

uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void count(const char *function)
{
	for (int i = 0; i < FUNCTIONS; i++) {
		const char *name = __atomic_load_n(&functions[i].name, __ATOMIC_ACQUIRE);
		if (!name && __atomic_compare_exchange_n(&functions[i].name, &name, function, false, __ATOMIC_RELEASE,
												 __ATOMIC_ACQUIRE))
			name = function;
		if (!strcmp(name, function)) {
			__atomic_fetch_add(&functions[i].calls, 1, __ATOMIC_RELAXED);
			return;
		}
	}
}

uint64_t sim_cupti_calls(const char *function)
{
	for (int i = 0; i < FUNCTIONS; i++) {
		const char *name = __atomic_load_n(&functions[i].name, __ATOMIC_ACQUIRE);
		if (name && !strcmp(name, function))
			return __atomic_load_n(&functions[i].calls, __ATOMIC_RELAXED);
	}
	return 0;
}

bool forked_child(void)
{
	pid_t pid = __atomic_load_n(&owner, __ATOMIC_ACQUIRE);
	return pid && pid != getpid();
}

bool entered(const char *function)
{
	count(function);
	if (!forked_child())
		return true;
	complain("%s in a forked child", function);
	return false;
}

static const struct sim_trace_driver *driver_attach(const struct sim_tracer *who)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	const struct sim_trace_driver *(*attach_to)(const struct sim_tracer *) = NULL;
	if (driver)
		*(void **)&attach_to = dlsym(driver, "sim_trace_attach");
	return attach_to ? attach_to(who) : NULL;
}

CUptiResult attach(void)
{
	pthread_mutex_lock(&cu.lock);
	bool attached = cu.attached;
	pthread_mutex_unlock(&cu.lock);
	if (attached)
		return CUPTI_SUCCESS;
	const struct sim_trace_driver *driver = driver_attach(&tracer);
	if (!driver)
		return CUPTI_ERROR_UNKNOWN;
	pthread_mutex_lock(&cu.lock);
	if (!cu.driver)
		cu.driver = driver;
	cu.attached = true;
	pthread_mutex_unlock(&cu.lock);
	__atomic_store_n(&owner, getpid(), __ATOMIC_RELEASE);
	return CUPTI_SUCCESS;
}

void control_take(void)
{
	pthread_mutex_lock(&cu.control);
	attach();
}

/* ---- cuptiFinalize ---- */

/* Why the library cannot be taken down from here; NULL: it can. Lock held. */
static const char *finalize_refused(void)
{
	if (me.inside == INSIDE_REQUEST || me.inside == INSIDE_COMPLETE)
		return "inside a buffer callback";
	if (me.inside == INSIDE_ENTER)
		return "from a callback of a call's beginning";
	if (me.inside == INSIDE_EXIT)
		return NULL;
	/* Elsewhere all must be quiet: no work under way, nothing left to deliver. */
	if (cu.in_flight)
		return "outside a callback of a call's end, while work is under way";
	for (struct slot *s = cu.slots; s; s = s->next)
		if (s->buffer)
			return "outside a callback of a call's end, with records that were not flushed";
	return cu.common.buffer || cu.full || cu.ready || cu.delivering
			   ? "outside a callback of a call's end, with records that were not flushed"
			   : NULL;
}

void state_forget(void)
{
	for (int i = 0; i < KINDS; i++)
		__atomic_store_n(&cu.on[i], false, __ATOMIC_RELAXED);
	memset(cu.driver_on, 0, sizeof cu.driver_on);
	memset(cu.runtime_on, 0, sizeof cu.runtime_on);
	cu.request = NULL;
	cu.complete = NULL;
	__atomic_store_n(&cu.clock, NULL, __ATOMIC_RELAXED);
	cu.zeroed = false;
	cu.per_thread = conf.toolkit >= 130000;
	cu.flush_ms = 0;
	cu.in_flight = 0;
	cu.attached = cu.ever_asked = false;
	if (cu.subscriber)
		cu.subscriber->live = false;
}

CUptiResult cuptiFinalize(void)
{
	ENTER();
	pthread_mutex_lock(&cu.lock);
	const char *why = cu.attached ? finalize_refused() : NULL;
	bool attached = cu.attached;
	pthread_mutex_unlock(&cu.lock);
	if (why)
		complain("cuptiFinalize %s", why);
	if (why || !attached)
		return why ? CUPTI_ERROR_INVALID_OPERATION : CUPTI_SUCCESS;
	pthread_mutex_lock(&cu.control);
	driver_attach(NULL);
	buffers_forget();
	pthread_mutex_unlock(&cu.control);
	return CUPTI_SUCCESS;
}

/* ---- for tests ---- */

static uint64_t locked(const uint64_t *counter)
{
	pthread_mutex_lock(&cu.lock);
	uint64_t value = *counter;
	pthread_mutex_unlock(&cu.lock);
	return value;
}

uint64_t sim_cupti_records(uint32_t kind)
{
	uint64_t all = 0;
	for (int i = 0; !kind && i < KINDS; i++)
		all += locked(&cu.records[i]);
	return kind && kind < KINDS ? locked(&cu.records[kind]) : all;
}
uint64_t sim_cupti_dropped(void)
{
	return locked(&cu.dropped_all);
}
uint64_t sim_cupti_zeroed(void)
{
	return locked(&cu.zeroed_all);
}
uint64_t sim_cupti_buffers_held(void)
{
	return locked(&cu.held);
}
int sim_cupti_attached(void)
{
	pthread_mutex_lock(&cu.lock);
	int attached = cu.attached;
	pthread_mutex_unlock(&cu.lock);
	return attached;
}
int sim_cupti_subscribed(void)
{
	pthread_mutex_lock(&cu.lock);
	int live = cu.subscriber && cu.subscriber->live;
	pthread_mutex_unlock(&cu.lock);
	return live;
}
int sim_cupti_enabled(uint32_t kind)
{
	return kind < KINDS && __atomic_load_n(&cu.on[kind], __ATOMIC_RELAXED);
}
