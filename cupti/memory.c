/* memory.c - see memory.h. Types and numbers: nvml.h, whose functions keep their meaning once they have a suffix. */
#include "memory.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "log.h"
#include "lookup.h"
#include "recording.h"
#include "times.h"

#define PROCESSES 256

struct nvml_memory {
	unsigned long long total, free, used;
};

struct nvml_process { /* nvmlProcessInfo_v2_t */
	unsigned pid;
	unsigned long long used;
	unsigned gpu_instance, compute_instance;
};

static struct {
	int (*Init_v2)(void);
	int (*DeviceGetHandleByUUID)(const char *uuid, void **device);
	int (*DeviceGetMemoryInfo)(void *device, struct nvml_memory *memory);
	int (*DeviceGetComputeRunningProcesses_v3)(void *device, unsigned *count, struct nvml_process *process);
} nvml;

static enum { NEW, READY, NONE } state;
static void *handles[TIMELINE_DEVICES];
static unsigned handle_count;

static bool bind(void)
{
	void *lib = lookup_real_dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!lib)
		return false;
#define BIND(name) (*(void **)(void *)&nvml.name = lookup_real_dlsym(lib, "nvml" #name))
	BIND(Init_v2);
	BIND(DeviceGetHandleByUUID);
	BIND(DeviceGetMemoryInfo);
	BIND(DeviceGetComputeRunningProcesses_v3);
#undef BIND
	return nvml.Init_v2 && nvml.DeviceGetHandleByUUID && nvml.DeviceGetMemoryInfo && nvml.Init_v2() == 0;
}

/* NVML counts devices in its own order; the identity of a device (of a MIG slice, too) is the same for both. */
static void *find_device(const struct timeline_device *d)
{
	const uint8_t *u = d->uuid;
	void *handle = NULL;
	char text[64];
	for (int mig = 0; mig < 2 && !handle; mig++) {
		snprintf(text, sizeof(text),
				 "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
				 mig ? "MIG" : "GPU", u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10],
				 u[11], u[12], u[13], u[14], u[15]);
		if (nvml.DeviceGetHandleByUUID(text, &handle) != 0)
			handle = NULL;
	}
	return handle;
}

static void start(void)
{
	static struct timeline_device device[TIMELINE_DEVICES];
	state = NONE;
	if (!bind()) {
		log_debug("timeline: no NVML: device memory is not sampled");
		return;
	}
	handle_count = device_describe(device, TIMELINE_DEVICES);
	for (unsigned i = 0; i < handle_count; i++)
		handles[i] = find_device(&device[i]);
	state = READY;
}

static void put(uint32_t device, const char *name, uint64_t bytes)
{
	struct timeline_entry e = {.kind = TIMELINE_COUNTER};
	struct timeline_lane lane = {.kind = TIMELINE_LANE_DEVICE, .device = device};
	struct timeline_record r = {.kind = TIMELINE_COUNTER, .start = times_now(), .value = bytes};
	if (!recording_begin())
		return;
	r.entry = recording_entry(&e, name);
	r.lane = recording_lane(&lane, NULL);
	recording_put(&r);
	recording_end();
}

static void sample_process(unsigned device)
{
	static struct nvml_process process[PROCESSES];
	unsigned n = PROCESSES;
	if (!nvml.DeviceGetComputeRunningProcesses_v3 ||
		nvml.DeviceGetComputeRunningProcesses_v3(handles[device], &n, process) != 0)
		return;
	for (unsigned i = 0; i < n && i < PROCESSES; i++)
		if (process[i].pid == (unsigned)getpid() && process[i].used != UINT64_MAX)
			put(device, MEMORY_PROCESS, process[i].used);
}

void memory_sample(void)
{
	struct nvml_memory m;
	if (state == NEW)
		start();
	if (state == NONE)
		return;
	for (unsigned i = 0; i < handle_count; i++) {
		if (!handles[i] || nvml.DeviceGetMemoryInfo(handles[i], &m) != 0)
			continue;
		put(i, MEMORY_USED, m.used);
		sample_process(i);
	}
}
