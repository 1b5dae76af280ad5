/*
 * test_heap_near.c - programs that need nearly all the memory that is left, on a device that has much more: another
 * holds the rest. They begin after a program that left blocks behind, of any size at any place, so that
 * nothing lies where chunks begin by luck. The programs are those of tests/gpu/torch_mem_frag.py.
 *
 * HEAP_NEAR=MIB   prints how much each of them needs, to so many MiB, instead of the test
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "unit/common/heap_fake.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define DEVICE (139 * GIB)
#define LIMIT (8 * GIB)
#define BLOCKS 4096

struct near {
	struct fake fake;
	struct heap *heap;
	struct fake_stream *fs[2];
	struct heap_stream *hs[2];
	struct {
		uint64_t va;
		size_t bytes;
		unsigned stream;
	} block[BLOCKS];
	unsigned count;
	size_t live;
	uint64_t random;
	bool out; /* of memory */
};

static uint64_t below(struct near *n, uint64_t limit)
{
	n->random ^= n->random << 13;
	n->random ^= n->random >> 7;
	n->random ^= n->random << 17;
	return (n->random >> 20) % limit;
}

static void get(struct near *n, unsigned stream, double size)
{
	size_t bytes = ((size_t)size + 511) / 512 * 512;
	uint64_t va;
	if (n->out || heap_alloc(n->hs[stream], bytes, &va)) {
		n->out = true;
		return;
	}
	fake_take(&n->fake, n->fs[stream], va, bytes);
	fake_sync(&n->fake);
	n->block[n->count].va = va;
	n->block[n->count].stream = stream;
	n->block[n->count++].bytes = bytes;
	n->live += bytes;
}

static void put(struct near *n, unsigned i)
{
	unsigned stream = n->block[i].stream;
	fake_give(&n->fake, n->fs[stream], n->block[i].va, n->block[i].bytes);
	assert_int_equal(heap_free(n->heap, n->hs[stream], n->block[i].va), HEAP_OK);
	n->live -= n->block[i].bytes;
	memmove(&n->block[i], &n->block[i + 1], (--n->count - i) * sizeof(n->block[0]));
}

/* Of every `every` blocks from `first` on, only number `stays` stays. */
static void thin(struct near *n, unsigned first, unsigned every, unsigned stays)
{
	for (unsigned i = first, k = 0; i < n->count; k++)
		if (k % every == stays)
			i++;
		else
			put(n, i);
}

/* ---- the programs ---- */

typedef void program(struct near *n);

/* One large block gives way to blocks of one size; some of them stay; the large one comes back. */
static void give_way(struct near *n, double large, double all, double one, unsigned every, unsigned stays)
{
	unsigned first = n->count;
	get(n, 0, large * LIMIT);
	if (n->out)
		return;
	put(n, first);
	for (unsigned i = 0; i < (unsigned)(all * LIMIT / one); i++)
		get(n, 0, one);
	if (n->out)
		return;
	thin(n, first, every, stays);
	get(n, 0, large * LIMIT);
}

static void splinters(struct near *n)
{
	give_way(n, 0.49, 0.88, 16 * MIB, 2, 1);
}

/* The same, without the large block before. */
static void rows(struct near *n)
{
	unsigned first = n->count;
	for (unsigned i = 0; i < (unsigned)(0.88 * LIMIT / (16 * MIB)); i++)
		get(n, 0, 16 * MIB);
	if (n->out)
		return;
	thin(n, first, 2, 1);
	get(n, 0, 0.49 * LIMIT);
}

static void slabs(struct near *n)
{
	give_way(n, 0.62, 0.92, 48 * MIB, 3, 1);
}

static void survivors(struct near *n)
{
	unsigned first = n->count;
	for (unsigned i = 0; i < (unsigned)(0.92 * LIMIT / (2.5 * MIB)); i++)
		get(n, 0, 2.5 * MIB);
	if (n->out)
		return;
	thin(n, first, 14, 0);
	for (int i = 0; i < 4; i++)
		get(n, 0, 0.21 * LIMIT);
}

static void lifetimes(struct near *n)
{
	static const unsigned mib[] = {3, 9, 22, 70, 150};
	unsigned first = n->count;
	size_t before = n->live;
	n->random = 6 * 88172645463325252u;
	for (int step = 0; step < 1500 && !n->out; step++) {
		double size = mib[below(n, 5)] * (0.7 + below(n, 601) / 1000.0) * MIB;
		while ((double)(n->live - before) + size > 0.9 * LIMIT)
			put(n, first + (unsigned)below(n, n->count - first));
		get(n, step % 2, size);
	}
	while (n->live - before > 0.5 * LIMIT)
		put(n, first + (unsigned)below(n, n->count - first));
	for (int i = 0; i < 2; i++)
		get(n, 0, 0.21 * LIMIT);
}

