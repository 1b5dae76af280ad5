/*
 * copy_results.c - prints what every copy entry point answers for every kind of memory, good and
 * bad, and a checksum of what it did. test_copy_results.sh compares a bare run with a preloaded
 * one. Arguments: none.
 */
#include "common/copy_fixture.h"
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>

#define ROOM (2560 * KIB)

enum kind {
	PAGEABLE,
	PINNED,
	REGISTERED,
	FIRST_HALF_REGISTERED,
	SECOND_HALF_REGISTERED,
	MANAGED,
	DEVICE,
	DEVICE_ASYNC, /* from cuMemAllocAsync */
	DEVICE_END,   /* the last 4 KiB of an allocation: any larger copy runs out of it */
	DEVICE_FREED,
	OTHER_DEVICE,
	NOWHERE, /* a device pointer of 0 */
	KINDS
};
static const char *const names[KINDS] = {
	"pageable", "pinned",       "registered", "first-half-registered", "second-half-registered", "managed",
	"device",   "device-async", "device-end", "device-freed",          "other-device",           "nowhere",
};

/* Two blocks of each kind: [0] a source, [1] a destination. */
static CUdeviceptr block[KINDS][2];
static CUcontext second;
static CUstream stream, others, gone;

static void host_kinds(int i)
{
	void *p;
	block[PAGEABLE][i] = (CUdeviceptr)pages_new(ROOM, 0);
	OK(cu.cuMemHostAlloc(&p, ROOM, 0));
	block[PINNED][i] = (CUdeviceptr)p;
	const enum kind registered[] = {REGISTERED, FIRST_HALF_REGISTERED, SECOND_HALF_REGISTERED};
	for (int k = 0; k < 3; k++) {
		unsigned char *h = pages_new(ROOM, 0);
		block[registered[k]][i] = (CUdeviceptr)h;
		OK(cu.cuMemHostRegister_v2(h + (k == 2 ? MIB : 0), k == 0 ? ROOM : MIB, 0));
	}
}

static void device_kinds(int i)
{
	OK(cu.cuMemAllocManaged(&block[MANAGED][i], ROOM, CU_MEM_ATTACH_GLOBAL));
	block[DEVICE][i] = device_new(ROOM);
	OK(cu.cuMemAllocAsync(&block[DEVICE_ASYNC][i], ROOM, stream));
	block[DEVICE_END][i] = device_new(2 * MIB) + 2 * MIB - 4096;
	block[DEVICE_FREED][i] = device_new(ROOM);
	block[NOWHERE][i] = 0;
}

static void set_up(void)
{
	OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cu.cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 2; i++) {
		host_kinds(i);
		device_kinds(i);
	}
	if (fx.devices > 1) {
		OK(cu.cuDevicePrimaryCtxRetain(&second, 1));
		OK(cu.cuCtxSetCurrent(second));
		OK(cu.cuStreamCreate(&others, CU_STREAM_NON_BLOCKING));
		for (int i = 0; i < 2; i++)
			block[OTHER_DEVICE][i] = device_new(ROOM);
		OK(cu.cuCtxSetCurrent(fx.ctx));
	}
	OK(cu.cuCtxSynchronize());
	/* Last, so that nothing else gets their addresses. */
	for (int i = 0; i < 2; i++)
		OK(cu.cuMemFree_v2(block[DEVICE_FREED][i]));
	OK(cu.cuStreamDestroy_v2(gone));
}

static bool host_kind(enum kind k)
{
	return k <= MANAGED;
}

/* Bytes that may be looked at. */
static size_t room_of(enum kind k)
{
	return k == NOWHERE || k == DEVICE_FREED ? 0 : k == DEVICE_END ? 4096 : ROOM;
}

static unsigned char *pinned_copy; /* ROOM bytes */

static void put(enum kind k, CUdeviceptr p, uint32_t seed)
{
	size_t n = room_of(k);
	if (host_kind(k)) {
		pattern_fill((void *)p, n, seed);
	} else if (n) {
		pattern_fill(pinned_copy, n, seed);
		OK(cu.cuCtxSetCurrent(k == OTHER_DEVICE ? second : fx.ctx));
		OK(cu.cuMemcpyHtoD_v2(p, pinned_copy, n));
		OK(cu.cuCtxSynchronize());
		OK(cu.cuCtxSetCurrent(fx.ctx));
	}
}

static uint64_t checksum(enum kind k, CUdeviceptr p)
{
	size_t n = room_of(k);
	const unsigned char *bytes = (const unsigned char *)p;
	if (!host_kind(k) && n) {
		OK(cu.cuCtxSetCurrent(k == OTHER_DEVICE ? second : fx.ctx));
		OK(cu.cuMemcpyDtoH_v2(pinned_copy, p, n));
		OK(cu.cuCtxSetCurrent(fx.ctx));
		bytes = pinned_copy;
	}
	uint64_t sum = 14695981039346656037u;
	for (size_t i = 0; i + 8 <= n; i += 8) {
		uint64_t word;
		memcpy(&word, bytes + i, 8);
		sum = (sum ^ word) * 1099511628211u;
	}
	return sum;
}

