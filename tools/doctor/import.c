/*
 * import.c - how long `import torch` takes, which files take longest, and what it has really loaded.
 */
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "tools/timeline/units.h"

#define SLOW_SECONDS 10

struct import {
	struct doctor *d;
	double seconds, bytes;
	bool done;
	char error[400], slowest[500];
	unsigned slow;
};

/* Without the folder that torch is in. */
static const char *shorter(const struct import *v, const char *path)
{
	const char *folder = v->d->board->facts.torch_folder, *end = strrchr(folder, '/');
	size_t n = end ? (size_t)(end + 1 - folder) : 0;
	return n && !strncmp(path, folder, n) ? path + n : path;
}

static void take(void *arg, char *line)
{
	struct import *v = arg;
	struct doctor_facts *facts = &v->d->board->facts;
	char *f[4];
	doctor_fields(line, f, 4);
	if (!strcmp(f[0], "import")) {
		v->done = true;
		v->seconds = atof(f[1]);
		v->bytes = atof(f[2]);
		snprintf(v->error, sizeof(v->error), "%s", f[3]);
	} else if (!strcmp(f[0], "slow")) {
		size_t used = strlen(v->slowest);
		snprintf(v->slowest + used, sizeof(v->slowest) - used, "%s%s %s", used ? ", " : "",
				 *f[3] ? shorter(v, f[3]) : f[2], units_time(atof(f[1]) * 1e9).s);
		v->slow++;
	} else if (!strcmp(f[0], "archs")) {
		snprintf(facts->torch_archs, sizeof(facts->torch_archs), "%s", f[1]);
	} else if (!strcmp(f[0], "loaded")) {
		if (!facts->import_done)
			facts->libraries = facts->libraries && facts->library[0].kind == KIND_CUDA;
		facts->import_done = true;
		doctor_library_add(facts->library, &facts->libraries,
						   sizeof(facts->library) / sizeof(facts->library[0]), f[1]);
	}
}

void probe_import(struct doctor *d)
{
	struct import v = {.d = d};
	struct doctor_mount m;
	const char *folder = d->board->facts.torch_folder;
	if (!*folder) {
		doctor_say(d, F_import_torch, DOCTOR_NOT_HERE, NULL, "no PyTorch");
		return;
	}
	int status = doctor_look(d, "import", NULL, take, NULL, &v);
	if (!v.done || *v.error) {
		doctor_say(d, F_torch, DOCTOR_FAIL, NULL, "import torch fails: %s",
				   *v.error ? v.error : "the interpreter has died");
		return;
	}
	(void)status;
	bool network = doctor_mount_of(d, folder, &m) && m.network;
	struct finding *f =
		doctor_say(d, F_import_torch, network || v.seconds > SLOW_SECONDS ? DOCTOR_WARN : DOCTOR_OK, NULL,
				   "%s, %s read from %s; slowest: %s", units_time(v.seconds * 1e9).s, units_bytes(v.bytes).s,
				   network ? m.type : "disk", v.slowest);
	if (network)
		doctor_do(f,
				  "It lies on a network (%s): copy the environment to a local disk, or into one image file.",
				  m.at);
	doctor_value(f, "seconds", v.seconds);
	doctor_value(f, "bytes_read", v.bytes);
}
