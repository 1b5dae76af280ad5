/*
 * test_stacks_embedded.c - an interpreter that a program loads in a local scope, starts, ends and starts again;
 * sub-interpreters; threads that Python does not know. Each version of libpython that is here, in a process of its own.
 */
#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "lookup.h"
#include "nccl/python.h"
#include "nccl/stacks.h"

static struct flight_page page;
static char out[64 << 10], asked[64 << 10];
static _Atomic uint64_t tick;

/* The functions of the interpreter that this uses. */
static struct {
	void (*Py_InitializeEx)(int);
	int (*Py_FinalizeEx)(void);
	int (*PyRun_SimpleString)(const char *);
	void *(*PyEval_SaveThread)(void);
	void (*PyEval_RestoreThread)(void *);
	void *(*PyCFunction_NewEx)(void *, void *, void *);
	void *(*PyImport_AddModule)(const char *);
	int (*PyObject_SetAttrString)(void *, const char *, void *);
	void *(*PyLong_FromLong)(long);
	void *(*Py_NewInterpreter)(void);
	void (*Py_EndInterpreter)(void *);
	void *(*PyThreadState_Swap)(void *);
	int (*PyGILState_Ensure)(void);
	void (*PyGILState_Release)(int);
} py;

#define CHECK(what)                                                                           \
	do {                                                                                      \
		if (!(what)) {                                                                        \
			fprintf(stderr, "line %d: %s; site: %s dump: %s\n", __LINE__, #what, out, asked); \
			exit(1);                                                                          \
		}                                                                                     \
	} while (0)

static void load(const char *path)
{
	void *lib = lookup_real_dlopen(path, RTLD_NOW | RTLD_LOCAL);
	CHECK(lib);
#define LOAD(name) CHECK((py.name = (__typeof__(py.name))lookup_real_dlsym(lib, #name)) != NULL)
	LOAD(Py_InitializeEx);
	LOAD(Py_FinalizeEx);
	LOAD(PyRun_SimpleString);
	LOAD(PyEval_SaveThread);
	LOAD(PyEval_RestoreThread);
	LOAD(PyCFunction_NewEx);
	LOAD(PyImport_AddModule);
	LOAD(PyObject_SetAttrString);
	LOAD(PyLong_FromLong);
	LOAD(Py_NewInterpreter);
	LOAD(Py_EndInterpreter);
	LOAD(PyThreadState_Swap);
	LOAD(PyGILState_Ensure);
	LOAD(PyGILState_Release);
#undef LOAD
}

/* The watch's thread, with the GIL free if `free`. */
static uint32_t version;
static void *watch(void *arg)
{
	(void)arg;
	version = stacks_python();
	stacks_tick(&tick);
	stacks_dump(asked, sizeof(asked), NULL, 0, 4000);
	return NULL;
}

static void look(void)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, watch, NULL) == 0);
	pthread_join(thread, NULL);
}

static void take_site(const void *caller)
{
	uint32_t site = stacks_site(&page, caller, __builtin_frame_address(0));
	CHECK(site);
	snprintf(out, sizeof(out), "%s", page.sites + site - 1);
}

/* ThreadSanitizer keeps a signal that comes just before a call that blocks, until that call's end. */
#if defined(__SANITIZE_THREAD__)
#define TRIES 5
#elif defined(__has_feature)
#define TRIES (__has_feature(thread_sanitizer) ? 5 : 1)
#else
#define TRIES 1
#endif

/* Python calls this: a C extension that releases the GIL. */
static void *issue(void *self, void *args)
{
	(void)self;
	(void)args;
	void *state = py.PyEval_SaveThread();
	for (int i = 0; i < TRIES && (!i || strstr(asked, "  note ")); i++)
		look();
	take_site(issue);
	py.PyEval_RestoreThread(state);
	return py.PyLong_FromLong(0);
}

/* PyMethodDef; METH_NOARGS is 4. */
static struct {
	const char *name;
	void *(*call)(void *, void *);
	int flags;
	const char *doc;
} method = {"issue", issue, 4, NULL};

