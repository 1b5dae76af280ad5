/*
 * copy_bench_blocks.c - host blocks of every kind, timed copies, and their check.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "copy_bench.h"

#define CHECK_BYTES (32 * MIB)

static CUdevice device;
static CUstream stream;
static CUdeviceptr device_block;
static size_t device_bytes;
static unsigned char *heap_block, *pinned_block, *check_block;
/* The /dev/shm file of the current cell; -1: none. Its pages are written once, by another
 * mapping, as a loader's worker process does. */
static int shm_fd = -1;
static size_t shm_bytes;

static bool ok(CUresult r, const char *what)
{
	if (r != CUDA_SUCCESS)
		fprintf(stderr, "copy_bench: %s: %s\n", what, cuda_dl_error(r));
	return r == CUDA_SUCCESS;
}

static void *sys_fail(const char *what)
{
	fprintf(stderr, "copy_bench: %s: %m\n", what);
	return NULL;
}

/* A quarter of a second of copies: an idle device and its link run slower at first. */
static bool warm_up(void)
{
	size_t n = CHECK_BYTES < device_bytes ? CHECK_BYTES : device_bytes;
	for (uint64_t started = now_ns(); now_ns() - started < 250000000u;)
		if (!ok(cu.cuMemcpyHtoD_v2(device_block, check_block, n), "warming up") ||
			!ok(cu.cuMemcpyDtoH_v2(check_block, device_block, n), "warming up"))
			return false;
	return true;
}

bool bench_open(size_t largest, size_t largest_pinned)
{
	char name[128] = "";
	int version = 0;
	CUcontext ctx;
	device_bytes = largest;
	if (!ok(cu.cuDeviceGet(&device, 0), "cuDeviceGet") ||
		!ok(cu.cuDevicePrimaryCtxRetain(&ctx, device), "cuDevicePrimaryCtxRetain") ||
		!ok(cu.cuCtxSetCurrent(ctx), "cuCtxSetCurrent") ||
		!ok(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate") ||
		!ok(cu.cuMemAlloc_v2(&device_block, largest), "cuMemAlloc") ||
		!ok(cu.cuMemHostAlloc((void **)&check_block, CHECK_BYTES, 0), "cuMemHostAlloc"))
		return false;
	if (largest_pinned && !ok(cu.cuMemHostAlloc((void **)&pinned_block, largest_pinned, 0), "cuMemHostAlloc"))
		return false;
	/* 64: the alignment that PyTorch asks of the heap. */
	if (posix_memalign((void **)&heap_block, 64, largest))
		return sys_fail("posix_memalign") != NULL;
	pattern_fill(heap_block, largest, 1);
	if (pinned_block)
		pattern_fill(pinned_block, largest_pinned, 1);
	cu.cuDeviceGetName(name, sizeof(name), device);
	cu.cuDriverGetVersion(&version);
	for (char *p = name; *p; p++)
		if (*p == ' ')
			*p = '_';
	printf("machine gpu=%s driver_api=%d\n", name, version);
	return warm_up();
}

void bench_close(void)
{
	if (shm_fd >= 0)
		close(shm_fd);
	cu.cuMemFree_v2(device_block);
	if (pinned_block)
		cu.cuMemFreeHost(pinned_block);
	cu.cuMemFreeHost(check_block);
	cu.cuStreamDestroy_v2(stream);
	cu.cuDevicePrimaryCtxRelease_v2(device);
	free(heap_block);
}

bool bench_block_is_per_copy(const struct cell *c)
{
	return c->kind == KIND_SHM || c->kind == KIND_FRESH;
}

static void *map(size_t bytes, int flags, int fd)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	return p == MAP_FAILED ? sys_fail("mmap") : p;
}

static bool shm_prepare(size_t bytes, uint32_t seed)
{
	char name[64];
	if (shm_fd >= 0)
		close(shm_fd);
	snprintf(name, sizeof(name), "/dev/shm/copy_bench.%d", (int)getpid());
	shm_fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (shm_fd < 0)
		return sys_fail(name) != NULL;
	unlink(name);
	if (ftruncate(shm_fd, (off_t)bytes))
		return sys_fail("ftruncate") != NULL;
	void *p = map(bytes, MAP_SHARED, shm_fd);
	if (!p)
		return false;
	pattern_fill(p, bytes, seed);
	munmap(p, bytes);
	shm_bytes = bytes;
	return true;
}

