/* test_report_steady.c - what happens all the time against what start-up costs: input, allocations, and recordings
 * that are about little of the time. */
#include "advice_fixture.h"

#include "tools/timeline/advice.h"

#define MISS "device memory from the driver"
#define FREE "device memory to the driver"

/* ---- input ---- */

static void input_scene(struct scene *s, bool bad)
{
	for (uint64_t i = 0; i < 20; i++) {
		copy(s, s->a, HTOD, PINNED, 10 * MB, 1000 * i, 1000 * i + 100);
		kernel(s, s->a, COMPUTE, 1000 * i + 100, 1000 * i + (bad ? 700 : 1000));
	}
}

/* The first batches are waited for anywhere, however long. */
static void first_input_scene(struct scene *s, bool bad)
{
	for (uint64_t i = 0; i < 20; i++) {
		copy(s, s->a, HTOD, PINNED, 10 * MB, 1000 * i, 1000 * i + 100);
		kernel(s, s->a, COMPUTE, 1000 * i + 100, 1000 * i + (bad || i < 8 ? 500 : 1000));
	}
}

/* One long wait among short ones is no rule: at the checkpoint, say. */
static void one_input_scene(struct scene *s, bool bad)
{
	uint64_t at = 0;
	for (uint64_t i = 0; i < 20; i++, at += bad ? 5800 : i == 15 ? 14000 : 4005) {
		copy(s, s->a, HTOD, PINNED, 10 * MB, at, at + 100);
		kernel(s, s->a, COMPUTE, at + 100, at + 3900);
	}
}

/* Weights that are read from a disk, with next to nothing computed. */
static void weights_scene(struct scene *s, bool bad)
{
	for (uint64_t i = 0; i < 50; i++) {
		copy(s, s->a, HTOD, PINNED, 10 * MB, 1000 * i, 1000 * i + 100);
		kernel(s, s->a, COMPUTE, 1000 * i + 100, 1000 * i + (bad ? 500 : 120));
	}
}

static void test_input_starvation(void **state)
{
	(void)state;
	check("input-starvation", weights_scene, "500 us each", 0.473);
	check("input-starvation", first_input_scene,
		  "before 10 copies to the device: 5.00 ms in all, 500 us each", 0.433);
	check("input-starvation", input_scene, "before 10 copies to the device: 3.00 ms in all, 300 us each",
		  0.255);
	check("input-starvation", one_input_scene, "1.90 ms each", 0.277);
}

/* What libturbo does not have is not offered. */
static void test_options_exist(void **state)
{
	static const char *const have[] = {
#define OPTION(id, name, ...) name,
#include "shim/options.def"
#undef OPTION
	};
	(void)state;
	for (const struct advice_rule *rule = advice_host_rules; rule->id; rule++) {
		if (strcmp(rule->id, "input-starvation"))
			continue;
		bool exists = false;
		for (size_t i = 0; i < sizeof(have) / sizeof(have[0]); i++)
			exists |= !strcmp(have[i], rule->option);
		struct report *r = speaks("input-starvation", input_scene);
		assert_int_equal(*finding(r, "input-starvation")->option != '\0', exists);
		report_free(r);
	}
}

/* ---- allocations ---- */

static void allocation(struct scene *s, uint64_t at, bool frees)
{
	on_host(s, TIMELINE_EVENT, MISS, at, at + 50, 2 * MB);
	if (frees)
		on_host(s, TIMELINE_EVENT, FREE, at + 50, at + 80, 2 * MB);
}

static void churn_scene(struct scene *s, bool bad)
{
	for (uint64_t i = 0; i < 50; i++) {
		kernel(s, s->a, COMPUTE, 1000 * i, 1000 * i + 990);
		/* The good one allocates too, as it starts. */
		allocation(s, (bad ? 1000 : 100) * i + 10, true);
	}
}

/* Steps with a kernel each of four kinds; `allocates` memory in each, given back or not. */
static uint64_t loop(struct scene *s, uint64_t at, unsigned steps, bool allocates, bool frees)
{
	static const char *const kind[] = {"_Z1av", "_Z1bv", "_Z1cv", "_Z1dv", "_Z1ev", "_Z1fv"};
	for (unsigned i = 0; i < steps; i++, at += 1000) {
		if (allocates)
			allocation(s, at + 10, frees);
		for (unsigned k = 0; k < 6; k++)
			kernel(s, s->a, kind[k], at + 150 * k, at + 150 * k + 150);
	}
	return at;
}

/* A heap that grows all the time, and one that is freed as often. */
static void growth_scene(struct scene *s, bool bad)
{
	loop(s, 0, 100, true, bad);
	allocation(s, 10, true);
}

/* Start-up takes most of the wall time: allocations behind its half are none of a steady state. */
static void late_start_scene(struct scene *s, bool bad)
{
	uint64_t at = 40000;
	kernel(s, s->a, COMPUTE, 0, 10);
	for (unsigned i = 0; i < 30; i++)
		allocation(s, at - 30 * 100 + 100 * i, true);
	loop(s, at, 100, bad, true);
}

