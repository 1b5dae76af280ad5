/*
 * copies.c - several copies of CUDA's libraries where one would do: in the process, in the packages, in LD_LIBRARY_PATH; the
 * stub of libcuda; the toolkit that extensions would be built with.
 */
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"

struct places {
	struct doctor *d;
	unsigned copies;
};

static void same_process(struct places *p)
{
	const struct doctor_facts *facts = &p->d->board->facts;
	for (unsigned i = 0; facts->import_done && i < facts->libraries; i++)
		for (unsigned k = 0; k < i; k++)
			if (facts->library[i].kind == facts->library[k].kind) {
				p->copies++;
				doctor_say(p->d, F_copies, DOCTOR_WARN, doctor_kind_names[facts->library[i].kind],
						   "import torch has loaded two: %s and %s", facts->library[k].path,
						   facts->library[i].path);
			}
}

static void packages(struct places *p)
{
	const struct doctor_facts *facts = &p->d->board->facts;
	for (unsigned i = 0; i < facts->wheels; i++)
		for (unsigned k = 0; k < i; k++) {
			const char *a = facts->wheel[i].path, *b = facts->wheel[k].path;
			if (facts->wheel[i].kind != facts->wheel[k].kind)
				continue;
			p->copies++;
			struct finding *f =
				doctor_say(p->d, F_copies, DOCTOR_WARN, doctor_kind_names[facts->wheel[i].kind],
						   "this Python has two packages of it: %s and %s", b, a);
			doctor_do(f, "pip list | grep nvidia shows them; uninstall those that no framework asks for.");
		}
}

/* In LD_LIBRARY_PATH: a copy that comes before the one that the program was built for, or the stub. */
static void folder(struct places *p, const char *path)
{
	const struct doctor_facts *facts = &p->d->board->facts;
	DIR *dir = opendir(path);
	bool told[DOCTOR_KINDS] = {false};
	for (struct dirent *e; dir && (e = readdir(dir));) {
		enum doctor_kind kind = doctor_kind_of(e->d_name);
		char full[PATH_MAX + 256], real[PATH_MAX];
		if (kind == DOCTOR_KINDS || told[kind])
			continue;
		snprintf(full, sizeof(full), "%s/%s", path, e->d_name);
		if (!realpath(full, real))
			continue;
		if (kind == KIND_CUDA) {
			if (strstr(real, "/stubs/")) {
				told[kind] = true;
				doctor_say(p->d, F_stubs, DOCTOR_FAIL, NULL, "%s is on LD_LIBRARY_PATH", path);
			}
			continue;
		}
		const char *used = NULL;
		for (unsigned i = 0; i < facts->libraries; i++)
			if (facts->library[i].kind == kind && !used)
				used = facts->library[i].path;
		for (unsigned i = 0; i < facts->wheels && !used; i++)
			if (facts->wheel[i].kind == kind)
				used = facts->wheel[i].path;
		char other[PATH_MAX];
		if (!used || !realpath(used, other) || !strcmp(other, real))
			continue;
		told[kind] = true;
		p->copies++;
		doctor_say(p->d, F_copies, DOCTOR_WARN, doctor_kind_names[kind], "LD_LIBRARY_PATH has %s, beside %s",
				   full, used);
	}
	if (dir)
		closedir(dir);
}

static void search_path(struct places *p)
{
	const char *path = getenv("LD_LIBRARY_PATH");
	for (; path && *path; path += strcspn(path, ":;"), path += *path != '\0') {
		size_t n = strcspn(path, ":;");
		char one[PATH_MAX];
		if (n && n < sizeof(one)) {
			memcpy(one, path, n);
			one[n] = '\0';
			folder(p, one);
		}
	}
}

/* "Cuda compilation tools, release 13.0, V13.0.48" */
static void take_release(void *arg, char *line)
{
	char *release = strstr(line, "release ");
	if (release)
		snprintf(arg, 32, "%.*s", (int)strcspn(release + 8, ","), release + 8);
}

static void toolkit(struct doctor *d)
{
	const char *home = getenv("CUDA_HOME"), *framework = d->board->facts.torch_cuda;
	char version[32] = "", nvcc[PATH_MAX];
	if (!home || !*home)
		home = getenv("CUDA_PATH");
	if (!home || !*home)
		home = "/usr/local/cuda";
	snprintf(nvcc, sizeof(nvcc), "%s/bin/nvcc", home);
	struct doctor_start s = {.argv = (char *[]){nvcc, (char *)"--version", NULL},
							 .clean = true,
							 .out = take_release,
							 .arg = version};
	if (access(nvcc, X_OK) != 0 || doctor_start(&s) != 0 || !*version) {
		doctor_say(d, F_toolkit, DOCTOR_NOT_HERE, NULL, "no nvcc in %s: extensions cannot be built", home);
		return;
	}
	bool other = *framework && atoi(framework) != atoi(version);
	doctor_say(d, F_toolkit, other ? DOCTOR_WARN : DOCTOR_OK, NULL, "%s in %s%s%s", version, home,
			   other ? ", PyTorch is built for CUDA " : "", other ? framework : "");
}

void probe_copies(struct doctor *d)
{
	struct places p = {.d = d};
	same_process(&p);
	packages(&p);
	search_path(&p);
	if (!p.copies && (d->board->facts.libraries || d->board->facts.wheels))
		doctor_say(d, F_copies, DOCTOR_OK, NULL, "one of each");
	toolkit(d);
}
