/*
 * nccl_group.c - NCCL's groups: what is called between their start and their outermost end goes to the GPU at that end.
 */
#include "nccl_record.h"

#define START(symbol)                                  \
	TURBO_EXPORT int symbol(void);                     \
	TURBO_EXPORT int symbol(void)                      \
	{                                                  \
		NCCL_BODY(symbol, int, (void));                \
		(void)coalesce_before_nccl(NULL);              \
		int result = real();                           \
		if (result == NCCL_SUCCESS && !guard_inside()) \
			flight_group_start();                      \
		return result;                                 \
	}

START(ncclGroupStart)
START(pncclGroupStart)

#define END(symbol)                     \
	TURBO_EXPORT int symbol(void);      \
	TURBO_EXPORT int symbol(void)       \
	{                                   \
		NCCL_BODY(symbol, int, (void)); \
		if (guard_inside())             \
			return real();              \
		coalesce_before_group_end();    \
		flight_group_end_begin(caller); \
		int result = real();            \
		flight_group_end(result);       \
		return result;                  \
	}

END(ncclGroupEnd)
END(pncclGroupEnd)

/* What was called is forgotten; nothing runs. */
#define SIMULATE(symbol)                  \
	TURBO_EXPORT int symbol(void *info);  \
	TURBO_EXPORT int symbol(void *info)   \
	{                                     \
		NCCL_BODY(symbol, int, (void *)); \
		if (guard_inside())               \
			return real(info);            \
		flight_group_end_begin(NULL);     \
		int result = real(info);          \
		flight_group_end(FLIGHT_DROPPED); \
		return result;                    \
	}

SIMULATE(ncclGroupSimulateEnd)
SIMULATE(pncclGroupSimulateEnd)
