#define _GNU_SOURCE
#include "stream_table.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture.h"
#include "log.h"
#include "calls.h"
#include "torch_env.h"
#include "vmm_calls.h"

#define SLOTS 8192 /* power of two */
#define ENTRIES (SLOTS / 4 * 3)
#define RESTING 256 /* closed entries that are not used again yet: a late look finds them closed */

static struct stream_entry gone; /* in slots whose entry has left: a search goes on behind them */

static struct {
	_Atomic(struct stream_entry *) slot[SLOTS]; /* release with a complete entry; acquire by find */
	pthread_mutex_t lock;                  /* guards the writing, and the rest; no driver call under it */
	unsigned used, left;                   /* slots with an entry; slots that an entry has left */
	unsigned per_thread, per_thread_limit; /* entries of per-thread streams; when to look for dead threads */
	struct stream_entry *rest, **rest_end; /* closed, oldest first */
	unsigned resting;
	struct stream_entry *parked; /* out of the table during a capture, to be closed after it */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .rest_end = &table.rest, .per_thread_limit = 64};

/* ---- keys ---- */

static bool is_default(CUstream stream)
{
	return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

static bool is_per_thread(CUstream stream, bool per_thread)
{
	return stream == CU_STREAM_PER_THREAD || (!stream && per_thread);
}

/* A handle names a stream that the program made until it is destroyed, which we see. A default
 * stream goes with its context or its thread; its id is never used again. */
uint64_t stream_key(CUstream stream, bool per_thread)
{
	unsigned long long id;
	if (!is_default(stream))
		return (uint64_t)(uintptr_t)stream << 1;
	CUstream name = is_per_thread(stream, per_thread) ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
	return REAL(cuStreamGetId)(name, &id) == CUDA_SUCCESS ? id << 1 | 1 : 0;
}

static unsigned start_of(uint64_t key)
{
	return (unsigned)(key * 0x9e3779b97f4a7c15ull >> 40) & (SLOTS - 1);
}

struct stream_entry *stream_table_find(uint64_t key, const struct stream_device *dev)
{
	for (unsigned at = start_of(key), n = 0; n < SLOTS; at = (at + 1) & (SLOTS - 1), n++) {
		struct stream_entry *e = atomic_load_explicit(&table.slot[at], memory_order_acquire);
		if (!e)
			return NULL;
		if (atomic_load_explicit(&e->key, memory_order_relaxed) == key && (dev ? e->dev == dev : e->home))
			return e;
	}
	return NULL;
}

/* Lock held; there is room. */
static void put_in(struct stream_entry *e, uint64_t key)
{
	unsigned at = start_of(key);
	struct stream_entry *in;
	while ((in = atomic_load_explicit(&table.slot[at], memory_order_relaxed)) && in != &gone)
		at = (at + 1) & (SLOTS - 1);
	table.left -= in == &gone;
	atomic_store_explicit(&e->key, key, memory_order_relaxed);
	atomic_store_explicit(&table.slot[at], e, memory_order_release);
}

/* ---- closing ---- */

/* Lock held. */
static void rest(struct stream_entry *e)
{
	e->next = NULL;
	*table.rest_end = e;
	table.rest_end = &e->next;
	table.resting++;
}

/* During a capture no mark can be recorded: the entry waits, and is marked by an event of its
 * whole context later. */
static void close_list(struct stream_entry *list)
{
	for (struct stream_entry *e = list, *next; e; e = next) {
		next = e->next;
		bool park = capture_live();
		if (!park)
			heap_stream_close(e->blocks);
		vmm_stream_retire(&e->stream);
		if (!park)
			vmm_context_put(e->stream.ctx);
		pthread_mutex_lock(&table.lock);
		if (park) {
			e->next = table.parked;
			table.parked = e;
		} else {
			rest(e);
		}
		pthread_mutex_unlock(&table.lock);
	}
}

static void close_parked(void)
{
	pthread_mutex_lock(&table.lock);
	struct stream_entry *list = capture_live() ? NULL : table.parked;
	if (list)
		table.parked = NULL;
	pthread_mutex_unlock(&table.lock);
	close_list(list);
}

/* Lock held. A search for what is not there ends at an empty slot: when too many entries have
 * left, the rest is put in anew. Who misses one meanwhile looks again under the lock. */
static void sweep_slots(void)
{
	static struct stream_entry *kept[ENTRIES];
	unsigned n = 0;
	if (table.left < SLOTS / 4)
		return;
	for (unsigned at = 0; at < SLOTS; at++) {
		struct stream_entry *e = atomic_load_explicit(&table.slot[at], memory_order_relaxed);
		if (e && e != &gone)
			kept[n++] = e;
		atomic_store_explicit(&table.slot[at], NULL, memory_order_release);
	}
	table.left = 0;
	for (unsigned i = 0; i < n; i++)
		put_in(kept[i], atomic_load_explicit(&kept[i]->key, memory_order_relaxed));
}

/* Takes out those that match, as a list. */
static struct stream_entry *take_out(bool (*match)(const struct stream_entry *e, const void *arg),
									 const void *arg)
{
	struct stream_entry *list = NULL;
	pthread_mutex_lock(&table.lock);
	for (unsigned at = 0; at < SLOTS; at++) {
		struct stream_entry *e = atomic_load_explicit(&table.slot[at], memory_order_relaxed);
		if (!e || e == &gone || !match(e, arg))
			continue;
		atomic_store_explicit(&table.slot[at], &gone, memory_order_release);
		atomic_store_explicit(&e->key, 0, memory_order_relaxed);
		table.used--;
		table.left++;
		table.per_thread -= e->per_thread;
		e->next = list;
		list = e;
	}
	sweep_slots();
	pthread_mutex_unlock(&table.lock);
	return list;
}

static bool has_key(const struct stream_entry *e, const void *arg)
{
	return atomic_load_explicit(&e->key, memory_order_relaxed) == *(const uint64_t *)arg;
}

static bool has_context_gone(const struct stream_entry *e, const void *dev)
{
	return atomic_load(&e->stream.ctx->gone) || e->dev == dev;
}

static bool has_thread_gone(const struct stream_entry *e, const void *arg)
{
	(void)arg;
	return e->per_thread && syscall(SYS_tgkill, getpid(), e->thread, 0) && errno == ESRCH;
}

void stream_table_close(CUstream stream)
{
	uint64_t key = is_default(stream) ? 0 : stream_key(stream, false);
	/* Most streams that are destroyed never allocated. */
	bool any = false;
	close_parked();
	for (unsigned at = start_of(key), n = 0; key && !any && n < SLOTS; at = (at + 1) & (SLOTS - 1), n++) {
		struct stream_entry *e = atomic_load_explicit(&table.slot[at], memory_order_acquire);
		if (!e)
			return;
		any = has_key(e, &key);
	}
	if (any)
		close_list(take_out(has_key, &key));
}

void stream_table_sweep(const struct stream_device *dev)
{
	close_list(take_out(has_context_gone, dev));
}

/* ---- opening ---- */

static CUcontext context_of(CUstream stream)
{
	CUcontext ctx = NULL;
	CUresult r = is_default(stream) ? REAL(cuCtxGetCurrent)(&ctx) : REAL(cuStreamGetCtx)(stream, &ctx);
	return r == CUDA_SUCCESS ? ctx : NULL;
}

/* Lock held. */
static struct stream_entry *take_entry(void)
{
	struct stream_entry *e = table.rest;
	if (table.resting <= RESTING)
		return calloc(1, sizeof(*e));
	table.rest = e->next;
	if (!table.rest)
		table.rest_end = &table.rest;
	table.resting--;
	return e;
}

/* Lock held. */
static struct stream_entry *add(uint64_t key, struct stream_entry from, struct stream_device *dev)
{
	struct stream_entry *e = table.used < ENTRIES ? take_entry() : NULL;
	if (!e)
		return NULL;
	*e = from;
	e->dev = dev;
	e->blocks = heap_stream_open(atomic_load_explicit(&dev->heap, memory_order_acquire), &e->stream);
	if (!e->blocks) {
		free(e);
		return NULL;
	}
	put_in(e, key);
	table.used++;
	table.per_thread += e->per_thread;
	return e;
}

/* Threads end without a word; their default streams' blocks are anybody's then. */
static void close_dead_threads(void)
{
	pthread_mutex_lock(&table.lock);
	bool many = table.per_thread >= table.per_thread_limit;
	pthread_mutex_unlock(&table.lock);
	if (!many)
		return;
	close_list(take_out(has_thread_gone, NULL));
	pthread_mutex_lock(&table.lock);
	table.per_thread_limit = table.per_thread * 2 > 64 ? table.per_thread * 2 : 64;
	pthread_mutex_unlock(&table.lock);
}

struct stream_entry *stream_table_open(uint64_t key, CUstream stream, bool per_thread,
									   struct stream_device *dev)
{
	struct vmm_context *ctx = RELAXED(vmm_context_get(context_of(stream)));
	if (!ctx)
		return NULL;
	struct stream_device *own = stream_device_get(ctx->device);
	struct stream_entry *e = NULL;
	if (!dev)
		dev = own;
	torch_env_done();
	close_parked();
	close_dead_threads();
	if (dev) {
		struct stream_entry from = {
			.home = dev == own,
			.per_thread = is_per_thread(stream, per_thread),
			.thread = (int)syscall(SYS_gettid),
			.stream = {.handle = stream, .ctx = ctx},
		};
		from.stream.per_thread = from.per_thread;
		atomic_init(&from.stream.kind, from.per_thread      ? VMM_CONTEXT
									   : is_default(stream) ? VMM_LEGACY
															: VMM_EXPLICIT);
		pthread_mutex_lock(&table.lock);
		e = stream_table_find(key, dev);
		if (!e && (e = add(key, from, dev)))
			ctx = NULL; /* the entry holds it */
		pthread_mutex_unlock(&table.lock);
		if (!e)
			log_once(LOG_WARN, "devmem: more than %d streams; others use the driver's allocator", ENTRIES);
	}
	if (ctx)
		vmm_context_put(ctx);
	return e;
}
