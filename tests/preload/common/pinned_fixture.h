/*
 * pinned_fixture.h - what the test_pinned programs share, on top of devmem_fixture.h.
 */
#ifndef TURBO_TEST_PINNED_FIXTURE_H
#define TURBO_TEST_PINNED_FIXTURE_H

#include "devmem_fixture.h"

/* Real calls so far, or 0 where nobody counts them. */
uint64_t pinned_real_allocs(void);
uint64_t pinned_real_frees(void);
uint64_t pinned_hits(void);
uint64_t pinned_kept(void); /* bytes */

/* cuMemHostAlloc, which must succeed; cuMemFreeHost. */
unsigned char *pinned_new(size_t bytes, unsigned flags);
void pinned_free(void *p);

/* What the driver says of an address: everything that the program can ask. */
struct pinned_said {
	CUresult single[8], range, flags, device, attributes;
	uint64_t values[8];
	unsigned flag_bits;
	bool self; /* the plural call names the address itself as the host's */
};
struct pinned_said pinned_ask(const void *p);

/* cuMemFreeHost on a thread of its own. */
struct pinned_freeing {
	pthread_t thread;
	CUcontext ctx;
	void *p;
	CUresult result;
	_Atomic int done;
};
void pinned_freeing_begin(struct pinned_freeing *f, CUcontext ctx, void *p);
CUresult pinned_freeing_end(struct pinned_freeing *f);

#endif