/* One in a hundred steps is rare. */
static void rare_scene(struct scene *s, bool bad)
{
	for (unsigned i = 0; i < 20; i++) {
		uint64_t at = loop(s, 50000 * i, 49, bad, true);
		allocation(s, at + 10, true);
		loop(s, at, 1, false, false);
	}
}

/* Without the frees: what is more than all memory was given back. */
static void many_bytes_scene(struct scene *s, bool bad)
{
	loop(s, 0, 100, false, false);
	for (unsigned i = 0; i < 100; i++)
		on_host(s, TIMELINE_EVENT, MISS, 1000 * i + 500, 1000 * i + 550, bad ? 2000 * MB : MB);
}

static void test_allocation_churn(void **state)
{
	(void)state;
	check("allocation-churn", churn_scene,
		  "In the second half of its work 25 allocations (50.0 MB) and 26 frees", 0.08);
	check("allocation-churn", growth_scene, "After step 25 75 allocations (150 MB) and 75 frees", 0.08);
	check("allocation-churn", late_start_scene, "1.0 allocations a step", 0.08);
	check("allocation-churn", rare_scene, "1.0 allocations a step", 0.08);
	check("allocation-churn", many_bytes_scene, "1.0 allocations a step", 0.05);
}

/* An option that is in force is not offered, and without a word about it the default is taken to be. */
static void test_offers(void **state)
{
	static const struct {
		const char *options, *offered, *not_offered;
	} row[] = {
		{"", "TURBO_DEVMEM=deferred", "TURBO_DEVMEM=cache"},
		{"TURBO_COPY=on TURBO_DEVMEM=cache TURBO_DEVMEM_CACHE_MB=auto", "TURBO_DEVMEM=deferred",
		 "TURBO_DEVMEM=cache"},
		{"TURBO_DEVMEM=off", "TURBO_DEVMEM=cache", "TURBO_DEVMEM=deferred"},
		{"TURBO_DEVMEM=deferred", "TURBO_DEVMEM=stream", "TURBO_DEVMEM=deferred"},
		{"TURBO_DEVMEM=stream TURBO_COPY=on", "TURBO_DEVMEM_CACHE_MB", "TURBO_DEVMEM="},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct scene s = scene();
		strcpy(trace_build_header(s.b)->options, row[i].options);
		churn_scene(&s, true);
		copy(&s, s.c, HTOD, PAGEABLE, 500 * MB, 100, 5000);
		struct report *r = report_of(&s);
		const struct report_finding *f = finding(r, "allocation-churn");
		assert_non_null(f);
		if (!strstr(f->option, row[i].offered) || strstr(f->option, row[i].not_offered))
			fail_msg("%s: %s", row[i].options, f->option);
		f = finding(r, "pageable-copies");
		assert_non_null(f);
		assert_int_equal(!strstr(f->option, "TURBO_COPY=on"),
						 strstr(row[i].options, "TURBO_COPY=on") != NULL);
		report_free(r);
	}
}

/* ---- reports about little of the time ---- */

static void unseen_scene(struct scene *s, bool bad)
{
	uint64_t end = loop(s, 0, 30, false, false);
	gap(s, end, end + (bad ? 100000 : 10000));
	loop(s, end + 100000, 50, false, false);
}

static void test_mostly_unseen(void **state)
{
	struct report *r = speaks("mostly-unseen", unseen_scene);
	const struct report_finding *f = finding(r, "mostly-unseen");
	(void)state;
	assert_non_null(strstr(f->evidence, "1 gap, the longest 100 ms: another CUPTI client"));
	assert_non_null(strstr(f->fix, "--window 130000us..179900us is"));
	assert_int_equal(f->severity, REPORT_WARN);
	assert_non_null(strstr(r->verdict, "Only 44 % of the time was recorded. GPU: busy"));
	report_free(r);
	struct scene s = scene();
	unseen_scene(&s, true);
	trace_build_close(s.b);
	r = report_with(&(struct report_options){.window_start = 50000 * US, .window_end = 90000 * US});
	assert_string_equal(r->verdict, "Nothing was recorded in this part of the time.");
	report_free(r);
	s = scene_with(&(struct trace_build_setup){.chunks = 64, .mode = TIMELINE_MODE_SAMPLED});
	unseen_scene(&s, true);
	r = report_of(&s);
	f = finding(r, "mostly-unseen");
	assert_non_null(f);
	assert_true(f->severity == REPORT_NOTE && strstr(f->fix, "TURBO_TIMELINE=kernel"));
	report_free(r);
}

static void paused_scene(struct scene *s, bool bad)
{
	uint64_t end = loop(s, 0, 300, false, false);
	loop(s, end + (bad ? 5000000 : 1000), 200, false, false);
}

