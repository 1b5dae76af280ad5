/* test_report_work.c - what ran: kernels by name, copies, streams, collectives, steps, ranks. */
#include "report_fixture.h"

#define COMPUTE "_Z4axpyifPfS_"

static bool near(uint64_t have, double want)
{
	return (double)have >= 0.97 * want && (double)have <= 1.03 * want;
}

static void test_kernels(void **state)
{
	struct scene s = scene();
	(void)state;
	for (uint64_t i = 1; i <= 1000; i++)
		kernel(&s, s.a, COMPUTE, 2000 * i, 2000 * i + i);
	for (uint64_t i = 1; i <= 10; i++) /* another grid, the same name */
		trace_build_kernel(s.b, s.a, trace_build_kernel_entry(s.b, COMPUTE, 1, 1), (2100 + 2000 * i) * US,
						   5 * US, 0);
	kernel(&s, s.a, "_Z3onev", 3000000, 3002000);
	kernel(&s, s.a, "_Z3twov", 3002000, 3002001);
	trace_build_close(s.b);
	struct report *r = report_with(&(struct report_options){.top = 2});
	const struct report_kernel *k = r->kernels.item;
	assert_int_equal(r->kernels.names, 3);
	assert_int_equal(r->kernels.count, 2);
	assert_string_equal(k[0].name, "axpy(int, float, float*, float*)");
	assert_string_equal(k[0].short_name, "axpy");
	assert_int_equal(k[0].count, 1010);
	assert_int_equal(k[0].sum_ns, (500500 + 50) * US);
	assert_int_equal(k[0].min_ns, US);
	assert_int_equal(k[0].max_ns, 1000 * US);
	assert_true(near(k[0].p50_ns, 495e3) && near(k[0].p99_ns, 990e3));
	assert_int_equal(k[1].p50_ns, 2000 * US);
	assert_int_equal(k[1].p99_ns, 2000 * US);
	assert_int_equal(r->kernels.rest.count, 1);
	assert_int_equal(r->kernels.rest.sum_ns, US);
	assert_int_equal(r->rank[0].kernels.count, 2);
	assert_int_equal(r->rank[0].gpu[0].kernels, 1012);
	assert_int_equal(r->rank[0].gpu[0].tiny_kernels, 9 + 10 + 1);
	report_free(r);
}

static void test_copies(void **state)
{
	struct scene s = scene();
	(void)state;
	copy(&s, s.a, HTOD, PINNED, 50 * MB, 0, 1000);
	copy(&s, s.a, HTOD, PAGEABLE, 10 * MB, 1000, 2000);
	copy(&s, s.a, HTOD, PAGEABLE, 1000, 2000, 2001);
	copy(&s, s.c, DTOH, PAGEABLE, MB, 0, 100);
	copy(&s, s.c, DTOD, 0, MB, 100, 101);
	copy(&s, s.c, PTOP, 0, MB, 200, 300);
	copy(&s, s.c, 0, 0, 5, 300, 301);
	trace_build_add(s.b, s.c, trace_build_plain(s.b, TIMELINE_MEMSET, "Memset (Device)"), 400 * US, 10 * US,
					0, 77);
	on_host(&s, TIMELINE_EVENT, "staged copy H2D", 3000, 3500, 20 * MB);
	on_host(&s, TIMELINE_EVENT, "staged copy D2H", 3500, 3600, 2 * MB);
	struct report *r = report_of(&s);
	const struct report_copy *c = r->rank[0].gpu[0].copy, *up = &c[REPORT_H2D];
	assert_true(up->count == 3 && up->bytes == 60 * MB + 1000 && up->ns == 2001 * US && up->small_count == 1);
	assert_true(up->pageable_count == 2 && up->pageable_bytes == 10 * MB + 1000 &&
				up->pageable_ns == 1001 * US);
	assert_true(up->staged_count == 1 && up->staged_bytes == 20 * MB && up->staged_ns == 500 * US);
	assert_true(c[REPORT_D2H].count == 1 && c[REPORT_D2H].pageable_count == 1 &&
				c[REPORT_D2H].staged_count == 1);
	assert_true(c[REPORT_D2D].count == 1 && c[REPORT_D2D].pageable_count == 0);
	assert_true(c[REPORT_P2P].count == 1 && c[REPORT_COPY_OTHER].count == 1);
	assert_true(r->rank[0].gpu[0].memsets == 1 && r->rank[0].gpu[0].memset_bytes == 77);
	report_free(r);
}

