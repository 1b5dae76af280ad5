/*
 * copies.c - answers of copies.h, found by a walk and remembered.
 *
 * What is remembered may be about objects that were unloaded since, and others may be where
 * they were. So an answer is used only when the loader says that the objects at both addresses
 * are the ones it was about. The caller's is alive, because it is calling, and so is the one
 * that it calls; what was true at the look is true at the jump.
 */
#include "copies.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "elfsym.h"

/* ---- objects, without a lock ---- */

/*
 * _dl_find_object of glibc 2.35: lock-free, safe in signal handlers, 0 when an object is there.
 * An object is known to it from before its constructors run until after its destructors.
 * The fields of struct dl_find_object, which headers may not have yet, and room for its rest.
 */
struct found {
	unsigned long long flags;
	void *lo, *hi; /* map_start, map_end */
	void *map;     /* struct link_map, not followed */
	void *rest[16];
};
typedef int find_object_fn(void *address, struct found *result);
static find_object_fn *find_object; /* relaxed: every walk finds the same; NULL: not yet, or none */

/* An object, so that it is told from another one at the same address. All 0: no object. */
struct mark {
	uintptr_t map, lo, hi;
	uintptr_t build_id_at, build_id; /* in the first page from lo; build_id_at 0: none */
};

static uintptr_t read_build_id(uintptr_t at)
{
	uintptr_t value;

	memcpy(&value, (const void *)at, sizeof(value));
	return value;
}

/* Under the list lock. `object` is where the walk found `address`, or NULL. */
static bool mark_object(struct mark *mark, const void *address, const struct elfsym_object *object)
{
	struct found at;

	*mark = (struct mark){0};
	if (find_object((void *)(uintptr_t)address, &at) != 0)
		return !object;
	mark->map = (uintptr_t)at.map;
	mark->lo = (uintptr_t)at.lo;
	mark->hi = (uintptr_t)at.hi;
	mark->build_id_at = object ? (uintptr_t)elfsym_build_id(object) : 0;
	if (mark->build_id_at)
		mark->build_id = read_build_id(mark->build_id_at);
	return true;
}

static bool is_marked(const struct mark *mark, const struct found *at)
{
	return mark->map == (uintptr_t)at->map && mark->lo == (uintptr_t)at->lo &&
		   mark->hi == (uintptr_t)at->hi &&
		   (mark->build_id_at == 0 || read_build_id(mark->build_id_at) == mark->build_id);
}

/* ---- what is remembered ---- */

/* One answer, in words that are copied one by one. */
struct route {
	uintptr_t id, fn;
	uintptr_t generation; /* 0: empty */
	struct mark caller, target;
};
#define ROUTE_WORDS (sizeof(struct route) / sizeof(uintptr_t))

/* Written under the list lock, read without: `version` is odd while the words, which are
 * relaxed, are written, and is looked at before and after. */
struct slot {
	uintptr_t version;
	uintptr_t words[ROUTE_WORDS];
};

/* Some hundred functions, few of which are called, by one or two libraries. */
#define SLOT_BITS 9
#define PROBES 8
static struct slot slots[(1 << SLOT_BITS) + PROBES];

/*
 * Only answers of the present one count. An object may be unloaded and loaded again where it
 * was, now behind another copy; whoever looks it up or loads what is linked with it has
 * copies_forget() called in between.
 */
static uintptr_t generation = 1; /* written under the list lock; release, acquire */

void copies_forget(void)
{
	__atomic_store_n(&generation, generation + 1, __ATOMIC_RELEASE);
}

static struct slot *home_of(enum hook_id id, uintptr_t caller_lo)
{
	return &slots[((caller_lo >> 12) * 1024 + id) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SLOT_BITS)];
}

static bool read_slot(const struct slot *slot, struct route *route)
{
	uintptr_t version = __atomic_load_n(&slot->version, __ATOMIC_ACQUIRE);
	uintptr_t words[ROUTE_WORDS];

	for (size_t i = 0; i < ROUTE_WORDS; i++)
		words[i] = __atomic_load_n(&slot->words[i], __ATOMIC_RELAXED);
	memcpy(route, words, sizeof(words));
	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* the words before the second look */
	return !(version & 1) && __atomic_load_n(&slot->version, __ATOMIC_RELAXED) == version;
}