static void test_mostly_paused(void **state)
{
	struct report *r = speaks("mostly-paused", paused_scene);
	(void)state;
	assert_non_null(strstr(finding(r, "mostly-paused")->fix, "--window 0.000..0.299 is"));
	assert_int_equal(r->rank[0].gpu[0].stretch_end, 299900 * US);
	report_free(r);
}

/* What came after the last operation is no part of it, with a window or without. */
static void test_gap_at_the_end(void **state)
{
	(void)state;
	for (int asked = 0; asked < 2; asked++) {
		struct scene s = scene();
		kernel(&s, s.a, COMPUTE, 0, 100);
		gap(&s, 100, 250);
		kernel(&s, s.a, COMPUTE, 250, 400);
		gap(&s, 390, 500);
		gap(&s, 600, 9000);
		on_host(&s, TIMELINE_EVENT, "stream capture", 9000, 9100, 0);
		trace_build_close(s.b);
		struct report *r = report_with(&(struct report_options){.window_end = asked ? UINT64_MAX : 0});
		const struct report_rank *k = &r->rank[0];
		assert_int_equal(k->gpu[0].time.window_ns, 400 * US);
		assert_int_equal(k->gpu[0].time.unseen_ns, 150 * US);
		assert_true(k->gap_count == 1 && k->gaps == 1 && k->gap_ns == 150 * US);
		assert_int_equal(k->gap_after_ns, 8500 * US);
		float unseen = 0;
		for (unsigned b = 0; b < REPORT_BINS; b++)
			unseen += k->gpu[0].series.unseen[b];
		assert_true((double)unseen * (double)k->gpu[0].series.bin_ns < 180e3);
		assert_null(finding(r, "mostly-unseen"));
		report_free(r);
	}
}

/* ---- copies by libturbo ---- */

static void staged(struct scene *s, uint32_t device, uint64_t at, uint64_t bytes)
{
	struct timeline_entry e = {.kind = TIMELINE_EVENT};
	e.event.device = device;
	trace_build_add(s->b, s->host, trace_build_entry(s->b, &e, "staged copy H2D"), at * US, 50 * US, 0,
					bytes);
}

/* Each counts for its device, and as CUPTI's copies only while those are recorded. */
static void test_staged_copies(void **state)
{
	struct scene s = scene_with(&(struct trace_build_setup){.chunks = 4, .devices = 2});
	uint16_t second = trace_build_stream(s.b, 1, 7);
	(void)state;
	staged(&s, 2, 0, MB); /* before anything ran */
	kernel(&s, s.a, COMPUTE, 10, 100);
	kernel(&s, second, COMPUTE, 20, 100);
	staged(&s, 1, 110, 2 * MB);
	staged(&s, 0, 120, 4 * MB); /* an older version does not say */
	staged(&s, 9, 130, 8 * MB); /* did nothing else */
	gap(&s, 200, 200);
	gap(&s, 200, 400);
	staged(&s, 1, 250, 16 * MB);
	staged(&s, 2, 390, 32 * MB);
	staged(&s, 2, 410, 64 * MB);
	kernel(&s, s.a, COMPUTE, 500, 600);
	struct report *r = report_of(&s);
	const struct report_copy *a = &r->rank[0].gpu[0].copy[REPORT_H2D],
							 *b = &r->rank[0].gpu[1].copy[REPORT_H2D];
	assert_true(a->staged_bytes == 14 * MB && a->staged_count == 3 && a->staged_ns == 150 * US);
	assert_true(b->staged_bytes == 65 * MB && b->staged_count == 2);
	assert_true(a->staged_unseen_bytes == 16 * MB && b->staged_unseen_bytes == 32 * MB);
	assert_true(a->staged_unseen_count == 1 && b->staged_unseen_count == 1);
	report_free(r);
}

static void test_rates(void **state)
{
	(void)state;
	assert_true(report_rate(50 * MB, 1000000, 1) > 49.9 && report_rate(50 * MB, 1000000, 1) < 50.1);
	assert_true(report_rate(8 * MB, 1000, 1) == 0);           /* 8 TB/s */
	assert_true(report_rate(12, 4500, 3) == 0);               /* … nor 2.7 MB/s */
	assert_true(report_rate(MB, 1500000, 1000) == 0);         /* many, none of which tells */
	assert_true(report_rate(4000 * MB, 2000000, 100) > 1999); /* device memory is that fast */
	assert_true(report_rate(0, 0, 0) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_input_starvation),
		cmocka_unit_test(test_options_exist),
		cmocka_unit_test(test_allocation_churn),
		cmocka_unit_test(test_offers),
		cmocka_unit_test(test_mostly_unseen),
		cmocka_unit_test(test_mostly_paused),
		cmocka_unit_test(test_gap_at_the_end),
		cmocka_unit_test(test_staged_copies),
		cmocka_unit_test(test_rates),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
