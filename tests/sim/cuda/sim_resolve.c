/*
 * sim_resolve.c - cuGetProcAddress, and what else answers without a context.
 *
 * A symbol counts as present when this library really exports it, so that a build of the
 * simulator whose version script hides symbols behaves as an older driver.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "sim_internal.h"

#define MAX_ABIS 6
#define TWINS_SINCE 7000
#define ALL_FLAGS (CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)

static const struct versions {
	const char *name;
	int version[MAX_ABIS]; /* of name, name_v2, name_v3 ...; 0 ends the list */
} versions[] = {
#define V(name, ...) {#name, {__VA_ARGS__}},
#include "sim_versions.def"
#undef V
};

static const struct versions *versions_find(const char *name)
{
	for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
		if (!strcmp(versions[i].name, name))
			return &versions[i];
	return NULL;
}

static void *self;
static pthread_once_t self_once = PTHREAD_ONCE_INIT;

static void self_find(void)
{
	Dl_info info;
	if (dladdr(&self_once, &info))
		self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
}

/* The driver looks itself up, as real ones do; whoever replaces dlsym or exports our names
 * must leave this alone. */
void sim_resolve_check_self(void)
{
	pthread_once(&self_once, self_find);
	if (self && dlsym(self, "cuInit") != (void *)cuInit)
		sim_complain("the driver's own lookup of cuInit was answered with another function");
}

static void *exported(const char *symbol)
{
	struct sim_symbol *s = sim_symbol_find(symbol);
	if (!s)
		return NULL;
	pthread_once(&self_once, self_find);
	return !self || dlsym(self, symbol) ? s->fn : NULL;
}

static void *twin_of(const char *plain)
{
	char twin[80];
	snprintf(twin, sizeof twin, "%s_ptsz", plain);
	void *fn = exported(twin);
	if (fn)
		return fn;
	snprintf(twin, sizeof twin, "%s_ptds", plain);
	return exported(twin);
}

/* Newest ABI not newer than `version`. `twins`: only per-thread twins, which exist since
 * CUDA 7. `seen`: the function has any ABI of that sort. */
static void *find(const struct versions *v, int version, bool twins, bool *seen)
{
	for (int abi = MAX_ABIS - 1; abi >= 0; abi--) {
		if (!v->version[abi])
			continue;
		char plain[64] = "", suffix[8] = "";
		if (abi)
			snprintf(suffix, sizeof suffix, "_v%d", abi + 1);
		snprintf(plain, sizeof plain, "%.50s%s", v->name, suffix);
		void *fn = twins ? twin_of(plain) : exported(plain);
		if (!fn)
			continue;
		*seen = true;
		int since = twins && v->version[abi] < TWINS_SINCE ? TWINS_SINCE : v->version[abi];
		if (since <= version)
			return fn;
	}
	return NULL;
}

static CUresult resolve(const char *symbol, void **out, int version, cuuint64_t flags,
						CUdriverProcAddressQueryResult *status)
{
	if (!symbol || !out || flags & ~(cuuint64_t)ALL_FLAGS || version > sim_conf.version)
		return CUDA_ERROR_INVALID_VALUE;
	const struct versions *v = versions_find(symbol);
	bool seen = false;
	*out = NULL;
	if (v && flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		*out = find(v, version, true, &seen);
	if (v && !seen)
		*out = find(v, version, false, &seen);
	if (status)
		*status = *out   ? CU_GET_PROC_ADDRESS_SUCCESS
				  : seen ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
						 : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS; /* also when there is none */
}

/* The first ABI has no status to give: it answers with an error, and leaves *out alone. */
static CUresult resolve1(const char *symbol, void **out, int version, cuuint64_t flags)
{
	void *fn = NULL;
	CUresult result = resolve(symbol, &fn, version, flags, NULL);
	if (result == CUDA_SUCCESS && !fn)
		result = CUDA_ERROR_NOT_FOUND;
	if (result == CUDA_SUCCESS)
		*out = fn;
	return result;
}
SIM_FN(cuGetProcAddress, S_ANY, (const char *symbol, void **out, int version, cuuint64_t flags),
	   out ? resolve1(symbol, out, version, flags) : CUDA_ERROR_INVALID_VALUE)
/* cuda.h turns the name cuGetProcAddress_v2 into its inline per-thread wrapper. */
#undef cuGetProcAddress_v2
SIM_FN(cuGetProcAddress_v2, S_ANY,
	   (const char *symbol, void **out, int version, cuuint64_t flags,
		CUdriverProcAddressQueryResult *status),
	   resolve(symbol, out, version, flags, status))

/* Tools' private tables: none here. */
CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
	SIM_ENTER(cuGetExportTable, S_ANY);
	if (!table || !id)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_ERROR_INVALID_VALUE;
}

