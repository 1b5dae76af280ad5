/*
 * test_sim_ipc_mem.c - device memory that two processes share.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>

#include "common/simother.h"

#define MIB (1u << 20)

static bool simulated;
static uint64_t (*errors)(void);

/* ---- the other process ---- */

enum order {
	ALLOC = 'a',  /* that many bytes: answers the address */
	FREE = 'f',   /* the address */
	EXPORT = 'x', /* the address; the handle comes before the answer */
	OPEN = 'o',   /* the handle that follows; answers the address */
	CLOSE = 'c',  /* the address */
	BYTE = 'b',   /* of the address */
	SET = 's',    /* 64 bytes of the address to 77 */
	MISTAKES = 'm',
};

static CUresult obey(char order, CUdeviceptr *value, int in, int out)
{
	CUipcMemHandle handle;
	CUresult r;
	CUdeviceptr p = *value;
	switch (order) {
	case ALLOC: r = cuMemAlloc_v2(&p, *value); break;
	case FREE: return cuMemFree_v2(p);
	case EXPORT:
		memset(&handle, 0, sizeof handle);
		r = cuIpcGetMemHandle(&handle, p);
		st_other_send(out, &handle, sizeof handle);
		return r;
	case OPEN:
		st_other_receive(in, &handle, sizeof handle);
		r = cuIpcOpenMemHandle_v2(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
		break;
	case CLOSE: return cuIpcCloseMemHandle(p);
	case BYTE: *value = st_byte(p); return CUDA_SUCCESS;
	case SET: return cuMemsetD8_v2(p, 77, 64) ?: cuCtxSynchronize();
	case MISTAKES: *value = errors(); return CUDA_SUCCESS;
	default: return CUDA_ERROR_UNKNOWN;
	}
	*value = p;
	return r;
}

static CUresult other_export(struct st_other *o, CUdeviceptr p, CUipcMemHandle *handle)
{
	st_other_tell(o, EXPORT, p);
	st_other_receive(o->from, handle, sizeof *handle);
	return st_other_answer(o, NULL);
}

static CUresult other_open(struct st_other *o, const CUipcMemHandle *handle, CUdeviceptr *p)
{
	st_other_tell(o, OPEN, 0);
	st_other_send(o->to, handle, sizeof *handle);
	return st_other_answer(o, p);
}

/* ---- tests ---- */

static void the_same_bytes_on_both_sides(void **state)
{
	(void)state;
	struct st_other o;
	st_other_start(&o);
	CUdeviceptr p = st_device(8 * MIB), theirs, ours, base;
	CUipcMemHandle handle, again;
	size_t size;
	ok(cuMemsetD8_v2(p, 5, 8 * MIB));
	ok(cuMemsetD8_v2(p + 3 * MIB, 9, 64));
	ok(cuCtxSynchronize());
	ok(cuIpcGetMemHandle(&handle, p));
	ok(cuIpcGetMemHandle(&again, p));
	assert_memory_equal(&handle, &again, sizeof handle);
	ok(other_open(&o, &handle, &theirs));
	CUdeviceptr byte;
	ok(st_other_ask(&o, BYTE, theirs, &byte));
	assert_int_equal(byte, 5);
	ok(st_other_ask(&o, BYTE, theirs + 3 * MIB, &byte)); /* an offset means the same there */
	assert_int_equal(byte, 9);
	ok(st_other_ask(&o, SET, theirs + 7 * MIB, NULL));
	assert_int_equal(st_byte(p + 7 * MIB), 77);
	fails(st_other_ask(&o, FREE, theirs, NULL), CUDA_ERROR_INVALID_VALUE);
	ok(st_other_ask(&o, CLOSE, theirs, NULL));
	fails(st_other_ask(&o, CLOSE, theirs, NULL), CUDA_ERROR_INVALID_VALUE);
	/* And the other way round. */
	ok(st_other_ask(&o, ALLOC, 4 * MIB, &theirs));
	ok(st_other_ask(&o, SET, theirs + MIB, NULL));
	ok(other_export(&o, theirs, &handle));
	ok(cuIpcOpenMemHandle_v2(&ours, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	ok(cuIpcOpenMemHandle_v2(&base, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	assert_int_equal(base, ours); /* opened twice: counted */
	assert_int_equal(st_byte(ours + MIB), 77);
	ok(cuMemGetAddressRange_v2(&base, &size, ours + MIB));
	assert_int_equal(base, ours);
	assert_true(size >= 4 * MIB);
	ok(cuIpcCloseMemHandle(ours));
	assert_int_equal(st_byte(ours + MIB), 77);
	ok(cuIpcCloseMemHandle(ours));
	ok(st_other_ask(&o, FREE, theirs, NULL));
	ok(cuMemFree_v2(p));
	st_other_stop(&o);
}

/* A real driver may give memory allocated anew, at the address of freed memory, the same handle. */
static void memory_anew_is_shared_anew(void **state)
{
	(void)state;
	struct st_other o;
	st_other_start(&o);
	CUipcMemHandle first, second;
	CUdeviceptr p = st_device(2 * MIB), theirs, byte;
	ok(cuIpcGetMemHandle(&first, p));
	ok(cuMemFree_v2(p));
	p = st_device(2 * MIB);
	ok(cuMemsetD8_v2(p, 5, 64));
	ok(cuCtxSynchronize());
	ok(cuIpcGetMemHandle(&second, p));
	if (simulated) {
		assert_memory_not_equal(&first, &second, sizeof first);
		assert_int_not_equal(other_open(&o, &first, &theirs), CUDA_SUCCESS);
	}
	ok(other_open(&o, &second, &theirs));
	ok(st_other_ask(&o, BYTE, theirs, &byte));
	assert_int_equal(byte, 5);
	ok(st_other_ask(&o, CLOSE, theirs, NULL));
	ok(cuMemFree_v2(p));
	st_other_stop(&o);
}

static void what_cannot_be_shared(void **state)
{
	(void)state;
	CUipcMemHandle handle, empty;
	CUdeviceptr p = st_device(MIB), out, va, managed;
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	memset(&empty, 0, sizeof empty);
	ok(cuIpcGetMemHandle(&handle, p));
	fails(cuIpcOpenMemHandle_v2(&out, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
		  CUDA_ERROR_INVALID_CONTEXT);
	assert_int_not_equal(cuIpcOpenMemHandle_v2(&out, empty, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
						 CUDA_SUCCESS);
	fails(cuIpcCloseMemHandle(p), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFree_v2(p));
	fails(cuIpcGetMemHandle(&handle, p), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemAllocAsync(&p, MIB, s));
	ok(cuStreamSynchronize(s));
	fails(cuIpcGetMemHandle(&handle, p), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFreeAsync(p, s));
	ok(cuMemAllocManaged(&managed, MIB, CU_MEM_ATTACH_GLOBAL));
	fails(cuIpcGetMemHandle(&handle, managed), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFree_v2(managed));
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
								.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle mem;
	ok(cuMemAddressReserve(&va, 2 * MIB, 0, 0, 0));
	ok(cuMemCreate(&mem, 2 * MIB, &prop, 0));
	ok(cuMemMap(va, 2 * MIB, 0, mem, 0));
	ok(cuMemSetAccess(va, 2 * MIB, &access, 1));
	fails(cuIpcGetMemHandle(&handle, va), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemUnmap(va, 2 * MIB));
	ok(cuMemRelease(mem));
	ok(cuMemAddressFree(va, 2 * MIB));
	ok(cuStreamSynchronize(s));
	ok(cuStreamDestroy_v2(s));
}

/* Undefined on a real driver: its owner frees what another process has open. */
static void use_after_the_owner_s_free_is_a_mistake(void **state)
{
	(void)state;
	if (!simulated) {
		puts("undefined on a real driver");
		skip();
	}
	struct st_other o;
	st_other_start(&o);
	CUipcMemHandle handle;
	CUdeviceptr p = st_device(2 * MIB), theirs;
	CUdeviceptr mistakes;
	ok(cuIpcGetMemHandle(&handle, p));
	ok(other_open(&o, &handle, &theirs));
	ok(st_other_ask(&o, SET, theirs, NULL));
	ok(cuMemFree_v2(p));
	ok(st_other_ask(&o, MISTAKES, 0, &mistakes));
	assert_int_equal(mistakes, 0);
	fails(st_other_ask(&o, SET, theirs, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
	ok(st_other_ask(&o, MISTAKES, 0, &mistakes));
	assert_int_equal(mistakes, 1);
	st_other_kill(&o);
	assert_int_equal(waitpid(o.pid, NULL, 0), o.pid);
}

static void memory_of_a_killed_process_stays_for_who_has_it_open(void **state)
{
	(void)state;
	if (!simulated) {
		puts("undefined on a real driver");
		skip();
	}
	struct st_other o;
	st_other_start(&o);
	CUipcMemHandle handle;
	CUdeviceptr theirs, ours, none;
	ok(st_other_ask(&o, ALLOC, 2 * MIB, &theirs));
	ok(st_other_ask(&o, SET, theirs, NULL));
	ok(other_export(&o, theirs, &handle));
	ok(cuIpcOpenMemHandle_v2(&ours, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	st_other_kill(&o);
	assert_int_equal(waitpid(o.pid, NULL, 0), o.pid);
	assert_int_equal(st_byte(ours), 77);
	ok(cuIpcCloseMemHandle(ours));
	fails(cuIpcOpenMemHandle_v2(&none, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_VALUE);
}

int main(int argc, char **argv)
{
	*(void **)&errors = dlsym(RTLD_DEFAULT, "sim_errors");
	simulated = errors != NULL;
	if (argc == 3)
		return st_other_main(argv, obey);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_bytes_on_both_sides),
		cmocka_unit_test(memory_anew_is_shared_anew),
		cmocka_unit_test(what_cannot_be_shared),
		cmocka_unit_test(use_after_the_owner_s_free_is_a_mistake),
		cmocka_unit_test(memory_of_a_killed_process_stays_for_who_has_it_open),
	};
	return cmocka_run_group_tests(tests, simtest_setup, simtest_teardown);
}