/* ---- the calls ---- */

enum call { H2D, D2H, ANY, H2D_ASYNC, D2H_ASYNC, ANY_ASYNC, CALLS };
static const char *const call_names[CALLS] = {"HtoD", "DtoH", "any", "HtoDAsync", "DtoHAsync", "anyAsync"};

static CUresult make_call(enum call c, bool pt, CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s)
{
	void *to = (void *)dst;
	const void *from = (const void *)src;
	switch (c) {
	case H2D: return pt ? cu.cuMemcpyHtoD_v2_ptds(dst, from, n) : cu.cuMemcpyHtoD_v2(dst, from, n);
	case D2H: return pt ? cu.cuMemcpyDtoH_v2_ptds(to, src, n) : cu.cuMemcpyDtoH_v2(to, src, n);
	case ANY: return pt ? cu.cuMemcpy_ptds(dst, src, n) : cu.cuMemcpy(dst, src, n);
	case H2D_ASYNC:
		return pt ? cu.cuMemcpyHtoDAsync_v2_ptsz(dst, from, n, s) : cu.cuMemcpyHtoDAsync_v2(dst, from, n, s);
	case D2H_ASYNC:
		return pt ? cu.cuMemcpyDtoHAsync_v2_ptsz(to, src, n, s) : cu.cuMemcpyDtoHAsync_v2(to, src, n, s);
	default: return pt ? cu.cuMemcpyAsync_ptsz(dst, src, n, s) : cu.cuMemcpyAsync(dst, src, n, s);
	}
}

static void try_one(enum call c, bool pt, enum kind to, enum kind from, size_t n)
{
	static uint32_t seed;
	CUdeviceptr dst = block[to][1], src = block[from][0];
	put(from, src, ++seed);
	put(to, dst, ++seed);
	CUresult r = make_call(c, pt, dst, src, n, stream);
	CUresult after = cu.cuCtxSynchronize();
	printf("%s%s %s <- %s, %zu bytes: %s, %s, %016llx\n", call_names[c], pt ? " per thread" : "", names[to],
		   names[from], n, cuda_dl_error(r), cuda_dl_error(after), (unsigned long long)checksum(to, dst));
}

static void all_kinds(void)
{
	static const size_t sizes[] = {0, 64, 2 * MIB + 4100};
	for (enum call c = 0; c < CALLS; c++)
		for (enum kind to = 0; to < KINDS; to++)
			for (enum kind from = 0; from < KINDS; from++) {
				if (fx.devices < 2 && (to == OTHER_DEVICE || from == OTHER_DEVICE))
					continue;
				for (size_t k = 0; k < 3; k++)
					try_one(c, (to + from) % 2, to, from, sizes[k]);
			}
}

/* Streams and contexts that are not right, and sizes that no block has. */
static void other_mistakes(void)
{
	struct {
		const char *what;
		CUstream s;
	} streams[] = {{"of another device", others}, {"destroyed", sim.calls ? gone : stream}};
	CUdeviceptr d = block[DEVICE][1], h = block[PAGEABLE][0];
	for (unsigned i = 0; i < 2; i++)
		for (int pt = 0; pt < 2; pt++) {
			printf("stream %s: HtoD %s", streams[i].what,
				   cuda_dl_error(make_call(H2D_ASYNC, pt, d, h, 2 * MIB + 64 * KIB, streams[i].s)));
			printf(", DtoH %s\n",
				   cuda_dl_error(make_call(D2H_ASYNC, pt, h, d, 2 * MIB + 64 * KIB, streams[i].s)));
			cu.cuStreamSynchronize(others);
		}
	static const size_t huge[] = {ROOM + 1, (size_t)1 << 40, (size_t)-1 >> 1, (size_t)-1};
	for (unsigned i = 0; i < 4; i++)
		for (enum call c = 0; c < CALLS; c++)
			printf(
				"%s of %zu bytes: %s\n", call_names[c], huge[i],
				cuda_dl_error(make_call(c, false, c % 3 == 1 ? h : d, c % 3 == 1 ? d : h, huge[i], stream)));
	OK(cu.cuCtxSynchronize());
}

static void *without_context(void *arg)
{
	(void)arg;
	CUdeviceptr d = block[DEVICE][1], h = block[PAGEABLE][0];
	for (enum call c = 0; c < CALLS; c++)
		printf("%s without a context: %s\n", call_names[c],
			   cuda_dl_error(
				   make_call(c, c % 2, c % 3 == 1 ? h : d, c % 3 == 1 ? d : h, 2 * MIB + 64 * KIB, stream)));
	return NULL;
}

int main(void)
{
	pthread_t thread;
	copy_open();
	set_up();
	OK(cu.cuMemHostAlloc((void **)&pinned_copy, ROOM, CU_MEMHOSTALLOC_PORTABLE));
	all_kinds();
	other_mistakes();
	if (pthread_create(&thread, NULL, without_context, NULL))
		return 1;
	pthread_join(thread, NULL);
	/* The last line is not compared: whether the ring was used at all. */
	fflush(stdout);
	fprintf(stderr, "staged %llu\n", (unsigned long long)copy_staged());
	return 0;
}
