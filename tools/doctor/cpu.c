/*
 * cpu.c - the machine's processors: how many this process has, where they are, how fast they may run.
 */
#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

#define CPUS_A_GPU 4
#define NODES 64

/* The CPUs of a list such as 0-3,8. */
static void list_to_set(const char *list, cpu_set_t *set)
{
	CPU_ZERO(set);
	while (*list >= '0' && *list <= '9') {
		char *end;
		long from = strtol(list, &end, 10), to = from;
		if (*end == '-')
			to = strtol(end + 1, &end, 10);
		for (long cpu = from; cpu <= to && cpu < CPU_SETSIZE; cpu++)
			CPU_SET((size_t)cpu, set);
		list = end + (*end == ',');
	}
}

static void count(struct doctor *d, const cpu_set_t *mine)
{
	unsigned gpus = d->board->facts.gpus;
	int n = CPU_COUNT(mine), wanted = CPUS_A_GPU * (int)(gpus ? gpus : 1);
	/* Without a GPU there is no job whose cores could be too few. */
	bool few = d->board->facts.expected && n < wanted;
	char share[32] = "";
	if (gpus)
		snprintf(share, sizeof(share), " for %u GPU%s", gpus, gpus == 1 ? "" : "s");
	struct finding *f = doctor_say(d, F_cpus, few ? DOCTOR_WARN : DOCTOR_OK, NULL, "%d%s", n, share);
	doctor_value(f, "cpus", n);
}

static void load(struct doctor *d)
{
	char text[128], online[512];
	cpu_set_t all;
	if (!doctor_read(d, text, sizeof(text), "/proc/loadavg") ||
		!doctor_read(d, online, sizeof(online), "/sys/devices/system/cpu/online"))
		return;
	list_to_set(online, &all);
	double now = atof(text);
	int cpus = CPU_COUNT(&all);
	doctor_say(d, F_load, cpus && now > 1.25 * cpus + 1 ? DOCTOR_WARN : DOCTOR_OK, NULL,
			   "%.1f on %d CPUs, in the last minute", now, cpus);
}

/* The nodes of the CPUs that this process may use, bits of node numbers. */
static uint64_t nodes_of(struct doctor *d, const cpu_set_t *mine, unsigned *nodes)
{
	uint64_t used = 0;
	*nodes = 0;
	for (unsigned node = 0; node < NODES; node++) {
		char list[2048];
		cpu_set_t set, both;
		if (!doctor_read(d, list, sizeof(list), "/sys/devices/system/node/node%u/cpulist", node))
			continue;
		list_to_set(list, &set);
		if (!CPU_COUNT(&set))
			continue; /* memory alone, as of a GH200's GPU */
		(*nodes)++;
		CPU_AND(&both, &set, mine);
		if (CPU_COUNT(&both))
			used |= UINT64_C(1) << node;
	}
	return used;
}

static void numa(struct doctor *d, const cpu_set_t *mine)
{
	const struct doctor_facts *facts = &d->board->facts;
	unsigned nodes, far = 0;
	uint64_t used = nodes_of(d, mine, &nodes);
	char where[16] = "";
	if (nodes <= 1) {
		doctor_say(d, F_numa, DOCTOR_OK, NULL, "one node");
		return;
	}
	for (unsigned i = 0; i < facts->gpus; i++) {
		unsigned node = facts->gpu[i].node;
		if (!node || node > NODES || used & UINT64_C(1) << (node - 1))
			continue;
		if (!far++)
			snprintf(where, sizeof(where), "GPU %u", i);
		doctor_do(doctor_say(d, F_numa, DOCTOR_WARN, where,
							 "is at node %u, and this process may not use the CPUs there", node - 1),
				  "Start it with numactl --cpunodebind=%u --membind=%u", node - 1, node - 1);
	}
	if (!far)
		doctor_say(d, F_numa, DOCTOR_OK, NULL, "%u nodes; this process may use those of its GPUs", nodes);
	int64_t balancing = doctor_number(d, "/proc/sys/kernel/numa_balancing");
	if (balancing >= 0)
		doctor_say(d, F_numa_balancing, balancing ? DOCTOR_WARN : DOCTOR_OK, NULL, balancing ? "on" : "off");
}

static void governor(struct doctor *d)
{
	char name[64], preference[64] = "";
	if (!doctor_read(d, name, sizeof(name), "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")) {
		doctor_say(d, F_governor, DOCTOR_NOT_HERE, NULL, "the machine, or its host, does not show them");
		return;
	}
	bool energy = doctor_read(d, preference, sizeof(preference),
							  "/sys/devices/system/cpu/cpu0/cpufreq/energy_performance_preference");
	/* Drivers that choose clocks themselves are called powersave, and go by the preference. */
	bool slow = energy && !strcmp(name, "powersave")
					? !strcmp(preference, "power") || !strcmp(preference, "balance_power")
					: !strcmp(name, "powersave") || !strcmp(name, "conservative");
	doctor_say(d, F_governor, slow ? DOCTOR_WARN : DOCTOR_OK, NULL, "governor %s%s%s", name,
			   energy ? ", preference " : "", preference);
}

static void clock_source(struct doctor *d)
{
	char name[64];
	if (!doctor_read(d, name, sizeof(name),
					 "/sys/devices/system/clocksource/clocksource0/current_clocksource"))
		return;
	bool slow =
		!strcmp(name, "hpet") || !strcmp(name, "acpi_pm") || !strcmp(name, "jiffies") || !strcmp(name, "xen");
	doctor_say(d, F_clocksource, slow ? DOCTOR_WARN : DOCTOR_OK, NULL, "%s", name);
}

void probe_cpu(struct doctor *d)
{
	cpu_set_t mine;
	CPU_ZERO(&mine);
	if (sched_getaffinity(0, sizeof(mine), &mine) == 0) {
		count(d, &mine);
		numa(d, &mine);
	}
	load(d);
	governor(d);
	clock_source(d);
}
