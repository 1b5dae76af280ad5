/*
 * nvml.c - the GPUs as NVML sees them.
 */
#include "nvml.h"

#include <ctype.h>
#include <dlfcn.h>
#include <string.h>

#include "doctor.h"
#include "tools/timeline/units.h"

#define GPUS 32

static bool load(struct nvml *n, char *why, size_t size)
{
	void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		snprintf(why, size, "%s", dlerror());
		return false;
	}
#define X(name, arguments) n->name = (__typeof__(n->name))dlsym(lib, #name);
	NVML_CALLS(X)
#undef X
	n->nvmlErrorString = (__typeof__(n->nvmlErrorString))dlsym(lib, "nvmlErrorString");
	if (n->nvmlInit_v2)
		return true;
	snprintf(why, size, "libnvidia-ml.so.1 has no nvmlInit_v2: older than CUDA 8");
	return false;
}

static const char *error(const struct nvml *n, int code)
{
	const char *text = n->nvmlErrorString ? n->nvmlErrorString(code) : NULL;
	return text ? text : "unknown error";
}

/* As the kernel writes it: "00000000:3B:00.0" is 0000:3b:00.0. */
static void bus_of(const struct nvml *n, nvml_device device, char *buf, size_t size)
{
	struct nvml_pci pci = {.text = ""};
	if (NVML(n, nvmlDeviceGetPciInfo_v3, device, &pci) == NVML_OK)
		snprintf(buf, size, "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
	else
		*buf = '\0';
}

/* The devices are NVML's from here on: in its order, and those alone that this container has. */
static void note(struct doctor *d, const struct gpu *g)
{
	struct doctor_facts *facts = &d->board->facts;
	struct doctor_gpu found = {.bus = ""}, *to = &facts->gpu[g->index];
	unsigned value;
	int major, minor;
	bus_of(g->nvml, g->device, found.bus, sizeof(found.bus));
	for (unsigned i = g->index; i < facts->gpus; i++)
		if (!strcmp(facts->gpu[i].bus, found.bus)) {
			struct doctor_gpu kernel = facts->gpu[i];
			facts->gpu[i] = *to;
			found = kernel;
			break;
		}
	*to = found;
	if (NVML(g->nvml, nvmlDeviceGetMaxPcieLinkGeneration, g->device, &value) == NVML_OK)
		to->generation = value;
	if (NVML(g->nvml, nvmlDeviceGetMaxPcieLinkWidth, g->device, &value) == NVML_OK)
		to->width = value;
	if (NVML(g->nvml, nvmlDeviceGetCudaComputeCapability, g->device, &major, &minor) == NVML_OK)
		to->capability = (unsigned)(major * 10 + minor);
	if (g->index >= facts->gpus)
		facts->gpus = g->index + 1;
}

static void describe(struct doctor *d, const struct gpu *g)
{
	const struct doctor_gpu *known = &d->board->facts.gpu[g->index];
	struct nvml_memory m = {0};
	char name[96] = "unnamed", memory[96] = "", capability[48] = "";
	NVML(g->nvml, nvmlDeviceGetName, g->device, name, sizeof(name));
	if (NVML(g->nvml, nvmlDeviceGetMemoryInfo, g->device, &m) == NVML_OK)
		snprintf(memory, sizeof(memory), ", %s free of %s", units_gib((double)m.available).s,
				 units_gib((double)m.total).s);
	if (known->capability)
		snprintf(capability, sizeof(capability), " (%u.%u)", known->capability / 10, known->capability % 10);
	struct finding *f = doctor_say(d, F_gpu, DOCTOR_OK, g->where, "%s%s%s, PCI %s", name, capability, memory,
								   *known->bus ? known->bus : "unknown");
	doctor_value(f, "memory_bytes", (double)m.total);
	doctor_value(f, "memory_free_bytes", (double)m.available);
	doctor_value(f, "compute_capability", known->capability / 10.0);
}

static void not_started(struct doctor *d, const struct nvml *n, int code)
{
	doctor_say(d, F_nvml, DOCTOR_FAIL, NULL, "does not start: %s (nvmlInit: %d)", error(n, code), code);
}

static unsigned open_all(struct doctor *d, const struct nvml *n, struct gpu *gpu)
{
	unsigned count = 0, opened = 0;
	int code = NVML(n, nvmlDeviceGetCount_v2, &count);
	if (code != NVML_OK) {
		doctor_say(d, F_nvml, DOCTOR_FAIL, NULL, "does not count the devices: %s (%d)", error(n, code), code);
		return 0;
	}
	if (count == 0)
		doctor_say(d, F_nvml, DOCTOR_WARN, NULL, "has no device");
	for (unsigned i = 0; i < count && opened < GPUS; i++) {
		struct gpu *g = &gpu[opened];
		*g = (struct gpu){.d = d, .nvml = n, .index = opened, .several = count > 1};
		snprintf(g->where, sizeof(g->where), "GPU %u", i);
		code = NVML(n, nvmlDeviceGetHandleByIndex_v2, i, &g->device);
		if (code == NVML_OK)
			opened++;
		else
			doctor_do(doctor_say(d, F_nvml, DOCTOR_FAIL, g->where, "is there but cannot be used: %s (%d)",
								 error(n, code), code),
					  "Look in dmesg for Xid messages of it; reset the GPU or restart the machine.");
	}
	return opened;
}

void probe_nvml(struct doctor *d)
{
	static struct nvml n;
	static struct gpu gpu[GPUS];
	struct doctor_facts *facts = &d->board->facts;
	char why[300], driver[96] = "unknown";
	int cuda = 0;
	if (!load(&n, why, sizeof(why))) {
		if (facts->expected)
			doctor_do(
				doctor_say(d, F_nvml, DOCTOR_WARN, NULL, "is not there: %s", why),
				"Install the driver's tools; in a container NVIDIA_DRIVER_CAPABILITIES must contain utility.");
		return;
	}
	int code = n.nvmlInit_v2();
	if (code != NVML_OK) {
		not_started(d, &n, code);
		return;
	}
	facts->expected = true;
	NVML(&n, nvmlSystemGetDriverVersion, driver, sizeof(driver));
	if (NVML(&n, nvmlSystemGetCudaDriverVersion_v2, &cuda) == NVML_OK && cuda > 0)
		facts->cuda_most = (unsigned)cuda;
	struct finding *f = doctor_say(d, F_nvml, DOCTOR_OK, NULL, "driver %s, CUDA %d.%d at most", driver,
								   cuda / 1000, cuda % 1000 / 10);
	doctor_value(f, "cuda", cuda / 1000 + cuda % 1000 / 100.0);
	unsigned count = open_all(d, &n, gpu);
	for (unsigned i = 0; i < count; i++) {
		note(d, &gpu[i]);
		describe(d, &gpu[i]);
		gpu_health(&gpu[i]);
		gpu_memory_errors(&gpu[i]);
		gpu_links(&gpu[i]);
		gpu_mode(&gpu[i]);
	}
	if (count)
		facts->gpus = count;
	gpu_processes(d, &n, gpu, count);
}
