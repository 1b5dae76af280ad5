/*
 * real.c - binding the slots of real.h to their providers.
 *
 * All state is written inside elfsym_locked(), so the loader's list lock makes writers
 * exclusive and no lock of ours is ever waited for. Readers take no lock.
 */
#include "real.h"

#include <errno.h>
#include <string.h>

#include "copies.h"
#include "elfsym.h"

#define HOOK_ROW_HOOK(sym, lib, taker) [HOOK_##sym] = (void *)hook_lazy,
#define HOOK_ROW_COUNT(sym, lib, taker) [HOOK_##sym] = (void *)hook_lazy,
#define HOOK_ROW_PASS(sym, lib, taker) [HOOK_##sym] = NULL,
void *real_fn[HOOK_COUNT] = {
#include "hook_table.inc"
};

/* What the provider has, NULL for what it lacks. Release after the symbol was found. */
static void *provider_fn[HOOK_COUNT];

/*
 * Open-addressing table from address to id + 1; 0 ends a probe. The key of an entry is
 * provider_fn[id], so one store publishes it and a stale one matches nothing.
 */
#define ROW_HASH_BITS 12
#define ROW_HASH_SIZE (1u << ROW_HASH_BITS)
static uint16_t row_hash[ROW_HASH_SIZE];
_Static_assert(HOOK_COUNT < ROW_HASH_SIZE / 2, "grow ROW_HASH_BITS");

struct library {
	const char *name;
	bool by_caller; /* several copies may come and go: slots stay hook_lazy, copies.h routes the calls */
	/* The provider, to tell it from another object at the same address. */
	uintptr_t base, lo, hi;
	const void *dynamic, *symbols;
	uint64_t build_id;
	unsigned copies; /* relaxed readers: real_copies() */
	int bound;       /* release when all slots are filled */
};

static struct library libraries[HOOK_LIB_COUNT] = {
	[HOOK_LIB_CUDA] = {.name = "libcuda.so"},
	[HOOK_LIB_NCCL] = {.name = "libnccl.so", .by_caller = true},
	[HOOK_LIB_CUPTI] = {.name = "libcupti.so"},
};

/* The list as of the last walk. */
static uint64_t seen_adds, seen_subs;
static unsigned seen_objects;
/* 1 while a thread is in sync_body(); found set only by a signal handler inside it, or by a
 * child forked in the middle of it. */
static int syncing;
/* libturbo.so's own range; set by the first walk (relaxed: both are constant then). */
static uintptr_t own_lo, own_hi;

/* ---- symbols that the provider lacks ---- */

static int cuda_not_found(void)
{
	return 500; /* CUDA_ERROR_NOT_FOUND */
}

static int nccl_not_found(void)
{
	return 5; /* ncclInvalidUsage */
}

static int cupti_not_found(void)
{
	return 27; /* CUPTI_ERROR_NOT_SUPPORTED */
}

static const char *nccl_text_not_found(void)
{
	return "NCCL is not loaded";
}

static void *not_found(enum hook_id id)
{
	const char *name = hook_table[id].name;

	switch (hook_table[id].lib) {
	case HOOK_LIB_CUDA: return (void *)cuda_not_found;
	case HOOK_LIB_CUPTI: return (void *)cupti_not_found;
	default: break;
	}
	/* The two that return a text: also with the prefix p. */
	if (strstr(name, "GetErrorString") || strstr(name, "GetLastError"))
		return (void *)nccl_text_not_found;
	return (void *)nccl_not_found;
}

/* ---- address to row ---- */

static unsigned row_slot(const void *fn)
{
	return (unsigned)(((uintptr_t)fn >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - ROW_HASH_BITS));
}

/* Several names of one address: what we hook before what we count or pass, then the plainest. */
static bool better(enum hook_id a, enum hook_id b)
{
	const struct hook_row *x = &hook_table[a], *y = &hook_table[b];
	size_t length_x = strlen(x->name), length_y = strlen(y->name);

	if (x->how != y->how)
		return x->how < y->how;
	return length_x != length_y ? length_x < length_y : a < b;
}

static void row_insert(enum hook_id id)
{
	const void *fn = provider_fn[id];
	unsigned i = row_slot(fn);

	for (; row_hash[i] != 0; i = (i + 1) % ROW_HASH_SIZE) {
		enum hook_id other = row_hash[i] - 1;

		if (provider_fn[other] != fn)
			continue;
		if (better(id, other))
			break;
		return;
	}
	__atomic_store_n(&row_hash[i], (uint16_t)(id + 1), __ATOMIC_RELEASE);
}

