/*
 * gpu_links.c - what one GPU is connected by: PCIe and NVLink.
 */
#include <string.h>

#include "doctor.h"
#include "nvml.h"
#include "tools/timeline/units.h"

/* At rest the link runs at a lower generation, which says nothing; it always keeps its width. */
static void pcie(const struct gpu *g)
{
	unsigned gen = 0, width = 0, gen_most = 0, width_most = 0, gpu_most = 0;
	int state = 0;
	if (NVML(g->nvml, nvmlDeviceGetCurrPcieLinkGeneration, g->device, &gen) != NVML_OK ||
		NVML(g->nvml, nvmlDeviceGetCurrPcieLinkWidth, g->device, &width) != NVML_OK ||
		NVML(g->nvml, nvmlDeviceGetMaxPcieLinkGeneration, g->device, &gen_most) != NVML_OK ||
		NVML(g->nvml, nvmlDeviceGetMaxPcieLinkWidth, g->device, &width_most) != NVML_OK || !width)
		return;
	bool at_work = NVML(g->nvml, nvmlDeviceGetPerformanceState, g->device, &state) == NVML_OK && state == 0;
	enum doctor_level level = width * 2 < width_most                              ? DOCTOR_FAIL
							  : width < width_most || (at_work && gen < gen_most) ? DOCTOR_WARN
																				  : DOCTOR_OK;
	struct finding *f =
		doctor_say(g->d, F_pcie, level, g->where, "gen %u x%u now%s, gen %u x%u at most", gen, width,
				   gen < gen_most && !at_work ? " (at rest)" : "", gen_most, width_most);
	doctor_value(f, "generation", gen);
	doctor_value(f, "width", width);
	doctor_value(f, "generation_most", gen_most);
	doctor_value(f, "width_most", width_most);
	if (NVML(g->nvml, nvmlDeviceGetGpuMaxPcieLinkGeneration, g->device, &gpu_most) == NVML_OK &&
		gpu_most > gen_most)
		doctor_say(g->d, F_pcie_slot, DOCTOR_WARN, g->where,
				   "the GPU can gen %u, here it gets gen %u at most", gpu_most, gen_most);
}

static uint64_t errors(const struct gpu *g, unsigned link)
{
	uint64_t sum = 0, n;
	for (int counter = NVML_REPLAY; counter <= NVML_CRC_DATA; counter++)
		if (NVML(g->nvml, nvmlDeviceGetNvLinkErrorCounter, g->device, link, counter, &n) == NVML_OK)
			sum += n;
	return sum;
}

/* Cards with bridges use a part of their links, and a card alone none. */
static void nvlink(const struct gpu *g)
{
	unsigned up = 0, down = 0;
	uint64_t bad = 0;
	char dead[128] = "";
	for (unsigned link = 0; link < NVML_LINKS; link++) {
		int active;
		size_t used = strlen(dead);
		if (NVML(g->nvml, nvmlDeviceGetNvLinkState, g->device, link, &active) != NVML_OK)
			continue;
		up += active != 0;
		if (active) {
			bad += errors(g, link);
		} else {
			down++;
			snprintf(dead + used, sizeof(dead) - used, "%s%u", used ? ", " : "", link);
		}
	}
	if (!up && !down)
		return;
	struct finding *f;
	if (!up)
		f = doctor_say(g->d, F_nvlink, g->several ? DOCTOR_WARN : DOCTOR_NOT_HERE, g->where,
					   "all %u links are down", down);
	else if (down)
		f = doctor_say(g->d, F_nvlink, DOCTOR_WARN, g->where, "%u of %u links are up; down: %s", up,
					   up + down, dead);
	else if (bad)
		f = doctor_say(g->d, F_nvlink, DOCTOR_WARN, g->where,
					   "%u links are up, with %s errors since the driver was loaded", up, units_count(bad).s);
	else
		f = doctor_say(g->d, F_nvlink, DOCTOR_OK, g->where, "%u links are up, without errors", up);
	doctor_value(f, "links_up", up);
	doctor_value(f, "links_down", down);
}

void gpu_links(const struct gpu *g)
{
	pcie(g);
	nvlink(g);
}
