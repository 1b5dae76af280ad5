/*
 * nvml.c - a simulated libnvidia-ml.so.1: the functions that tools/doctor/nvml.h names, of healthy H200s.
 *
 * What is wrong with them comes from the environment:
 *   SIM_NVML_DEVICES   number of devices; 1
 *   SIM_NVML           KEY=VALUE,... in the place of the healthy values below; of one device alone: 1.KEY=VALUE
 *   SIM_NVML_FAIL      FUNCTION=CODE,...: these calls return that
 *   SIM_NVML_HANG      FUNCTION: it never returns
 *   SIM_NVML_PROCESSES PID:MIB:SM,...: processes on device 0, and the percentage of it that they use
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../../tools/doctor/nvml.h"

#define UNSUPPORTED ((uint64_t)-1)

static const struct {
	const char *key;
	uint64_t value;
} healthy[] = {
	{"temperature", 34},  {"slowdown", 89},    {"clock", 345},
	{"clock_most", 1980}, {"clock_set", 1980}, {"clock_usual", 1980},
	{"reasons", 1},       {"watts", 700},      {"watts_usual", 700},
	{"persistence", 1},   {"compute_mode", 0}, {"ecc", 1},
	{"ecc_pending", 1},   {"ecc_now", 0},      {"ecc_ever", 0},
	{"rows_waiting", 0},  {"rows_failed", 0},  {"gen", 5},
	{"width", 16},        {"gen_most", 5},     {"width_most", 16},
	{"gpu_gen", 5},       {"state", 0},        {"mig", 0},
	{"mig_pending", 0},   {"mig_parts", 0},    {"links", 18},
	{"links_down", 0},    {"link_errors", 0},  {"fabric", UNSUPPORTED},
	{"fabric_status", 0}, {"used_mib", 500},   {"total_mib", 143771},
	{"cuda", 13000},      {"capability", 90},  {"retired", UNSUPPORTED},
};

/* The number behind KEY= in a list; false: it is not there. */
static bool look_up(const char *list, const char *key, uint64_t *value)
{
	size_t n = strlen(key);
	for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
		if (!strncmp(at, key, n) && at[n] == '=') {
			*value = strtoull(at + n + 1, NULL, 10);
			return true;
		}
	return false;
}

static uint64_t get(nvml_device device, const char *key)
{
	char own[64];
	uint64_t value;
	snprintf(own, sizeof(own), "%zu.%s", (size_t)device - 1, key);
	if (look_up(getenv("SIM_NVML"), own, &value) || look_up(getenv("SIM_NVML"), key, &value))
		return value;
	for (size_t i = 0; i < sizeof(healthy) / sizeof(healthy[0]); i++)
		if (!strcmp(healthy[i].key, key))
			return healthy[i].value;
	abort();
}

/* What the environment wants of this function: 0, or the code to return. */
static int wanted(const char *function)
{
	const char *hang = getenv("SIM_NVML_HANG");
	uint64_t code;
	while (hang && !strcmp(hang, function))
		pause();
	return look_up(getenv("SIM_NVML_FAIL"), function, &code) ? (int)code : 0;
}

#define CALL(name, ...)    \
	int name(__VA_ARGS__); \
	int name(__VA_ARGS__)
#define ENTER                         \
	do {                              \
		int code_ = wanted(__func__); \
		if (code_)                    \
			return code_;             \
	} while (0)
#define GIVE(type, to, key)                 \
	do {                                    \
		uint64_t value_ = get(device, key); \
		if (value_ == UNSUPPORTED)          \
			return NVML_NOT_SUPPORTED;      \
		*(to) = (type)value_;               \
	} while (0)
/* A function with one result. */
#define ASK(name, type, key)                 \
	CALL(name, nvml_device device, type *to) \
	{                                        \
		ENTER;                               \
		GIVE(type, to, key);                 \
		return NVML_OK;                      \
	}

CALL(nvmlInit_v2, void)
{
	ENTER;
	return NVML_OK;
}

const char *nvmlErrorString(int code);
const char *nvmlErrorString(int code)
{
	switch (code) {
	case 9: return "Driver Not Loaded";
	case 15: return "GPU is lost";
	case 18: return "Driver/library version mismatch";
	default: return "Unknown Error";
	}
}