/* HTA's classes of a stream's gaps. */
static void test_streams(void **state)
{
	struct scene s = scene();
	uint32_t k = trace_build_kernel_entry(s.b, COMPUTE, 1, 1);
	uint32_t call = trace_build_plain(s.b, TIMELINE_API, "cudaLaunchKernel");
	static const struct {
		uint64_t call, start, end;
		const char *gap;
	} row[] = {
		{0, 10, 100, ""},
		{20, 110, 200, "kernel wait 10"},
		{230, 300, 400, "host wait 100"},
		{210, 450, 500, "other 50"},
		{490, 490, 600, "none"}, /* begins before the last has ended */
		{598, 650, 660, "other 50"},
	};
	(void)state;
	for (uint32_t i = 0; i < 6; i++) {
		trace_build_add(s.b, s.host, call, row[i].call * US, 4 * US, i + 1, 0);
		trace_build_add(s.b, s.a, k, row[i].start * US, (row[i].end - row[i].start) * US, i + 1, 0);
	}
	trace_build_add(s.b, s.a, k, 700 * US, 10 * US, 77, 0); /* nobody knows who launched it: other 40 */
	struct report *r = report_of(&s);
	const struct report_stream *t = &r->rank[0].gpu[0].stream[0];
	assert_int_equal(r->rank[0].gpu[0].streams, 1);
	assert_int_equal(t->stream, 7);
	assert_int_equal(t->count, 7);
	assert_int_equal(t->kernel_wait_ns, 10 * US);
	assert_int_equal(t->host_wait_ns, 100 * US);
	assert_int_equal(t->other_ns, 140 * US);
	assert_true(r->rank[0].launches);
	assert_int_equal(r->rank[0].launch_count, 6);
	assert_true(near(r->rank[0].launch_delay_p50_ns, 48e3));
	assert_string_equal(r->rank[0].calls.item[0].name, "cudaLaunchKernel");
	assert_int_equal(r->rank[0].calls.item[0].ns, 24 * US);
	report_free(r);
}

static void test_collectives(void **state)
{
	struct scene s = scene_of_rank(0, 4);
	uint32_t reduce = trace_build_collective_entry(s.b, "ncclAllReduce", 1, 0, 4);
	uint32_t other = trace_build_collective_entry(s.b, "ncclAllReduce", 2, 0, 2);
	uint32_t gather = trace_build_collective_entry(s.b, "ncclAllGather", 1, 0, 4);
	(void)state;
	trace_build_add(s.b, s.host, reduce, 0, 5 * US, 1, 100 * MB);
	trace_build_add(s.b, s.host, other, 10 * US, 5 * US, 1, 1000);
	trace_build_add(s.b, s.host, gather, 20 * US, 5 * US, 2, 10 * MB);
	kernel(&s, s.c, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 100, 1100);
	kernel(&s, s.c, "ncclDevKernel_AllGather_RING_LL", 1100, 1300);
	kernel(&s, s.c, "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", 1300, 1400);
	struct report *r = report_of(&s);
	const struct report_collective *c = r->rank[0].collective;
	assert_int_equal(r->rank[0].collectives, 2);
	assert_string_equal(c[0].function, "ncclAllReduce");
	assert_true(c[0].count == 2 && c[0].bytes == 100 * MB + 1000 && c[0].small_count == 1 && c[0].ranks == 4);
	assert_true(c[0].kernel_count == 1 && c[0].kernel_ns == 1000 * US);
	assert_true(c[0].busbw > 149.9 && c[0].busbw < 150.1); /* 2 * 3 / 4 * 100 MB / 1 ms */
	assert_true(c[1].busbw > 149.9 && c[1].busbw < 150.1); /* 3 * 10 MB / 0.2 ms */
	report_free(r);
}

/* ---- steps ---- */

static uint64_t step(struct scene *s, uint64_t at, unsigned layers, uint64_t length)
{
	kernel(s, s->a, "_Z9embeddingv", at, at + 50);
	at += 60;
	for (unsigned i = 0; i < layers; i++, at += 4 * length) {
		kernel(s, s->a, "_Z4gemmv", at, at + length);
		kernel(s, s->a, "_Z7softmaxv", at + length, at + 2 * length);
		kernel(s, s->a, "_Z4normv", at + 2 * length, at + 3 * length);
		kernel(s, s->a, "_Z4geluv", at + 3 * length, at + 4 * length);
		kernel(s, s->a, "_Z4gemmv", at + 4 * length - 1, at + 4 * length);
	}
	kernel(s, s->a, "_Z4lossv", at, at + 10);
	for (unsigned i = 0; i < 5; i++, at += 30)
		kernel(s, s->a, "_Z4adamv", at + 20, at + 40);
	return at + 100;
}

