/* client_kinds.c - see client_kinds.h. Numbers of calls: cupti_runtime_cbid.h and cupti_driver_cbid.h, which only grow. */
#include "client_kinds.h"

#include "bind.h"
#include "graphs.h"
#include "log.h"

/* What starts work on a device, and what waits for it; each with its per-thread variant. */
static const uint16_t runtime_calls[] = {
	211, 214, /* cudaLaunchKernel */
	430, 431, /* cudaLaunchKernelExC */
	269, 270, /* cudaLaunchCooperativeKernel */
	311, 312, /* cudaGraphLaunch */
	31,  215, /* cudaMemcpy */
	41,  225, /* cudaMemcpyAsync */
	32,  216, /* cudaMemcpy2D */
	44,  228, /* cudaMemcpy2DAsync */
	144, 245, /* cudaMemcpy3D */
	145, 246, /* cudaMemcpy3DAsync */
	160, 161, /* cudaMemcpyPeer, Async */
	49,  233, /* cudaMemset */
	51,  235, /* cudaMemsetAsync */
	52,  236, /* cudaMemset2DAsync */
	131, 239, /* cudaStreamSynchronize */
	137,      /* cudaEventSynchronize */
	165,      /* cudaDeviceSynchronize */
};
static const uint16_t driver_calls[] = {
	307, 442,      /* cuLaunchKernel */
	652, 653,      /* cuLaunchKernelEx */
	477, 478,      /* cuLaunchCooperativeKernel */
	514, 515,      /* cuGraphLaunch */
	276, 397,      /* cuMemcpyHtoD_v2 */
	277, 421,      /* cuMemcpyHtoDAsync_v2 */
	278, 398,      /* cuMemcpyDtoH_v2 */
	279, 422,      /* cuMemcpyDtoHAsync_v2 */
	280, 399,      /* cuMemcpyDtoD_v2 */
	281, 423,      /* cuMemcpyDtoDAsync_v2 */
	305, 408,      /* cuMemcpy */
	306, 418,      /* cuMemcpyAsync */
	249, 411,      /* cuMemsetD8_v2 */
	251, 413,      /* cuMemsetD32_v2 */
	216, 428,      /* cuMemsetD8Async */
	220, 430,      /* cuMemsetD32Async */
	126, 440,      /* cuStreamSynchronize */
	17,  121, 800, /* cuCtxSynchronize, cuEventSynchronize, cuCtxSynchronize_v2 */
};

static uint64_t enabled;  /* kinds, a bit each */
static bool single_calls; /* by number */

static cupti_result enable(uint32_t kind)
{
	cupti_result r = cupti.ActivityEnable(kind);
	if (r == CUPTI_OK)
		enabled |= 1ull << kind;
	else
		log_debug("timeline: CUPTI activity kind %u: %s", kind, cupti_text(r));
	return r;
}

static cupti_result set_calls(bool on)
{
	cupti_result r = CUPTI_OK;
	for (unsigned i = 0; i < sizeof(runtime_calls) / sizeof(runtime_calls[0]) && r == CUPTI_OK; i++)
		r = cupti.ActivityEnableRuntimeApi(runtime_calls[i], on);
	for (unsigned i = 0; i < sizeof(driver_calls) / sizeof(driver_calls[0]) && r == CUPTI_OK; i++)
		r = cupti.ActivityEnableDriverApi(driver_calls[i], on);
	return r;
}

static void calls_on(void)
{
	single_calls = cupti.ActivityEnableRuntimeApi && cupti.ActivityEnableDriverApi;
	if (single_calls && set_calls(true) == CUPTI_OK)
		return;
	if (single_calls)
		set_calls(false);
	single_calls = false;
	enable(CUPTI_RUNTIME);
	enable(CUPTI_DRIVER);
}

/* Their nodes are recorded where graphs cannot be recorded whole. */
static void graphs_on(void)
{
	if (!graphs_may_be_whole()) {
		log_once(LOG_INFO, "timeline: graphs were made before: their nodes are recorded, which takes longer");
		return;
	}
	if (enable(CUPTI_GRAPH_TRACE) != CUPTI_OK)
		return;
	/* A graph that was made just before tracing began must not be launched under it. */
	if (graphs_may_be_whole())
		graphs_traced(true);
	else {
		cupti.ActivityDisable(CUPTI_GRAPH_TRACE);
		enabled &= ~(1ull << CUPTI_GRAPH_TRACE);
	}
}

cupti_result kinds_on(enum timeline_mode mode, bool whole_graphs)
{
	static const uint8_t always[] = {CUPTI_MEMCPY, CUPTI_MEMSET, CUPTI_MEMCPY2};
	/* What may have to wait for other threads' launches comes last: the kernels. */
	for (unsigned i = 0; i < sizeof(always); i++)
		enable(always[i]);
	if (whole_graphs)
		graphs_on();
	if (mode == TIMELINE_MODE_LAUNCH) {
		enable(CUPTI_SYNCHRONIZATION);
		enable(CUPTI_OVERHEAD);
		calls_on();
	}
	return enable(CUPTI_CONCURRENT_KERNEL);
}

void kinds_off(void)
{
	graphs_traced(false);
	for (uint32_t kind = 0; kind < 64; kind++)
		if (enabled & 1ull << kind)
			cupti.ActivityDisable(kind);
	enabled = 0;
	if (single_calls)
		set_calls(false);
	single_calls = false;
}

/* ---- settings ---- */

static struct {
	bool zeroed_set, thread_set;
	uint8_t zeroed;
	uint32_t thread;
} before;

static void set_zeroed(uint8_t value)
{
	size_t size = sizeof(value);
	cupti_result r = cupti.ActivitySetAttribute(CUPTI_ATTR_ZEROED_OUT, &size, &value);
	if (r != CUPTI_OK)
		log_debug("timeline: zeroed buffers: %s", cupti_text(r));
}

static void remember_zeroed(void)
{
	size_t size = sizeof(before.zeroed);
	if (!cupti.ActivityGetAttribute || !cupti.ActivitySetAttribute)
		return;
	before.zeroed_set = cupti.ActivityGetAttribute(CUPTI_ATTR_ZEROED_OUT, &size, &before.zeroed) == CUPTI_OK;
	if (before.zeroed_set)
		set_zeroed(1);
}

static void remember_thread(void)
{
	if (!cupti.GetThreadIdType || !cupti.SetThreadIdType)
		return;
	before.thread_set = cupti.GetThreadIdType(&before.thread) == CUPTI_OK &&
						cupti.SetThreadIdType(CUPTI_THREAD_ID_SYSTEM) == CUPTI_OK;
}

void kinds_settings(bool ours, bool thread_ids)
{
	if (ours) {
		remember_zeroed();
		if (thread_ids)
			remember_thread();
		return;
	}
	if (before.zeroed_set)
		set_zeroed(before.zeroed);
	if (before.thread_set)
		cupti.SetThreadIdType(before.thread);
	before.zeroed_set = before.thread_set = false;
}