static void growth(struct near *n)
{
	unsigned first = n->count;
	double size[16];
	for (int i = 0; i < 16; i++)
		get(n, 0, size[i] = 0.03 * LIMIT);
	for (int step = 0; step < 16 * 14 && !n->out; step++) {
		get(n, 0, size[step % 16] *= 1.045);
		put(n, first);
	}
}

/* Small blocks between large ones, which give way to one block; as pinned-pages.trace, but a little smaller. */
static void pinned(struct near *n)
{
	unsigned first = n->count;
	for (int i = 0; i < 400; i++) {
		get(n, 0, 17.3 * MIB);
		get(n, 0, 1.44 * MIB);
	}
	if (n->out)
		return;
	thin(n, first, 2, 1);
	get(n, 0, 0.82 * LIMIT);
}

/* ---- */

/* What was there before, with all of the device: some blocks, of which one of `mib` and a tiny one stay; what is
 * unused is given back. */
static void before(struct near *n, double mib)
{
	for (int i = 0; i < 2; i++) {
		n->fs[i] = fake_stream_open(&n->fake);
		n->hs[i] = heap_stream_open(n->heap, n->fs[i]);
	}
	if (mib > 0) {
		get(n, 0, 4 * MIB);
		get(n, 1, 4 * MIB);
		get(n, 0, 512);
		get(n, 0, mib * MIB);
		get(n, 1, 40 * MIB);
		put(n, 4);
		put(n, 1);
		put(n, 0);
	}
	fake_sync(&n->fake);
	(void)heap_trim(n->heap, 0, 0);
}

struct result {
	bool finished;
	double us; /* what the program's calls would have cost */
	struct heap_usage usage;
};

static struct result finish(program *p, double behind, size_t left)
{
	static struct near n;
	struct heap_backend backend;
	struct result r;
	memset(&n, 0, sizeof(n));
	fake_open(&n.fake, DEVICE, &backend);
	n.fake.loose = true;
	n.heap = heap_create(&backend, DEVICE);
	before(&n, behind);
	n.fake.device = n.fake.used + left;
	r.us = -n.fake.us;
	p(&n);
	fake_check(n.heap);
	r.finished = !n.out;
	r.us += n.fake.us;
	heap_usage(n.heap, &r.usage);
	while (n.count)
		put(&n, n.count - 1);
	fake_sync(&n.fake);
	heap_destroy(n.heap);
	fake_close(&n.fake);
	return r;
}

static const struct {
	const char *name;
	program *run;
} programs[] = {{"splinters", splinters}, {"rows", rows},     {"slabs", slabs},  {"survivors", survivors},
				{"lifetimes", lifetimes}, {"growth", growth}, {"pinned", pinned}};
static const double shifts[] = {0, 0.5, 1.25, 2, 4, 6, 8.5, 10, 32};

#define COUNT(x) (sizeof(x) / sizeof(*(x)))

/* The least memory with which it finishes, behind each of the blocks; calls with the usual limit. */
static void print(unsigned p, size_t step)
{
	double us = 0, calls = 0;
	print_message("%-10s", programs[p].name);
	for (unsigned s = 0; s < COUNT(shifts); s++) {
		size_t left = LIMIT * 85 / 100;
		while (left < 2 * LIMIT && !finish(programs[p].run, shifts[s], left).finished)
			left += step;
		print_message(" %6zu", left / MIB);
		struct result r = finish(programs[p].run, shifts[s], LIMIT);
		us += r.us / COUNT(shifts);
		calls += (double)r.usage.map_calls / COUNT(shifts);
	}
	print_message("   with 8 GiB %.0f calls, %.0f ms\n", calls, us / 1000);
}

static void there_is_memory_for_all(void **state)
{
	const char *step = getenv("HEAP_NEAR");
	(void)state;
	for (unsigned p = 0; p < COUNT(programs); p++) {
		for (unsigned s = 0; s < COUNT(shifts) && !step; s++) {
			struct result r = finish(programs[p].run, shifts[s], LIMIT);
			if (!r.finished)
				fail_msg("%s behind a block of %g MiB: out of memory, %zu MiB reserved, %zu live",
						 programs[p].name, shifts[s], r.usage.reserved / MIB, r.usage.live / MIB);
		}
		if (step)
			print(p, strtoul(step, NULL, 10) * MIB);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(there_is_memory_for_all)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