static void write_slot(struct slot *slot, const struct route *route)
{
	uintptr_t version = __atomic_load_n(&slot->version, __ATOMIC_RELAXED);
	uintptr_t words[ROUTE_WORDS];

	/* A signal handler, or a child, forked in the middle of this: the slot stays unused. */
	if (version & 1)
		return;
	memcpy(words, route, sizeof(words));
	__atomic_store_n(&slot->version, version + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE); /* odd before any word changes */
	for (size_t i = 0; i < ROUTE_WORDS; i++)
		__atomic_store_n(&slot->words[i], words[i], __ATOMIC_RELAXED);
	__atomic_store_n(&slot->version, version + 2, __ATOMIC_RELEASE);
}

void *copies_recall(enum hook_id id, const void *caller)
{
	find_object_fn *find = __atomic_load_n(&find_object, __ATOMIC_RELAXED);
	uintptr_t now = __atomic_load_n(&generation, __ATOMIC_ACQUIRE);
	struct found from, to;
	struct route route;

	if (!find)
		return NULL;
	if (find((void *)(uintptr_t)caller, &from) != 0)
		from = (struct found){0};
	const struct slot *slot = home_of(id, (uintptr_t)from.lo);
	for (unsigned i = 0; i < PROBES; i++, slot++) {
		if (__atomic_load_n(&slot->words[0], __ATOMIC_RELAXED) != (uintptr_t)id)
			continue;
		if (read_slot(slot, &route) && route.id == (uintptr_t)id && route.generation == now &&
			is_marked(&route.caller, &from) && find((void *)route.fn, &to) == 0 &&
			is_marked(&route.target, &to))
			return (void *)route.fn;
	}
	return NULL;
}

/* Under the list lock. */
static void remember(const struct route *route)
{
	static unsigned next;
	struct slot *home = home_of((enum hook_id)route->id, route->caller.lo), *into = NULL;
	struct route old;

	for (struct slot *slot = home; slot < home + PROBES; slot++) {
		if (!read_slot(slot, &old))
			continue;
		if (old.generation != generation) {
			into = into ? into : slot;
		} else if (old.id == route->id && old.caller.lo == route->caller.lo) {
			into = slot;
			break;
		}
	}
	write_slot(into ? into : home + next++ % PROBES, route);
}

/* ---- the walk ---- */

struct search {
	enum hook_id id;
	const char *library;
	const void *caller;
	bool caller_known;
	struct elfsym_object from, target; /* set with caller_known, and with fn */
	void *fn;
};

static int search_object(struct elfsym_object *object, unsigned index, void *arg)
{
	struct search *search = arg;
	bool calls = elfsym_contains(object, search->caller);
	void *fn = NULL;

	(void)index;
	if (calls) {
		search->caller_known = true;
		search->from = *object;
	}
	if ((calls || !search->fn) && elfsym_is_library(object, search->library))
		fn = elfsym_find(object, hook_table[search->id].name);
	if (fn && fn != hook_table[search->id].ours) {
		search->fn = fn;
		search->target = *object;
	}
	if (!find_object && elfsym_named(object, "libc.so.6"))
		__atomic_store_n(&find_object, (find_object_fn *)elfsym_find(object, "_dl_find_object"),
						 __ATOMIC_RELAXED);
	return 0;
}

static void search_body(uint64_t adds, uint64_t subs, void *arg)
{
	struct search *search = arg;
	struct route route = {.id = search->id, .generation = generation};

	(void)adds;
	(void)subs;
	elfsym_walk(search_object, search);
	route.fn = (uintptr_t)search->fn;
	if (search->fn && find_object &&
		mark_object(&route.caller, search->caller, search->caller_known ? &search->from : NULL) &&
		mark_object(&route.target, search->fn, &search->target))
		remember(&route);
}

void *copies_search(enum hook_id id, const char *library, const void *caller)
{
	struct search search = {.id = id, .library = library, .caller = caller};

	elfsym_locked(search_body, &search);
	return search.fn ? search.fn : elfsym_find_unwalked(library, hook_table[id].name);
}