void *bench_block_get(const struct cell *c, uint32_t seed)
{
	if (c->kind == KIND_PINNED)
		return pinned_block;
	if (c->kind == KIND_HEAP)
		return heap_block;
	if (c->kind == KIND_SHM) {
		if (shm_bytes != c->bytes && !shm_prepare(c->bytes, seed))
			return NULL;
		return map(c->bytes, MAP_SHARED, shm_fd);
	}
	void *p = map(c->bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (p && c->op == OP_H2D)
		pattern_fill(p, c->bytes, seed);
	return p;
}

void bench_block_put(const struct cell *c, void *host)
{
	if (bench_block_is_per_copy(c))
		munmap(host, c->bytes);
}

static CUresult copy_call(const struct cell *c, void *host, CUstream s)
{
	if (c->api == API_SYNC)
		return c->op == OP_H2D ? cu.cuMemcpyHtoD_v2(device_block, host, c->bytes)
							   : cu.cuMemcpyDtoH_v2(host, device_block, c->bytes);
	return c->op == OP_H2D ? cu.cuMemcpyHtoDAsync_v2(device_block, host, c->bytes, s)
						   : cu.cuMemcpyDtoHAsync_v2(host, device_block, c->bytes, s);
}

bool bench_copy(const struct cell *c, void *host, bool with_cpu, struct copy_times *t)
{
	CUstream s = c->api == API_STREAM ? stream : NULL;
	uint64_t c0 = with_cpu ? cpu_ns() : 0;
	uint64_t t0 = now_ns();
	CUresult r = copy_call(c, host, s);
	uint64_t t1 = now_ns();
	if (r == CUDA_SUCCESS && c->api != API_SYNC)
		r = cu.cuStreamSynchronize(s);
	uint64_t t2 = now_ns();
	*t = (struct copy_times){t2 - t0, t1 - t0, with_cpu ? cpu_ns() - c0 : 0};
	return ok(r, "copy");
}

/* Compares the device block with the pattern, by the driver's own pinned copies. */
static bool check_device(size_t bytes, uint32_t seed, int64_t *wrong)
{
	for (size_t at = 0; at < bytes && *wrong < 0; at += CHECK_BYTES) {
		size_t n = bytes - at < CHECK_BYTES ? bytes - at : CHECK_BYTES;
		if (!ok(cu.cuMemcpyDtoH_v2(check_block, device_block + at, n), "reading back"))
			return false;
		int64_t off = pattern_check_from(check_block, at / 4, n, seed);
		if (off >= 0)
			*wrong = (int64_t)at + off;
	}
	return true;
}

static bool fill_device(size_t bytes, uint32_t seed)
{
	for (size_t at = 0; at < bytes; at += CHECK_BYTES) {
		size_t n = bytes - at < CHECK_BYTES ? bytes - at : CHECK_BYTES;
		pattern_fill_from(check_block, at / 4, n, seed);
		if (!ok(cu.cuMemcpyHtoD_v2(device_block + at, check_block, n), "writing the device"))
			return false;
	}
	return true;
}

static bool synchronize(const struct cell *c)
{
	if (c->api == API_SYNC)
		return true;
	return ok(cu.cuStreamSynchronize(c->api == API_STREAM ? stream : NULL), "synchronising");
}

static bool verify_h2d(const struct cell *c, void *host, uint32_t seed, int64_t *wrong)
{
	if (!fill_device(c->bytes < CHECK_BYTES ? c->bytes : CHECK_BYTES, ~seed))
		return false;
	pattern_fill(host, c->bytes, seed);
	if (!ok(copy_call(c, host, c->api == API_STREAM ? stream : NULL), "copy"))
		return false;
	if (c->kind != KIND_PINNED)
		memset(host, 0xA5, c->bytes);
	return synchronize(c) && check_device(c->bytes, seed, wrong);
}

static bool verify_d2h(const struct cell *c, void *host, uint32_t seed, int64_t *wrong)
{
	if (!fill_device(c->bytes, seed))
		return false;
	if (!bench_block_is_per_copy(c))
		memset(host, 0xA5, c->bytes);
	if (!ok(copy_call(c, host, c->api == API_STREAM ? stream : NULL), "copy"))
		return false;
	if (c->kind == KIND_PINNED && !synchronize(c))
		return false;
	*wrong = pattern_check(host, c->bytes, seed);
	return synchronize(c);
}

bool bench_verify(const struct cell *c, int64_t *wrong)
{
	uint32_t seed = (uint32_t)(c->bytes << 5) ^ (c->op | c->kind << 1 | c->api << 3);
	void *host = bench_block_get(c, seed);
	if (!host)
		return false;
	bool good = c->op == OP_H2D ? verify_h2d(c, host, seed, wrong) : verify_d2h(c, host, seed, wrong);
	bench_block_put(c, host);
	return good;
}
