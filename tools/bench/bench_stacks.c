/* LINK: turbo */
/*
 * bench_stacks.c - what the stack of an issuing call costs: one that is known, with Python and without, and a new one.
 * Python is a libpython that is here, loaded as a program with plug-ins would.
 */
#include "bench.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>

#include "policy/nccl/python.h"
#include "policy/nccl/stacks.h"
#include "shim/lookup.h"

#define BATCHES 15
#define CALLS 20000
#define NEW_SITES 20

static struct flight_page page;
static int missed;

static void line(const char *title, double ns, double limit)
{
	printf("%-64s %8.0f %8.0f  %s\n", title, ns, limit, ns <= limit ? "PASS" : "MISS");
	missed += ns > limit;
}

static double known_ns(const void *frame)
{
	double best = 1e18;
	if (!stacks_site(&page, known_ns, frame))
		exit(1);
	for (int b = 0; b < BATCHES; b++) {
		double since = bench_now_ns();
		for (int i = 0; i < CALLS; i++)
			stacks_site(&page, known_ns, frame);
		double ns = (bench_now_ns() - since) / CALLS;
		best = ns < best ? ns : best;
	}
	return best;
}

/* Callers that were not seen before. */
static double new_ns(void)
{
	static uintptr_t caller = 4096;
	double took[NEW_SITES];
	for (int i = 0; i < NEW_SITES; i++) {
		double since = bench_now_ns();
		if (!stacks_site(&page, (const void *)(caller += 64), &page))
			exit(1);
		took[i] = bench_now_ns() - since;
	}
	return bench_median(took, NEW_SITES);
}

static void *look(void *arg)
{
	(void)arg;
	stacks_python();
	return NULL;
}

/* ---- inside Python: called by it with the GIL released, as PyTorch does ---- */

static void *(*save)(void), (*restore)(void *), *(*number)(long);

static void *measure(void *self, void *args)
{
	pthread_t thread;
	(void)self;
	(void)args;
	void *state = save();
	if (pthread_create(&thread, NULL, look, NULL) == 0)
		pthread_join(thread, NULL);
	if (!python_get() || !python_readable(python_get()))
		exit(1);
	line("a known stack of 24 Python frames, ns", known_ns(&page), 150);
	line("a new one: its text and the native stack, ns, median", new_ns(), 2e6);
	restore(state);
	return number(0);
}

/* PyMethodDef; METH_NOARGS is 4. */
static struct {
	const char *name;
	void *(*call)(void *, void *);
	int flags;
	const char *doc;
} method = {"measure", measure, 4, NULL};

/* 30 functions, each with a code object of its own. */
static const char *const program =
	"space = {'measure': measure}\n"
	"for i in range(30):\n"
	"  exec(f'def f{i}(a, b=1):\\n  return ' + (f'f{i - 1}(a)' if i else 'measure()'), space)\n"
	"space['f29'](0)\n";

static bool with_python(const char *path)
{
	char home[4096];
	snprintf(home, sizeof(home), "%.*s", (int)(strstr(path, "/lib/") - path), path);
	setenv("PYTHONHOME", home, 1);
	void *lib = lookup_real_dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return false;
	void (*begin)(int) = lookup_real_dlsym(lib, "Py_InitializeEx");
	void *(*function)(void *, void *, void *) = lookup_real_dlsym(lib, "PyCFunction_NewEx");
	void *(*module)(const char *) = lookup_real_dlsym(lib, "PyImport_AddModule");
	int (*set)(void *, const char *, void *) = lookup_real_dlsym(lib, "PyObject_SetAttrString");
	int (*run)(const char *) = lookup_real_dlsym(lib, "PyRun_SimpleString");
	save = lookup_real_dlsym(lib, "PyEval_SaveThread");
	restore = lookup_real_dlsym(lib, "PyEval_RestoreThread");
	number = lookup_real_dlsym(lib, "PyLong_FromLong");
	begin(0);
	set(module("__main__"), "measure", function(&method, NULL, NULL));
	printf("Python: %s\n", path);
	return run(program) == 0;
}

int main(void)
{
	glob_t found = {0};
	char pattern[512];
	printf("the stack of a call, fastest of %d\n%-64s %8s %8s\n", BATCHES, "", "", "limit");
	stacks_python();
	line("a known stack without Python, ns", known_ns(&page), 40);
	glob("/usr/lib/*/libpython3.*.so.1.0", 0, NULL, &found);
	snprintf(pattern, sizeof(pattern), "%s/.pyenv/versions/3.1*/lib/libpython3.1*.so.1.0",
			 getenv("HOME") ? getenv("HOME") : "");
	glob(pattern, found.gl_pathc ? GLOB_APPEND : 0, NULL, &found);
	if (!found.gl_pathc)
		puts("no libpython here: nothing is measured with Python");
	else if (!with_python(found.gl_pathv[found.gl_pathc - 1]))
		missed++;
	puts("");
	return missed ? 1 : 0;
}
