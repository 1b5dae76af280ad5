/*
 * pass_bench.c - what a copy that is passed through costs more, within one process.
 *
 * Two processes differ by more than a microsecond for the same copies, so this one holds both
 * functions: the one that dlsym gives it (libturbo's, when that is preloaded) and the driver's
 * own, found in the driver's symbol table. Blocks of copies alternate between them. Output, a line
 * a cell; the medians are of the blocks, nanoseconds a copy with its synchronisation:
 *   pass op=h2d kind=heap api=async bytes=4 driver_ns=.. turbo_ns=.. same=0
 * same=1: both are one function (not preloaded). Exit: 0, 1 a driver error, 77 no GPU.
 */
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/common/cuda_dl.h"
#include "tests/gpu/common/util.h"

#define BLOCKS 101 /* of each kind */
#define LARGEST (16 * MIB)

/* Copies; a block of the smallest takes 0.3 ms, one of the largest 3. */
static int block(size_t bytes)
{
	return bytes <= 512 * KIB ? 50 : 10;
}

typedef CUresult to_device(CUdeviceptr, const void *, size_t);
typedef CUresult to_device_async(CUdeviceptr, const void *, size_t, CUstream);
typedef CUresult to_host(void *, CUdeviceptr, size_t);
typedef CUresult to_host_async(void *, CUdeviceptr, size_t, CUstream);

struct functions {
	to_device *in;
	to_device_async *in_async;
	to_host *out;
	to_host_async *out_async;
};

struct search {
	const char *name;
	void *found;
};

/* The object's symbols end where its strings begin: so all linkers lay them out. */
static void *find(const ElfW(Sym) *symbols, const char *strings, ElfW(Addr) base, const char *name)
{
	for (const ElfW(Sym) *s = symbols; (const char *)s < strings; s++)
		if (s->st_shndx != SHN_UNDEF && s->st_value && strcmp(strings + s->st_name, name) == 0)
			return (void *)(base + s->st_value);
	return NULL;
}

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *search = arg;
	const char *slash = strrchr(info->dlpi_name, '/'), *strings = NULL;
	const ElfW(Sym) *symbols = NULL;
	(void)size;
	if (strncmp(slash ? slash + 1 : info->dlpi_name, "libcuda.so", strlen("libcuda.so")) != 0)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
			continue;
		const ElfW(Dyn) *d = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
		for (; d->d_tag != DT_NULL; d++) {
			if (d->d_tag == DT_SYMTAB)
				symbols = (const ElfW(Sym) *)d->d_un.d_ptr;
			else if (d->d_tag == DT_STRTAB)
				strings = (const char *)d->d_un.d_ptr;
		}
	}
	if (symbols && strings)
		search->found = find(symbols, strings, info->dlpi_addr, search->name);
	return search->found != NULL;
}

static void *drivers_own(const char *name)
{
	struct search search = {name, NULL};
	dl_iterate_phdr(look, &search);
	return search.found;
}

static bool in_block(const struct functions *f, bool in, bool async, CUdeviceptr d, void *h, size_t n)
{
	for (int i = block(n); i > 0; i--) {
		CUresult r = !async ? (in ? f->in(d, h, n) : f->out(h, d, n))
							: (in ? f->in_async(d, h, n, NULL) : f->out_async(h, d, n, NULL));
		if (r == CUDA_SUCCESS && async)
			r = cu.cuStreamSynchronize(NULL);
		if (r != CUDA_SUCCESS) {
			printf("error %s\n", cuda_dl_error(r));
			return false;
		}
	}
	return true;
}

static bool cell(const struct functions f[2], bool in, bool async, const char *kind, CUdeviceptr d, void *h,
				 size_t n)
{
	uint64_t ns[2][BLOCKS];
	for (int i = -2; i < BLOCKS; i++) {
		for (int k = 0; k < 2; k++) {
			int who = (i + k) & 1;
			uint64_t since = now_ns();
			if (!in_block(&f[who], in, async, d, h, n))
				return false;
			if (i >= 0) /* the first two warm up */
				ns[who][i] = (now_ns() - since) / (unsigned)block(n);
		}
	}
	printf("pass op=%s kind=%s api=%s bytes=%zu driver_ns=%llu turbo_ns=%llu same=%d\n", in ? "h2d" : "d2h",
		   kind, async ? "async" : "sync", n, (unsigned long long)median_u64(ns[0], BLOCKS),
		   (unsigned long long)median_u64(ns[1], BLOCKS), f[0].in == f[1].in);
	return true;
}

int main(void)
{
	static const size_t sizes[] = {4,         64,        KIB, 4 * KIB, 16 * KIB, 64 * KIB,
								   256 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB,  LARGEST};
	const char *why = cuda_dl_open();
	if (why) {
		printf("skipped: %s\n", why);
		return 77;
	}
	struct functions f[2] = {
		{drivers_own("cuMemcpyHtoD_v2"), drivers_own("cuMemcpyHtoDAsync_v2"), drivers_own("cuMemcpyDtoH_v2"),
		 drivers_own("cuMemcpyDtoHAsync_v2")},
		{cu.cuMemcpyHtoD_v2, cu.cuMemcpyHtoDAsync_v2, cu.cuMemcpyDtoH_v2, cu.cuMemcpyDtoHAsync_v2}};
	CUcontext ctx;
	CUdeviceptr d;
	void *pinned, *heap = malloc(LARGEST);
	if (!f[0].in || !f[0].in_async || !f[0].out || !f[0].out_async || !heap ||
		cu.cuDevicePrimaryCtxRetain(&ctx, 0) || cu.cuCtxSetCurrent(ctx) || cu.cuMemAlloc_v2(&d, LARGEST) ||
		cu.cuMemHostAlloc(&pinned, LARGEST, 0)) {
		printf("error setting up\n");
		return 1;
	}
	memset(heap, 1, LARGEST);
	memset(pinned, 1, LARGEST);
	bool ok = true;
	for (unsigned i = 0; ok && i < 8 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t n = sizes[i / 8];
		bool is_pinned = i & 4;
		if (is_pinned || n <= 512 * KIB) /* larger ones of the heap are staged */
			ok = cell(f, !(i & 1), !(i & 2), is_pinned ? "pinned" : "heap", d, is_pinned ? pinned : heap, n);
	}
	return ok ? 0 : 1;
}
