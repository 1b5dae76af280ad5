/*
 * cuda_resolve.c - cuGetProcAddress, the door through which cudart finds the driver.
 *
 * The driver answers first, from the name, version and flags: it alone knows which ABI they
 * mean. An answer that is the address of a known export is replaced by our body of exactly
 * that symbol; anything else, and everything for the driver's own libraries and profilers,
 * stays as the driver said. The entry points themselves are among the known exports, so a
 * program that looks them up keeps asking us. The status is the driver's and is not read
 * (cudart passes NULL).
 */
#include <cuda.h>

#include "lookup.h"
#include "real.h"
#include "stats.h"

static CUresult answer(CUresult status, void **fn, const void *caller)
{
	if (status != CUDA_SUCCESS || !fn || !*fn)
		return status;
	const struct hook_row *row = real_row_of(*fn);

	if (row && row->how != HOOK_HOW_PASS && !lookup_leaves_alone(caller))
		*fn = row->ours;
	return status;
}

TURBO_EXPORT CUresult cuGetProcAddress(const char *symbol, void **fn, int version, cuuint64_t flags)
{
	stats_call(HOOK_cuGetProcAddress);
	CUresult status = REAL(cuGetProcAddress)(symbol, fn, version, flags);

	return answer(status, fn, __builtin_return_address(0));
}

TURBO_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **fn, int version, cuuint64_t flags,
										  CUdriverProcAddressQueryResult *found)
{
	stats_call(HOOK_cuGetProcAddress_v2);
	CUresult status = REAL(cuGetProcAddress_v2)(symbol, fn, version, flags, found);

	return answer(status, fn, __builtin_return_address(0));
}
