/*
 * probe - facts about the installed driver and machine.
 *
 * usage: probe [faults|behaviour|costs|bandwidth]...     (all of them by default)
 * Exit: 0, 1 a driver error, 77 no GPU.
 */
#include "probe.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/gpu/kernels_ptx.h"

CUdevice probe_dev;
CUcontext probe_ctx;
CUstream probe_a, probe_b;
CUdeviceptr probe_block;
static CUfunction spin_us;

void fact(const char *name, const char *fmt, ...)
{
	va_list ap;
	printf("fact %s = ", name);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
}

void fact_status(const char *name, CUresult r)
{
	fact(name, "%s", r == CUDA_SUCCESS ? "CUDA_SUCCESS" : cuda_dl_error(r));
}

static bool opened(void)
{
	CUmodule module;
	return !cu.cuDeviceGet(&probe_dev, 0) && !cu.cuDevicePrimaryCtxRetain(&probe_ctx, probe_dev) &&
		   !cu.cuCtxSetCurrent(probe_ctx) && !cu.cuStreamCreate(&probe_a, CU_STREAM_DEFAULT) &&
		   !cu.cuStreamCreate(&probe_b, CU_STREAM_DEFAULT) && !cu.cuMemAlloc_v2(&probe_block, PROBE_BYTES) &&
		   !cu.cuModuleLoadData(&module, kernels_ptx) &&
		   !cu.cuModuleGetFunction(&spin_us, module, "spin_us") && !probe_spin(probe_a, 0) &&
		   !cu.cuCtxSynchronize();
}

bool probe_open(void)
{
	bool good = opened();
	if (!good)
		fprintf(stderr, "probe: the context cannot be set up\n");
	return good;
}

CUresult probe_spin(CUstream s, unsigned ms)
{
	uint64_t us = (uint64_t)ms * 1000;
	return cu.cuLaunchKernel(spin_us, 1, 1, 1, 1, 1, 1, 0, s, (void *[]){&us}, NULL);
}

static void attributes(void)
{
	static const struct {
		const char *name;
		CUdevice_attribute which;
	} list[] = {
		{"pageable_memory_access", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
		{"uses_host_page_tables", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES},
		{"host_numa_id", CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID},
		{"async_engines", CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
		{"ipc_event_supported", CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED},
		{"unified_addressing", CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
		{"host_register_supported", CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED},
		{"read_only_host_register", CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED},
	};
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		int value = 0;
		CUresult r = cu.cuDeviceGetAttribute(&value, list[i].which, probe_dev);
		if (r == CUDA_SUCCESS)
			fact(list[i].name, "%d", value);
		else
			fact_status(list[i].name, r);
	}
}

static bool wanted(const char *part, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], part))
			return true;
	return argc < 2;
}

int main(int argc, char **argv)
{
	char self[4096] = "";
	const char *why = cuda_dl_open();
	if (why) {
		printf("skipped: %s\n", why);
		return 77;
	}
	if (!probe_open())
		return 1;
	if (argc == 3 && !strcmp(argv[1], "--child"))
		return probe_fault_child(argv[2]);
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) <= 0)
		return 1;
	attributes();
	if (wanted("behaviour", argc, argv))
		probe_behaviour();
	if (wanted("costs", argc, argv))
		probe_costs();
	if (wanted("bandwidth", argc, argv))
		probe_bandwidth();
	if (wanted("faults", argc, argv))
		probe_faults(self);
	return 0;
}
