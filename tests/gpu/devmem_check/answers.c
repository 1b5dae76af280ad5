/*
 * answers.c - what the driver says about blocks, new and used again.
 */
#include "check.h"

#include <stdio.h>
#include <string.h>

static const size_t sizes[] = {1,         512, 1000,          4 * KIB, 40 * KIB,
							   MIB - 100, MIB, 3 * MIB + 700, 5 * MIB, 20 * MIB};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* One attribute of a block as text: addresses relative to it, handles as none or some. */
static void attribute_text(char *to, size_t n, CUdeviceptr p, CUpointer_attribute which)
{
	union {
		unsigned u;
		unsigned long long u64;
		void *pointer;
		char room[64];
	} v = {.room = {0}};
	CUresult r = cu.cuPointerGetAttribute(&v, which, p);
	switch (r == CUDA_SUCCESS ? which : CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		snprintf(to, n, "%s", v.pointer == fx.ctx ? "current" : v.pointer ? "other" : "none");
		break;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: snprintf(to, n, "%s", v.pointer ? "some" : "none"); break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: snprintf(to, n, "%+lld", (long long)(v.u64 - p)); break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE: snprintf(to, n, "%llu", v.u64); break;
	default: snprintf(to, n, r ? "error_%u" : "%u", r ? r : v.u); break;
	}
}

static const struct {
	const char *name;
	CUpointer_attribute which;
} attributes[] = {
	{"type", CU_POINTER_ATTRIBUTE_MEMORY_TYPE},
	{"ordinal", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL},
	{"context", CU_POINTER_ATTRIBUTE_CONTEXT},
	{"device_pointer", CU_POINTER_ATTRIBUTE_DEVICE_POINTER},
	{"host_pointer", CU_POINTER_ATTRIBUTE_HOST_POINTER},
	{"managed", CU_POINTER_ATTRIBUTE_IS_MANAGED},
	{"mapped", CU_POINTER_ATTRIBUTE_MAPPED},
	{"sync_memops", CU_POINTER_ATTRIBUTE_SYNC_MEMOPS},
	{"legacy_ipc", CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE},
	{"handle_types", CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES},
	{"access", CU_POINTER_ATTRIBUTE_ACCESS_FLAGS},
	{"rdma", CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE},
	{"start", CU_POINTER_ATTRIBUTE_RANGE_START_ADDR},
	{"size", CU_POINTER_ATTRIBUTE_RANGE_SIZE},
};
#define ATTRIBUTES (sizeof(attributes) / sizeof(attributes[0]))

/* One note with all answers about `p + at`. */
static const char *note_block(const char *what, CUdeviceptr p, size_t at)
{
	char text[1024] = "", key[64];
	size_t end = 0;
	for (size_t i = 0; i < ATTRIBUTES; i++) {
		char value[64];
		attribute_text(value, sizeof(value), p + at, attributes[i].which);
		end += (size_t)snprintf(text + end, sizeof(text) - end, "%s=%s ", attributes[i].name, value);
	}
	CUdeviceptr base = 0;
	size_t size = 0;
	CUresult r = cu.cuMemGetAddressRange_v2(&base, &size, p + at);
	snprintf(text + end, sizeof(text) - end, "range=%s,%+lld,%zu", r ? cuda_dl_error(r) : "ok",
			 (long long)(base - p), size);
	snprintf(key, sizeof(key), "%s+%zu", what, at);
	case_note(key, text);
	return NULL;
}

/* All attributes in one call say what single calls say. */
static const char *plural_equals_singular(CUdeviceptr p)
{
	unsigned type = 0, type1 = 1;
	unsigned long long start = 0, start1 = 1, id = 0, id1 = 1;
	size_t size = 0, size1 = 1;
	CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
								   CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_BUFFER_ID};
	void *data[] = {&type, &start, &size, &id};
	TRY(cu.cuPointerGetAttributes(4, which, data, p));
	TRY(cu.cuPointerGetAttribute(&type1, which[0], p));
	TRY(cu.cuPointerGetAttribute(&start1, which[1], p));
	TRY(cu.cuPointerGetAttribute(&size1, which[2], p));
	TRY(cu.cuPointerGetAttribute(&id1, which[3], p));
	if (type != type1 || start != start1 || size != size1 || id != id1)
		return case_fail("cuPointerGetAttributes and cuPointerGetAttribute differ");
	return NULL;
}

