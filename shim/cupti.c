/*
 * cupti.c - calls of CUPTI by other clients in the process: the recorder steps aside first, then they go on to the real
 * function, with their own arguments and status.
 *
 * CUPTI's headers may be missing at build time: results and enumerations are ints. What later versions add (_v2) takes
 * arguments that are not known here; they are all integers or pointers and are handed on as they are.
 */
#include <stddef.h>
#include <stdint.h>

#include "guard.h"
#include "hooks.h"
#include "real.h"
#include "stats.h"
#include "../cupti/buffers.h"
#include "../cupti/client.h"
#include "../cupti/cupti_abi.h"
#include "../cupti/foreign.h"

/* libturbo's own calls go to the real functions directly (cupti/bind.h). */
static void step_aside(void)
{
	guard_enter();
	client_yield();
	guard_leave();
}

/* BODY(symbol, (parameters), (arguments), what to note after success) */
#define BODY(symbol, parameters, arguments, note)                                             \
	TURBO_EXPORT cupti_result symbol parameters;                                              \
	TURBO_EXPORT cupti_result symbol parameters                                               \
	{                                                                                         \
		cupti_result(*real) parameters = (cupti_result(*) parameters)real_get(HOOK_##symbol); \
		cupti_result result;                                                                  \
		stats_call(HOOK_##symbol);                                                            \
		step_aside();                                                                         \
		result = real arguments;                                                              \
		if (result == CUPTI_OK)                                                               \
			note;                                                                             \
		foreign_end();                                                                        \
		return result;                                                                        \
	}

BODY(cuptiSubscribe, (void **subscriber, cupti_callback *callback, void *arg), (subscriber, callback, arg),
	 foreign_subscribed(true))
BODY(cuptiSubscribe_v2, (void **subscriber, cupti_callback *callback, void *arg, void *params),
	 (subscriber, callback, arg, params), foreign_subscribed(true))
BODY(cuptiUnsubscribe, (void *subscriber), (subscriber), foreign_subscribed(false))
BODY(cuptiFinalize, (void), (), (foreign_finalized(), buffers_forget()))

BODY(cuptiActivityEnable, (uint32_t kind), (kind), foreign_kind(kind, true))
BODY(cuptiActivityEnableAndDump, (uint32_t kind), (kind), foreign_kind(kind, true))
BODY(cuptiActivityEnableContext, (void *context, uint32_t kind), (context, kind), foreign_kind(kind, true))
BODY(cuptiActivityDisable, (uint32_t kind), (kind), foreign_kind(kind, false))
BODY(cuptiActivityDisableContext, (void *context, uint32_t kind), (context, kind), foreign_kind(kind, false))
BODY(cuptiActivityEnableRuntimeApi, (uint32_t callback, uint8_t enable), (callback, enable),
	 foreign_api(true, callback, enable != 0))
BODY(cuptiActivityEnableDriverApi, (uint32_t callback, uint8_t enable), (callback, enable),
	 foreign_api(false, callback, enable != 0))

BODY(cuptiActivityRegisterTimestampCallback, (cupti_timestamp * now), (now), (void)0)
BODY(cuptiActivitySetAttribute, (uint32_t attribute, size_t *size, void *value), (attribute, size, value),
	 (void)0)
BODY(cuptiActivityGetAttribute, (uint32_t attribute, size_t *size, void *value), (attribute, size, value),
	 (void)0)
BODY(cuptiSetThreadIdType, (uint32_t type), (type), (void)0)
BODY(cuptiGetThreadIdType, (uint32_t * type), (type), (void)0)

#define UNKNOWN_PARAMETERS (uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f)
#define UNKNOWN(symbol, note) BODY(symbol, UNKNOWN_PARAMETERS, (a, b, c, d, e, f), note)

UNKNOWN(cuptiActivityRegisterCallbacks_v2, (void)0)
UNKNOWN(cuptiActivityEnable_v2, foreign_subscribed(true))
UNKNOWN(cuptiActivityDisable_v2, (void)0)

/*
 * Once we have recorded, buffers of ours may be on their way when another client registers, and the other way round: our
 * callbacks stand in between and tell by the address whose a buffer is.
 */
TURBO_EXPORT cupti_result cuptiActivityRegisterCallbacks(cupti_requested *requested,
														 cupti_completed *completed);
TURBO_EXPORT cupti_result cuptiActivityRegisterCallbacks(cupti_requested *requested,
														 cupti_completed *completed)
{
	cupti_result (*real)(cupti_requested *, cupti_completed *) =
		(cupti_result(*)(cupti_requested *, cupti_completed *))real_get(HOOK_cuptiActivityRegisterCallbacks);
	cupti_result result;

	stats_call(HOOK_cuptiActivityRegisterCallbacks);
	step_aside();
	result = buffers_register(real, requested, completed);
	foreign_end();
	return result;
}
