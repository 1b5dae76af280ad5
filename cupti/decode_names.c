/* decode_names.c - see decode_names.h. Tables: the enumerations of cupti_activity.h. */
#include "decode_names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "bind.h"

#define CALLS 1024
#define NAME_BYTES 48

static const char *pick(const char *const *name, uint32_t names, uint32_t i)
{
	return i < names ? name[i] : name[0];
}

#define PICK(names, i) pick(names, sizeof(names) / sizeof(names[0]), i)

static const char *const directions[] = {"<unknown>", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
										 "AtoD",      "DtoA", "DtoD", "HtoH", "PtoP"};
static const char *const memories[] = {"Unknown", "Pageable", "Pinned",        "Device",
									   "Array",   "Managed",  "Device Static", "Managed Static"};
static const char *const waits[] = {"Unknown Sync", "Event Sync", "Stream Wait Event", "Stream Sync",
									"Context Sync"};
static const char *const overheads[] = {"Unknown",
										"Driver Compiler",
										"Buffer Flush",
										"Instrumentation",
										"Resource",
										"Runtime Triggered Module Loading",
										"Lazy Function Loading",
										"Command Buffer Full",
										"Activity Buffer Request",
										"UVM Activity Init"};

void names_copy(char *to, size_t size, uint32_t direction, uint32_t from, uint32_t into)
{
	snprintf(to, size, "Memcpy %s (%s -> %s)", PICK(directions, direction), PICK(memories, from),
			 PICK(memories, into));
}

void names_memset(char *to, size_t size, uint32_t memory_kind)
{
	snprintf(to, size, "Memset (%s)", PICK(memories, memory_kind));
}

const char *names_wait(uint32_t type)
{
	return PICK(waits, type);
}

/* 1 is the compiler; the rest are counted in the high half. */
const char *names_overhead(uint32_t overhead)
{
	return PICK(overheads, overhead > 1 ? (overhead >> 16) + 1 : overhead);
}

/* ---- calls ---- */

/* "" not asked yet. `known` is stored last, with release order; two threads write the same. */
static struct {
	_Atomic bool known;
	char name[NAME_BYTES];
} calls[2][CALLS];

/* "cudaLaunchKernel_ptsz_v7000" is cudaLaunchKernel; "cuMemcpyHtoD_v2" stays. */
static void strip(char *name, bool runtime)
{
	char *at = strrchr(name, '_');
	if (runtime && at && at[1] == 'v' && isdigit((unsigned char)at[2]))
		*at = '\0';
	at = strrchr(name, '_');
	if (at && (!strcmp(at, "_ptsz") || !strcmp(at, "_ptds")))
		*at = '\0';
}

void names_learn(bool runtime, uint32_t callback)
{
	const char *text = NULL;
	char name[NAME_BYTES];
	if (callback >= CALLS || calls[runtime][callback].known)
		return;
	if (cupti.GetCallbackName(runtime ? CUPTI_DOMAIN_RUNTIME : CUPTI_DOMAIN_DRIVER, callback, &text) !=
			CUPTI_OK ||
		!text)
		text = "unknown call";
	snprintf(name, sizeof(name), "%s", text);
	strip(name, runtime);
	memcpy(calls[runtime][callback].name, name, sizeof(name));
	calls[runtime][callback].known = true;
}

const char *names_call(bool runtime, uint32_t callback)
{
	if (callback >= CALLS || !calls[runtime][callback].known)
		return "unknown call";
	return calls[runtime][callback].name;
}
