/* test_debugger.c - memory checkers and debuggers are recognised, and what is none is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "debugger.h"
#include "elfsym.h"

static void names_of_checkers(void **state)
{
	(void)state;
	assert_true(debugger_is_checker("/opt/cuda/compute-sanitizer/libsanitizer-collection.so"));
	assert_true(debugger_is_checker("libsanitizer-public.so"));
	assert_false(debugger_is_checker("/opt/libsanitizer-collection.so/libcupti.so.13"));
	assert_false(debugger_is_checker("libToolsInjection64.so"));
	assert_false(debugger_is_checker("libasan.so.8"));
	assert_false(debugger_is_checker(""));
}

static void names_of_tracers(void **state)
{
	(void)state;
	assert_true(debugger_is_tracer("cuda-gdb\n"));
	assert_true(debugger_is_tracer("cuda-gdbserver\n"));
	assert_true(debugger_is_tracer("cuda-gdb-python\n")); /* as the kernel cuts it */
	assert_false(debugger_is_tracer("gdb\n"));
	assert_false(debugger_is_tracer("strace\n"));
	assert_false(debugger_is_tracer(""));
}

static void nobody_is_there(void **state)
{
	(void)state;
	errno = 4321;
	assert_null(debugger_attached());
	assert_false(debugger_came());
	assert_int_equal(errno, 4321);
}

static void the_environment_names_a_checker(void **state)
{
	static const struct {
		const char *name, *value;
		bool checker;
	} cases[] = {
		{"NV_SANITIZER_INJECTION_PORT_BASE", "49152", true},
		{"NV_SANITIZER_INJECTION_PORT_RANGE_BEGIN", "49152", true},
		{"NV_SANITIZER_INJECTION_TRANSPORT_TYPE", "uds", true},
		{"CUDA_INJECTION64_PATH", "/opt/compute-sanitizer/libsanitizer-collection.so", true},
		{"CUDA_INJECTION64_PATH", "libsanitizer-collection.so", true},
		{"CUDA_INJECTION64_PATH", "/opt/nsight-systems/libToolsInjection64.so", false},
		{"CUDA_MEMCHECK", "1", true},
		{"CUDA_MEMCHECK", "", false},
		{"CUDBG_INJECTION_PATH", "/opt/libcudadebugger.so", false},
		{"CUDBG_USE_LEGACY_DEBUGGER", "1", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		setenv(cases[i].name, cases[i].value, 1);
		assert_int_equal(debugger_attached() != NULL, cases[i].checker);
		unsetenv(cases[i].name);
	}
	assert_null(debugger_attached());
}

/* Any shared object, under another name. */
static void *load_as(const char *name)
{
	char dir[] = "/tmp/turbo-debugger-XXXXXX";
	char path[256], block[65536];
	Dl_info libc;
	ssize_t n;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_true(dladdr(dlsym(RTLD_DEFAULT, "cos"), &libc));
	int in = open(libc.dli_fname, O_RDONLY), out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);
	assert_true(in >= 0 && out >= 0);
	while ((n = read(in, block, sizeof(block))) > 0)
		assert_int_equal(write(out, block, (size_t)n), n);
	close(in);
	close(out);
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	unlink(path);
	rmdir(dir);
	return handle;
}

static void a_checker_is_loaded(void **state)
{
	(void)state;
	void *handle = load_as("libsanitizer-collection.so");
	assert_non_null(handle);
	assert_non_null(debugger_attached());
	assert_int_equal(dlclose(handle), 0);
	assert_null(debugger_attached());
}

/* Without a driver that has the variable, the debugger's engine tells. */
static void the_engine_of_a_debugger_is_loaded(void **state)
{
	(void)state;
	assert_null(debugger_attached());
	void *handle = load_as("libcudadebugger.so.1");
	assert_non_null(handle);
	assert_non_null(debugger_attached());
	assert_int_equal(dlclose(handle), 0);
	assert_null(debugger_attached());
}

/* In a child that the parent, under that name, traces. 77: tracing is not allowed here. */
static int traced_by(const char *name)
{
	char own[16];
	int status;

	assert_int_equal(prctl(PR_GET_NAME, own), 0);
	assert_int_equal(prctl(PR_SET_NAME, name), 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(77);
		_exit(debugger_attached() != NULL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(prctl(PR_SET_NAME, own), 0);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void the_tracer_is_a_debugger(void **state)
{
	(void)state;
	int by_cuda_gdb = traced_by("cuda-gdb");
	if (by_cuda_gdb == 77) {
		print_message("no process may be traced here\n");
		skip();
	}
	assert_int_equal(by_cuda_gdb, 1);
	assert_int_equal(traced_by("strace"), 0);
}

/* ---- the variables of an object ---- */

static int find_variable(struct elfsym_object *object, unsigned index, void *arg)
{
	(void)index;
	if (elfsym_named(object, "libc.so.6"))
		*(void **)arg = elfsym_find_variable(object, "stdout");
	return 0;
}

static int find_as_other(struct elfsym_object *object, unsigned index, void *arg)
{
	(void)index;
	if (elfsym_named(object, "libc.so.6")) {
		((void **)arg)[0] = elfsym_find(object, "stdout");
		((void **)arg)[1] = elfsym_find_variable(object, "malloc");
		((void **)arg)[2] = elfsym_find_variable(object, "no_such_variable");
	}
	return 0;
}

static void variables_are_told_from_functions(void **state)
{
	void *variable = NULL, *others[3] = {&others, &others, &others};

	(void)state;
	elfsym_walk(find_variable, &variable);
	assert_non_null(variable);
	assert_ptr_equal(*(FILE **)variable, stdout);
	elfsym_walk(find_as_other, others);
	for (int i = 0; i < 3; i++)
		assert_null(others[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_checkers),        cmocka_unit_test(names_of_tracers),
		cmocka_unit_test(nobody_is_there),          cmocka_unit_test(the_environment_names_a_checker),
		cmocka_unit_test(a_checker_is_loaded),      cmocka_unit_test(the_engine_of_a_debugger_is_loaded),
		cmocka_unit_test(the_tracer_is_a_debugger), cmocka_unit_test(variables_are_told_from_functions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
