/*
 * nccl.c - what overrides NCCL's own choices, and the network that it would use.
 */
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

struct names {
	const char *list; /* what the variable has, behind ^ and = */
	bool exact, found;
	char all[300];
};

/* NCCL_SOCKET_IFNAME and NCCL_IB_HCA are prefixes, names behind =, all but those behind ^. */
static bool name_entry(void *arg, const char *name)
{
	struct names *v = arg;
	size_t used = strlen(v->all);
	snprintf(v->all + used, sizeof(v->all) - used, "%s%s", used ? ", " : "", name);
	for (const char *at = v->list; *at; at += strcspn(at, ","), at += *at != '\0') {
		size_t n = strcspn(at, ",:");
		if (n && !strncmp(name, at, n) && (!v->exact || !name[n]))
			v->found = true;
	}
	return true;
}

static void named(struct doctor *d, const char *variable, enum doctor_id id, const char *folder)
{
	const char *value = getenv(variable);
	struct names v = {.all = ""};
	if (!value || !*value || *value == '^')
		return;
	v.exact = *value == '=';
	v.list = value + v.exact;
	doctor_entries(d, folder, name_entry, &v);
	if (v.found)
		doctor_say(d, id, DOCTOR_OK, NULL, "set to %s", value);
	else
		doctor_say(d, id, DOCTOR_FAIL, NULL, "set to %s; there %s %s", value, *v.all ? "are" : "is",
				   *v.all ? v.all : "none");
}

struct ports {
	struct doctor *d;
	const char *device;
	unsigned up, down;
	char dead[200];
};

static bool one_port(void *arg, const char *name)
{
	struct ports *v = arg;
	char state[64];
	if (!doctor_read(v->d, state, sizeof(state), "/sys/class/infiniband/%s/ports/%s/state", v->device, name))
		return true;
	if (strstr(state, "ACTIVE")) {
		v->up++;
	} else {
		size_t used = strlen(v->dead);
		v->down++;
		snprintf(v->dead + used, sizeof(v->dead) - used, "%s%s:%s (%s)", used ? ", " : "", v->device, name,
				 state);
	}
	return true;
}

static bool adapter(void *arg, const char *name)
{
	struct ports *v = arg;
	char folder[512];
	v->device = name;
	snprintf(folder, sizeof(folder), "/sys/class/infiniband/%s/ports", name);
	doctor_entries(v->d, folder, one_port, v);
	return true;
}

static void infiniband(struct doctor *d)
{
	struct ports v = {.d = d};
	if (!doctor_entries(d, "/sys/class/infiniband", adapter, &v))
		doctor_say(d, F_infiniband, DOCTOR_NOT_HERE, NULL, "no adapter");
	else
		doctor_say(d, F_infiniband, v.down ? DOCTOR_WARN : DOCTOR_OK, NULL, "%u port%s up, %u down%s%s", v.up,
				   v.up == 1 ? "" : "s", v.down, v.down ? ": " : "", v.dead);
}

static void files(struct doctor *d)
{
	static const char *const variables[] = {"NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE",
											"NCCL_TUNER_CONFIG_FILE"};
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *path = getenv(variables[i]);
		if (path && *path && !doctor_exists(d, "%s", path))
			doctor_say(d, F_nccl_file, DOCTOR_FAIL, NULL, "%s is %s, which is not there", variables[i], path);
	}
}

extern char **environ;

void probe_nccl(struct doctor *d)
{
	unsigned found = 0;
	char text[500] = "";
	doctor_variables(d, DOCTOR_NCCL, &found);
	for (char **e = environ; *e; e++)
		if (!strncmp(*e, "NCCL_", 5) || !strncmp(*e, "TORCH_NCCL_", 11)) {
			size_t used = strlen(text);
			snprintf(text + used, sizeof(text) - used, "%s%s", used ? ", " : "", *e);
		}
	bool file = doctor_exists(d, "/etc/nccl.conf");
	doctor_say(d, F_nccl_settings, DOCTOR_OK, NULL, "%s%s", *text ? text : "none",
			   file ? "; and /etc/nccl.conf" : "");
	named(d, "NCCL_SOCKET_IFNAME", F_nccl_interface, "/sys/class/net");
	named(d, "NCCL_IB_HCA", F_nccl_hca, "/sys/class/infiniband");
	files(d);
	infiniband(d);
}
