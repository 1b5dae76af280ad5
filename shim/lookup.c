/* lookup.c - answers to dlsym, dlvsym and dlopen; see lookup.h. */
#include "lookup.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#include "elfsym.h"
#include "life.h"
#include "real.h"

/* ---- the real functions ---- */

enum loader_fn { LOADER_DLSYM, LOADER_DLVSYM, LOADER_DLOPEN, LOADER_COUNT };
static const char *const loader_names[LOADER_COUNT] = {"dlsym", "dlvsym", "dlopen"};
/* Filled at the first use, maybe by several threads with the same values (relaxed). The dlsym
 * stub reads the first one. */
void *lookup_loader_fns[LOADER_COUNT];

typedef void *dlsym_fn(void *handle, const char *name);
typedef void *dlvsym_fn(void *handle, const char *name, const char *version);
typedef void *dlopen_fn(const char *file, int mode);

static int find_loader(struct elfsym_object *object, unsigned index, void *arg)
{
	(void)index;
	(void)arg;
	/* libdl.so.2 has them before glibc 2.34; from then on it has none. */
	if (!elfsym_named(object, "libc.so.6") && !elfsym_named(object, "libdl.so.2"))
		return 0;
	for (unsigned i = 0; i < LOADER_COUNT; i++) {
		void *fn = elfsym_find(object, loader_names[i]);

		if (fn)
			__atomic_store_n(&lookup_loader_fns[i], fn, __ATOMIC_RELAXED);
	}
	return __atomic_load_n(&lookup_loader_fns[LOADER_DLSYM], __ATOMIC_RELAXED) != NULL;
}

/* Not in the constructor: another library's may call us before ours has run. */
static void *loader_fn(enum loader_fn which)
{
	void *fn = __atomic_load_n(&lookup_loader_fns[which], __ATOMIC_RELAXED);

	if (__builtin_expect(!fn, 0)) {
		elfsym_walk(find_loader, NULL);
		fn = __atomic_load_n(&lookup_loader_fns[which], __ATOMIC_RELAXED);
	}
	return fn;
}

void *lookup_real_dlopen(const char *file, int mode)
{
	dlopen_fn *fn = (dlopen_fn *)loader_fn(LOADER_DLOPEN);

	return fn ? fn(file, mode) : NULL;
}

void *lookup_real_dlsym(void *handle, const char *name)
{
	dlsym_fn *fn = (dlsym_fn *)loader_fn(LOADER_DLSYM);

	return fn ? fn(handle, name) : NULL;
}

/* ---- who asks ---- */

/* The driver's own libraries, and tools that must see the driver as it is. */
static const char *const left_alone[] = {
	/* the driver and its debugger */
	"libcuda.so",
	"libcudadebugger",
	"libcudagdb",
	"libnvidia-",
	/* CUPTI, Nsight Compute, nvprof */
	"libcupti",
	"libnvperf",
	"libcuda-injection",
	"libaccinj",
	"libcuinj",
	/* Nsight Systems and the launchers of all of them */
	"libToolsInjection",
	"libInjection",
	"libInterceptorInjection",
	"libTreeLauncher",
	/* compute-sanitizer, checkpoints of tools, NVTX */
	"libsanitizer",
	"libcheckpoint",
	"libnvToolsExt",
};

/*
 * Ranges of recent callers. Entries are read without a lock: `version` is odd while one is
 * written and is looked at before and after. An entry holds while no object was unloaded.
 */
enum caller_kind { CALLER_OTHER, CALLER_ALONE, CALLER_NCCL };
struct caller_range {
	uint32_t version; /* acquire/release around the fields, which are relaxed */
	uintptr_t lo, hi;
	uint64_t unloads;
	enum caller_kind kind;
};
#define CALLER_RANGES 8
static struct caller_range caller_ranges[CALLER_RANGES];
static unsigned caller_next;

static bool cached(const struct caller_range *range, const void *caller, uint64_t unloads,
				   enum caller_kind *kind)
{
	uint32_t version = __atomic_load_n(&range->version, __ATOMIC_ACQUIRE);
	uintptr_t lo = __atomic_load_n(&range->lo, __ATOMIC_RELAXED);
	uintptr_t hi = __atomic_load_n(&range->hi, __ATOMIC_RELAXED);
	bool same = __atomic_load_n(&range->unloads, __ATOMIC_RELAXED) == unloads;

