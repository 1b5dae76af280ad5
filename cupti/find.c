/* find.c - see find.h. */
#define _GNU_SOURCE
#include "find.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cupti_abi.h"
#include "elfsym.h"
#include "lookup.h"
#include "options.h"
#include "real.h"
#include "text.h"

#define MAPPED 4
#define MAJOR_TESTED_FIRST 12
#define MAJOR_TESTED_LAST 13

#ifdef __aarch64__
#define TARGET "targets/sbsa-linux/lib"
#else
#define TARGET "targets/x86_64-linux/lib"
#endif

/* What the loaded objects tell. */
struct mapped {
	char cupti[MAPPED][1024]; /* in load order */
	unsigned cuptis;
	char cudart[1024]; /* the first one; "" none, or a static one */
	unsigned cudart_major;
	char packages[1024]; /* the first site-packages that something is loaded from */
};

unsigned cupti_major(uint32_t version)
{
	if (version >= 10000)
		return version / 10000;
	return version >= 19 ? 12 : 11;
}

/* ---- what is mapped ---- */

/* "libcudart.so.13" → 13; 0: it says none. */
static unsigned name_major(const char *name)
{
	const char *at = strstr(text_last_part(name), ".so.");
	return at ? (unsigned)strtoul(at + strlen(".so."), NULL, 10) : 0;
}

static void copy_path(char *to, size_t size, const char *path)
{
	if (text_length(path) < size)
		strcpy(to, path);
}

static void look_for_packages(struct mapped *m, const char *path)
{
	static const char *const folder[] = {"/site-packages/", "/dist-packages/"};
	for (unsigned i = 0; i < 2 && !m->packages[0]; i++) {
		const char *at = strstr(path, folder[i]);
		size_t length = at ? (size_t)(at - path) + strlen(folder[i]) - 1 : 0;
		if (at && length < sizeof(m->packages)) {
			memcpy(m->packages, path, length);
			m->packages[length] = '\0';
		}
	}
}

static int look_object(struct elfsym_object *object, unsigned index, void *arg)
{
	struct mapped *m = arg;
	(void)index;
	look_for_packages(m, object->path);
	if (elfsym_is_library(object, "libcupti.so") && m->cuptis < MAPPED)
		copy_path(m->cupti[m->cuptis++], sizeof(m->cupti[0]), object->path);
	if (!m->cudart_major && elfsym_is_library(object, "libcudart.so")) {
		elfsym_load(object);
		m->cudart_major = name_major(object->soname ? object->soname : object->path);
		if (m->cudart_major)
			copy_path(m->cudart, sizeof(m->cudart), object->path);
	}
	return 0;
}

/* ---- where it may be ---- */

struct search {
	unsigned major;
	cupti_try *try;
	void *arg;
};

/* DIR, cut by `cut` bytes, then SUB, then the library. */
static bool try_below(const struct search *s, const char *dir, size_t cut, const char *sub)
{
	char path[1024];
	int n = snprintf(path, sizeof(path), "%.*s/%s%slibcupti.so.%u", (int)(strlen(dir) - cut), dir, sub,
					 *sub ? "/" : "", s->major);
	return n > 0 && (size_t)n < sizeof(path) && s->try(s->arg, path);
}

static bool try_toolkit(const struct search *s, const char *dir)
{
	static const char *const sub[] = {"extras/CUPTI/lib64", "lib64", TARGET, "lib"};
	for (unsigned i = 0; dir && dir[0] == '/' && i < sizeof(sub) / sizeof(sub[0]); i++)
		if (try_below(s, dir, 0, sub[i]))
			return true;
	return false;
}

/* cudart in a wheel of CUDA 12 is nvidia/cuda_runtime/lib, CUPTI nvidia/cuda_cupti/lib; in a toolkit lib64 or
 * targets/ARCH/lib, and extras/CUPTI. */
static bool try_beside(const struct search *s, const char *cudart)
{
	static const char *const sub[] = {"", "../../cuda_cupti/lib", "../extras/CUPTI/lib64",
									  "../../../extras/CUPTI/lib64"};
	size_t name = strlen(text_last_part(cudart));
	for (unsigned i = 0; cudart[0] == '/' && i < sizeof(sub) / sizeof(sub[0]); i++)
		if (try_below(s, cudart, name + 1, sub[i]))
			return true;
	return false;
}