static void run(void)
{
	out[0] = asked[0] = 0;
	CHECK(py.PyObject_SetAttrString(py.PyImport_AddModule("__main__"), "issue",
									py.PyCFunction_NewEx(&method, NULL, NULL)) == 0);
	CHECK(py.PyRun_SimpleString("def inner():\n  issue()\n\ndef outer():\n\n  inner()\nouter()\n") == 0);
}

static const char *const lines =
	"  python <string>:2 inner\n  python <string>:6 outer\n  python <string>:7 <module>\n";

static void *stranger(void *arg)
{
	take_site(stranger);
	CHECK(!strstr(out, "  python "));
	int held = py.PyGILState_Ensure();
	void *state = py.PyEval_SaveThread();
	take_site(arg); /* it has a state, and no frame */
	CHECK(!strstr(out, "  python "));
	py.PyEval_RestoreThread(state);
	run();
	CHECK(strstr(out, lines) == out);
	py.PyGILState_Release(held);
	return NULL;
}

static void interpreter_runs(void)
{
	pthread_t thread;
	run();
	CHECK(python_get() && python_readable(python_get()));
	CHECK(strstr(out, lines) == out);
	CHECK(strstr(asked, lines) && !strstr(asked, "  note "));
	void *state = py.PyEval_SaveThread();
	CHECK(pthread_create(&thread, NULL, stranger, &page) == 0);
	pthread_join(thread, NULL);
	py.PyEval_RestoreThread(state);
}

static void sub_interpreter_runs(void)
{
	void *main_state = py.PyThreadState_Swap(NULL);
	py.PyThreadState_Swap(main_state);
	void *sub = py.Py_NewInterpreter();
	CHECK(sub);
	run();
	py.Py_EndInterpreter(sub);
	py.PyThreadState_Swap(main_state);
	run();
	CHECK(strstr(out, lines) == out);
}

static int embed(const char *path)
{
	alarm(60);
	look();
	CHECK(version == 0);
	take_site(embed);
	load(path);
	look();
	CHECK(python_get() && strstr(asked, "  note Python is not running\n"));
	take_site(embed);
	for (int life = 0; life < 2; life++) {
		py.Py_InitializeEx(0);
		interpreter_runs();
		sub_interpreter_runs();
		CHECK(py.Py_FinalizeEx() == 0);
		look();
		CHECK(strstr(asked, "  note Python is not running\n"));
		take_site(embed);
		CHECK(!strstr(out, "  python "));
	}
	return 0;
}

static char self[4096];

static void with_version(void **state)
{
	int minor = (int)(intptr_t)*state, status;
	char pattern[512], home[4096];
	glob_t found = {0};
	snprintf(pattern, sizeof(pattern), "/usr/lib/*/libpython3.%d.so.1.0", minor);
	glob(pattern, 0, NULL, &found);
	snprintf(pattern, sizeof(pattern), "%s/.pyenv/versions/3.%d.*/lib/libpython3.%d.so.1.0",
			 getenv("HOME") ? getenv("HOME") : "", minor, minor);
	glob(pattern, found.gl_pathc ? GLOB_APPEND : 0, NULL, &found);
	if (!found.gl_pathc) {
		print_message("no libpython3.%d here\n", minor);
		skip();
	}
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char *path = found.gl_pathv[i];
		snprintf(home, sizeof(home), "%.*s", (int)(strstr(path, "/lib/") - path), path);
		pid_t pid = fork();
		if (pid == 0) {
			setenv("PYTHONHOME", home, 1);
			setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* the interpreter's own */
			execl(self, self, path, (char *)NULL);
			_exit(2);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (status)
			print_message("%s: status %x\n", path, (unsigned)status);
		assert_int_equal(status, 0);
	}
	globfree(&found);
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[6];
	static char name[6][32];
	if (argc > 1)
		return embed(argv[1]);
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = 0;
	for (int i = 0; i < 6; i++) {
		snprintf(name[i], sizeof(name[i]), "python_3_%d", i + 9);
		tests[i] = (struct CMUnitTest){
			.name = name[i], .test_func = with_version, .initial_state = (void *)(intptr_t)(i + 9)};
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