const struct hook_row *real_row_of(const void *fn)
{
	if (!fn)
		return NULL;
	for (unsigned i = row_slot(fn), probes = 0; probes < ROW_HASH_SIZE;
		 i = (i + 1) % ROW_HASH_SIZE, probes++) {
		unsigned entry = __atomic_load_n(&row_hash[i], __ATOMIC_ACQUIRE);

		if (entry == 0)
			return NULL;
		if (__atomic_load_n(&provider_fn[entry - 1], __ATOMIC_ACQUIRE) == fn)
			return &hook_table[entry - 1];
	}
	return NULL;
}

/* ---- binding, under the loader's list lock ---- */

static void rebuild_rows(void)
{
	for (unsigned i = 0; i < ROW_HASH_SIZE; i++)
		__atomic_store_n(&row_hash[i], 0, __ATOMIC_RELAXED);
	for (unsigned id = 0; id < HOOK_COUNT; id++)
		if (provider_fn[id])
			row_insert(id);
}

static void set_slot(enum hook_id id, void *fn)
{
	__atomic_store_n(&real_fn[id], fn, __ATOMIC_RELEASE);
}

static void *empty_slot(enum hook_id id)
{
	return hook_table[id].how == HOOK_HOW_PASS ? NULL : (void *)hook_lazy;
}

/* Slots as they should be for what is known now. */
static void fill_slots(enum hook_lib lib)
{
	const struct library *library = &libraries[lib];

	for (unsigned id = 0; id < HOOK_COUNT; id++) {
		if (hook_table[id].lib != lib)
			continue;
		if (!library->bound || (library->by_caller && hook_table[id].how != HOOK_HOW_PASS))
			set_slot(id, empty_slot(id));
		else
			set_slot(id, provider_fn[id] ? provider_fn[id] : not_found(id));
	}
}

static uint64_t build_id_of(const struct elfsym_object *object)
{
	const void *at = elfsym_build_id(object);
	uint64_t value = 0;

	if (at)
		memcpy(&value, at, sizeof(value));
	return value;
}

static bool same_object(const struct library *library, const struct elfsym_object *object)
{
	return library->base == object->base && library->lo == object->lo && library->hi == object->hi &&
		   library->dynamic == object->dynamic && library->symbols == object->symbols &&
		   library->build_id == build_id_of(object);
}

static void let_go(enum hook_lib lib)
{
	__atomic_store_n(&libraries[lib].bound, 0, __ATOMIC_RELEASE);
	for (unsigned id = 0; id < HOOK_COUNT; id++)
		if (hook_table[id].lib == lib)
			__atomic_store_n(&provider_fn[id], NULL, __ATOMIC_RELEASE);
	fill_slots(lib);
	rebuild_rows();
}

static void take(enum hook_lib lib, struct elfsym_object *object)
{
	struct library *library = &libraries[lib];

	if (library->bound)
		let_go(lib);
	library->base = object->base;
	library->lo = object->lo;
	library->hi = object->hi;
	library->dynamic = object->dynamic;
	library->symbols = object->symbols;
	library->build_id = build_id_of(object);
	for (unsigned id = 0; id < HOOK_COUNT; id++) {
		if (hook_table[id].lib != lib)
			continue;
		void *fn = elfsym_find(object, hook_table[id].name);
		if (fn && real_is_own(fn))
			fn = NULL;
		__atomic_store_n(&provider_fn[id], fn, __ATOMIC_RELEASE);
		if (fn)
			row_insert(id);
	}
	__atomic_store_n(&library->bound, 1, __ATOMIC_RELEASE);
}

/* A walk over the objects from number `from` on; `copies` as counted so far. */
struct scan {
	unsigned from, objects;
	unsigned copies[HOOK_LIB_COUNT];
};

