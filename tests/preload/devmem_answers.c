/*
 * devmem_answers.c - prints what the driver says about memory of every kind: fresh, handed out
 * again, handed out again for less, freed. test_devmem_answers.sh compares a bare run with preloaded
 * ones. Addresses and numbers are printed by what they mean. Arguments: none.
 *
 * The last line on stderr says how many allocations, and how many stream-ordered ones, the driver was not
 * asked for.
 */
#include "devmem_answers.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#define SLACK 4096 /* what a smaller request lacks: enough below the slack that reuse allows */

static CUstream stream;
static unsigned long long last_id;
static unsigned reused, ordered_reused;
static bool middle; /* of freed memory: singular questions that any owner has the same answer to */
static bool pooled; /* the memory is of a pool, whose mappings are the allocator's business */

CUresult (*get_handle_for_range)(void *, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long);
static CUresult (*retain_handle)(CUmemGenericAllocationHandle *, void *);
static CUresult (*get_range_v2)(CUdeviceptr *, size_t *, CUdeviceptr);

CUresult ipc_handle(CUipcMemHandle *handle, CUdeviceptr p)
{
	return cu.cuIpcGetMemHandle ? cu.cuIpcGetMemHandle(handle, p) : CUDA_ERROR_NOT_SUPPORTED;
}

static const struct {
	const char *name;
	CUpointer_attribute which;
	enum { NUMBER, ADDRESS, CONTEXT, ID, STATUS_ONLY } is;
} attributes[] = {
	{"context", CU_POINTER_ATTRIBUTE_CONTEXT, CONTEXT},
	{"memory-type", CU_POINTER_ATTRIBUTE_MEMORY_TYPE, NUMBER},
	{"device-pointer", CU_POINTER_ATTRIBUTE_DEVICE_POINTER, ADDRESS},
	{"host-pointer", CU_POINTER_ATTRIBUTE_HOST_POINTER, ADDRESS},
	{"sync-memops", CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, NUMBER},
	{"buffer-id", CU_POINTER_ATTRIBUTE_BUFFER_ID, ID},
	{"is-managed", CU_POINTER_ATTRIBUTE_IS_MANAGED, NUMBER},
	{"device-ordinal", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, NUMBER},
	{"ipc-capable", CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, NUMBER},
	{"range-start", CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, ADDRESS},
	{"range-size", CU_POINTER_ATTRIBUTE_RANGE_SIZE, NUMBER},
	{"mapped", CU_POINTER_ATTRIBUTE_MAPPED, NUMBER},
	{"handle-types", CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, NUMBER},
	{"rdma-capable", CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, NUMBER},
	{"access", CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, NUMBER},
	{"pool", CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, STATUS_ONLY},
	{"mapping-size", CU_POINTER_ATTRIBUTE_MAPPING_SIZE, NUMBER},
	{"mapping-base", CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, ADDRESS},
	/* The physical memory's number: it stays when the memory does. */
	{"block-id", CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, STATUS_ONLY},
	{"no-such", (CUpointer_attribute)999, NUMBER},
};
#define ATTRIBUTES (sizeof(attributes) / sizeof(attributes[0]))

/* What a value means, relative to the pointer. */
static void print_value(unsigned i, uint64_t value, CUdeviceptr ptr)
{
	if (pooled && (attributes[i].which == CU_POINTER_ATTRIBUTE_MAPPING_SIZE ||
				   attributes[i].which == CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR ||
				   attributes[i].which == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE))
		return;
	switch (attributes[i].is) {
	case NUMBER: printf(" %lld", (long long)value); break;
	case ADDRESS:
		if (value)
			printf(" ptr%+lld", (long long)(value - ptr));
		else
			printf(" null");
		break;
	case CONTEXT: printf(" %s", value == (uint64_t)fx.ctx ? "current" : value ? "other" : "none"); break;
	case ID: printf(" %s", value == 0 ? "0" : value == last_id ? "as before" : "new"); break;
	case STATUS_ONLY: break;
	}
}

static void print_plural(unsigned count, CUpointer_attribute *which, uint64_t *value, CUdeviceptr ptr)
{
	void *where[ATTRIBUTES];

	for (unsigned i = 0; i < count; i++)
		where[i] = &value[i];
	CUresult r = cu.cuPointerGetAttributes(count, which, where, ptr);
	printf("  plural of %u %d:", count, r);
	for (unsigned i = 0; i < count && r == CUDA_SUCCESS; i++)
		print_value(i, value[i], ptr);
	printf("\n");
}

