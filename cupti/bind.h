/*
 * bind.h - CUPTI's functions, as libturbo itself calls them.
 *
 * They are looked up in the library that find.h chose, with the loader's own dlsym, so they are never our
 * hooks, and what a foreign client sees of CUPTI (shim/cupti.c) is not mixed up with what we do.
 */
#ifndef TURBO_CUPTI_BIND_H
#define TURBO_CUPTI_BIND_H

#include <stdbool.h>
#include <stddef.h>

#include "cupti_abi.h"

struct cupti {
	cupti_result (*ActivityRegisterCallbacks)(cupti_requested *, cupti_completed *);
	cupti_result (*ActivityEnable)(uint32_t kind);
	cupti_result (*ActivityDisable)(uint32_t kind);
	cupti_result (*ActivityFlushAll)(uint32_t flag);
	cupti_result (*ActivityGetNextRecord)(uint8_t *buffer, size_t valid, struct cupti_record **record);
	cupti_result (*ActivityGetNumDroppedRecords)(void *context, uint32_t stream, size_t *dropped);
	cupti_result (*GetTimestamp)(uint64_t *ns);
	cupti_result (*GetResultString)(cupti_result result, const char **text);
	cupti_result (*GetCallbackName)(uint32_t domain, uint32_t callback, const char **name);
	cupti_result (*Subscribe)(void **subscriber, cupti_callback *callback, void *arg);
	cupti_result (*Unsubscribe)(void *subscriber);
	cupti_result (*EnableDomain)(uint32_t enable, void *subscriber, uint32_t domain);
	cupti_result (*Finalize)(void);
	/* NULL in some versions. */
	cupti_result (*Subscribe_v2)(void **subscriber, cupti_callback *callback, void *arg,
								 struct cupti_subscriber_params *params);
	cupti_result (*ActivityEnableRuntimeApi)(uint32_t callback, uint8_t enable);
	cupti_result (*ActivityEnableDriverApi)(uint32_t callback, uint8_t enable);
	cupti_result (*ActivityGetAttribute)(uint32_t attribute, size_t *size, void *value);
	cupti_result (*ActivitySetAttribute)(uint32_t attribute, size_t *size, void *value);
	cupti_result (*GetThreadIdType)(uint32_t *type);
	cupti_result (*SetThreadIdType)(uint32_t type);
	uint32_t version;
};

/* Constant once cupti_bind() has succeeded, and only used then. */
extern struct cupti cupti __attribute__((visibility("hidden")));

/* Finds and binds; nothing once that has succeeded. Not two at once. */
bool cupti_bind(char *why, size_t why_size);

/* CUPTI's name of an error, never NULL. */
const char *cupti_text(cupti_result result);

#endif