static int scan_object(struct elfsym_object *object, unsigned index, void *arg)
{
	struct scan *scan = arg;

	scan->objects = index + 1;
	if (index < scan->from)
		return 0;
	if (elfsym_contains(object, (const void *)&real_fn)) {
		__atomic_store_n(&own_lo, object->lo, __ATOMIC_RELAXED);
		__atomic_store_n(&own_hi, object->hi, __ATOMIC_RELAXED);
	}
	for (unsigned lib = 0; lib < HOOK_LIB_COUNT; lib++) {
		if (!elfsym_is_library(object, libraries[lib].name))
			continue;
		elfsym_load(object);
		if (scan->copies[lib]++ == 0 && !(libraries[lib].bound && same_object(&libraries[lib], object)))
			take(lib, object);
	}
	return 0;
}

static void sync_body(uint64_t adds, uint64_t subs, void *arg)
{
	struct scan scan = {.from = 0};

	(void)arg;
	if (__atomic_exchange_n(&syncing, 1, __ATOMIC_ACQUIRE))
		return;
	if (adds == seen_adds && subs == seen_subs)
		goto out;
	if (subs == seen_subs) {
		scan.from = seen_objects;
		for (unsigned lib = 0; lib < HOOK_LIB_COUNT; lib++)
			scan.copies[lib] = libraries[lib].copies;
	} else {
		copies_forget();
	}
	elfsym_walk(scan_object, &scan);
	for (unsigned lib = 0; lib < HOOK_LIB_COUNT; lib++) {
		bool found = scan.copies[lib] != 0;

		__atomic_store_n(&libraries[lib].copies, scan.copies[lib], __ATOMIC_RELAXED);
		if (found)
			fill_slots(lib);
		else if (libraries[lib].bound)
			let_go(lib);
	}
	seen_objects = scan.objects;
	seen_adds = adds;
	__atomic_store_n(&seen_subs, subs, __ATOMIC_RELAXED);
out:
	__atomic_store_n(&syncing, 0, __ATOMIC_RELEASE);
}

bool real_bind(enum hook_lib lib)
{
	elfsym_locked(sync_body, NULL);
	return __atomic_load_n(&libraries[lib].bound, __ATOMIC_ACQUIRE);
}

/* ---- asking ---- */

bool real_has(enum hook_id id)
{
	return real_provider_fn(id) != NULL;
}

void *real_provider_fn(enum hook_id id)
{
	return __atomic_load_n(&provider_fn[id], __ATOMIC_ACQUIRE);
}

unsigned real_copies(enum hook_lib lib)
{
	return __atomic_load_n(&libraries[lib].copies, __ATOMIC_RELAXED);
}

bool real_is_own(const void *address)
{
	uintptr_t lo = __atomic_load_n(&own_lo, __ATOMIC_RELAXED);

	return (uintptr_t)address - lo < __atomic_load_n(&own_hi, __ATOMIC_RELAXED) - lo;
}

uint64_t real_unloads(void)
{
	return __atomic_load_n(&seen_subs, __ATOMIC_RELAXED);
}

void *real_resolve(enum hook_id id)
{
	int saved = errno;

	real_bind(hook_table[id].lib);
	void *fn = real_provider_fn(id);
	if (!fn) /* a program that is linked with the provider calls it whatever we can see */
		fn = elfsym_find_unwalked(libraries[hook_table[id].lib].name, hook_table[id].name);
	errno = saved;
	return fn ? fn : not_found(id);
}

void *real_resolve_lazy(enum hook_id id, const void *caller)
{
	const struct library *library = &libraries[hook_table[id].lib];
	void *fn;

	if (!library->by_caller)
		return real_resolve(id);
	fn = copies_recall(id, caller);
	if (__builtin_expect(fn != NULL, 1))
		return fn;
	real_bind(hook_table[id].lib); /* from now on unloading is noticed, see copies_forget() */
	fn = copies_search(id, library->name, caller);
	return fn ? fn : not_found(id);
}

void real_drop_unloaded(void)
{
	for (unsigned lib = 0; lib < HOOK_LIB_COUNT; lib++)
		if (__atomic_load_n(&libraries[lib].bound, __ATOMIC_ACQUIRE)) {
			elfsym_locked(sync_body, NULL);
			return;
		}
}

/* ---- fork ---- */

void real_fork_child(void)
{
	if (!syncing)
		return;
	/* Forked in the middle of a walk by another thread: begin again at the next question. */
	syncing = 0;
	seen_adds = 0;
	seen_subs = UINT64_MAX;
	for (unsigned lib = 0; lib < HOOK_LIB_COUNT; lib++)
		libraries[lib].bound = 0;
}
