/*
 * reuse.c - on return from the call the source may be overwritten, freed or unmapped, and a
 * destination is complete.
 */
#include "order.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Around the limits that matter: small copies, the part read early, chunk edges, odd ends. */
static const size_t sizes[] = {4,           100,          4096,         65536,   65537,
							   512 * KIB,   1 * MIB,      1 * MIB + 3,  2 * MIB, 2 * MIB + 1,
							   4 * MIB - 1, 16 * MIB + 5, 64 * MIB + 13};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

enum entry { SYNC, ASYNC_NULL, ASYNC_A, ASYNC_NB, UNIFIED, UNIFIED_ASYNC, ENTRIES };

static CUresult h2d(enum entry e, CUdeviceptr dst, const void *src, size_t n)
{
	switch (e) {
	case SYNC: return cu.cuMemcpyHtoD_v2(dst, src, n);
	case ASYNC_NULL: return cu.cuMemcpyHtoDAsync_v2(dst, src, n, NULL);
	case ASYNC_A: return cu.cuMemcpyHtoDAsync_v2(dst, src, n, fx.a);
	case ASYNC_NB: return cu.cuMemcpyHtoDAsync_v2(dst, src, n, fx.nb);
	case UNIFIED: return cu.cuMemcpy(dst, (CUdeviceptr)(uintptr_t)src, n);
	default: return cu.cuMemcpyAsync(dst, (CUdeviceptr)(uintptr_t)src, n, fx.a);
	}
}

static CUresult d2h(enum entry e, void *dst, CUdeviceptr src, size_t n)
{
	switch (e) {
	case SYNC: return cu.cuMemcpyDtoH_v2(dst, src, n);
	case ASYNC_NULL: return cu.cuMemcpyDtoHAsync_v2(dst, src, n, NULL);
	case ASYNC_A: return cu.cuMemcpyDtoHAsync_v2(dst, src, n, fx.a);
	case ASYNC_NB: return cu.cuMemcpyDtoHAsync_v2(dst, src, n, fx.nb);
	case UNIFIED: return cu.cuMemcpy((CUdeviceptr)(uintptr_t)dst, src, n);
	default: return cu.cuMemcpyAsync((CUdeviceptr)(uintptr_t)dst, src, n, fx.a);
	}
}

static const char *overwritten_one(enum entry e, size_t n, size_t shift)
{
	uint32_t seed = (uint32_t)n * 31 + e;
	unsigned char *p = malloc(n + shift);
	if (!p)
		return case_skip("no memory");
	pattern_fill(p + shift, n, seed);
	CUresult r = h2d(e, fx.buf + shift, p + shift, n);
	memset(p, 0xA5, n + shift);
	const char *why = r ? case_fail("%s, %zu bytes, entry %d", cuda_dl_error(r), n, e)
						: device_is_pattern(fx.buf + shift, n, seed);
	free(p);
	return why;
}

static const char *source_overwritten(void)
{
	for (enum entry e = 0; e < ENTRIES; e++)
		for (size_t i = 0; i < SIZES; i++)
			STEP(overwritten_one(e, sizes[i], i % 3));
	return NULL;
}

/* Freed, and the block handed out again and rewritten at once. */
static const char *source_freed(void)
{
	for (size_t i = 0; i < SIZES; i++) {
		size_t n = sizes[i];
		unsigned char *p = malloc(n);
		if (!p)
			return case_skip("no memory");
		pattern_fill(p, n, (uint32_t)i + 77);
		CUresult r = h2d(i % 2 ? ASYNC_A : ASYNC_NULL, fx.buf, p, n);
		free(p);
		unsigned char *again = malloc(n);
		if (again)
			memset(again, 0x5A, n);
		free(again);
		TRY(r);
		STEP(device_is_pattern(fx.buf, n, (uint32_t)i + 77));
	}
	return NULL;
}

static const char *source_unmapped(void)
{
	for (size_t i = 0; i < SIZES; i++) {
		size_t n = sizes[i];
		unsigned char *p = pages_new(n);
		if (!p)
			return case_skip("no memory");
		pattern_fill(p, n, (uint32_t)i + 99);
		CUresult r = h2d(i % 2 ? ASYNC_NB : ASYNC_A, fx.buf, p, n);
		munmap(p, n);
		TRY(r);
		STEP(device_is_pattern(fx.buf, n, (uint32_t)i + 99));
	}
	return NULL;
}

static const char *arrives_one(enum entry e, size_t n, size_t shift)
{
	uint32_t seed = (uint32_t)n * 17 + e;
	STEP(device_write_pattern(fx.buf, n, seed));
	/* A guard byte on either side: exactly the destination is written. */
	unsigned char *p = malloc(n + shift + 2);
	if (!p)
		return case_skip("no memory");
	memset(p, 0xC3, n + shift + 2);
	CUresult r = d2h(e, p + shift + 1, fx.buf, n);
	int64_t off = pattern_check(p + shift + 1, n, seed);
	bool guards = p[shift] == 0xC3 && p[shift + 1 + n] == 0xC3;
	free(p);
	if (r)
		return case_fail("%s, %zu bytes, entry %d", cuda_dl_error(r), n, e);
	if (off >= 0)
		return case_fail("byte %lld of %zu has not arrived on return, entry %d", (long long)off, n, e);
	return guards ? NULL : case_fail("a byte beside the destination was written, %zu bytes, entry %d", n, e);
}