static const char *block_answers(void)
{
	for (size_t i = 0; i < SIZES; i++) {
		CUdeviceptr p, larger;
		size_t n = sizes[i];
		char what[64];
		TRY(cu.cuMemAlloc_v2(&p, n));
		if (p % 256)
			return case_fail("a block of %zu bytes is not aligned to 256", n);
		snprintf(what, sizeof(what), "new_%zu", n);
		STEP(note_block(what, p, 0));
		STEP(note_block(what, p, n / 2));
		STEP(plural_equals_singular(p));
		TRY(cu.cuMemFree_v2(p));
		/* Used again, after a larger block that may be kept for it. */
		TRY(cu.cuMemAlloc_v2(&larger, n + n / 16));
		TRY(cu.cuMemFree_v2(larger));
		TRY(cu.cuMemAlloc_v2(&p, n));
		snprintf(what, sizeof(what), "again_%zu", n);
		STEP(note_block(what, p, 0));
		STEP(note_block(what, p, n / 2));
		STEP(plural_equals_singular(p));
		TRY(cu.cuMemFree_v2(p));
	}
	return NULL;
}

static const char *async_block_answers(void)
{
	CUstream a = fx.stream[STREAM_A];
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < SIZES; i++) {
			CUdeviceptr p;
			char what[64];
			TRY(cu.cuMemAllocAsync(&p, sizes[i], a));
			TRY(cu.cuStreamSynchronize(a));
			if (p % 256)
				return case_fail("a block of %zu bytes is not aligned to 256", sizes[i]);
			snprintf(what, sizeof(what), "%s_%zu", round ? "again" : "new", sizes[i]);
			STEP(note_block(what, p, 0));
			STEP(note_block(what, p, sizes[i] / 2));
			STEP(plural_equals_singular(p));
			TRY(cu.cuMemFreeAsync(p, a));
		}
	return NULL;
}

/* How many allocations of a kind have the buffer id of an earlier one. */
static const char *ids_again(bool async, size_t *again)
{
	unsigned long long ids[32];
	*again = 0;
	for (size_t n = 0; n < 32; n++) {
		CUdeviceptr p;
		size_t bytes = n % 2 ? 4 * MIB : 64 * KIB;
		TRY(async ? cu.cuMemAllocAsync(&p, bytes, NULL) : cu.cuMemAlloc_v2(&p, bytes));
		TRY(cu.cuCtxSynchronize());
		TRY(cu.cuPointerGetAttribute(&ids[n], CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
		for (size_t k = 0; k < n; k++)
			*again += ids[k] == ids[n];
		TRY(async ? cu.cuMemFreeAsync(p, NULL) : cu.cuMemFree_v2(p));
	}
	return NULL;
}

/* "A process-wide unique id": who keeps tables by it must not take a new block for an old one. What
 * the driver does with blocks of a pool is noted. */
static const char *buffer_ids(void)
{
	size_t again;
	STEP(ids_again(false, &again));
	if (again)
		return case_fail("%zu times a new block has the buffer id of an old one", again);
	STEP(ids_again(true, &again));
	case_note("of_pool_blocks", again ? "used again" : "unique");
	return NULL;
}

/* What one owner set, the next does not find. */
static const char *sync_memops_do_not_last(void)
{
	NEED(cuPointerSetAttribute);
	for (int i = 0; i < 3; i++) {
		CUdeviceptr p;
		unsigned on = 1, found = 2;
		TRY(cu.cuMemAlloc_v2(&p, 4 * MIB));
		TRY(cu.cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
		if (found)
			return case_fail("block %d comes with SYNC_MEMOPS = %u", i, found);
		case_note_status("set", cu.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
		TRY(cu.cuMemFree_v2(p));
	}
	return NULL;
}

const struct gpu_case answer_cases[] = {
	{"block_answers", block_answers},
	{"async_block_answers", async_block_answers},
	{"buffer_ids", buffer_ids},
	{"sync_memops_do_not_last", sync_memops_do_not_last},
	{NULL, NULL},
};
