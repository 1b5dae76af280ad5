/* info.c - see info.h. */
#include "info.h"

#include "bound.h"
#include "cache.h"
#include "calls.h"
#include "stream.h"

void info_add(size_t *free_bytes, size_t total)
{
	CUdevice device;
	if (REAL(cuCtxGetDevice)(&device) != CUDA_SUCCESS || device < 0 || device >= SPACE_DEVICES)
		return;
	size_t kept = bound_kept(device) + stream_free_bytes(device);
	for (unsigned i = 0; i < SPACES; i++)
		if (spaces[i].device == device)
			kept += atomic_load_explicit(&spaces[i].defer.pending, memory_order_relaxed);
	if (*free_bytes >= total)
		return;
	*free_bytes = kept < total - *free_bytes ? *free_bytes + kept : total;
}
