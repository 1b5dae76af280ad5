/*
 * cuptitrace.c - counts driver-API calls as CUPTI sees them.
 *
 * The driver loads this library at cuInit (CUDA_INJECTION64_PATH) and calls
 * InitializeInjection. compare.py compares its counts with libturbo's: a call that only
 * CUPTI counted went past the hooks. libcupti itself is loaded at run time, from
 * CUPTITRACE_CUPTI or by its name.
 *
 * cuptitrace_dump(path) writes {"symbol": calls, ...}; a client calls it when it is done. Counts
 * of exit handlers that run later are in neither side's snapshot.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cupti.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_CBID 4096

/* Relaxed atomics: any thread adds, cuptitrace_dump reads. */
static uint64_t calls[MAX_CBID];

static __typeof__(&cuptiGetCallbackName) get_callback_name;

int EXPORT InitializeInjection(void);
int EXPORT cuptitrace_dump(const char *path);

static void CUPTIAPI on_call(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
	const CUpti_CallbackData *call = data;
	(void)user;
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API && id < MAX_CBID && call->callbackSite == CUPTI_API_ENTER)
		__atomic_fetch_add(&calls[id], 1, __ATOMIC_RELAXED);
}

static void *open_cupti(void)
{
	const char *path = getenv("CUPTITRACE_CUPTI");
	if (path && *path)
		return dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *lib = dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
	return lib ? lib : dlopen("libcupti.so", RTLD_NOW | RTLD_LOCAL);
}

/* 1: counting; 0: the driver goes on without. */
int InitializeInjection(void)
{
	static CUpti_SubscriberHandle subscriber;
	void *lib = open_cupti();
	if (!lib) {
		fprintf(stderr, "cuptitrace: %s\n", dlerror());
		return 0;
	}
	__typeof__(&cuptiSubscribe) subscribe = (__typeof__(&cuptiSubscribe))dlsym(lib, "cuptiSubscribe");
	__typeof__(&cuptiEnableDomain) enable = (__typeof__(&cuptiEnableDomain))dlsym(lib, "cuptiEnableDomain");
	get_callback_name = (__typeof__(&cuptiGetCallbackName))dlsym(lib, "cuptiGetCallbackName");
	if (!subscribe || !enable || !get_callback_name) {
		fprintf(stderr, "cuptitrace: libcupti lacks a function\n");
		return 0;
	}
	CUptiResult r = subscribe(&subscriber, on_call, NULL);
	if (r == CUPTI_SUCCESS)
		r = enable(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
	if (r != CUPTI_SUCCESS)
		fprintf(stderr, "cuptitrace: CUPTI error %d\n", (int)r);
	return r == CUPTI_SUCCESS;
}

int cuptitrace_dump(const char *path)
{
	FILE *f = get_callback_name ? fopen(path, "w") : NULL;
	const char *comma = "";
	if (!f)
		return -1;
	fputc('{', f);
	for (uint32_t id = 0; id < MAX_CBID; id++) {
		const char *name = NULL;
		uint64_t n = __atomic_load_n(&calls[id], __ATOMIC_RELAXED);
		if (!n || get_callback_name(CUPTI_CB_DOMAIN_DRIVER_API, id, &name) != CUPTI_SUCCESS)
			continue;
		fprintf(f, "%s\n\"%s\": %llu", comma, name, (unsigned long long)n);
		comma = ",";
	}
	fputs("}\n", f);
	return fclose(f);
}
