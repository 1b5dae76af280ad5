/*
 * machine.c - the machine's memory.
 */
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "tools/timeline/units.h"

/* Bytes behind `name` in /proc/meminfo; -1: it is not there. */
static double meminfo(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	return at ? atof(at + strlen(name)) * 1024 : -1;
}

static void memory(struct doctor *d)
{
	char text[8192];
	if (!doctor_read(d, text, sizeof(text), "/proc/meminfo"))
		return;
	double total = meminfo(text, "MemTotal:"), available = meminfo(text, "MemAvailable:");
	double swap = meminfo(text, "SwapTotal:") - meminfo(text, "SwapFree:");
	if (total <= 0 || available < 0)
		return;
	double share = available / total;
	enum doctor_level level = share < 0.03                         ? DOCTOR_FAIL
							  : share < 0.1 || swap > 0.05 * total ? DOCTOR_WARN
																   : DOCTOR_OK;
	struct finding *f =
		doctor_say(d, F_memory, level, NULL, "%s of %s available, %s swapped out", units_gib(available).s,
				   units_gib(total).s, swap > 0 ? units_gib(swap).s : "nothing");
	doctor_value(f, "available_bytes", available);
	doctor_value(f, "total_bytes", total);
	doctor_value(f, "swapped_bytes", swap > 0 ? swap : 0);
}

/* "full avg10=1.23 ...": the share of the time in which nobody could go on. */
static void pressure(struct doctor *d)
{
	char text[512], *full;
	if (!doctor_read(d, text, sizeof(text), "/proc/pressure/memory") || !(full = strstr(text, "full avg10=")))
		return;
	double percent = atof(full + strlen("full avg10="));
	doctor_say(d, F_pressure, percent > 2 ? DOCTOR_WARN : DOCTOR_OK, NULL, "%s of the last ten seconds",
			   units_share(percent / 100).s);
}

static void huge_pages(struct doctor *d)
{
	char text[128], *chosen;
	if (!doctor_read(d, text, sizeof(text), "/sys/kernel/mm/transparent_hugepage/enabled") ||
		!(chosen = strchr(text, '[')))
		return;
	size_t n = strcspn(++chosen, "]");
	chosen[n] = '\0';
	doctor_say(d, F_thp, strcmp(chosen, "never") ? DOCTOR_OK : DOCTOR_WARN, NULL, "%s", chosen);
}

void probe_machine(struct doctor *d)
{
	int64_t overcommit = doctor_number(d, "/proc/sys/vm/overcommit_memory");
	memory(d);
	pressure(d);
	huge_pages(d);
	if (overcommit >= 0)
		doctor_say(d, F_overcommit, overcommit == 2 ? DOCTOR_WARN : DOCTOR_OK, NULL,
				   "vm.overcommit_memory is %d", (int)overcommit);
}
