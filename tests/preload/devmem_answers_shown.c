#include "devmem_answers.h"

#include <stdio.h>

/* Frees p, which the driver must do itself. `only`: no other block of the size was ever there, so the
 * next one is the driver's too. */
static void really_freed(const char *how, CUdeviceptr p, size_t bytes, bool only)
{
	uint64_t frees = driver_calls("cuMemFree_v2"), allocs = driver_calls("cuMemAlloc_v2");
	OK(cu.cuMemFree_v2(p));
	printf("%s: freed by the driver %d\n", how, (int)(driver_calls("cuMemFree_v2") - frees));
	p = device_new(bytes);
	if (only)
		printf("  allocated by the driver %d\n", (int)(driver_calls("cuMemAlloc_v2") - allocs));
	print_range(p);
	OK(cu.cuMemFree_v2(p));
}

/* Larger than all before, so that nothing that is kept fits. */
static size_t next_size(void)
{
	static size_t bytes = 10 * MIB;
	return bytes += 2 * MIB;
}

static void shown_by_ipc(void)
{
	CUipcMemHandle first = {{0}}, second = {{0}};
	size_t bytes = next_size();
	CUdeviceptr p = device_new(bytes);
	CUresult r = ipc_handle(&first, p);
	printf("ipc %d, again %d", r, ipc_handle(&second, p));
	printf(" %s\n", memcmp(&first, &second, sizeof(first)) ? "differs" : "same");
	if (r == CUDA_SUCCESS)
		really_freed("after ipc", p, bytes, true);

	bytes = next_size();
	p = again(device_new(bytes), bytes);
	r = ipc_handle(&second, p);
	printf("ipc of another %d %s\n", r, memcmp(&first, &second, sizeof(first)) ? "differs" : "same");
	if (r == CUDA_SUCCESS)
		really_freed("after ipc of a used one", p, bytes, false);

	bytes = next_size();
	p = device_new(bytes);
	r = ipc_handle(&first, p + bytes / 2);
	printf("ipc by an inner pointer %d\n", r);
	if (r == CUDA_SUCCESS)
		really_freed("after ipc by an inner pointer", p, bytes, true);
}

static void shown_by_attribute(void)
{
	CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
	unsigned flag = 1, off = 0;
	size_t bytes = next_size();
	CUdeviceptr p = device_new(bytes);
	CUresult r = cu.cuPointerSetAttribute(&flag, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p + 512);
	printf("sync-memops %d\n", r);
	print_attributes(p);
	if (r == CUDA_SUCCESS)
		really_freed("after sync-memops", p, bytes, true);

	bytes = next_size();
	p = again(device_new(bytes), bytes);
	print_attributes(p);
	r = cu.cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p);
	if (r == CUDA_SUCCESS)
		really_freed("after sync-memops of 0", p, bytes, false);

	bytes = next_size();
	p = device_new(bytes);
	r = cu.cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, p);
	printf("tokens %d\n", r);
	if (r == CUDA_SUCCESS)
		really_freed("after tokens", p, bytes, true);
	else
		OK(cu.cuMemFree_v2(p));
}

static void shown_by_range(void)
{
	size_t bytes = next_size();
	CUdeviceptr p = device_new(bytes);
	int fd = -1;
	CUresult r = get_handle_for_range
					 ? get_handle_for_range(&fd, p, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0)
					 : CUDA_ERROR_NOT_SUPPORTED;
	printf("dma-buf %d\n", r);
	if (r == CUDA_SUCCESS)
		really_freed("after dma-buf", p, bytes, true);
	else
		OK(cu.cuMemFree_v2(p));
}

void print_shown(void)
{
	shown_by_ipc();
	shown_by_attribute();
	shown_by_range();
}
