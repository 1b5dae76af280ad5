/* test_report_time.c - where the time went, of timelines whose answers are known: busy and idle, overlap, gaps, windows. */
#include <math.h>

#include "report_fixture.h"

#define COMPUTE "_Z4axpyifPfS_"
#define NCCL "ncclDevKernel_AllReduce_Sum_f32_RING_LL"

static const struct report_time *time_of(const struct report *r)
{
	assert_int_equal(r->ranks, 1);
	assert_int_equal(r->rank[0].gpus, 1);
	return &r->rank[0].gpu[0].time;
}

static void test_unions_and_overlap(void **state)
{
	struct scene s = scene();
	(void)state;
	kernel(&s, s.a, COMPUTE, 1000, 1100);
	kernel(&s, s.c, COMPUTE, 1010, 1020); /* inside another */
	kernel(&s, s.c, COMPUTE, 1050, 1150);
	kernel(&s, s.c, NCCL, 1120, 1220);
	copy(&s, s.a, HTOD, PINNED, 4096, 1200, 1250);
	kernel(&s, s.a, "MemcpyLikeKernel", 1300, 1310); /* memory, as HTA's names have it */
	kernel(&s, s.a, "myMemcpyKernel", 1310, 1330);   /* other */
	kernel(&s, s.a, COMPUTE, 1390, 1400);
	struct report *r = report_of(&s);
	const struct report_time *t = time_of(r);
	assert_int_equal(t->window_ns, 400 * US);
	assert_int_equal(t->busy_ns, (250 + 30 + 10) * US);
	assert_int_equal(t->idle_ns, 110 * US);
	assert_int_equal(t->unseen_ns, 0);
	assert_int_equal(t->category_ns[REPORT_COMPUTE], 160 * US);
	assert_int_equal(t->category_ns[REPORT_COMMUNICATION], 100 * US);
	assert_int_equal(t->category_ns[REPORT_MEMORY], 60 * US);
	assert_int_equal(t->category_ns[REPORT_OTHER], 20 * US);
	assert_int_equal(t->exposed_ns[REPORT_COMPUTE], 160 * US);
	assert_int_equal(t->exposed_ns[REPORT_COMMUNICATION], 70 * US);
	assert_int_equal(t->exposed_ns[REPORT_MEMORY], 40 * US);
	assert_int_equal(t->exposed_ns[REPORT_OTHER], 20 * US);
	assert_int_equal(t->overlap_ns, 30 * US);
	assert_int_equal(r->rank[0].gpu[0].operations, 8);
	report_free(r);
}

static void adds_up(const struct report_series *s, const struct report_time *time)
{
	double sum[REPORT_CATEGORIES] = {0}, overlap = 0, unseen = 0;
	for (unsigned b = 0; b < s->bins; b++) {
		double all = (double)s->unseen[b];
		for (unsigned c = 0; c < REPORT_CATEGORIES; c++) {
			sum[c] += (double)s->exposed[c][b];
			all += (double)s->exposed[c][b];
		}
		overlap += (double)s->overlap[b];
		unseen += (double)s->unseen[b];
		assert_true(all >= 0 && all <= 1.00001);
	}
	for (unsigned c = 0; c < REPORT_CATEGORIES; c++)
		assert_true(labs((long)(sum[c] * (double)s->bin_ns) - (long)time->exposed_ns[c]) < 1000);
	assert_true(labs((long)(overlap * (double)s->bin_ns) - (long)time->overlap_ns) < 1000);
	assert_true(labs((long)(unseen * (double)s->bin_ns) - (long)time->unseen_ns) < 1000);
}

/* The series add up to the sums; so does the fine one where it was asked for, and a bin is the mean of its part. */
static void test_series(void **state)
{
	(void)state;
	for (int fine = 0; fine < 2; fine++) {
		struct scene s = scene();
		for (uint64_t i = 0; i < 500; i++) {
			kernel(&s, s.a, COMPUTE, 37 * i, 37 * i + 20);
			kernel(&s, s.c, NCCL, 37 * i + 10, 37 * i + 29);
		}
		gap(&s, 18463, 20000);
		kernel(&s, s.a, COMPUTE, 20000, 20003);
		trace_build_close(s.b);
		struct report *r = report_with(&(struct report_options){.fine = fine});
		const struct report_gpu *g = &r->rank[0].gpu[0];
		assert_int_equal(g->series.bins, REPORT_BINS);
		assert_int_equal(g->fine.bins, fine ? REPORT_FINE_SPLIT * REPORT_BINS : 0);
		adds_up(&g->series, &g->time);
		if (fine)
			adds_up(&g->fine, &g->time);
		for (unsigned b = 0; fine && b < REPORT_BINS; b++) {
			double part = 0;
			for (unsigned i = 0; i < REPORT_FINE_SPLIT; i++)
				part += (double)g->fine.exposed[REPORT_COMPUTE][b * REPORT_FINE_SPLIT + i];
			assert_true(fabs(part / REPORT_FINE_SPLIT - (double)g->series.exposed[REPORT_COMPUTE][b]) < 1e-4);
		}
		assert_int_equal(g->time.unseen_ns, (20000 - 18492) * US); /* a kernel ended in it */
		report_free(r);
	}
}