void print_attributes(CUdeviceptr ptr)
{
	for (unsigned i = 0; i < ATTRIBUTES; i++) {
		uint64_t value[2] = {0x5555, 0x5555};
		if (middle && attributes[i].which != CU_POINTER_ATTRIBUTE_BUFFER_ID &&
			attributes[i].which != CU_POINTER_ATTRIBUTE_RANGE_START_ADDR &&
			attributes[i].which != CU_POINTER_ATTRIBUTE_RANGE_SIZE)
			continue;
		CUresult r = cu.cuPointerGetAttribute(value, attributes[i].which, ptr);

		printf("  %s %d", attributes[i].name, r);
		if (r == CUDA_SUCCESS)
			print_value(i, attributes[i].is == NUMBER ? (uint32_t)value[0] : value[0], ptr);
		printf("\n");
	}
	CUpointer_attribute which[ATTRIBUTES];
	uint64_t value[ATTRIBUTES];
	void *where[ATTRIBUTES];
	for (unsigned i = 0; i < ATTRIBUTES; i++) {
		which[i] = attributes[i].which;
		value[i] = 0;
		where[i] = &value[i];
	}
	print_plural(ATTRIBUTES - 1, which, value, ptr);
	printf("  plural with a bad one %d\n", cu.cuPointerGetAttributes(ATTRIBUTES, which, where, ptr));
	for (unsigned i = 0; i < ATTRIBUTES; i++)
		value[i] = 7;
	print_plural(3, which, value, ptr);
	which[0] = CU_POINTER_ATTRIBUTE_RANGE_SIZE; /* unchanged where nothing is known */
	value[0] = 7;
	printf("  plural of one %d:", cu.cuPointerGetAttributes(1, which, where, ptr));
	printf(" %lld\n", (long long)value[0]);
	printf("  plural of none %d\n", cu.cuPointerGetAttributes(0, which, where, ptr));
}

void print_range(CUdeviceptr ptr)
{
	CUdeviceptr base = 0x5555;
	size_t size = 0x5555;
	CUresult r = get_range_v2(&base, &size, ptr);

	printf("  range %d", r);
	if (r == CUDA_SUCCESS)
		printf(" ptr%+lld %zu\n", (long long)(base - ptr), size);
	else
		printf(" %s\n", base == 0x5555 && size == 0x5555 ? "untouched" : "written");
	base = size = 0x5555;
	printf("  range without size %d", get_range_v2(&base, NULL, ptr));
	printf(" ptr%+lld\n", base == 0x5555 ? 0 : (long long)(base - ptr));
	printf("  range without base %d", get_range_v2(NULL, &size, ptr));
	printf(" %zu\n", size);
	printf("  range without both %d\n", get_range_v2(NULL, NULL, ptr));
}

static void remember_id(CUdeviceptr ptr)
{
	OK(cu.cuPointerGetAttribute(&last_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, ptr));
}

void print_all(const char *what, CUdeviceptr ptr)
{
	printf("%s\n", what);
	print_range(ptr);
	print_attributes(ptr);
}

/* ---- memory of the device ---- */

uint64_t driver_calls(const char *symbol)
{
	return sim.calls ? sim.calls(symbol) : 0;
}

CUdeviceptr again(CUdeviceptr freed, size_t bytes)
{
	const char *mode = getenv("TURBO_DEVMEM");
	bool waits = fx.preloaded && mode && strcmp(mode, "off") != 0;
	CUdeviceptr p = freed;

	for (int i = 0; i < 100; i++) {
		uint64_t before = driver_calls("cuMemAlloc_v2");
		OK(cu.cuMemFree_v2(p));
		OK(cu.cuCtxSynchronize());
		p = device_new(bytes);
		if (sim.calls && driver_calls("cuMemAlloc_v2") == before) {
			reused++;
			break;
		}
		if (!waits)
			break;
		usleep(2000);
	}
	return p;
}

