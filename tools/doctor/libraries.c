/*
 * libraries.c - versions of the libraries that would be loaded, as they say themselves, and whether they fit the driver and the GPU.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

#define CUDNN_LEAST 809 /* 8.9 */
#define NCCL_LEAST 218  /* 2.18 */
#define NCCL_MAJOR 2    /* the one that libturbo knows */

/* 100 * major + minor; 0: not known. */
static unsigned ask(const struct doctor_library *l)
{
	static const char *const names[DOCTOR_KINDS] = {"cuDriverGetVersion", "cudaRuntimeGetVersion",
													"cudnnGetVersion", "ncclGetVersion", "cuptiGetVersion"};
	void *lib = dlopen(l->path, RTLD_LAZY | RTLD_LOCAL), *call = lib ? dlsym(lib, names[l->kind]) : NULL;
	unsigned v = 0;
	if (!call)
		return 0;
	if (l->kind == KIND_CUDNN)
		v = (unsigned)((size_t(*)(void))call)();
	else if (((int (*)(unsigned *))call)(&v) != 0)
		return 0;
	switch (l->kind) {
	case KIND_CUDA:
	case KIND_CUDART: return v / 1000 * 100 + v % 1000 / 10;
	case KIND_CUDNN: return v >= 10000 ? v / 10000 * 100 + v / 100 % 100 : v / 1000 * 100 + v / 100 % 10;
	case KIND_NCCL: return v >= 10000 ? v / 10000 * 100 + v / 100 % 100 : v / 1000 * 100 + v / 100 % 10;
	default: return v >= 1000 ? v / 10000 * 100 + v / 100 % 100 : v >= 18 ? 1200 + v - 18 : 1100;
	}
}

/* The version that a file's name ends with: libnccl.so.2.28.9; 0: one number at most. */
static unsigned named(const char *path)
{
	const char *so = strstr(path, ".so.");
	unsigned major = 0, minor = 0;
	while (so && strstr(so + 1, ".so."))
		so = strstr(so + 1, ".so.");
	return so && sscanf(so, ".so.%u.%u", &major, &minor) == 2 ? major * 100 + minor : 0;
}

struct versions {
	unsigned of[DOCTOR_KINDS];
	const char *path[DOCTOR_KINDS];
};

static void collect(struct doctor_facts *facts, struct versions *v)
{
	/* What is loaded; without an import and a list of the loader, what the packages have. */
	for (int pass = 0; pass < 2; pass++) {
		const struct doctor_library *list = pass ? facts->wheel : facts->library;
		unsigned count = pass ? facts->wheels : facts->libraries;
		for (unsigned i = 0; i < count; i++)
			if (!v->path[list[i].kind])
				v->path[list[i].kind] = list[i].path;
	}
	for (int kind = 0; kind < DOCTOR_KINDS; kind++) {
		struct doctor_library l = {.kind = (enum doctor_kind)kind};
		if (!v->path[kind])
			continue;
		snprintf(l.path, sizeof(l.path), "%s", v->path[kind]);
		v->of[kind] = ask(&l);
		if (!v->of[kind])
			v->of[kind] = named(l.path);
	}
	if (!facts->cuda_most && v->of[KIND_CUDA])
		facts->cuda_most = v->of[KIND_CUDA] / 100 * 1000 + v->of[KIND_CUDA] % 100 * 10;
}

static void say(struct doctor *d, enum doctor_id id, enum doctor_level level, const struct versions *v,
				enum doctor_kind kind, const char *more)
{
	if (!v->path[kind])
		return;
	if (!v->of[kind]) {
		doctor_say(d, id, DOCTOR_NOT_HERE, NULL, "%s does not say its version", v->path[kind]);
		return;
	}
	struct finding *f = doctor_say(d, id, level, NULL, "%u.%u%s, %s", v->of[kind] / 100, v->of[kind] % 100,
								   more, v->path[kind]);
	doctor_value(f, "version", v->of[kind] / 100 + v->of[kind] % 100 / 100.0);
}

static void judge_runtime(struct doctor *d, const struct versions *v)
{
	unsigned most = d->board->facts.cuda_most / 1000 * 100 + d->board->facts.cuda_most % 1000 / 10,
			 have = v->of[KIND_CUDART];
	char more[80] = "";
	if (most && have > most)
		snprintf(more, sizeof(more), ", the driver can %u.%u at most", most / 100, most % 100);
	say(d, F_cudart,
		!most || have <= most     ? DOCTOR_OK
		: have / 100 > most / 100 ? DOCTOR_FAIL
								  : DOCTOR_WARN,
		v, KIND_CUDART, more);
}

static void judge_nccl(struct doctor *d, const struct versions *v)
{
	unsigned have = v->of[KIND_NCCL];
	bool old = have < NCCL_LEAST, other = have / 100 != NCCL_MAJOR;
	say(d, F_nccl, old || other ? DOCTOR_WARN : DOCTOR_OK, v, KIND_NCCL,
		old     ? ", which is old"
		: other ? ", which libturbo was never tested with"
				: "");
}

/* How a list such as "sm_80 sm_90a compute_90" serves a GPU: machine code, PTX, nothing. */
static enum doctor_level serves(const char *list, unsigned capability)
{
	enum doctor_level best = DOCTOR_FAIL;
	for (const char *at = list; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
		const char *number = strchr(at, '_');
		char *end;
		if (!number)
			break;
		unsigned long n = strtoul(number + 1, &end, 10);
		bool exact = *end == 'a'; /* for this one only */
		if (!strncmp(at, "sm_", 3) &&
			(n == capability || (!exact && n / 10 == capability / 10 && n < capability)))
			return DOCTOR_OK;
		if (!strncmp(at, "compute_", 8) && (n == capability || (!exact && n < capability)))
			best = DOCTOR_WARN;
	}
	return best;
}

static void judge_arch(struct doctor *d)
{
	const struct doctor_facts *facts = &d->board->facts;
	if (!*facts->torch_archs)
		return;
	for (unsigned i = 0; i < facts->gpus; i++) {
		unsigned have = facts->gpu[i].capability;
		char where[16];
		if (!have || (i && have == facts->gpu[i - 1].capability))
			continue;
		enum doctor_level level = serves(facts->torch_archs, have);
		snprintf(where, sizeof(where), "GPU %u", i);
		doctor_say(d, F_arch, level, where, "PyTorch has %s for %u.%u: %s",
				   level == DOCTOR_OK     ? "code"
				   : level == DOCTOR_WARN ? "only PTX"
										  : "nothing",
				   have / 10, have % 10, facts->torch_archs);
	}
}

void probe_libraries(struct doctor *d)
{
	static struct versions v;
	collect(&d->board->facts, &v);
	judge_runtime(d, &v);
	say(d, F_cudnn, v.of[KIND_CUDNN] < CUDNN_LEAST ? DOCTOR_WARN : DOCTOR_OK, &v, KIND_CUDNN, "");
	judge_nccl(d, &v);
	bool other = v.of[KIND_CUDART] && v.of[KIND_CUDART] / 100 != v.of[KIND_CUPTI] / 100;
	say(d, F_cupti, other ? DOCTOR_WARN : DOCTOR_OK, &v, KIND_CUPTI,
		other ? ", of another CUDA than the runtime" : "");
	judge_arch(d);
}