static void test_gaps_are_not_idle(void **state)
{
	struct scene s = scene();
	(void)state;
	kernel(&s, s.a, COMPUTE, 0, 100);
	gap(&s, 150, 150);                  /* as it is told when it begins … */
	gap(&s, 150, 350);                  /* … and when it ends */
	kernel(&s, s.a, COMPUTE, 300, 310); /* was on its way */
	kernel(&s, s.a, COMPUTE, 400, 500);
	struct report *r = report_of(&s);
	const struct report_time *t = time_of(r);
	assert_int_equal(t->window_ns, 500 * US);
	assert_int_equal(t->busy_ns, 210 * US);
	assert_int_equal(t->unseen_ns, 190 * US);
	assert_int_equal(t->idle_ns, 100 * US);
	assert_int_equal(r->rank[0].gap_count, 1);
	assert_int_equal(r->rank[0].gap_ns, 200 * US);
	assert_int_equal(r->rank[0].gaps, 1);
	assert_string_equal(r->rank[0].gap[0].reason, "another CUPTI client");
	assert_int_equal(r->rank[0].gap[0].start, 150 * US);
	report_free(r);
}

/* Longer than the 71 minutes of a duration. */
static void test_gap_of_hours(void **state)
{
	struct scene s = scene();
	const uint64_t hours = 3 * UINT64_C(3600000000);
	(void)state;
	kernel(&s, s.a, COMPUTE, 0, 100);
	gap(&s, 100, 100);
	trace_build_add(s.b, 0, trace_build_plain(s.b, TIMELINE_GAP, "another CUPTI client"), 100 * US,
					UINT32_MAX * US, 0, hours * US);
	kernel(&s, s.a, COMPUTE, 100 + hours, 200 + hours);
	struct report *r = report_of(&s);
	assert_int_equal(r->rank[0].gap_count, 1);
	assert_int_equal(r->rank[0].gap_ns, hours * US);
	assert_int_equal(time_of(r)->unseen_ns, hours * US);
	assert_int_equal(time_of(r)->idle_ns, 0);
	report_free(r);
}

/* A process that is killed in a gap has only told of its beginning. */
static void test_gap_without_end(void **state)
{
	struct scene s = scene();
	(void)state;
	kernel(&s, s.a, COMPUTE, 0, 100);
	gap(&s, 150, 150);
	kernel(&s, s.a, COMPUTE, 500, 600); /* was on its way */
	on_host(&s, TIMELINE_EVENT, "stream capture", 900, 1000, 0);
	struct report *r = report_of(&s);
	assert_int_equal(r->rank[0].gap_count, 1);
	assert_int_equal(r->rank[0].gap[0].duration, 850 * US);
	assert_int_equal(time_of(r)->unseen_ns, 350 * US);
	assert_int_equal(time_of(r)->idle_ns, 50 * US);
	report_free(r);
	s = scene();
	kernel(&s, s.a, COMPUTE, 0, 100);
	gap(&s, 100, 100);
	r = report_of(&s);
	assert_int_equal(r->rank[0].gap_count, 0); /* it is the end */
	report_free(r);
	for (int rank = 0; rank < 2; rank++) {
		s = scene_of_rank(rank, 2);
		kernel(&s, s.a, COMPUTE, 0, rank ? 1000 : 100);
		if (!rank)
			gap(&s, 100, 100);
		trace_build_close(s.b);
	}
	r = report_with(&(struct report_options){0});
	assert_int_equal(r->rank[0].gap_ns, 0); /* the other rank went on, this one's time has ended */
	assert_int_equal(r->rank[0].gap_after_ns, 900 * US);
	assert_int_equal(r->rank[0].gpu[0].time.unseen_ns, 0);
	report_free(r);
}