static void test_steps(void **state)
{
	struct scene s = scene();
	uint64_t at = 0, begun[81];
	(void)state;
	for (int i = 0; i < 81; i++) {
		begun[i] = at;
		at = step(&s, at, 12, i == 17 ? 60 : 20);
		if (i % 10 == 9) /* an evaluation of another kind, from time to time */
			kernel(&s, s.c, "_Z8evaluatev", at - 90, at - 80);
	}
	struct report *r = report_of(&s);
	const struct report_steps *t = &r->rank[0].gpu[0].steps;
	assert_int_equal(t->count, 80);
	assert_string_equal(t->anchor, "embedding");
	for (int i = 0; i < 81; i++)
		assert_true(t->start[i] + 2 >= begun[i] * US && t->start[i] <= begun[i] * US);
	assert_true(near(t->median_ns, (double)((begun[1] - begun[0]) * US)));
	assert_true(near(t->max_ns, (double)((begun[18] - begun[17]) * US)));
	assert_int_equal(t->p99_ns, t->max_ns);
	assert_int_equal(t->slow, 1);
	report_free(r);
}

/* A step that was not recorded whole has no length. */
static void test_steps_and_gaps(void **state)
{
	struct scene s = scene();
	uint64_t at = 0;
	(void)state;
	for (int i = 0; i < 11; i++) {
		at = step(&s, at, 4, 20);
		if (i == 6) {
			gap(&s, at, at + 50000);
			at += 50000;
		}
	}
	struct report *r = report_of(&s);
	const struct report_steps *t = &r->rank[0].gpu[0].steps;
	assert_true(t->count == 10 && t->unseen == 1 && t->slow == 0);
	assert_int_equal(t->unseen_at[0], 6);
	assert_true(t->covered > 0.8 && t->covered <= 1);
	assert_true(t->max_ns < 2 * t->median_ns && t->start[10] - t->start[0] > 50000 * US);
	report_free(r);
}

/* No loop: nothing is made up. */
static void test_no_steps(void **state)
{
	struct scene s = scene();
	uint32_t x = 1;
	uint64_t at = 0;
	(void)state;
	for (int i = 0; i < 2000; i++) {
		char name[32];
		x = x * 1664525u + 1013904223u;
		snprintf(name, sizeof(name), "_Z2k%uv", x >> 29);
		at += 1 + ((x >> 8) % 1000) * ((x >> 18) % 50 == 0 ? 100 : 1);
		kernel(&s, s.a, name, at, at + 1);
	}
	struct report *r = report_of(&s);
	assert_int_equal(r->rank[0].gpu[0].steps.count, 0);
	assert_null(r->rank[0].gpu[0].steps.anchor);
	report_free(r);
	s = scene(); /* four steps are no rule */
	at = 0;
	for (int i = 0; i < 4; i++)
		at = step(&s, at, 2, 20);
	r = report_of(&s);
	assert_int_equal(r->rank[0].gpu[0].steps.count, 0);
	report_free(r);
}

/* Bursts of uploads are no steps, however regular they are and wherever they lie; nor are copies alone. */
static void test_uploads_are_no_steps(void **state)
{
	struct scene s = scene();
	(void)state;
	for (uint64_t burst = 0; burst < 3; burst++)
		for (uint64_t i = 0; i < 30; i++) {
			uint64_t at = 400000 * burst + 1000 * i;
			copy(&s, s.a, HTOD, PAGEABLE, MB, at, at + 300);
			for (uint64_t k = 0; k < 5; k++)
				kernel(&s, s.a, "_Z4castv", at + 300 + 60 * k, at + 350 + 60 * k);
			copy(&s, s.a, DTOD, 0, MB, at + 700, at + 710);
			kernel(&s, s.a, "_Z4initv", at + 750, at + 760);
		}
	struct report *r = report_of(&s);
	assert_int_equal(r->rank[0].gpu[0].steps.count, 0);
	report_free(r);
	s = scene();
	for (uint64_t i = 0; i < 100; i++) {
		copy(&s, s.a, HTOD, PAGEABLE, MB, 1000 * i, 1000 * i + 300);
		for (uint64_t k = 0; k < 6; k++)
			copy(&s, s.a, DTOD, 0, MB, 1000 * i + 300 + 50 * k, 1000 * i + 340 + 50 * k);
	}
	r = report_of(&s);
	assert_int_equal(r->rank[0].gpu[0].steps.count, 0);
	report_free(r);
	s = scene(); /* but pauses and gaps of the recording take nothing away from a loop */
	uint64_t at = 0;
	for (int i = 0; i < 40; i++) {
		at = step(&s, at, 4, 20) + (i % 10 == 9 ? 2000000 : 0);
		if (i == 15)
			gap(&s, at, at + 3000000);
		at += i == 15 ? 3000000 : 0;
	}
	r = report_of(&s);
	assert_true(r->rank[0].gpu[0].steps.count == 39 && r->rank[0].gpu[0].steps.covered > 0.8);
	report_free(r);
}

