/*
 * nvml.h - what is used of NVML, found by dlopen: a machine without it has no NVML, an old one lacks functions.
 *
 * Declared here because the library's header comes with the toolkit, which need not be installed. Numbers and layouts are those
 * of NVML's ABI, which does not change within a suffix (_v2).
 */
#ifndef TURBO_DOCTOR_NVML_H
#define TURBO_DOCTOR_NVML_H

#include <stdbool.h>
#include <stdint.h>

typedef struct nvml_device *nvml_device;

enum {
	NVML_OK = 0,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_MISSING = 13
};
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2 };
enum { NVML_TEMPERATURE_SLOWDOWN = 1 };
enum { NVML_UNCORRECTED = 1 };
enum { NVML_VOLATILE = 0, NVML_AGGREGATE = 1 };
enum { NVML_LINKS = 18 };
enum { NVML_REPLAY = 0, NVML_RECOVERY = 1, NVML_CRC_FLIT = 2, NVML_CRC_DATA = 3 };
enum { NVML_FABRIC_NOT_STARTED = 1, NVML_FABRIC_IN_PROGRESS = 2, NVML_FABRIC_COMPLETED = 3 };

/* Reasons for low clocks. */
#define NVML_REASON_APPLICATION 0x2u /* clocks that somebody has set */
#define NVML_REASON_POWER_CAP 0x4u
#define NVML_REASON_HW_SLOWDOWN 0x8u
#define NVML_REASON_SW_THERMAL 0x20u
#define NVML_REASON_HW_THERMAL 0x40u
#define NVML_REASON_POWER_BRAKE 0x80u

struct nvml_pci {
	char legacy[16];
	unsigned domain, bus, device, id, subsystem;
	char text[32]; /* "00000000:3B:00.0" */
};

struct nvml_memory {
	uint64_t total, available, used;
};

struct nvml_process {
	unsigned pid;
	uint64_t bytes;
	unsigned instance, compute;
};

struct nvml_sample {
	unsigned pid;
	uint64_t time; /* us */
	unsigned sm, memory, encoder, decoder;
};

struct nvml_fabric {
	unsigned char cluster[16];
	int status;
	unsigned clique;
	unsigned char state;
};

#define NVML_CALLS(X)                                                                            \
	X(nvmlInit_v2, (void))                                                                       \
	X(nvmlSystemGetDriverVersion, (char *, unsigned))                                            \
	X(nvmlSystemGetCudaDriverVersion_v2, (int *))                                                \
	X(nvmlDeviceGetCount_v2, (unsigned *))                                                       \
	X(nvmlDeviceGetHandleByIndex_v2, (unsigned, nvml_device *))                                  \
	X(nvmlDeviceGetName, (nvml_device, char *, unsigned))                                        \
	X(nvmlDeviceGetPciInfo_v3, (nvml_device, struct nvml_pci *))                                 \
	X(nvmlDeviceGetMemoryInfo, (nvml_device, struct nvml_memory *))                              \
	X(nvmlDeviceGetCudaComputeCapability, (nvml_device, int *, int *))                           \
	X(nvmlDeviceGetTemperature, (nvml_device, int, unsigned *))                                  \
	X(nvmlDeviceGetTemperatureThreshold, (nvml_device, int, unsigned *))                         \
	X(nvmlDeviceGetClockInfo, (nvml_device, int, unsigned *))                                    \
	X(nvmlDeviceGetMaxClockInfo, (nvml_device, int, unsigned *))                                 \
	X(nvmlDeviceGetApplicationsClock, (nvml_device, int, unsigned *))                            \
	X(nvmlDeviceGetDefaultApplicationsClock, (nvml_device, int, unsigned *))                     \
	X(nvmlDeviceGetCurrentClocksEventReasons, (nvml_device, uint64_t *))                         \
	X(nvmlDeviceGetCurrentClocksThrottleReasons, (nvml_device, uint64_t *))                      \
	X(nvmlDeviceGetPowerManagementLimit, (nvml_device, unsigned *))                              \
	X(nvmlDeviceGetPowerManagementDefaultLimit, (nvml_device, unsigned *))                       \
	X(nvmlDeviceGetPersistenceMode, (nvml_device, int *))                                        \
	X(nvmlDeviceGetComputeMode, (nvml_device, int *))                                            \
	X(nvmlDeviceGetEccMode, (nvml_device, int *, int *))                                         \
	X(nvmlDeviceGetTotalEccErrors, (nvml_device, int, int, uint64_t *))                          \
	X(nvmlDeviceGetRemappedRows, (nvml_device, unsigned *, unsigned *, unsigned *, unsigned *))  \
	X(nvmlDeviceGetRetiredPagesPendingStatus, (nvml_device, int *))                              \
	X(nvmlDeviceGetCurrPcieLinkGeneration, (nvml_device, unsigned *))                            \
	X(nvmlDeviceGetCurrPcieLinkWidth, (nvml_device, unsigned *))                                 \
	X(nvmlDeviceGetMaxPcieLinkGeneration, (nvml_device, unsigned *))                             \
	X(nvmlDeviceGetMaxPcieLinkWidth, (nvml_device, unsigned *))                                  \
	X(nvmlDeviceGetGpuMaxPcieLinkGeneration, (nvml_device, unsigned *))                          \
	X(nvmlDeviceGetPerformanceState, (nvml_device, int *))                                       \
	X(nvmlDeviceGetMigMode, (nvml_device, unsigned *, unsigned *))                               \
	X(nvmlDeviceGetMaxMigDeviceCount, (nvml_device, unsigned *))                                 \
	X(nvmlDeviceGetMigDeviceHandleByIndex, (nvml_device, unsigned, nvml_device *))               \
	X(nvmlDeviceGetNvLinkState, (nvml_device, unsigned, int *))                                  \
	X(nvmlDeviceGetNvLinkErrorCounter, (nvml_device, unsigned, int, uint64_t *))                 \
	X(nvmlDeviceGetGpuFabricInfo, (nvml_device, struct nvml_fabric *))                           \
	X(nvmlDeviceGetComputeRunningProcesses_v3, (nvml_device, unsigned *, struct nvml_process *)) \
	X(nvmlDeviceGetComputeRunningProcesses_v2, (nvml_device, unsigned *, struct nvml_process *)) \
	X(nvmlDeviceGetUtilizationRates, (nvml_device, unsigned *))                                  \
	X(nvmlDeviceGetProcessUtilization, (nvml_device, struct nvml_sample *, unsigned *, uint64_t))

/* Each is NULL where the library lacks it. */
struct nvml {
#define X(name, arguments) int(*name) arguments;
	NVML_CALLS(X)
#undef X
	const char *(*nvmlErrorString)(int);
};

/* NVML_MISSING where there is no such function: NVML(n, nvmlDeviceGetName, device, ...) */
#define NVML(n, call, ...) ((n)->call ? (n)->call(__VA_ARGS__) : NVML_MISSING)

/* One GPU as it is asked about. */
struct doctor;
struct gpu {
	struct doctor *d;
	const struct nvml *nvml;
	nvml_device device;
	unsigned index;
	bool several;   /* there are others */
	char where[16]; /* "GPU 0" */
};

/* gpu.c, gpu_links.c: one GPU. gpu_processes.c: those on it. */
void gpu_health(const struct gpu *g);
void gpu_memory_errors(const struct gpu *g);
void gpu_links(const struct gpu *g);
void gpu_mode(const struct gpu *g);
void gpu_processes(struct doctor *d, const struct nvml *n, const struct gpu *gpu, unsigned count);

#endif