static bool try_packages(const struct search *s, const char *packages)
{
	char sub[64];
	if (packages[0] != '/')
		return false;
	snprintf(sub, sizeof(sub), "nvidia/cu%u/lib", s->major);
	return try_below(s, packages, 0, "nvidia/cuda_cupti/lib") || try_below(s, packages, 0, sub);
}

bool cupti_candidates(const char *cudart, const char *packages, unsigned major, cupti_try *try, void *arg)
{
	struct search s = {.major = major, .try = try, .arg = arg};
	const char *conda = getenv("CONDA_PREFIX");
	char text[64];
	if (try_beside(&s, cudart) || try_packages(&s, packages) ||
		(conda && conda[0] == '/' && try_below(&s, conda, 0, "lib")))
		return true;
	snprintf(text, sizeof(text), "libcupti.so.%u", major);
	if (try(arg, text) || try_toolkit(&s, getenv("CUDA_HOME")) || try_toolkit(&s, getenv("CUDA_PATH")))
		return true;
	snprintf(text, sizeof(text), "/usr/local/cuda-%u", major);
	return try_toolkit(&s, "/usr/local/cuda") || try_toolkit(&s, text);
}

/* ---- opening ---- */

struct opening {
	struct cupti_found *found;
	unsigned major;
	bool mapped; /* only what is there already */
};

/* Looked up: libc has it from glibc 2.34 on, libdl before. */
static void close_library(void *handle)
{
	int (*real)(void *) = (int (*)(void *))lookup_real_dlsym(RTLD_DEFAULT, "dlclose");
	if (real && handle)
		real(handle);
}

/* The handle of a library of another major is given back; one that was mapped stays so. */
static bool open_one(void *arg, const char *path)
{
	struct opening *o = arg;
	int mode = RTLD_NOW | RTLD_LOCAL | (o->mapped ? RTLD_NOLOAD : 0);
	if (path[0] == '/' && access(path, R_OK) != 0)
		return false;
	void *handle = lookup_real_dlopen(path, mode);
	cupti_result (*version)(uint32_t *) =
		handle ? (cupti_result(*)(uint32_t *))lookup_real_dlsym(handle, "cuptiGetVersion") : NULL;
	uint32_t v = 0;
	if (version && version(&v) == CUPTI_OK && cupti_major(v) == o->major) {
		o->found->handle = handle;
		o->found->version = v;
		snprintf(o->found->path, sizeof(o->found->path), "%s", path);
		return true;
	}
	close_library(handle);
	return false;
}

static bool open_mapped(const struct mapped *m, struct opening *o)
{
	o->mapped = true;
	for (unsigned i = 0; i < m->cuptis; i++)
		if (open_one(o, m->cupti[i]))
			return true;
	o->mapped = false;
	return false;
}

static unsigned driver_major(void)
{
	int version = 0;
	if (REAL(cuDriverGetVersion)(&version) != CUDA_SUCCESS)
		return 0;
	return (unsigned)version / 1000;
}

bool cupti_find(struct cupti_found *found, char *why, size_t why_size)
{
	struct mapped m = {.cuptis = 0};
	struct opening o = {.found = found};

	elfsym_walk(look_object, &m);
	o.major = m.cudart_major ? m.cudart_major : driver_major();
	if ((o.major < MAJOR_TESTED_FIRST || o.major > MAJOR_TESTED_LAST) && option_get(OPT_TRUST) == 0) {
		snprintf(why, why_size, "CUPTI of CUDA %u was never tested with libturbo; TURBO_TRUST=1 tries it",
				 o.major);
		return false;
	}
	if (open_mapped(&m, &o) || cupti_candidates(m.cudart, m.packages, o.major, open_one, &o))
		return true;
	snprintf(why, why_size, "no libcupti.so.%u was found, which goes with this process's CUDA%s%.300s",
			 o.major, m.cuptis ? "; not of that version: " : "", m.cuptis ? m.cupti[0] : "");
	return false;
}