static void sizes(size_t bytes)
{
	char text[80];
	CUdeviceptr p = device_new(bytes);
	snprintf(text, sizeof(text), "%zu bytes, fresh", bytes);
	print_all(text, p);
	remember_id(p);
	print_all("inside", p + bytes / 2);
	print_all("its last byte", p + bytes - 1);
	middle = true;
	print_all("behind it", p + bytes);
	middle = false;

	p = again(p, bytes);
	print_all("again", p);
	remember_id(p);
	print_all("inside", p + bytes - 1);

	size_t less = bytes > 4 * SLACK ? bytes - SLACK : bytes - 1;
	p = again(p, less);
	snprintf(text, sizeof(text), "again, for %zu bytes", less);
	print_all(text, p);
	remember_id(p);
	print_all("inside", p + less - 1);
	middle = true;
	print_all("behind it", p + less);
	middle = false;

	p = again(p, bytes);
	print_all("again, for all of it", p);
	remember_id(p);
	OK(cu.cuMemFree_v2(p));
	OK(cu.cuCtxSynchronize());
	print_all("freed", p);
	middle = true;
	print_all("freed, inside", p + bytes / 2);
	middle = false;
	/* Nothing of the program's can be shown to others any more. */
	CUipcMemHandle handle;
	unsigned flag = 1;
	int fd = -1;
	CUmemGenericAllocationHandle retained;
	printf("freed: ipc %d, set %d", ipc_handle(&handle, p),
		   cu.cuPointerSetAttribute(&flag, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
	if (get_handle_for_range)
		printf(", dma-buf %d", get_handle_for_range(&fd, p, 2 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	printf(", retain %d", retain_handle(&retained, (void *)p));
	printf(", freed again %d\n", cu.cuMemFree_v2(p));
}

/* ---- memory of other kinds ---- */

static void others(void)
{
	CUdeviceptr p;
	size_t pitch;
	void *host;

	OK(cu.cuMemAllocManaged(&p, MIB, CU_MEM_ATTACH_GLOBAL));
	print_all("managed", p + 100);
	OK(cu.cuMemFree_v2(p));
	OK(cu.cuMemAllocPitch_v2(&p, &pitch, 1000, 100, 4));
	print_all("pitch", p);
	remember_id(p);
	OK(cu.cuMemFree_v2(p));
	print_all("pitch, freed", p);
	OK(cu.cuMemHostAlloc(&host, MIB, 0));
	print_all("pinned", (CUdeviceptr)host);
	OK(cu.cuMemFreeHost(host));
	host = pages_new(MIB, 1);
	print_all("pageable", (CUdeviceptr)host);
	OK(cu.cuMemHostRegister_v2(host, MIB, 0));
	print_all("registered", (CUdeviceptr)host);
	OK(cu.cuMemHostUnregister(host));
	print_all("nothing", 0);
	print_all("nowhere", 4096);
	print_all("not canonical", (CUdeviceptr)1 << 60);
}

static void mapped(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
								.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle, same;
	CUipcMemHandle ipc;
	CUdeviceptr va;

	OK(cu.cuMemAddressReserve(&va, 8 * MIB, 0, 0, 0));
	print_all("reserved", va);
	OK(cu.cuMemCreate(&handle, 2 * MIB, &prop, 0));
	OK(cu.cuMemMap(va + 2 * MIB, 2 * MIB, 0, handle, 0));
	OK(cu.cuMemSetAccess(va + 2 * MIB, 2 * MIB, &access, 1));
	print_all("mapped", va + 2 * MIB + 100);
	printf("mapped: ipc %d, retain %d", ipc_handle(&ipc, va + 2 * MIB),
		   retain_handle(&same, (void *)(va + 2 * MIB)));
	printf(" %s\n", same == handle ? "same" : "differs");
	OK(cu.cuMemRelease(same));
	OK(cu.cuMemUnmap(va + 2 * MIB, 2 * MIB));
	OK(cu.cuMemRelease(handle));
	OK(cu.cuMemAddressFree(va, 8 * MIB));
}

static CUdeviceptr ordered_new(size_t bytes)
{
	uint64_t before = driver_calls("cuMemAllocAsync");
	CUdeviceptr p = 0;

	OK(cu.cuMemAllocAsync(&p, bytes, stream));
	OK(cu.cuStreamSynchronize(stream));
	ordered_reused += sim.calls && driver_calls("cuMemAllocAsync") == before;
	return p;
}

static void ordered(size_t bytes)
{
	CUipcMemHandle ipc;
	CUmemGenericAllocationHandle handle;
	CUdeviceptr p = ordered_new(bytes);

	printf("%zu bytes, ", bytes);
	pooled = true;
	print_all("stream-ordered", p);
	remember_id(p);
	print_all("inside", p + bytes - 1);
	middle = true;
	if (bytes % 512 == 0) /* a pool's blocks have whole units */
		print_all("behind it", p + bytes);
	middle = false;
	printf("ipc %d, retain %d", ipc_handle(&ipc, p), retain_handle(&handle, (void *)p));
	printf(", inside %d\n", retain_handle(&handle, (void *)(p + bytes / 2)));
	OK(cu.cuMemFreeAsync(p, stream));
	OK(cu.cuStreamSynchronize(stream));
	print_all("freed", p);
	p = ordered_new(bytes);
	print_all("again", p);
	remember_id(p);
	OK(cu.cuMemFreeAsync(p, stream));
	p = ordered_new(bytes - 1);
	print_all("again, for less", p);
	print_all("inside", p + bytes / 2);
	OK(cu.cuMemFree_v2(p)); /* CUDA allows that */
	print_all("freed by cuMemFree", p);
	pooled = false;
}

static void find(void *slot, const char *name)
{
	*(void **)slot = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name);
}

int main(void)
{
	copy_open();
	find(&get_handle_for_range, "cuMemGetHandleForAddressRange");
	find(&retain_handle, "cuMemRetainAllocationHandle");
	find(&get_range_v2, "cuMemGetAddressRange_v2");
	OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	others();
	mapped();
	ordered(3 * MIB);
	ordered(1000);
	sizes(1000);
	sizes(64 * KIB);
	sizes(MIB + 1);
	sizes(8 * MIB);
	print_shown();
	print_where();
	fprintf(stderr, "reused %u %u\n", reused, ordered_reused);
	return 0;
}
