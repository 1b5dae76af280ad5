/*
 * devices.c - is there a GPU, as the kernel and the loader see it? Asks no driver.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"

struct devices {
	struct doctor *d;
	unsigned pci, files;
	char bus[32];       /* of the first */
	char closed[256];   /* device files that may not be opened */
	bool driver_folder; /* /proc/driver/nvidia */
};

/* "16.0 GT/s PCIe" is generation 4. */
static unsigned generation_of(const char *speed)
{
	static const char *const speeds[] = {"2.5", "5", "8", "16", "32", "64"};
	size_t n = strcspn(speed, " ");
	for (unsigned i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
		size_t k = strlen(speeds[i]);
		if (!strncmp(speed, speeds[i], k) && (n == k || (n == k + 2 && !strncmp(speed + k, ".0", 2))))
			return i + 1;
	}
	return 0;
}

static bool pci_entry(void *arg, const char *name)
{
	struct devices *v = arg;
	struct doctor *d = v->d;
	struct doctor_facts *facts = &d->board->facts;
	char text[64];
	const char *at = "/sys/bus/pci/devices";
	if (!doctor_read(d, text, sizeof(text), "%s/%s/vendor", at, name) || strcmp(text, "0x10de") ||
		!doctor_read(d, text, sizeof(text), "%s/%s/class", at, name) || strncmp(text, "0x03", 4))
		return true;
	if (v->pci++ == 0)
		snprintf(v->bus, sizeof(v->bus), "%s", name);
	if (facts->gpus == sizeof(facts->gpu) / sizeof(facts->gpu[0]))
		return true;
	struct doctor_gpu *gpu = &facts->gpu[facts->gpus++];
	snprintf(gpu->bus, sizeof(gpu->bus), "%s", name);
	int64_t node = doctor_number(d, "%s/%s/numa_node", at, name);
	gpu->node = node >= 0 ? (unsigned)node + 1 : 0;
	if (doctor_read(d, text, sizeof(text), "%s/%s/max_link_speed", at, name))
		gpu->generation = generation_of(text);
	int64_t width = doctor_number(d, "%s/%s/max_link_width", at, name);
	gpu->width = width > 0 && width <= 32 ? (unsigned)width : 0;
	return true;
}

/* Opened, not only asked: the device rules of a container show only then. */
static void try_file(struct devices *v, const char *name)
{
	char path[PATH_MAX];
	doctor_path(v->d, path, sizeof(path), "/dev/%s", name);
	int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0) {
		close(fd);
		return;
	}
	if (errno != EACCES && errno != EPERM)
		return;
	size_t used = strlen(v->closed);
	snprintf(v->closed + used, sizeof(v->closed) - used, "%s/dev/%s", used ? ", " : "", name);
}

static bool device_entry(void *arg, const char *name)
{
	struct devices *v = arg;
	if (!strncmp(name, "nvidia", 6) && isdigit((unsigned char)name[6])) {
		v->files++;
		try_file(v, name);
	}
	return true;
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue ...": the first word of digits and a point. */
static void module_version(struct doctor *d)
{
	char text[512];
	if (!doctor_read(d, text, sizeof(text), "/proc/driver/nvidia/version"))
		return;
	char *save = NULL;
	for (char *word = strtok_r(text, " \t\n", &save); word; word = strtok_r(NULL, " \t\n", &save))
		if (isdigit((unsigned char)*word) && strchr(word, '.') &&
			strspn(word, "0123456789.") == strlen(word)) {
			snprintf(d->board->facts.module, sizeof(d->board->facts.module), "%.60s", word);
			return;
		}
}

static void judge_library(struct doctor *d)
{
	const char *module = d->board->facts.module;
	void *lib = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
	struct link_map *map = NULL;
	char real[PATH_MAX];
	if (!lib) {
		if (*module)
			doctor_do(doctor_say(d, F_gpu_found, DOCTOR_FAIL, NULL,
								 "driver %s is loaded, and libcuda.so.1 is not found: %s", module, dlerror()),
					  "Install the driver's libraries; in a container ask for them: --gpus all and "
					  "NVIDIA_DRIVER_CAPABILITIES=compute,utility.");
		return;
	}
	if (dlinfo(lib, RTLD_DI_LINKMAP, &map) != 0 || !map || !realpath(map->l_name, real))
		return;
	doctor_library_add(d->board->facts.library, &d->board->facts.libraries, 1, real);
	const char *version = strstr(real, "libcuda.so.");
	version = version ? version + strlen("libcuda.so.") : "";
	if (!*module || !strchr(version, '.'))
		return;
	if (!strcmp(version, module))
		doctor_say(d, F_driver_match, DOCTOR_OK, NULL, "libcuda.so and kernel module are both of %s", module);
	else if (strstr(real, "compat"))
		doctor_say(d, F_driver_match, DOCTOR_OK, NULL,
				   "libcuda.so of %s on the kernel module of %s, by a compatibility package: %s", version,
				   module, real);
	else
		doctor_say(d, F_driver_match, DOCTOR_FAIL, NULL, "libcuda.so is of %s (%s), the kernel module of %s",
				   version, real, module);
}

static void judge(struct doctor *d, struct devices *v)
{
	const char *module = d->board->facts.module;
	struct finding *f;
	if (doctor_exists(d, "/dev/dxg")) {
		doctor_say(d, F_gpu_found, DOCTOR_OK, NULL, "Windows' driver, through WSL");
	} else if (!v->pci && !*module && !v->files) {
		doctor_say(d, F_gpu_found, DOCTOR_NOT_HERE, NULL,
				   "no NVIDIA GPU on PCI, no kernel module, no device files");
	} else if (!*module) {
		f = doctor_say(d, F_gpu_found, DOCTOR_FAIL, NULL,
					   "%u GPU%s on PCI (%s), and the kernel module is not loaded%s", v->pci,
					   v->pci == 1 ? "" : "s", v->bus,
					   doctor_exists(d, "/sys/module/nouveau") ? "; nouveau is, which cannot do CUDA" : "");
		doctor_do(
			f, "Install NVIDIA's driver, or load it (modprobe nvidia) and look in dmesg why it did not load; "
			   "nouveau must be on the list of blacklisted modules.");
	} else if (!v->files) {
		doctor_say(d, F_gpu_found, DOCTOR_FAIL, NULL,
				   "driver %s is loaded, and there is no device file /dev/nvidia0", module);
	} else if (!doctor_exists(d, "/dev/nvidia-uvm")) {
		f = doctor_say(d, F_gpu_found, DOCTOR_FAIL, NULL,
					   "there is no /dev/nvidia-uvm, without which CUDA does not start");
		doctor_do(f, "nvidia-modprobe -u -c 0 makes it, as root; a container needs it passed in.");
	} else {
		doctor_say(d, F_gpu_found, DOCTOR_OK, NULL, "driver %s, %u device file%s", module, v->files,
				   v->files == 1 ? "" : "s");
	}
	if (*v->closed)
		doctor_say(d, F_gpu_access, DOCTOR_FAIL, NULL, "may not be opened: %s", v->closed);
}

void probe_devices(struct doctor *d)
{
	struct devices v = {.d = d};
	doctor_entries(d, "/sys/bus/pci/devices", pci_entry, &v);
	doctor_entries(d, "/dev", device_entry, &v);
	if (v.files) {
		try_file(&v, "nvidiactl");
		try_file(&v, "nvidia-uvm");
	}
	module_version(d);
	d->board->facts.expected = v.pci || v.files || *d->board->facts.module || doctor_exists(d, "/dev/dxg");
	judge(d, &v);
	judge_library(d);
}
