/*
 * test_heap_ratio.c - how much more than what lives the heap reserves, on the shapes that programs
 * have; next to it what an expandable segment for each stream, best fit, grown by 2 MiB, would take.
 *
 * HEAP_CHUNK_MB, HEAP_SMALL_MB   try other tunes (prints only)
 * HEAP_SEED                      other programs of the same shapes (default 1)
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
#include "unit/common/heap_shapes.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

struct result {
	size_t live, reserved, expandable;
	uint64_t late_calls; /* on memory, after the third period */
	double ms;
	struct heap_usage usage;
};

static size_t from_env(const char *name, size_t otherwise)
{
	const char *value = getenv(name);
	return value && *value ? (size_t)strtoul(value, NULL, 10) * MIB : otherwise;
}

static struct heap_tune tune(void)
{
	return (struct heap_tune){.chunk = from_env("HEAP_CHUNK_MB", 0), .small = from_env("HEAP_SMALL_MB", 0)};
}

static bool tuned(void)
{
	return tune().chunk || tune().small;
}

struct replay {
	struct fake fake;
	struct heap *heap;
	struct fake_stream *fs[SHAPE_STREAMS];
	struct heap_stream *hs[SHAPE_STREAMS];
	uint64_t *va;
};

static void step(struct replay *r, const struct shape *shape, const struct shape_op *op)
{
	unsigned s = op->stream;
	if (op->what == SHAPE_CLOSE && r->hs[s]) {
		heap_stream_close(r->hs[s]);
		fake_stream_close(&r->fake, r->fs[s]);
		r->hs[s] = NULL;
		return;
	}
	if (!r->hs[s]) {
		r->fs[s] = fake_stream_open(&r->fake);
		r->hs[s] = heap_stream_open(r->heap, r->fs[s]);
	}
	switch (op->what) {
	case SHAPE_ALLOC:
		if (heap_alloc(r->hs[s], op->bytes, &r->va[op->id]))
			fail_msg("%s: out of memory", shape->name);
		fake_take(&r->fake, r->fs[s], r->va[op->id], op->bytes);
		break;
	case SHAPE_FREE:
		fake_give(&r->fake, r->fs[s], r->va[op->id], op->bytes);
		assert_int_equal(heap_free(r->heap, r->hs[s], r->va[op->id]), HEAP_OK);
		break;
	default: fake_run(&r->fake, r->fs[s], (uint32_t)op->bytes);
	}
}

static struct result replay(const struct shape *shape, size_t device)
{
	static struct replay r;
	struct heap_backend backend;
	struct heap_tune t = tune();
	struct result out = {0};
	memset(&r, 0, sizeof(r));
	fake_open(&r.fake, device, &backend);
	r.fake.loose = true;
	r.heap = heap_create_tuned(&backend, device, &t);
	r.va = calloc(shape->ids, sizeof(*r.va));
	uint64_t early = 0;
	unsigned periods = 0;
	for (size_t i = 0; i < shape->count; i++) {
		if (shape->op[i].what == SHAPE_PERIOD) {
			heap_usage(r.heap, &out.usage);
			if (++periods == 3)
				early = out.usage.map_calls;
			continue;
		}
		step(&r, shape, &shape->op[i]);
		if (i % 1000 == 0)
			fake_check(r.heap);
	}
	fake_check(r.heap);
	heap_usage(r.heap, &out.usage);
	out.late_calls = periods > 3 ? out.usage.map_calls - early : 0;
	out.live = shape_peak(shape);
	out.reserved = out.usage.reserved_high;
	out.expandable = shape_expandable(shape);
	out.ms = r.fake.us / 1000;
	fake_sync(&r.fake);
	heap_destroy(r.heap);
	fake_close(&r.fake);
	free(r.va);
	return out;
}

static struct result show(const struct shape *shape, size_t device)
{
	struct result r = replay(shape, device);
	const struct heap_usage *u = &r.usage;
	double gib = (double)GIB, live = (double)r.live;
	print_message("%-20s live %6.2f GiB, reserved %6.2f, ratio %.3f (expandable %.3f)", shape->name,
				  live / gib, (double)r.reserved / gib, (double)r.reserved / live,
				  (double)r.expandable / live);
	print_message(", %zu ops, %.0f %% hits, %llu stitches, %llu waits, calls %.0f ms", shape->count,
				  100.0 * (double)u->hits / (double)(u->hits + u->misses), (unsigned long long)u->stitches,
				  (unsigned long long)u->waits, r.ms);
	print_message(", late calls %llu\n", (unsigned long long)r.late_calls);
	return r;
}

static void tight(shape_maker *make)
{
	struct shape shape = {0};
	make(&shape, from_env("HEAP_SEED", MIB) / MIB);
	struct result r = show(&shape, 140 * GIB);
	if (!tuned()) {
		assert_true((double)r.reserved <= 1.05 * (double)r.live);
		assert_true(r.reserved <= r.expandable + 32 * MIB);
	}
	shape_free(&shape);
}

#define TIGHT(shape)                \
	static void shape(void **state) \
	{                               \
		(void)state;                \
		tight(shape_##shape);       \
	}
TIGHT(variable_length)
TIGHT(growing)
TIGHT(experts)
TIGHT(checkpoints)
TIGHT(many_streams)
TIGHT(one_shot_streams)
TIGHT(mixed_lifetimes)
TIGHT(small_and_large)

static void periodic(shape_maker *make)
{
	struct shape shape = {0};
	make(&shape, 1);
	struct result r = show(&shape, 140 * GIB);
	if (!tuned()) {
		assert_int_equal(r.late_calls, 0);
		assert_true((double)r.reserved <= 1.05 * (double)r.live);
	}
	shape_free(&shape);
}

static void no_calls_after_the_third_step(void **state)
{
	(void)state;
	periodic(shape_training);
	periodic(shape_training_streams);
	periodic(shape_training_checkpoint);
}

/* 11 GiB freed, splintered by blocks of 16 MiB that stay, and wanted again, on a device that has just
 * enough for what lives. */
static void splinters(void **state)
{
	(void)state;
	struct shape shape = {0};
	shape_splinters(&shape, 1);
	size_t live = shape_peak(&shape);
	assert_true(shape_expandable(&shape) > live * 105 / 100);
	struct result r = show(&shape, live + 64 * MIB);
	assert_true((double)r.reserved <= 1.05 * (double)r.live);
	shape_free(&shape);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(variable_length),
		cmocka_unit_test(growing),
		cmocka_unit_test(experts),
		cmocka_unit_test(checkpoints),
		cmocka_unit_test(many_streams),
		cmocka_unit_test(one_shot_streams),
		cmocka_unit_test(mixed_lifetimes),
		cmocka_unit_test(small_and_large),
		cmocka_unit_test(no_calls_after_the_third_step),
		cmocka_unit_test(splinters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
