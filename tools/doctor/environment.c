/*
 * environment.c - variables of doctor.def, and those whose value must be looked at more closely.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sched.h>

#include "doctor.h"

static bool is_off(const char *value)
{
	static const char *const words[] = {"", "0", "off", "no", "false"};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcasecmp(value, words[i]))
			return true;
	return false;
}

static bool matches(const char *value, const char *wanted)
{
	for (size_t n; *wanted; wanted += n + (wanted[n] == '|')) {
		n = strcspn(wanted, "|");
		if (n == 2 && !strncmp(wanted, "on", n) && !is_off(value))
			return true;
		if (n == 3 && !strncmp(wanted, "off", n) && is_off(value))
			return true;
		if (n == 3 && !strncmp(wanted, "set", n) && *value)
			return true;
		if (strlen(value) == n && !strncasecmp(value, wanted, n))
			return true;
	}
	return false;
}

unsigned doctor_variables(struct doctor *d, enum doctor_subject subject, unsigned *found)
{
	unsigned looked = 0;
	for (int id = 0; id < DOCTOR_FINDINGS; id++) {
		const struct doctor_row *row = &doctor_table[id];
		const char *value = row->variable ? getenv(row->variable) : NULL;
		if (!row->variable || row->subject != subject)
			continue;
		looked++;
		if (value && *value && matches(value, row->values)) {
			doctor_say(d, (enum doctor_id)id, DOCTOR_WARN, NULL, "set to %s", value);
			(*found)++;
		}
	}
	return looked;
}

/* What CUDA makes of the list: it ends at the first entry that is wrong, and one that is named twice makes it empty. */
static void visible(struct doctor *d)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	unsigned gpus = d->board->facts.gpus, n = 0;
	long seen[64];
	if (!list)
		return;
	if (!*list || !strcmp(list, "-1") || !strcmp(list, "NoDevFiles")) {
		doctor_say(d, F_env_visible, DOCTOR_FAIL, NULL,
				   *list ? "set to %s: no GPU is visible" : "empty: no GPU is visible%s", list);
		return;
	}
	for (const char *at = list; *at; at += strcspn(at, ","), at += *at != '\0') {
		char *end;
		long device = strtol(at, &end, 10);
		if (end == at || (*end && *end != ',')) /* a UUID */
			continue;
		if (device < 0 || (gpus && device >= (long)gpus)) {
			doctor_say(d, F_env_visible, DOCTOR_WARN, NULL,
					   "set to %s, and there is no device %ld: it and what follows is ignored", list, device);
			return;
		}
		for (unsigned i = 0; i < n; i++)
			if (seen[i] == device) {
				doctor_say(d, F_env_visible, DOCTOR_FAIL, NULL,
						   "set to %s: with device %ld twice no GPU is visible", list, device);
				return;
			}
		if (n < 64)
			seen[n++] = device;
	}
	doctor_say(d, F_env_visible, DOCTOR_OK, NULL, "set to %s", list);
}

static bool has_word(const char *list, const char *word)
{
	for (size_t n; *list; list += n + (list[n] == ',')) {
		n = strcspn(list, ",");
		if (n == strlen(word) && !strncmp(list, word, n))
			return true;
	}
	return false;
}

static void capabilities(struct doctor *d)
{
	const char *list = getenv("NVIDIA_DRIVER_CAPABILITIES");
	if (list && *list && !has_word(list, "all") && (!has_word(list, "compute") || !has_word(list, "utility")))
		doctor_say(d, F_env_capabilities, DOCTOR_WARN, NULL, "set to %s, without %s", list,
				   has_word(list, "compute") ? "utility" : "compute");
}

static void threads(struct doctor *d)
{
	const char *text = getenv("OMP_NUM_THREADS");
	cpu_set_t set;
	int wanted = text ? atoi(text) : 0;
	int cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
	if (cpus && wanted > cpus)
		doctor_say(d, F_env_omp_many, DOCTOR_WARN, NULL, "set to %d, and this process may use %d CPU%s",
				   wanted, cpus, cpus == 1 ? "" : "s");
}

void probe_environment(struct doctor *d)
{
	unsigned found = 0, looked = doctor_variables(d, DOCTOR_ENVIRONMENT, &found);
	doctor_say(d, F_environment, DOCTOR_OK, NULL, "%u of %u known ones that cost speed are set", found,
			   looked);
	visible(d);
	capabilities(d);
	threads(d);
}
