/*
 * conf.c - SIM_CUPTI_* environment, read when the library is loaded; faults; mistakes.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

#define TOOLKIT 130001     /* of the header that the layouts are from */
#define TOOLKIT_12 120600  /* of the flavour libcupti.so.12 */
#define TOOLKIT_OLD 120000 /* of the one in sim-old */

struct conf conf;

static const char *const fault_names[] = {
#define F(name) #name,
	FAULTS(F)
#undef F
};

static uint64_t errors, random_state;
static uint64_t foreign_until = 0; /* ns; 0: none, UINT64_MAX: for good. Relaxed atomic. */

/* What cuptiGetVersion answers: numbers of their own up to 12.9. */
static uint32_t version_of(uint32_t toolkit)
{
	static const uint32_t known[][2] = {{120901, 28}, {120900, 27}, {120800, 26}, {120600, 24}, {120500, 23},
										{120400, 22}, {120300, 21}, {120200, 20}, {0, 19}};
	int i = 0;
	if (toolkit >= 130000)
		return toolkit;
	while (toolkit < known[i][0])
		i++;
	return known[i][1];
}

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

/* Which of the builds this is. */
static uint32_t toolkit_of_file(void)
{
	Dl_info info;
	if (!dladdr(&conf, &info) || !info.dli_fname)
		return TOOLKIT;
	if (strstr(info.dli_fname, "sim-old/"))
		return TOOLKIT_OLD;
	return strstr(info.dli_fname, "libcupti.so.12") ? TOOLKIT_12 : TOOLKIT;
}

__attribute__((constructor)) static void conf_read(void)
{
	conf.toolkit = (uint32_t)number("SIM_CUPTI_VERSION", toolkit_of_file());
	conf.version = version_of(conf.toolkit);
	conf.grow = (unsigned)number("SIM_CUPTI_GROW", 0) / 8 * 8;
	if (conf.grow > RECORD_MAX / 2)
		conf.grow = RECORD_MAX / 2;
	conf.quiet = number("SIM_QUIET", 0) != 0;
	random_state = number("SIM_SEED", 1);
	for (int i = 0; i < FAULT_COUNT; i++) {
		char name[64];
		snprintf(name, sizeof name, "SIM_CUPTI_%s", fault_names[i]);
		conf.fault[i] = number(name, 0);
	}
	uint64_t foreign = number("SIM_CUPTI_FOREIGN", 0);
	if (foreign)
		foreign_until = foreign == 1 ? UINT64_MAX : now_ns() + foreign * 1000000;
	cu.zeroed = false;
	cu.per_thread = conf.toolkit >= 130000;
	cu.attribute[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE] = 3200000;
	cu.attribute[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT] = 250;
	cu.attribute[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE] = 3;
}

bool fault_strikes(enum fault which)
{
	uint64_t one_in = fault(which);
	if (!one_in)
		return false;
	uint64_t x = __atomic_add_fetch(&random_state, 0x9e3779b97f4a7c15u, __ATOMIC_RELAXED);
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (x ^ (x >> 31)) % one_in == 0;
}

bool foreign_present(void)
{
	uint64_t until = __atomic_load_n(&foreign_until, __ATOMIC_RELAXED);
	return until && (until == UINT64_MAX || now_ns() < until);
}

void complain(const char *fmt, ...)
{
	__atomic_fetch_add(&errors, 1, __ATOMIC_RELAXED);
	if (conf.quiet)
		return;
	char line[256];
	int n = snprintf(line, sizeof line, "sim: CUPTI: ");
	va_list ap;
	va_start(ap, fmt);
	n += vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof line - 2)
		n = (int)sizeof line - 2;
	line[n++] = '\n';
	ssize_t ignored = write(STDERR_FILENO, line, (size_t)n);
	(void)ignored;
}

uint64_t sim_cupti_errors(void)
{
	return __atomic_load_n(&errors, __ATOMIC_RELAXED);
}

void sim_cupti_foreign(int present)
{
	__atomic_store_n(&foreign_until, present ? UINT64_MAX : 0, __ATOMIC_RELAXED);
}

int sim_cupti_fault(const char *name, uint64_t value)
{
	for (int i = 0; i < FAULT_COUNT; i++) {
		if (!strcmp(name, fault_names[i])) {
			__atomic_store_n(&conf.fault[i], value, __ATOMIC_RELAXED);
			return 1;
		}
	}
	return 0;
}