SIM_FN(cuProfilerStart, S_CTX, (void), CUDA_SUCCESS)
SIM_FN(cuProfilerStop, S_CTX, (void), CUDA_SUCCESS)

/* ---- error names ---- */

static const struct error {
	CUresult code;
	const char *name, *text;
} errors[] = {
#define E(code, text) {code, #code, text},
	E(CUDA_SUCCESS, "no error") E(CUDA_ERROR_INVALID_VALUE, "invalid argument") E(
		CUDA_ERROR_OUT_OF_MEMORY, "out of memory") E(CUDA_ERROR_NOT_INITIALIZED,
													 "initialization error") E(CUDA_ERROR_DEINITIALIZED,
																			   "driver shutting down")
		E(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected") E(
			CUDA_ERROR_INVALID_DEVICE,
			"invalid device ordinal") E(CUDA_ERROR_INVALID_IMAGE,
										"device kernel image is invalid") E(CUDA_ERROR_INVALID_CONTEXT,
																			"invalid device context")
			E(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed") E(
				CUDA_ERROR_UNMAP_FAILED,
				"unmapping of buffer object failed") E(CUDA_ERROR_ECC_UNCORRECTABLE,
													   "uncorrectable ECC error encountered")
				E(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture") E(
					CUDA_ERROR_INVALID_HANDLE,
					"invalid resource handle") E(CUDA_ERROR_ILLEGAL_STATE,
												 "the operation cannot be performed in the present state")
					E(CUDA_ERROR_NOT_FOUND, "named symbol not found") E(
						CUDA_ERROR_NOT_READY,
						"device not ready") E(CUDA_ERROR_ILLEGAL_ADDRESS,
											  "an illegal memory access was encountered")
						E(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch") E(
							CUDA_ERROR_LAUNCH_TIMEOUT,
							"the launch timed out and was terminated") E(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
																		 "peer access is already enabled")
							E(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled") E(
								CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE,
								"cannot set while device is active in this process") E(CUDA_ERROR_CONTEXT_IS_DESTROYED,
																					   "context is destroyed")
								E(CUDA_ERROR_ASSERT, "device-side assert triggered") E(
									CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
									"part or all of the requested memory range is already mapped")
									E(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
									  "pointer does not correspond to a registered memory region")
										E(CUDA_ERROR_ILLEGAL_INSTRUCTION,
										  "an illegal instruction was encountered")
											E(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address") E(
												CUDA_ERROR_LAUNCH_FAILED,
												"unspecified launch failure") E(CUDA_ERROR_NOT_PERMITTED,
																				"operation not permitted")
												E(CUDA_ERROR_NOT_SUPPORTED, "operation not supported") E(
													CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
													"operation not permitted when stream is capturing")
													E(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
													  "operation failed due to a previous error during capture")
														E(CUDA_ERROR_STREAM_CAPTURE_MERGE,
														  "operation would result in a merge of separate capture sequences")
															E(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
															  "capture was not ended in the same stream as it began")
																E(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
																  "capturing stream has unjoined work")
																	E(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
																	  "dependency created on uncaptured work in another stream")
																		E(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
																		  "operation would make the legacy stream depend on a capturing blocking stream")
																			E(CUDA_ERROR_CAPTURED_EVENT,
																			  "operation not permitted on an event last recorded in a capturing stream")
																				E(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
																				  "attempt to terminate a thread-local capture sequence from another thread")
																					E(CUDA_ERROR_UNKNOWN,
																					  "unknown error")
#undef E
};

static CUresult describe(CUresult code, const char **out, bool name)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = NULL;
	for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
		if (errors[i].code == code)
			*out = name ? errors[i].name : errors[i].text;
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
SIM_FN(cuGetErrorName, S_ANY, (CUresult code, const char **out), describe(code, out, true))
SIM_FN(cuGetErrorString, S_ANY, (CUresult code, const char **out), describe(code, out, false))