static const char *destination_complete(void)
{
	for (enum entry e = 0; e < ENTRIES; e++)
		for (size_t i = 0; i < SIZES; i++)
			STEP(arrives_one(e, sizes[i], i % 3));
	return NULL;
}

/* Pages that nobody has touched yet, as a fresh `.cpu()` tensor's. */
static const char *destination_untouched(void)
{
	const size_t n = 48 * MIB + 5;
	STEP(device_write_pattern(fx.buf, n, 5));
	unsigned char *p = pages_new(n);
	if (!p)
		return case_skip("no memory");
	CUresult r = d2h(ASYNC_NULL, p, fx.buf, n);
	int64_t off = pattern_check(p, n, 5);
	munmap(p, n);
	TRY(r);
	return off < 0 ? NULL : case_fail("byte %lld is wrong", (long long)off);
}

/* Read-only file pages, private and shared, with a mapping of another kind right behind. */
static const char *source_file(void)
{
	const size_t n = 24 * MIB;
	char path[] = "/tmp/order_check.XXXXXX";
	int fd = mkstemp(path);
	if (fd < 0)
		return case_skip("no temporary file");
	unlink(path);
	unsigned char *w = malloc(n);
	if (!w)
		return case_skip("no memory");
	pattern_fill(w, n, 3);
	for (size_t at = 0; at < n;) {
		ssize_t k = write(fd, w + at, n - at);
		if (k <= 0)
			break;
		at += (size_t)k;
	}
	free(w);
	for (int shared = 0; shared < 2; shared++) {
		void *p = mmap(NULL, n, PROT_READ, shared ? MAP_SHARED : MAP_PRIVATE, fd, 0);
		if (p == MAP_FAILED)
			break;
		CUresult r = h2d(ASYNC_A, fx.buf, p, n);
		munmap(p, n);
		TRY(r);
		STEP(device_is_pattern(fx.buf, n, 3));
		TRY(cu.cuMemsetD8_v2(fx.buf, 0, n));
	}
	close(fd);
	return NULL;
}

/* A /dev/shm mapping that is new for every copy and gone at once, as loader workers hand over. */
static const char *source_shared_memory(void)
{
	const size_t n = 37 * MIB + 1;
	char path[64];
	snprintf(path, sizeof(path), "/dev/shm/order_check.%d", (int)getpid());
	for (uint32_t round = 0; round < 4; round++) {
		int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0 || ftruncate(fd, (off_t)n))
			return case_skip("no /dev/shm");
		unlink(path);
		unsigned char *w = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (w == MAP_FAILED)
			return case_skip("no /dev/shm");
		pattern_fill(w, n, round);
		munmap(w, n);
		void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
		if (p == MAP_FAILED)
			return case_skip("no /dev/shm");
		CUresult r = h2d(ASYNC_NULL, fx.buf, p, n);
		memset(p, 0xEE, n);
		munmap(p, n);
		TRY(r);
		STEP(device_is_pattern(fx.buf, n, round));
	}
	return NULL;
}

/* Lengths that do not fit 32 bits. */
static const char *beyond_4_gib(void)
{
	const size_t n = 4 * GIB + 20 * MIB + 7;
	CUdeviceptr big = 0;
	size_t free_bytes = 0, total = 0;
	if (!fx.huge)
		return case_skip("only with --huge");
	TRY(cu.cuMemGetInfo_v2(&free_bytes, &total));
	if (free_bytes < 2 * n)
		return case_skip("too little device memory");
	unsigned char *p = malloc(n);
	if (!p)
		return case_skip("no memory");
	TRY(cu.cuMemAlloc_v2(&big, n));
	pattern_fill(p, n, 41);
	TRY(h2d(ASYNC_NULL, big, p, n));
	memset(p, 0xA5, n);
	const char *why = device_is_pattern(big, n, 41);
	if (!why) {
		CUresult r = d2h(ASYNC_A, p, big, n);
		int64_t off = pattern_check(p, n, 41);
		why = r         ? case_fail("D2H: %s", cuda_dl_error(r))
			  : off < 0 ? NULL
						: case_fail("D2H byte %lld", (long long)off);
	}
	free(p);
	TRY(cu.cuMemFree_v2(big));
	return why;
}

const struct gpu_case reuse_cases[] = {
	{"source_overwritten", source_overwritten},
	{"source_freed", source_freed},
	{"source_unmapped", source_unmapped},
	{"destination_complete", destination_complete},
	{"destination_untouched", destination_untouched},
	{"source_file", source_file},
	{"source_shared_memory", source_shared_memory},
	{"beyond_4_gib", beyond_4_gib},
	{NULL, NULL},
};
