/*
 * debugger.c - how memory checkers and GPU debuggers are recognised.
 *
 * compute-sanitizer starts the program with NV_SANITIZER_INJECTION_* set, or with
 * CUDA_INJECTION64_PATH naming its library, and is there as libsanitizer-collection.so and
 * libsanitizer-public.so once cuInit has returned; it cannot attach later. cuda-memcheck sets CUDA_MEMCHECK.
 *
 * A debugger client (cuda-gdb, its server, or another user of NVIDIA's debugger API) sets the variable
 * cudbgIpcFlag, which libcuda.so exports, before the driver starts or when it attaches. That is
 * its documented handshake with the driver, so it is what we read later. Where a driver has no
 * such variable, the engine that a debugger brings along, libcudadebugger, tells. With the variable it does
 * not: the driver loads the engine for core dumps too.
 *
 * CUDBG_* variables of the environment are settings of the debugger, found in shells that start
 * no debugger, and are not looked at.
 */
#include "debugger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elfsym.h"
#include "real.h"
#include "text.h"

bool debugger_is_checker(const char *file)
{
	return text_begins(text_last_part(file), "libsanitizer-");
}

/* cuda-gdb, cuda-gdb-minimal, cuda-gdb-python3.12-tui, cuda-gdbserver; cut to 15 characters. */
bool debugger_is_tracer(const char *command)
{
	return text_begins(command, "cuda-gdb");
}

/* ---- loaded objects ---- */

/*
 * The driver's variable, or NULL, as of the unloads in `flag_unloads`. Relaxed: whoever finds them
 * finds the same. The driver is not unloaded while somebody calls it, and one that was loaded
 * again is called through us only after real_unloads() has moved.
 */
static const volatile uint32_t *flag;
static uint64_t flag_unloads = UINT64_MAX;

struct look {
	const volatile uint32_t *flag;
	bool checker, engine;
};

static int look_object(struct elfsym_object *object, unsigned index, void *arg)
{
	struct look *look = arg;

	(void)index;
	if (!look->flag && elfsym_is_library(object, "libcuda.so"))
		look->flag = elfsym_find_variable(object, "cudbgIpcFlag");
	look->checker |= debugger_is_checker(object->path);
	look->engine |= elfsym_named(object, "libcudadebugger");
	return 0;
}

static struct look look_at_objects(void)
{
	uint64_t unloads = real_unloads();
	struct look look = {0};

	elfsym_walk(look_object, &look);
	__atomic_store_n(&flag, look.flag, __ATOMIC_RELAXED);
	__atomic_store_n(&flag_unloads, unloads, __ATOMIC_RELEASE); /* the flag before it */
	return look;
}

static bool shows_debugger(const struct look *look)
{
	return look->flag ? *look->flag != 0 : look->engine;
}

bool debugger_came(void)
{
	const volatile uint32_t *now;

	if (__builtin_expect(__atomic_load_n(&flag_unloads, __ATOMIC_ACQUIRE) != real_unloads(), 0)) {
		struct look look = look_at_objects();
		return shows_debugger(&look);
	}
	now = __atomic_load_n(&flag, __ATOMIC_RELAXED);
	return now && *now != 0;
}

/* ---- environment and tracer ---- */

static const char *found_in_environment(void)
{
	static const struct {
		const char *name, *found;
	} set[] = {
		{"NV_SANITIZER_INJECTION_PORT_BASE", "NV_SANITIZER_INJECTION_PORT_BASE is set"},
		{"NV_SANITIZER_INJECTION_PORT_RANGE_BEGIN", "NV_SANITIZER_INJECTION_PORT_RANGE_BEGIN is set"},
		{"NV_SANITIZER_INJECTION_TRANSPORT_TYPE", "NV_SANITIZER_INJECTION_TRANSPORT_TYPE is set"},
		{"CUDA_MEMCHECK", "CUDA_MEMCHECK is set"},
	};
	const char *value;

	for (unsigned i = 0; i < sizeof(set) / sizeof(set[0]); i++)
		if ((value = getenv(set[i].name)) && *value)
			return set[i].found;
	value = getenv("CUDA_INJECTION64_PATH");
	return value && debugger_is_checker(value) ? "CUDA_INJECTION64_PATH is set" : NULL;
}

/* The first bytes of a file of /proc as a string; "" when it cannot be read. */
static void read_start(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, size - 1) : -1;

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
}

static bool traced_by_debugger(void)
{
	char text[1024], path[40];
	const char *line;
	long tracer;

	read_start("/proc/self/status", text, sizeof(text));
	line = strstr(text, "\nTracerPid:");
	tracer = line ? strtol(line + strlen("\nTracerPid:"), NULL, 10) : 0;
	if (tracer <= 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%ld/comm", tracer);
	read_start(path, text, sizeof(text));
	return debugger_is_tracer(text);
}

const char *debugger_attached(void)
{
	int saved = errno;
	struct look look = look_at_objects();
	const char *variable = found_in_environment();
	const char *what = NULL;

	if (look.checker)
		what = "compute-sanitizer's library is loaded";
	else if (variable)
		what = variable;
	else if (shows_debugger(&look))
		what = "a CUDA debugger is attached";
	else if (traced_by_debugger())
		what = "cuda-gdb traces the process";
	errno = saved;
	return what;
}