CALL(nvmlSystemGetDriverVersion, char *to, unsigned size)
{
	ENTER;
	snprintf(to, size, "580.159.04");
	return NVML_OK;
}

CALL(nvmlSystemGetCudaDriverVersion_v2, int *to)
{
	nvml_device device = NULL;
	ENTER;
	GIVE(int, to, "cuda");
	return NVML_OK;
}

CALL(nvmlDeviceGetCount_v2, unsigned *to)
{
	const char *count = getenv("SIM_NVML_DEVICES");
	ENTER;
	*to = count ? (unsigned)atoi(count) : 1;
	return NVML_OK;
}

CALL(nvmlDeviceGetHandleByIndex_v2, unsigned index, nvml_device *to)
{
	ENTER;
	*to = (nvml_device)(size_t)(index + 1);
	return NVML_OK;
}

CALL(nvmlDeviceGetName, nvml_device device, char *to, unsigned size)
{
	(void)device;
	ENTER;
	snprintf(to, size, "NVIDIA H200");
	return NVML_OK;
}

CALL(nvmlDeviceGetPciInfo_v3, nvml_device device, struct nvml_pci *to)
{
	ENTER;
	/* As the simulated driver numbers its devices. */
	*to = (struct nvml_pci){.domain = 0, .bus = (unsigned)(size_t)device, .device = 0};
	snprintf(to->text, sizeof(to->text), "%08X:%02X:%02X.0", to->domain, to->bus, to->device);
	return NVML_OK;
}

CALL(nvmlDeviceGetMemoryInfo, nvml_device device, struct nvml_memory *to)
{
	ENTER;
	to->total = get(device, "total_mib") << 20;
	to->used = get(device, "used_mib") << 20;
	to->available = to->total - to->used;
	return NVML_OK;
}

CALL(nvmlDeviceGetCudaComputeCapability, nvml_device device, int *major, int *minor)
{
	ENTER;
	*major = (int)get(device, "capability") / 10;
	*minor = (int)get(device, "capability") % 10;
	return NVML_OK;
}

CALL(nvmlDeviceGetTemperature, nvml_device device, int sensor, unsigned *to)
{
	(void)sensor;
	ENTER;
	GIVE(unsigned, to, "temperature");
	return NVML_OK;
}

CALL(nvmlDeviceGetTemperatureThreshold, nvml_device device, int which, unsigned *to)
{
	(void)which;
	ENTER;
	GIVE(unsigned, to, "slowdown");
	return NVML_OK;
}

#define CLOCK(name, key)                                    \
	CALL(name, nvml_device device, int which, unsigned *to) \
	{                                                       \
		(void)which;                                        \
		ENTER;                                              \
		GIVE(unsigned, to, key);                            \
		return NVML_OK;                                     \
	}
CLOCK(nvmlDeviceGetClockInfo, "clock")
CLOCK(nvmlDeviceGetMaxClockInfo, "clock_most")
CLOCK(nvmlDeviceGetApplicationsClock, "clock_set")
CLOCK(nvmlDeviceGetDefaultApplicationsClock, "clock_usual")
ASK(nvmlDeviceGetCurrentClocksEventReasons, uint64_t, "reasons")
ASK(nvmlDeviceGetPersistenceMode, int, "persistence")
ASK(nvmlDeviceGetComputeMode, int, "compute_mode")
ASK(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, "gen")
ASK(nvmlDeviceGetCurrPcieLinkWidth, unsigned, "width")
ASK(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, "gen_most")
ASK(nvmlDeviceGetMaxPcieLinkWidth, unsigned, "width_most")
ASK(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned, "gpu_gen")
ASK(nvmlDeviceGetPerformanceState, int, "state")
ASK(nvmlDeviceGetMaxMigDeviceCount, unsigned, "mig_parts")
ASK(nvmlDeviceGetRetiredPagesPendingStatus, int, "retired")

#define WATTS(name, key)                         \
	CALL(name, nvml_device device, unsigned *to) \
	{                                            \
		ENTER;                                   \
		*to = (unsigned)get(device, key) * 1000; \
		return NVML_OK;                          \
	}
