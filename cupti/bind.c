/* bind.c - see bind.h. */
#include "bind.h"

#include <stdio.h>
#include <string.h>

#include "find.h"
#include "log.h"
#include "lookup.h"

struct cupti cupti;

/* Where in `cupti` each function goes. */
static const struct symbol {
	const char *name;
	size_t at;
	bool optional;
} symbols[] = {
#define NEED(name)                                         \
	{                                                      \
		"cupti" #name, offsetof(struct cupti, name), false \
	}
#define MAY(name)                                         \
	{                                                     \
		"cupti" #name, offsetof(struct cupti, name), true \
	}
	NEED(ActivityRegisterCallbacks),
	NEED(ActivityEnable),
	NEED(ActivityDisable),
	NEED(ActivityFlushAll),
	NEED(ActivityGetNextRecord),
	NEED(ActivityGetNumDroppedRecords),
	NEED(GetTimestamp),
	NEED(GetResultString),
	NEED(GetCallbackName),
	NEED(Subscribe),
	NEED(Unsubscribe),
	NEED(EnableDomain),
	NEED(Finalize),
	MAY(Subscribe_v2),
	MAY(ActivityEnableRuntimeApi),
	MAY(ActivityEnableDriverApi),
	MAY(ActivityGetAttribute),
	MAY(ActivitySetAttribute),
	MAY(GetThreadIdType),
	MAY(SetThreadIdType),
#undef NEED
#undef MAY
};

static bool bind_all(struct cupti *to, void *handle, const char **missing)
{
	for (unsigned i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *fn = lookup_real_dlsym(handle, symbols[i].name);
		if (!fn && !symbols[i].optional) {
			*missing = symbols[i].name;
			return false;
		}
		memcpy((char *)to + symbols[i].at, &fn, sizeof(fn));
	}
	return true;
}

bool cupti_bind(char *why, size_t why_size)
{
	struct cupti_found found;
	struct cupti bound = {.version = 0};
	const char *missing;

	if (cupti.version)
		return true;
	if (!cupti_find(&found, why, why_size))
		return false;
	if (!bind_all(&bound, found.handle, &missing)) {
		snprintf(why, why_size, "%.300s has no %s", found.path, missing);
		return false;
	}
	bound.version = found.version;
	cupti = bound;
	log_info("timeline: CUPTI %u, %.300s", found.version, found.path);
	return true;
}

const char *cupti_text(cupti_result result)
{
	const char *text = NULL;
	if (cupti.GetResultString(result, &text) != CUPTI_OK || !text)
		text = "unknown error";
	return text;
}
