/* pages.c - see pages.h. */
#include "pages.h"

#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gate.h"
#include "sys.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#define MADV_KEEPONFORK 19
#endif
/* linux/mempolicy.h, which is not everywhere. */
#define POLICY_DEFAULT 0
#define POLICY_PREFERRED 1
#define POLICY_BIND 2
#define POLICY_LOCAL 4
#define POLICY_PREFERRED_MANY 5
#define NODES_MOST 1024

size_t pages_size(void)
{
	static _Atomic size_t size; /* relaxed: every thread finds the same */
	size_t known = atomic_load_explicit(&size, memory_order_relaxed);

	if (__builtin_expect(!known, 0)) {
		known = (size_t)getauxval(AT_PAGESZ);
		atomic_store_explicit(&size, known, memory_order_relaxed);
	}
	return known;
}

size_t pages_round(size_t bytes)
{
	return (bytes + pages_size() - 1) & ~(pages_size() - 1);
}

/* ---- mappings ---- */

static uintptr_t map(size_t bytes, size_t lead, int protection)
{
	size_t room = bytes + GATE_GRANULE;
	void *got = mmap(NULL, room, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t at = (uintptr_t)got, base;

	if (got == MAP_FAILED)
		return 0;
	base = ((at + lead + GATE_GRANULE - 1) & ~(GATE_GRANULE - 1)) - lead;
	if (base > at)
		munmap(got, base - at);
	if (at + room > base + bytes)
		munmap((void *)(base + bytes), at + room - (base + bytes));
	return base;
}

uintptr_t pages_map(size_t bytes, size_t lead)
{
	return map(bytes, lead, PROT_READ | PROT_WRITE);
}

uintptr_t pages_reserve(size_t bytes, size_t lead)
{
	return map(bytes, lead, PROT_NONE);
}

void pages_unmap(uintptr_t base, size_t bytes)
{
	munmap((void *)base, bytes);
}

/* ---- what is in memory ---- */

bool pages_dense(uintptr_t base, size_t bytes, uintptr_t *in)
{
	enum { SAMPLES = 64 };
	size_t page = pages_size(), step = bytes / SAMPLES;
	unsigned found = 0;
	uint64_t random = base ^ bytes * UINT64_C(0x9e3779b97f4a7c15);

	*in = 0;
	if (step < page)
		return false;
	for (unsigned i = 0; i < SAMPLES; i++) {
		unsigned char there = 0;
		/* Not at even distances, which might be the program's, too. */
		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		uintptr_t at = base + i * step + (uintptr_t)((random >> 33) % step);
		at &= ~(page - 1);
		if (mincore((void *)at, page, &there) != 0 || !(there & 1))
			continue;
		found++;
		*in = at;
	}
	return found * 2 >= SAMPLES;
}

/* ---- as good as new ---- */

/* More than one node; relaxed: every thread finds the same. */
static bool many_nodes(void)
{
	static _Atomic int answer; /* 0: not asked, 1: one, 2: many */
	int known = atomic_load_explicit(&answer, memory_order_relaxed);
	char text[64];

	if (__builtin_expect(!known, 0)) {
		ssize_t n = sys_slurp("/sys/devices/system/node/online", text, sizeof(text));
		known = 1;
		for (ssize_t i = 0; i < n; i++)
			if (text[i] == '-' || text[i] == ',')
				known = 2;
		atomic_store_explicit(&answer, known, memory_order_relaxed);
	}
	return known == 2;
}

bool pages_settle(uintptr_t base, size_t bytes)
{
	uintptr_t granule = (base + GATE_GRANULE - 1) & ~(GATE_GRANULE - 1);
	size_t left = base + bytes - granule;
	void *p = (void *)base;

	/* Refused but for private memory without a file, in all of the range: a program may have mapped something else there. */
	if (madvise(p, bytes, MADV_WIPEONFORK) != 0)
		return false;
	/* Refused for locked memory: a page that is locked by itself, or all of them by mlockall(), also in the future. What
	 * lies in it is nobody's any more. A granule, so that no huge page is split. */
	if (madvise((void *)granule, left < GATE_GRANULE ? left : GATE_GRANULE, MADV_FREE) != 0)
		return false;
	/* A lock or a protection of a part. With a protection key where there are such. */
	munlock(p, bytes);
	if (syscall(SYS_pkey_mprotect, p, bytes, PROT_READ | PROT_WRITE, 0) != 0 &&
		mprotect(p, bytes, PROT_READ | PROT_WRITE) != 0)
		return false;
	madvise(p, bytes, MADV_DOFORK);
	madvise(p, bytes, MADV_DODUMP);
	if (many_nodes())
		syscall(SYS_mbind, p, bytes, POLICY_DEFAULT, NULL, 0, 0);
	return true;
}

bool pages_wake(uintptr_t base, size_t bytes)
{
	return madvise((void *)base, bytes, MADV_KEEPONFORK) == 0;
}

void pages_huge(uintptr_t base, size_t bytes)
{
	madvise((void *)base, bytes, MADV_HUGEPAGE);
}

void pages_lazy(uintptr_t base, size_t bytes)
{
	madvise((void *)base, bytes, MADV_FREE);
}

/* ---- nodes ---- */

uint16_t pages_node(uintptr_t address)
{
	void *page = (void *)address;
	int node = 0;

	if (!many_nodes() || syscall(SYS_move_pages, 0, 1, &page, NULL, &node, 0) != 0 || node < 0)
		return 0;
	return (uint16_t)node;
}

bool pages_would_be_on(uint16_t node)
{
	unsigned long mask[NODES_MOST / (8 * sizeof(unsigned long))] = {0};
	unsigned cpu = 0, here = 0;
	int policy = POLICY_DEFAULT;

	if (!many_nodes())
		return true;
	if (syscall(SYS_get_mempolicy, &policy, mask, (unsigned long)NODES_MOST, NULL, 0) != 0)
		policy = POLICY_DEFAULT; /* a sandbox forbids the question, and so the policies */
	switch (policy & 0xfff) {    /* without its flags */
	case POLICY_DEFAULT:
	case POLICY_LOCAL: return syscall(SYS_getcpu, &cpu, &here, NULL) == 0 && here == node;
	case POLICY_PREFERRED:
	case POLICY_PREFERRED_MANY:
	case POLICY_BIND:
		return node < NODES_MOST &&
			   mask[node / (8 * sizeof(unsigned long))] >> node % (8 * sizeof(unsigned long)) & 1;
	default: return false; /* interleaved: only new pages are */
	}
}