WATTS(nvmlDeviceGetPowerManagementLimit, "watts")
WATTS(nvmlDeviceGetPowerManagementDefaultLimit, "watts_usual")

CALL(nvmlDeviceGetEccMode, nvml_device device, int *current, int *pending)
{
	ENTER;
	GIVE(int, current, "ecc");
	GIVE(int, pending, "ecc_pending");
	return NVML_OK;
}

CALL(nvmlDeviceGetTotalEccErrors, nvml_device device, int type, int counter, uint64_t *to)
{
	(void)type;
	ENTER;
	GIVE(uint64_t, to, counter == NVML_VOLATILE ? "ecc_now" : "ecc_ever");
	return NVML_OK;
}

CALL(nvmlDeviceGetRemappedRows, nvml_device device, unsigned *corrected, unsigned *uncorrected,
	 unsigned *waiting, unsigned *failed)
{
	ENTER;
	*corrected = *uncorrected = 0;
	GIVE(unsigned, waiting, "rows_waiting");
	GIVE(unsigned, failed, "rows_failed");
	return NVML_OK;
}

CALL(nvmlDeviceGetMigMode, nvml_device device, unsigned *current, unsigned *pending)
{
	ENTER;
	GIVE(unsigned, current, "mig");
	GIVE(unsigned, pending, "mig_pending");
	return NVML_OK;
}

CALL(nvmlDeviceGetMigDeviceHandleByIndex, nvml_device device, unsigned index, nvml_device *to)
{
	ENTER;
	*to = device;
	return index < get(device, "mig_parts") ? NVML_OK : 6;
}

CALL(nvmlDeviceGetNvLinkState, nvml_device device, unsigned link, int *to)
{
	ENTER;
	if (link >= get(device, "links"))
		return NVML_NOT_SUPPORTED;
	*to = link >= get(device, "links_down");
	return NVML_OK;
}

CALL(nvmlDeviceGetNvLinkErrorCounter, nvml_device device, unsigned link, int counter, uint64_t *to)
{
	(void)link;
	(void)counter;
	ENTER;
	GIVE(uint64_t, to, "link_errors");
	return NVML_OK;
}

CALL(nvmlDeviceGetGpuFabricInfo, nvml_device device, struct nvml_fabric *to)
{
	ENTER;
	*to = (struct nvml_fabric){.status = (int)get(device, "fabric_status")};
	GIVE(unsigned char, &to->state, "fabric");
	return NVML_OK;
}

/* The next PID:MIB:SM of the list. */
static bool next_process(const char **at, unsigned *pid, uint64_t *mib, unsigned *sm)
{
	unsigned long long m;
	if (!*at || sscanf(*at, "%u:%llu:%u", pid, &m, sm) != 3)
		return false;
	*mib = m;
	*at += strcspn(*at, ",");
	*at += **at == ',';
	return true;
}

CALL(nvmlDeviceGetComputeRunningProcesses_v3, nvml_device device, unsigned *count, struct nvml_process *to)
{
	const char *at = getenv("SIM_NVML_PROCESSES");
	unsigned n = 0, pid, sm;
	uint64_t mib;
	ENTER;
	while ((size_t)device == 1 && n < *count && next_process(&at, &pid, &mib, &sm))
		to[n++] = (struct nvml_process){.pid = pid, .bytes = mib << 20};
	*count = n;
	return NVML_OK;
}

CALL(nvmlDeviceGetProcessUtilization, nvml_device device, struct nvml_sample *to, unsigned *count,
	 uint64_t since)
{
	const char *at = getenv("SIM_NVML_PROCESSES");
	unsigned n = 0, pid, sm;
	uint64_t mib;
	struct timespec now;
	(void)since;
	ENTER;
	clock_gettime(CLOCK_REALTIME, &now);
	while ((size_t)device == 1 && n < *count && next_process(&at, &pid, &mib, &sm))
		to[n++] = (struct nvml_sample){
			.pid = pid, .sm = sm, .time = (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u};
	*count = n;
	return NVML_OK;
}