/* More gaps than are listed by their length: no step that spans one has a length. */
static void test_steps_and_many_gaps(void **state)
{
	struct scene s = scene();
	uint64_t at = 0;
	(void)state;
	for (int i = 0; i < 301; i++) {
		at = step(&s, at, 2, 20);
		if (i % 3 == 1) {
			gap(&s, at, at + 900 + (uint64_t)i % 7);
			at += 1000;
		}
	}
	struct report *r = report_of(&s);
	const struct report_steps *t = &r->rank[0].gpu[0].steps;
	assert_true(r->rank[0].gap_count == 100 && r->rank[0].gaps == REPORT_GAPS);
	assert_true(t->count == 300 && t->unseen == 100 && t->max_ns == t->min_ns);
	for (unsigned i = 0; i < t->unseen; i++)
		assert_int_equal(t->unseen_at[i], 3 * i + 1);
	report_free(r);
}

/* ---- ranks ---- */

static void run_rank(int rank, int ranks, uint64_t length, uint64_t comm, uint64_t memory)
{
	struct scene s = scene_of_rank(rank, ranks);
	uint64_t at = 0;
	for (int i = 0; i < 30; i++) {
		at = step(&s, at, 8, length);
		kernel(&s, s.c, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", at, at + comm);
		at += comm;
	}
	memory_used(&s, at, memory);
	trace_build_close(s.b);
}

/* All take the same time for a step; the one with little communication is the slow one. */
static void test_straggler(void **state)
{
	(void)state;
	for (int slow = 0; slow < 2; slow++) {
		for (int i = 0; i < 4; i++)
			run_rank(i, 4, i == 2 && slow ? 30 : 20, i == 2 && slow ? 40 : 360, (i ? 10ull : 20ull) << 30);
		struct report *r = report_with(&(struct report_options){0});
		assert_int_equal(r->ranks, 4);
		assert_int_equal(r->straggler, slow ? 2 : -1);
		if (slow) /* a step without communication: 960 + 310 against 640 + 310 us */
			assert_true(r->straggler_excess > 0.32 && r->straggler_excess < 0.36);
		assert_true(r->memory_imbalance > 1.59 && r->memory_imbalance < 1.61);
		assert_int_equal(r->kernels.item[0].count,
						 4 * 30 * (r->kernels.item[0].category == REPORT_COMPUTE ? 16 : 1));
		report_free(r);
	}
}

/* Ranks that hardly talk do not wait for each other. */
static void test_no_straggler_without_communication(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		run_rank(i, 4, i == 2 ? 30 : 20, 10, 1ull << 30);
	struct report *r = report_with(&(struct report_options){0});
	assert_int_equal(r->straggler, -1);
	report_free(r);
}

/* Files that begin at different times share one clock. */
static void test_ranks_on_one_clock(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct scene s = scene_with(&(struct trace_build_setup){
			.rank = i, .ranks = 2, .start_ns = TRACE_BUILD_START + (uint64_t)i * 1000 * US});
		kernel(&s, s.a, COMPUTE, 100, 200);
		trace_build_close(s.b);
	}
	struct report *r = report_with(&(struct report_options){0});
	assert_true(r->origin_ns == TRACE_BUILD_START + 100 * US);
	assert_int_equal(r->rank[0].gpu[0].first, 0);
	assert_int_equal(r->rank[1].gpu[0].first, 1000 * US);
	assert_int_equal(r->window_end, 1100 * US);
	assert_int_equal(r->rank[1].start, 900 * (int)US);
	report_free(r);
}

static void test_losses_and_facts(void **state)
{
	struct scene s = scene_of_rank(3, 8);
	struct timeline_header *h = trace_build_header(s.b);
	(void)state;
	kernel(&s, s.a, COMPUTE, 0, 10);
	h->count[TIMELINE_COUNT_CUPTI_LOST] = 12;
	h->count[TIMELINE_COUNT_SAMPLED_ON_NS] = 1;
	h->count[TIMELINE_COUNT_SAMPLED_NS] = 4;
	h->mode = TIMELINE_MODE_SAMPLED;
	trace_build_kill(s.b);
	struct report *r = report_with(&(struct report_options){0});
	const struct report_rank *k = &r->rank[0];
	assert_true(k->rank == 3 && k->ranks == 8 && !k->ended && !k->live);
	assert_int_equal(k->lost[TIMELINE_COUNT_CUPTI_LOST], 12);
	assert_true(k->sampled_share == 0.25);
	assert_string_equal(k->gpu[0].name, "NVIDIA H200");
	report_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernels),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_streams),
		cmocka_unit_test(test_collectives),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_steps_and_gaps),
		cmocka_unit_test(test_no_steps),
		cmocka_unit_test(test_uploads_are_no_steps),
		cmocka_unit_test(test_steps_and_many_gaps),
		cmocka_unit_test(test_straggler),
		cmocka_unit_test(test_no_straggler_without_communication),
		cmocka_unit_test(test_ranks_on_one_clock),
		cmocka_unit_test(test_losses_and_facts),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
