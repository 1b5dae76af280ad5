/*
 * share.c - memory that other processes see: IPC, what the device has left, handing it over.
 */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- IPC ----------------------------------------------------------------------------------- */

struct ipc_message {
	CUipcMemHandle handle;
	size_t offset, words; /* of the part to look at; words = 0: the end */
	uint32_t expected, write;
};
struct ipc_answer {
	CUresult opened, freed, closed;
	uint32_t wrong; /* words that were not `expected` */
};

static CUresult ipc_look(const struct ipc_message *m, struct ipc_answer *a)
{
	static uint32_t host[MIB / 4];
	CUdeviceptr p;
	a->opened = cu.cuIpcOpenMemHandle_v2(&p, m->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	if (a->opened != CUDA_SUCCESS)
		return CUDA_SUCCESS;
	CUresult r = cu.cuMemcpyDtoH_v2(host, p + m->offset, 4 * m->words);
	for (size_t i = 0; i < m->words; i++)
		a->wrong += host[i] != m->expected;
	r = r ? r : launch_fill(NULL, p + m->offset, m->words, m->write);
	r = r ? r : cu.cuCtxSynchronize();
	a->freed = cu.cuMemFree_v2(p); /* not this process's to free */
	a->closed = cu.cuIpcCloseMemHandle(p);
	return r;
}

int child_ipc(void)
{
	struct ipc_message m;
	CUresult r = cu.cuDevicePrimaryCtxRetain(&fx.ctx, 0);
	r = r ? r : cu.cuCtxSetCurrent(fx.ctx);
	if (r != CUDA_SUCCESS || kernels_load(&fx.kernels))
		return 1;
	kernels_current = &fx.kernels;
	while (pipe_read(0, &m, sizeof(m), 60000) && m.words) {
		struct ipc_answer a = {.wrong = 0};
		if (ipc_look(&m, &a) != CUDA_SUCCESS || !pipe_write(1, &a, sizeof(a)))
			return 1;
	}
	return 0;
}

/* A part of a block of `bytes` that an earlier block was freed for, seen and rewritten over there. */
static const char *ipc_part(struct child *c, size_t bytes, size_t offset, size_t part, CUipcMemHandle *last)
{
	struct ipc_message m = {.offset = offset, .words = part / 4, .expected = 61, .write = 62};
	struct ipc_answer a;
	CUdeviceptr p, neighbour;
	char key[64];
	TRY(cu.cuMemAlloc_v2(&p, bytes));
	TRY(cu.cuMemFree_v2(p));
	TRY(cu.cuMemAlloc_v2(&p, bytes));
	TRY(cu.cuMemAlloc_v2(&neighbour, bytes));
	TRY(launch_fill(NULL, neighbour, bytes / 4, 60));
	TRY(launch_fill(NULL, p, bytes / 4, 60));
	TRY(launch_fill(NULL, p + offset, part / 4, 61));
	TRY(cu.cuCtxSynchronize());
	CUresult got = cu.cuIpcGetMemHandle(&m.handle, p);
	snprintf(key, sizeof(key), "get_%zuK", bytes / KIB);
	case_note_status(key, got);
	TRY(got);
	if (!memcmp(&m.handle, last, sizeof(*last)))
		return case_fail("a new block of %zu bytes has the handle of an earlier one", bytes);
	*last = m.handle;
	if (!child_write(c, &m, sizeof(m)) || !child_read(c, &a, sizeof(a), 20000))
		return case_fail("the other process is gone");
	case_note_status("open", a.opened);
	case_note_status("free_of_imported", a.freed);
	case_note_status("close", a.closed);
	TRY(a.opened);
	if (a.wrong)
		return case_fail("%zu bytes at +%zu: the other process sees %u wrong words", bytes, offset, a.wrong);
	STEP(device_is(p + offset, part / 4, 62));
	STEP(device_is(neighbour, bytes / 4, 60));
	TRY(cu.cuMemFree_v2(p));
	TRY(cu.cuMemFree_v2(neighbour));
	return NULL;
}

static const char *ipc_parts(struct child *c)
{
	CUipcMemHandle last;
	memset(&last, 0, sizeof(last));
	for (int round = 0; round < 3; round++) {
		STEP(ipc_part(c, 4 * MIB, 0, MIB, &last));
		STEP(ipc_part(c, 4 * MIB, 3 * MIB, MIB, &last));
		STEP(ipc_part(c, 64 * KIB, 0, 4 * KIB, &last));
		STEP(ipc_part(c, 64 * KIB, 60 * KIB, 4 * KIB, &last));
		STEP(ipc_part(c, 20 * MIB + 512, 20 * MIB, 512, &last));
	}
	return NULL;
}

static const char *ipc_offsets(void)
{
	NEED(cuIpcGetMemHandle);
	NEED(cuIpcOpenMemHandle_v2);
	struct ipc_message end = {.words = 0};
	struct child c;
	if (!child_start(&c, "ipc", "", false))
		return case_skip("no child");
	const char *why = ipc_parts(&c);
	child_write(&c, &end, sizeof(end));
	int status = child_end(&c);
	if (!why && status)
		why = case_fail("the other process ends with %d", status);
	return why;
}

/* ---- what is left -------------------------------------------------------------------------- */

int child_mem_info(void)
{
	size_t sizes[2];
	CUresult r = cu.cuDevicePrimaryCtxRetain(&fx.ctx, 0);
	r = r ? r : cu.cuCtxSetCurrent(fx.ctx);
	r = r ? r : cu.cuMemGetInfo_v2(&sizes[0], &sizes[1]);
	return r == CUDA_SUCCESS && pipe_write(1, sizes, sizeof(sizes)) ? 0 : 1;
}

/* Free bytes as a process without libturbo sees them. */
static const char *free_seen_outside(size_t *bytes)
{
	struct child c;
	size_t sizes[2];
	if (!child_start(&c, "mem_info", "", true))
		return case_skip("no child");
	bool told = child_read(&c, sizes, sizeof(sizes), 30000);
	if (child_end(&c) || !told)
		return case_fail("the other process did not say what is free");
	*bytes = sizes[0];
	return NULL;
}

static const char *free_now(size_t *bytes)
{
	size_t total;
	TRY(cu.cuMemGetInfo_v2(bytes, &total));
	if (*bytes > total)
		return case_fail("%zu bytes free of %zu", *bytes, total);
	return NULL;
}

/* Blocks of every kind, freed: they count as free, and soon are. */
static const char *mem_info(void)
{
	size_t block = fx.total / 8 / MIB * MIB, before, during, after, idle, outside[2];
	CUdeviceptr p, small[8];
	STEP(free_seen_outside(&outside[0]));
	STEP(free_now(&before));
	TRY(cu.cuMemAlloc_v2(&p, block));
	for (int i = 0; i < 8; i++)
		TRY(cu.cuMemAlloc_v2(&small[i], 2 * MIB));
	STEP(free_now(&during));
	if (before - during < block || before - during > block + 64 * MIB)
		return case_fail("%zu bytes allocated, %zu fewer are free", block + 16 * MIB, before - during);
	TRY(cu.cuMemFree_v2(p));
	for (int i = 0; i < 8; i++)
		TRY(cu.cuMemFree_v2(small[i]));
	TRY(cu.cuCtxSynchronize());
	STEP(free_now(&after));
	if (after + 4 * MIB < before)
		return case_fail("all is freed, and %zu bytes are missing", before - after);
	sleep_ms(2500);
	STEP(free_now(&idle));
	if (idle + 4 * MIB < before)
		return case_fail("2.5 s later %zu bytes are missing", before - idle);
	sleep_ms(300);
	STEP(free_seen_outside(&outside[1]));
	case_info("missing_outside_mib", ((double)outside[0] - (double)outside[1]) / MIB);
	if (outside[1] + 32 * MIB < outside[0])
		return case_fail("another process misses %zu bytes", outside[0] - outside[1]);
	return NULL;
}

/* ---- handing the memory to and fro --------------------------------------------------------- */

#define CHUNKS 64 /* of the device; 58 are taken: 90 % */
#define TAKEN 58

static CUresult take_and_give(bool async)
{
	size_t bytes = fx.total / CHUNKS / (2 * MIB) * (2 * MIB);
	CUdeviceptr p[TAKEN] = {0};
	CUresult r = CUDA_SUCCESS;
	int n = 0;
	for (; n < TAKEN && r == CUDA_SUCCESS; n++) {
		r = async ? cu.cuMemAllocAsync(&p[n], bytes, NULL) : cu.cuMemAlloc_v2(&p[n], bytes);
		if (r == CUDA_SUCCESS)
			r = launch_fill(NULL, p[n], 1024, (uint32_t)n);
	}
	for (int i = 0; i < n && p[i]; i++) {
		CUresult f = async ? cu.cuMemFreeAsync(p[i], NULL) : cu.cuMemFree_v2(p[i]);
		r = r ? r : f;
	}
	CUresult s = cu.cuCtxSynchronize();
	if (async && s == CUDA_SUCCESS) { /* as torch.cuda.empty_cache() does */
		CUmemoryPool pool;
		s = cu.cuDeviceGetDefaultMemPool(&pool, fx.dev);
		s = s ? s : cu.cuMemPoolTrimTo(pool, 0);
	}
	return r ? r : s;
}

int child_handover(const char *kind)
{
	char turn;
	CUresult r = cu.cuDeviceGet(&fx.dev, 0);
	r = r ? r : cu.cuDevicePrimaryCtxRetain(&fx.ctx, fx.dev);
	r = r ? r : cu.cuCtxSetCurrent(fx.ctx);
	r = r ? r : cu.cuDeviceTotalMem_v2(&fx.total, fx.dev);
	if (r != CUDA_SUCCESS || kernels_load(&fx.kernels) || !pipe_write(1, &r, sizeof(r)))
		return 1;
	kernels_current = &fx.kernels;
	while (pipe_read(0, &turn, 1, 60000) && turn == 't') {
		r = take_and_give(!strcmp(kind, "async"));
		if (!pipe_write(1, &r, sizeof(r)))
			return 1;
	}
	return 0;
}

static const char *hand_over(struct child *c, bool async, int turns, unsigned pause_ms)
{
	CUresult theirs;
	if (!child_read(c, &theirs, sizeof(theirs), 30000))
		return case_fail("the other process does not start");
	for (int i = 0; i < turns; i++) {
		CUresult ours = take_and_give(async);
		if (ours != CUDA_SUCCESS)
			return case_fail("turn %d: this process gets %s", i, cuda_dl_error(ours));
		sleep_ms(pause_ms);
		if (!child_write(c, "t", 1) || !child_read(c, &theirs, sizeof(theirs), 30000))
			return case_fail("turn %d: the other process is gone", i);
		if (theirs != CUDA_SUCCESS)
			return case_fail("turn %d: the other process gets %s", i, cuda_dl_error(theirs));
		sleep_ms(pause_ms);
	}
	return NULL;
}

static const char *handover_of(bool async)
{
	/* `deferred` keeps a quarter of the device until it has been idle for two seconds. */
	bool keeps = fx.mode == MODE_DEFERRED && !async;
	struct child c;
	if (!child_start(&c, "handover", async ? "async" : "", false))
		return case_skip("no child");
	const char *why = hand_over(&c, async, keeps ? 2 : async ? 5 : 20, keeps ? 2600 : 0);
	child_write(&c, "e", 1);
	int status = child_end(&c);
	if (!why && status)
		why = case_fail("the other process ends with %d", status);
	return why;
}

static const char *handover(void)
{
	return handover_of(false);
}

static const char *handover_pool(void)
{
	return handover_of(true);
}

const struct gpu_case share_cases[] = {
	{"ipc_offsets", ipc_offsets},     {"mem_info", mem_info}, {"handover", handover},
	{"handover_pool", handover_pool}, {NULL, NULL},
};