/* Of two hundred, the longest are named, all are counted. */
static void test_many_gaps(void **state)
{
	struct scene s = scene();
	uint64_t sum = 0;
	(void)state;
	kernel(&s, s.a, COMPUTE, 0, 1);
	for (uint64_t i = 1; i <= 200; i++) {
		uint64_t length = 1 + i * 7919 % 200;
		gap(&s, 1000 * i, 1000 * i + length);
		sum += length;
	}
	kernel(&s, s.a, COMPUTE, 201000, 201001);
	struct report *r = report_of(&s);
	const struct report_rank *k = &r->rank[0];
	assert_int_equal(k->gap_count, 200);
	assert_int_equal(k->gap_ns, sum * US);
	assert_int_equal(k->gaps, REPORT_GAPS);
	for (unsigned i = 0; i < k->gaps; i++) {
		assert_true(k->gap[i].duration > (200 - REPORT_GAPS) * US);
		assert_true(i == 0 || k->gap[i].start > k->gap[i - 1].start);
	}
	report_free(r);
}

static void test_window(void **state)
{
	struct scene s = scene();
	(void)state;
	kernel(&s, s.a, COMPUTE, 5000, 5100);
	kernel(&s, s.a, COMPUTE, 5200, 5300);
	kernel(&s, s.a, COMPUTE, 6000, 6100);
	trace_build_close(s.b);
	struct report *r =
		report_with(&(struct report_options){.window_start = 250 * US, .window_end = 1050 * US});
	const struct report_time *t = time_of(r);
	assert_int_equal(t->window_ns, 800 * US);
	assert_int_equal(t->busy_ns, 100 * US);
	assert_int_equal(t->idle_ns, 700 * US);
	assert_int_equal(r->kernels.item[0].count, 2);
	assert_int_equal(r->kernels.item[0].sum_ns, 100 * US);
	assert_true(r->window_asked);
	report_free(r);
}

/* A window in which nothing ran, one behind the end, and one that reaches beyond it. */
static void test_windows_at_the_edge(void **state)
{
	static const struct {
		uint64_t from, to, window, busy;
	} row[] = {{120, 180, 60, 0}, {900, 1000, 0, 0}, {250, 100000, 50, 50}, {0, 1, 1, 1}};
	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct scene s = scene();
		kernel(&s, s.a, COMPUTE, 5000, 5100);
		kernel(&s, s.a, COMPUTE, 5200, 5300);
		trace_build_close(s.b);
		struct report *r = report_with(
			&(struct report_options){.window_start = row[i].from * US, .window_end = row[i].to * US});
		assert_int_equal(time_of(r)->window_ns, row[i].window * US);
		assert_int_equal(time_of(r)->busy_ns, row[i].busy * US);
		report_free(r);
	}
}

/* Long gaps are pauses while they are few, whatever follows them. */
static void test_pauses(void **state)
{
	(void)state;
	for (unsigned pauses = 5; pauses <= 6; pauses++) {
		struct scene s = scene();
		uint64_t at = 0;
		for (unsigned i = 0; i <= pauses; i++, at += 1000000 + 100) {
			copy(&s, s.a, HTOD, PINNED, MB, at, at + 50);
			kernel(&s, s.a, COMPUTE, at + 50, at + 100);
		}
		struct report *r = report_of(&s);
		const struct report_bucket *idle = r->rank[0].gpu[0].idle;
		assert_int_equal(idle[REPORT_IDLE_PAUSE].count, pauses == 5 ? 5 : 0);
		assert_int_equal(idle[REPORT_IDLE_PAUSE].ns, pauses == 5 ? 5000000 * US : 0);
		assert_int_equal(idle[REPORT_IDLE_INPUT].count, pauses == 5 ? 0 : 6);
		report_free(r);
	}
}

