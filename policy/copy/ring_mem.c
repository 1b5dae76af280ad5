#define _GNU_SOURCE
#include "ring_mem.h"

#include <linux/mempolicy.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HUGE_BYTES (2u << 20)

/* A huge-page-aligned anonymous mapping: registering costs less and 16 slots are
 * 16 TLB entries. */
static unsigned char *map_aligned(size_t bytes)
{
	unsigned char *p =
		mmap(NULL, bytes + HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	size_t head = -(size_t)p & (HUGE_BYTES - 1);
	if (head)
		munmap(p, head);
	if (HUGE_BYTES - head)
		munmap(p + head + bytes, HUGE_BYTES - head);
	return p + head;
}

unsigned char *ring_mem_map(size_t bytes, int node)
{
	unsigned char *p = map_aligned(bytes);
	if (!p)
		return NULL;
	/* A child that inherited pinned pages by copy-on-write would take them away
	 * from the device's view. */
	if (madvise(p, bytes, MADV_DONTFORK) != 0) {
		munmap(p, bytes);
		return NULL;
	}
	/* Preferences only: the ring works without. */
	madvise(p, bytes, MADV_HUGEPAGE);
	if (node >= 0 && node < 1024) {
		unsigned long mask[1024 / (8 * sizeof(unsigned long))] = {0};
		mask[(unsigned)node / (8 * sizeof(*mask))] = 1ul << ((unsigned)node % (8 * sizeof(*mask)));
		syscall(SYS_mbind, p, bytes, MPOL_PREFERRED, mask, 1024ul, 0ul);
	}
	memset(p, 0, bytes);
	return p;
}
