/*
 * conf.c - SIM_NCCL_* environment, read when the library is loaded; faults, mistakes, counters.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

static const char *const fault_names[] = {
#define F(name) #name,
	FAULTS(F)
#undef F
};
static uint64_t faults[FAULT_COUNT], mistakes, random_state;
static const char *strict;
static bool quiet, costs;
static int version;

static uint64_t number(const char *name, uint64_t standard)
{
	const char *text = getenv(name);
	char *end;
	if (!text || !*text)
		return standard;
	uint64_t value = strtoull(text, &end, 0);
	if (*end)
		fprintf(stderr, "sim: %s=%s: not a number\n", name, text);
	return *end ? standard : value;
}

__attribute__((constructor)) static void conf_read(void)
{
	for (int i = 0; i < FAULT_COUNT; i++) {
		char name[64];
		snprintf(name, sizeof name, "SIM_NCCL_%s", fault_names[i]);
		uint64_t standard = i == FAULT_ERROR_CODE ? ncclRemoteError : 0;
		__atomic_store_n(&faults[i], number(name, standard), __ATOMIC_RELAXED);
	}
	version = (int)number("SIM_NCCL_VERSION", NCCL_ABI_VERSION);
	quiet = number("SIM_QUIET", 0) != 0;
	costs = number("SIM_COSTS", 0) != 0;
	/* Ranks differ, and a seed gives each the same again. */
	random_state = number("SIM_SEED", 1);
	strict = getenv("SIM_NCCL_STRICT");
}

int nccl_version(void)
{
	return version;
}

uint64_t fault_raw(enum fault which)
{
	return __atomic_load_n(&faults[which], __ATOMIC_RELAXED);
}

uint64_t fault(const struct comm *c, enum fault which)
{
	uint64_t rank = fault_raw(FAULT_RANK), comm = fault_raw(FAULT_COMM);
	if ((rank && rank != (uint64_t)c->rank + 1) || (comm && comm != (uint64_t)c->number + 1))
		return 0;
	return fault_raw(which);
}

int sim_nccl_fault(const char *name, uint64_t value)
{
	for (int i = 0; i < FAULT_COUNT; i++) {
		if (!strcmp(name, fault_names[i])) {
			__atomic_store_n(&faults[i], value, __ATOMIC_RELAXED);
			return 1;
		}
	}
	return 0;
}

uint64_t draw(uint64_t below)
{
	if (!below)
		return 0;
	uint64_t x = __atomic_add_fetch(&random_state, 0x9e3779b97f4a7c15u, __ATOMIC_RELAXED);
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (x ^ (x >> 31)) % below;
}

/* ---- mistakes ---- */

static void write_all(int fd, const char *text, size_t n)
{
	ssize_t ignored = write(fd, text, n);
	(void)ignored;
}

void complain(const char *fmt, ...)
{
	char line[768];
	int n = snprintf(line, sizeof line, "sim: NCCL: ");
	va_list ap;
	__atomic_fetch_add(&mistakes, 1, __ATOMIC_RELAXED);
	va_start(ap, fmt);
	n += vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof line - 2)
		n = (int)sizeof line - 2;
	line[n++] = '\n';
	if (!quiet)
		write_all(STDERR_FILENO, line, (size_t)n);
	int fd = strict ? open(strict, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
	if (fd >= 0) {
		write_all(fd, line, (size_t)n);
		close(fd);
	}
}

uint64_t sim_nccl_mistakes(void)
{
	return __atomic_load_n(&mistakes, __ATOMIC_RELAXED);
}

/* ---- calls, by name ---- */

static struct call {
	const char *name;
	uint64_t count;
} calls[] = {
#define R(name, params) {#name, 0},
	NCCL_ABI_FUNCTIONS(R)
#undef R
};

static struct call *call_find(const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!strcmp(calls[i].name, name))
			return &calls[i];
	return NULL;
}

void count_call(const char *function)
{
	struct call *call = call_find(function);
	if (call)
		__atomic_fetch_add(&call->count, 1, __ATOMIC_RELAXED);
}

uint64_t sim_nccl_calls(const char *function)
{
	struct call *call = call_find(function);
	return call ? __atomic_load_n(&call->count, __ATOMIC_RELAXED) : 0;
}

/* ---- time ---- */

uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void sleep_us(uint64_t us)
{
	struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
	while (us && nanosleep(&t, &t) && errno == EINTR)
		;
}

void cost_ns(uint64_t ns)
{
	for (uint64_t end = costs ? now_ns() + ns : 0; costs && now_ns() < end;)
		;
}

void hang_forever(void)
{
	for (;;)
		pause();
}