static void test_idle_classes(void **state)
{
	struct scene s = scene();
	const struct report_bucket *idle;
	(void)state;
	kernel(&s, s.a, COMPUTE, 0, 100);
	copy(&s, s.a, HTOD, PINNED, MB, 300, 400); /* input: 200 */
	kernel(&s, s.a, COMPUTE, 410, 500);        /* short: 10 */
	kernel(&s, s.a, COMPUTE, 600, 700);        /* host: 100 */
	on_host(&s, TIMELINE_EVENT, "cuStreamSynchronize", 650, 705, 0);
	kernel(&s, s.a, COMPUTE, 750, 800); /* sync: 50 */
	copy(&s, s.a, DTOH, PINNED, 4, 800, 801);
	kernel(&s, s.a, COMPUTE, 821, 900); /* sync: 20, a scalar was read */
	on_host(&s, TIMELINE_EVENT, "device memory from the driver", 890, 980, MB);
	kernel(&s, s.a, COMPUTE, 1000, 1100);                           /* alloc: 100, 80 of them explained */
	copy(&s, s.a, HTOD, PINNED, 8, 1300, 1301);                     /* host: 200, this is no input */
	on_host(&s, TIMELINE_SYNC, "Stream Wait Event", 1290, 1302, 0); /* nobody waits here */
	kernel(&s, s.a, COMPUTE, 1341, 1400);                           /* host: 40 */
	on_host(&s, TIMELINE_SYNC, "Context Sync", 1390, 1446, 0);
	kernel(&s, s.a, COMPUTE, 1440, 1450); /* host: 40, another thread still waited */
	struct report *r = report_of(&s);
	idle = r->rank[0].gpu[0].idle;
	assert_int_equal(idle[REPORT_IDLE_INPUT].ns, 200 * US);
	assert_int_equal(idle[REPORT_IDLE_INPUT].count, 1);
	assert_int_equal(idle[REPORT_IDLE_SHORT].ns, 10 * US);
	assert_int_equal(idle[REPORT_IDLE_SYNC].ns, 70 * US);
	assert_int_equal(idle[REPORT_IDLE_SYNC].count, 2);
	assert_int_equal(idle[REPORT_IDLE_ALLOC].ns, 100 * US);
	assert_int_equal(idle[REPORT_IDLE_HOST].ns, 380 * US);
	assert_int_equal(r->rank[0].gpu[0].time.idle_ns, (200 + 10 + 70 + 100 + 380) * US);
	assert_int_equal(r->rank[0].gpu[0].gap[1].count, 5); /* from 10 us */
	assert_int_equal(r->rank[0].gpu[0].gap[1].ns, (10 + 50 + 20 + 40 + 40) * US);
	assert_int_equal(r->rank[0].gpu[0].gap[2].count, 4);
	assert_int_equal(r->rank[0].syncs.count, 1);
	report_free(r);
}

/* Two devices of one process, each with a window of its own. */
static void test_two_devices(void **state)
{
	struct scene s = scene_with(&(struct trace_build_setup){.chunks = 4, .devices = 2});
	uint16_t second = trace_build_stream(s.b, 1, 7);
	(void)state;
	kernel(&s, second, COMPUTE, 200, 300);
	kernel(&s, s.a, COMPUTE, 0, 100);
	kernel(&s, second, COMPUTE, 400, 500);
	struct report *r = report_of(&s);
	assert_int_equal(r->rank[0].gpus, 2);
	assert_int_equal(r->rank[0].gpu[0].device, 0);
	assert_int_equal(r->rank[0].gpu[0].time.window_ns, 100 * US);
	assert_int_equal(r->rank[0].gpu[1].time.window_ns, 300 * US);
	assert_int_equal(r->rank[0].gpu[1].first, 200 * US);
	assert_int_equal(r->rank[0].gpu[1].last, 500 * US);
	assert_int_equal(r->time.window_ns, 400 * US);
	assert_int_equal(r->kernels.item[0].count, 3);
	report_free(r);
}

static void test_nothing(void **state)
{
	struct scene s = scene();
	(void)state;
	struct report *r = report_of(&s);
	assert_int_equal(r->rank[0].gpus, 0);
	assert_int_equal(r->findings, 0);
	assert_non_null(strstr(r->verdict, "Nothing ran"));
	report_free(r);
	s = scene();
	on_host(&s, TIMELINE_EVENT, "stream capture", 5, 9, 0);
	r = report_of(&s);
	assert_int_equal(r->rank[0].gpus, 0);
	assert_int_equal(r->rank[0].events.count, 1);
	report_free(r);
}

/* Kernels that take no time, and one of ten seconds. */
static void test_extremes(void **state)
{
	struct scene s = scene();
	(void)state;
	for (uint64_t i = 0; i < 100; i++)
		kernel(&s, s.a, COMPUTE, 10 * i, 10 * i);
	kernel(&s, s.a, "_Z4longv", 1000, 10001000);
	struct report *r = report_of(&s);
	assert_int_equal(time_of(r)->window_ns, 10001000 * US);
	assert_int_equal(time_of(r)->busy_ns, 10000000 * US);
	assert_int_equal(r->kernels.item[1].count, 100);
	assert_int_equal(r->kernels.item[1].max_ns, 0);
	report_free(r);
	s = scene();
	kernel(&s, s.a, COMPUTE, 10, 10);
	r = report_of(&s);
	assert_int_equal(time_of(r)->window_ns, 0);
	assert_non_null(r->verdict);
	report_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unions_and_overlap),
		cmocka_unit_test(test_series),
		cmocka_unit_test(test_gaps_are_not_idle),
		cmocka_unit_test(test_gap_of_hours),
		cmocka_unit_test(test_gap_without_end),
		cmocka_unit_test(test_many_gaps),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_windows_at_the_edge),
		cmocka_unit_test(test_pauses),
		cmocka_unit_test(test_idle_classes),
		cmocka_unit_test(test_two_devices),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_extremes),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
