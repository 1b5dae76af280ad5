/* replay_driver.c - finding the driver's functions, libturbo's and its own. */
#include "replay_driver.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <string.h>

#include "elfsym.h"
#include "turbo.h"

#define DRIVER "libcuda.so.1"
#define PAGE (2u << 20) /* what the driver takes memory in */

struct wanted {
	const char *library, *name;
	void *found;
};

static int visit(struct elfsym_object *object, unsigned index, void *arg)
{
	struct wanted *w = arg;
	(void)index;
	if (!elfsym_is_library(object, w->library))
		return 0;
	w->found = w->name ? elfsym_find(object, w->name) : w;
	return 1;
}

bool replay_loaded(const char *library)
{
	struct wanted w = {.library = library};
	elfsym_walk(visit, &w);
	return w.found;
}

/* From the object's own symbol table: dlsym() would give libturbo's. It stays loaded. */
static void *own(const char *name)
{
	struct wanted w = {.library = "libcuda.so", .name = name};
	elfsym_walk(visit, &w);
	return w.found;
}

static bool missing(const char *name)
{
	failure("replay", "the driver has no %s", name);
	return false;
}

bool replay_driver_load(struct replay_driver *d)
{
	void *lib = dlopen(DRIVER, RTLD_NOW);
	if (!lib) {
		failure("replay", "no CUDA driver: %s (--sim replays on a simulated one)", dlerror());
		return false;
	}
#define FIND(f)                              \
	d->f = (__typeof__(d->f))dlsym(lib, #f); \
	if (!d->f)                               \
		return missing(#f);
	REPLAY_CALLS(FIND)
#undef FIND
	d->own_alloc = (__typeof__(d->own_alloc))own("cuMemAlloc_v2");
	d->own_info = (__typeof__(d->own_info))own("cuMemGetInfo_v2");
	d->error_name = (__typeof__(d->error_name))own("cuGetErrorName");
	d->sim_calls = (__typeof__(d->sim_calls))own("sim_calls_total");
	if (!d->own_alloc || !d->own_info || !d->error_name)
		return missing("symbol table that can be read");
	return true;
}

bool replay_failed(const struct replay_driver *d, const char *call, CUresult r)
{
	const char *name = NULL;
	if (d->error_name(r, &name) != CUDA_SUCCESS || !name)
		name = "an unknown error";
	failure("replay", "%s failed: %s", call, name);
	return false;
}

bool replay_hold_back(const struct replay_driver *d, uint64_t limit)
{
	size_t available, total, piece = SIZE_MAX;
	CUresult r = d->own_info(&available, &total);
	if (r != CUDA_SUCCESS)
		return replay_failed(d, "cuMemGetInfo", r);
	if (available < limit) {
		failure("replay", "--limit %" PRIu64 ": only %zu bytes are free", limit, available);
		return false;
	}
	while (r == CUDA_SUCCESS && available >= limit + PAGE) {
		CUdeviceptr held; /* until the process ends */
		size_t extra = (available - limit) / PAGE * PAGE;
		if (piece > extra)
			piece = extra;
		if (d->own_alloc(&held, piece) == CUDA_ERROR_OUT_OF_MEMORY) {
			piece = piece / 2 / PAGE * PAGE;
			if (!piece)
				break;
		}
		r = d->own_info(&available, &total);
	}
	return r == CUDA_SUCCESS || replay_failed(d, "cuMemGetInfo", r);
}