	*kind = __atomic_load_n(&range->kind, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* the fields before the second look */
	return same && (uintptr_t)caller - lo < hi - lo && !(version & 1) &&
		   __atomic_load_n(&range->version, __ATOMIC_RELAXED) == version;
}

static void cache(const struct elfsym_object *object, uint64_t unloads, enum caller_kind kind)
{
	struct caller_range *range =
		&caller_ranges[__atomic_fetch_add(&caller_next, 1, __ATOMIC_RELAXED) % CALLER_RANGES];
	uint32_t version = __atomic_load_n(&range->version, __ATOMIC_RELAXED);

	if ((version & 1) || !__atomic_compare_exchange_n(&range->version, &version, version + 1, false,
													  __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	__atomic_thread_fence(__ATOMIC_RELEASE); /* odd before any field changes */
	__atomic_store_n(&range->lo, object->lo, __ATOMIC_RELAXED);
	__atomic_store_n(&range->hi, object->hi, __ATOMIC_RELAXED);
	__atomic_store_n(&range->unloads, unloads, __ATOMIC_RELAXED);
	__atomic_store_n(&range->kind, kind, __ATOMIC_RELAXED);
	__atomic_store_n(&range->version, version + 2, __ATOMIC_RELEASE);
}

struct caller_search {
	const void *caller;
	uint64_t unloads;
	enum caller_kind kind;
};

static enum caller_kind kind_of(struct elfsym_object *object)
{
	if (elfsym_contains(object, (const void *)&caller_ranges))
		return CALLER_ALONE;
	for (unsigned i = 0; i < sizeof(left_alone) / sizeof(left_alone[0]); i++)
		if (elfsym_named(object, left_alone[i]))
			return CALLER_ALONE;
	return elfsym_is_library(object, "libnccl.so") || elfsym_named(object, "libnccl-") ? CALLER_NCCL
																					   : CALLER_OTHER;
}

static int search_caller(struct elfsym_object *object, unsigned index, void *arg)
{
	struct caller_search *search = arg;

	(void)index;
	if (!elfsym_contains(object, search->caller))
		return 0;
	search->kind = kind_of(object);
	cache(object, search->unloads, search->kind);
	return 1;
}

/* `unloads`: what real_unloads() said, as recent as the answer must be. */
static enum caller_kind caller_kind(const void *caller, uint64_t unloads)
{
	struct caller_search search = {.caller = caller, .unloads = unloads};

	for (unsigned i = 0; i < CALLER_RANGES; i++)
		if (cached(&caller_ranges[i], caller, unloads, &search.kind))
			return search.kind;
	search.kind = CALLER_OTHER;
	elfsym_walk(search_caller, &search);
	return search.kind;
}

bool lookup_leaves_alone(const void *caller)
{
	real_bind(HOOK_LIB_CUDA); /* brings real_unloads() up to date */
	return caller_kind(caller, real_unloads()) == CALLER_ALONE;
}

/* Whatever is loaded where a library of NCCL was is loaded by dlopen, whose stub brings real_unloads() up to date. */
bool lookup_is_nccl(const void *caller)
{
	return caller_kind(caller, real_unloads()) == CALLER_NCCL;
}

/* ---- where the caller stands ---- */

/*
 * RTLD_DEFAULT and RTLD_NEXT of a caller whose scope begins before libturbo. The loader's
 * order is that of the list for what was loaded at start; libturbo is part of that.
 */
struct place {
	const void *caller;
	const char *name;
	bool next;    /* RTLD_NEXT */
	bool known;   /* the caller is in an object */
	bool behind;  /* ... loaded after libturbo */
	bool earlier; /* an object that is searched before libturbo defines the name */
	bool own_seen;
};

static int place_object(struct elfsym_object *object, unsigned index, void *arg)
{
	struct place *place = arg;
	bool own = elfsym_contains(object, (const void *)&caller_ranges);
	bool searched = !place->own_seen && !own && (!place->next || place->known);

	(void)index;
	place->own_seen |= own;
	if (searched && elfsym_find(object, place->name))
		place->earlier = true;
	if (elfsym_contains(object, place->caller)) {
		place->known = true;
		place->behind = place->own_seen;
	}
	return place->own_seen && (place->known || place->earlier);
}

/* ---- answers ---- */

struct request {
	void *real; /* dlsym or dlvsym */
	void *handle;
	const char *name, *version; /* version NULL: dlsym */
	const void *caller;
	const struct hook_row *row;
};

static bool substituting = true; /* constant after the constructor */

void lookup_start(bool substitute)
{
	substituting = substitute;
	loader_fn(LOADER_DLSYM);
}

static struct lookup_route jump(void *real, void *handle)
{
	return (struct lookup_route){real, handle};
}

/* The real lookup as called by libturbo: RTLD_NEXT is what comes after us. Not a tail call,
 * the loader takes the return address for the caller. */
static __attribute__((noinline)) void *ask(const struct request *q, void *handle)
{
	void *value = q->version ? ((dlvsym_fn *)q->real)(handle, q->name, q->version)
							 : ((dlsym_fn *)q->real)(handle, q->name);

	__asm__ volatile("" : "+r"(value));
	return value;
}

static struct lookup_route answer(const struct request *q, void *value)
{
	enum hook_id id = hook_id_of(q->row);

	if (value && substituting && real_bind(q->row->lib) && value == real_provider_fn(id) &&
		!lookup_leaves_alone(q->caller))
		value = q->row->ours;
	return (struct lookup_route){NULL, value};
}

/*
 * A library behind us sees the global scope and its own. The global one, without us, has not
 * got the name. When the provider is loaded, it is taken to be in the caller's own scope.
 * dlerror: the failed question is cleared by one that succeeds, for our own export.
 */
static struct lookup_route answer_local(const struct request *q)
{
	if (!real_bind(q->row->lib) || !real_has(hook_id_of(q->row)) || real_copies(q->row->lib) != 1)
		return jump(q->real, RTLD_NEXT);
	ask(q, RTLD_DEFAULT);
	return answer(q, real_provider_fn(hook_id_of(q->row)));
}

static struct lookup_route answer_scope(const struct request *q)
{
	struct place place = {.caller = q->caller, .name = q->name, .next = q->handle == RTLD_NEXT};
	void *value;

	elfsym_walk(place_object, &place);
	/* Found before us; or an interposer behind us asks for what is behind it. */
	if (place.earlier || (place.next && (!place.known || place.behind)))
		return jump(q->real, q->handle);
	value = ask(q, RTLD_NEXT);
	/* Our exports have no version, so a versioned question does not find them: ask it again
	 * as the caller. */
	if (!value && q->version)
		return jump(q->real, q->handle);
	if (!value && place.behind)
		return answer_local(q);
	return answer(q, value);
}

static struct lookup_route answer_handle(const struct request *q)
{
	void *value = ask(q, q->handle);

	/* The program's own handle, dlopen(NULL), has us in its scope. */
	if (value && value == q->row->ours)
		value = ask(q, RTLD_NEXT);
	return answer(q, value);
}

static struct lookup_route answer_known(const struct request *q)
{
	if (!q->real)
		return jump(NULL, NULL);
	if (q->handle == RTLD_NEXT || q->handle == RTLD_DEFAULT)
		return answer_scope(q);
	return answer_handle(q);
}

/* ---- for the stubs ---- */

struct lookup_route lookup_dlsym(void *handle, const char *name, const void *caller)
{
	void *real = loader_fn(LOADER_DLSYM);
	const struct hook_row *row = hook_find(name);

	if (__builtin_expect(!row || row->how == HOOK_HOW_PASS, 1))
		return jump(real, handle);
	return answer_known(&(struct request){real, handle, name, NULL, caller, row});
}

struct lookup_route lookup_dlvsym(void *handle, const char *name, const char *version, const void *caller)
{
	void *real = loader_fn(LOADER_DLVSYM);
	const struct hook_row *row = hook_find(name);

	if (__builtin_expect(!row || row->how == HOOK_HOW_PASS || !version, 1))
		return jump(real, handle);
	return answer_known(&(struct request){real, handle, name, version, caller, row});
}

struct lookup_route lookup_dlopen(int mode)
{
	if ((mode & RTLD_DEEPBIND) && life_clear_deepbind())
		mode &= ~RTLD_DEEPBIND;
	real_drop_unloaded();
	return jump(loader_fn(LOADER_DLOPEN), (void *)(intptr_t)mode);
}
