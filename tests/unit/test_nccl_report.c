/* test_nccl_report.c - what is said of each verdict: the line, the table, the text, the JSON; and of worlds that lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/json_check.h"
#include "common/judge_world.h"
#include "common/report_made.h"

#define ROOM (12u << 20)

static char text[ROOM], json[ROOM], line[REPORT_LINE];

static void make_all(const struct report *r)
{
	struct out o;
	unsigned bytes = report_line(r, line);

	assert_int_equal(bytes, strlen(line));
	out_begin(&o, text, sizeof(text));
	report_as_text(&o, r, line);
	assert_false(o.cut);
	out_begin(&o, json, sizeof(json));
	report_as_json(&o, r, line);
	assert_false(o.cut);
}

static size_t columns_of(const char *s, size_t bytes)
{
	size_t columns = 0;

	for (size_t i = 0; i < bytes; i++)
		columns += ((unsigned char)s[i] & 0xc0) != 0x80; /* not the rest of a character */
	return columns;
}

/* Nothing that a terminal obeys; lines of tables no longer than they may be. */
static void check_text(const char *s)
{
	for (const char *c = s; *c; c++)
		if (((unsigned char)*c < 0x20 && *c != '\n') || *c == 0x7f)
			fail_msg("a control character at %zu of: %s", (size_t)(c - s), s);
	for (const char *l = strstr(s, "\ncommunicator "); l; l = strstr(l + 1, "\ncommunicator "))
		for (const char *end; (end = strchr(++l, '\n')) && end != l; l = end)
			if (columns_of(l, (size_t)(end - l)) > 100)
				fail_msg("too long: %.*s", (int)(end - l), l);
}

static void expect(const char *path, const char *wanted)
{
	const char *found = json_at(json, path);

	if (!found || strcmp(found, wanted))
		fail_msg("%s is %s, not %s, in %s", path, found ? found : "not there", wanted, json);
}

static void expect_text(const char *wanted)
{
	if (!strstr(text, wanted))
		fail_msg("no '%s' in:\n%s", wanted, text);
}

/* ---- each verdict ---- */

static void test_lines(void **state)
{
	unsigned seen[JUDGE_VERDICTS] = {1};
	(void)state;
	for (const struct made_case *c = made_cases; c->world; c++) {
		struct report r;
		char quoted[64];
		made_report(&r, c);
		make_all(&r);
		assert_string_equal(line, c->line);
		assert_true(strlen(line) <= 300);
		assert_memory_equal(text, line, strlen(line));
		check_text(text);
		assert_true(json_is_valid(json));
		snprintf(quoted, sizeof(quoted), "\"%s\"", c->name);
		expect("verdict", quoted);
		expect("acts", "false");
		seen[made_finding()->verdict]++;
	}
	for (unsigned i = 0; i < JUDGE_VERDICTS; i++)
		assert_true(seen[i]);
}

static const struct made_case *named(const char *name)
{
	const struct made_case *c = made_cases;

	while (strcmp(c->name, name))
		c++;
	return c;
}

static void test_dead(void **state)
{
	struct report r;
	(void)state;
	made_report(&r, named("dead"));
	r.acts = true;
	make_all(&r);
	expect_text("> ");
	expect_text("killed by SIGKILL 0.4 s ago");
	expect_text("0.3 s after the verdict");
	expect_text("      Loader.__next__ (/home/u/train/data.py:12)\n");
	expect("format", "1");
	expect("acts", "true");
	expect("time", "\"2026-11-30T22:13:44Z\"");
	expect("stuck_ms", "400");
	expect("culprit.rank", "1");
	expect("culprit.pid", "1001");
	expect("culprit.state", "\"dead\"");
	expect("communicator.name", "\"default_pg\"");
	expect("communicator.ranks", "2");
	expect("communicator.missing", "0");
	expect("call.function", "\"all_gather\"");
	expect("call.sequence", "2");
	expect("call.bytes", "16384");
	expect("other", "null");
	expect("ranks.0.waits", "true");
	expect("ranks.0.last.state", "\"started\"");
	expect("ranks.0.last.age_ms", "2100");
	expect("ranks.1.state", "\"dead\"");
	expect("ranks.1.waits", "false");
	expect("processes.0.pid", "1001");
	expect("processes.0.python_at_issue.1", "\"/home/u/train/model.py:31 forward\"");
	expect("processes.0.python_now", "[]");
	expect("processes.1.python_now.0", "\"/home/u/train/data.py:12 Loader.__next__\"");
	expect("processes.1.native.0", "\"__poll\"");
	expect("processes.1.last_operations.0.function", "\"all_reduce\"");
	expect("processes.1.last_operations.0.done_ms", "2400");
	expect("processes.1.last_operations.1.done_ms", "null");
	expect("processes.1.last_operations.1.peer", "null");
}

/* Stacks of before the question are not shown as those of now; equal ones are shown once. */
static void test_stacks(void **state)
{
	struct report r;
	(void)state;
	made_report(&r, &made_cases[1]);
	make_all(&r);
	expect_text("it stands where rank 0 does");
	r.asked = WORLD_NOW + 1000000000u;
	make_all(&r);
	expect_text("it has not said");
	expect("processes.1.python_now", "[]");
}

static void test_other_side(void **state)
{
	struct report r;
	(void)state;
	made_report(&r, named("mismatch"));
	make_all(&r);
	expect("culprit.rank", "1");
	expect("call.function", "\"all_gather\"");
	expect("other.rank", "0");
	expect("other.call.function", "\"all_reduce\"");
	expect("other.call.reduction", "\"sum\"");
}

/* Ranks of a communicator that are others in the job. */
static void test_job_ranks(void **state)
{
	static const struct made_case c = {
		.name = "dead", .world = "comm A 1 0; A all_gather 64 : s2 s2; P0 dead 1", .exit_signal = 11};
	struct report r;
	(void)state;
	made_report(&r, &c);
	make_all(&r);
	assert_non_null(strstr(line, "rank 1 (job rank 0, host node-a, pid 1000) was killed by SIGSEGV"));
	expect_text("  rank  job   pid");
	expect("culprit.job_rank", "0");
}

/* Sixteen rows, the culprit among them; the rest in a line. */
static void test_many(void **state)
{
	struct judge_world *w = world_empty(40);
	struct judge_finding f = {
		.verdict = JUDGE_LAGGARD, .key = {7, 7}, .culprit = 37, .member = 37, .other = 0};
	struct report r = {.world = w, .finding = &f};
	unsigned rows = 0;
	(void)state;
	w->members = 40;
	for (unsigned i = 0; i < 40; i++) {
		struct judge_member *m = world_member(i);
		m->process = i;
		m->key[0] = m->key[1] = 7;
		m->rank = (int32_t)i;
		m->ranks = 48;
		m->state = FLIGHT_LIVE;
		if (i == 37)
			continue;
		m->issued = m->sequence = m->started = 1;
		world_ops(i)[1] = (struct flight_op){.index = 1, .sequence = 1, .function = FLIGHT_ALL_REDUCE};
		world_ops(i)[1].issued = WORLD_NOW - 1000000000u;
		world_ops(i)[1].returned = WORLD_NOW - 1000000000u;
	}
	f.other_index = 1;
	make_all(&r);
	check_text(text);
	for (const char *l = strstr(text, "main thread\n"); l && l[1] != '\n'; l = strchr(l + 1, '\n'))
		rows += l[1] == ' ' || l[1] == '>';
	assert_int_equal(rows, 16 + 2);
	expect_text("\n>   37  1037  late ");
	expect_text("  ... 24 more ranks, by state: waits 24\n");
	expect_text("  8 more ranks are on other machines");
	assert_non_null(json_at(json, "ranks.39"));
}

/* ---- texts that lie ---- */

static void test_hostile_names(void **state)
{
	struct report r;
	struct flight_page *page;
	(void)state;
	made_report(&r, named("mismatch"));
	page = world_page(1);
	memcpy(page->host, "a\x1b[31mb\n\"\\\xff\xc2\x9b\xe2\x80\xae", 17);
	memset(page->command, 0xe2, sizeof(page->command));
	world_member(0)->name = world_member(1)->name = "x\r\ny\x07";
	strcpy(page->sites + 16, "  python /a\x1b]0;t\x07/b.py:3 f\x1bg\n  native \x9b\n\x1b\n");
	strcpy(page->sites + 1000, page->sites + 16);
	strcpy(page->dump.text, "thread 1001 \x1b[2J\n  python x y z\n  python\n  native \xe2\x80\n  note \x7f");
	page->dump.bytes = (uint32_t)strlen(page->dump.text);
	make_all(&r);
	check_text(line);
	check_text(text);
	assert_true(json_is_valid(json));
	assert_null(strchr(line, '\n'));
	expect_text("\"x\\x0d\\x0ay\\x07\"");
	expect_text("b.py:3 in f\\x1bg");
}

static uint64_t seed;

static uint64_t draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static void scribble(void *to, size_t bytes)
{
	unsigned char *p = to;

	for (size_t i = 0; i < bytes; i++)
		p[i] = draw() % 3 ? (unsigned char)draw() : "\n \"\\\x1b/:\0"[draw() % 8];
}

/* Whatever a process writes, nothing else than words comes of it. */
static void test_garbage(void **state)
{
	(void)state;
	seed = (uint64_t)time(NULL) * 2654435761u | 1;
	print_message("seed %llu\n", (unsigned long long)seed);
	for (int round = 0; round < 40; round++) {
		struct report r;
		const struct made_case *c = &made_cases[(unsigned)round % 15];
		made_report(&r, c);
		struct judge_finding *f = made_finding();
		for (unsigned i = 0; i < r.world->processes && i < 4; i++) {
			struct flight_page *page = world_page(i);
			scribble(page->host, sizeof(page->host));
			scribble(page->command, sizeof(page->command));
			scribble(page->wait, sizeof(page->wait));
			scribble(page->sites, sizeof(page->sites));
			scribble(page->dump.text, sizeof(page->dump.text));
			page->rank = (int32_t)draw();
			page->dump.bytes = (uint32_t)draw();
			page->dump.version = (uint32_t)draw() & 2;
		}
		for (unsigned i = 0; i < r.world->members; i++) {
			struct judge_member *m = world_member(i);
			scribble(world_ops(i), FLIGHT_OPS * sizeof(struct flight_op));
			for (unsigned k = 0; k < FLIGHT_OPS; k++)
				world_ops(i)[k].index = m->issued - draw() % 4;
			m->rank = (int32_t)draw();
			m->state = (uint32_t)draw() % 8;
			if (draw() & 1)
				m->issued = draw() >> (draw() & 63);
		}
		if (draw() & 1)
			scribble(&f->since, sizeof(*f) - offsetof(struct judge_finding, since));
		make_all(&r);
		check_text(line);
		check_text(text);
		if (!json_is_valid(json))
			fail_msg("no JSON: %s", json);
	}
	for (unsigned i = 0; i < 16; i++)
		memset(world_page(i)->sites, 0, FLIGHT_SITE_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),         cmocka_unit_test(test_dead),      cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_other_side),    cmocka_unit_test(test_job_ranks), cmocka_unit_test(test_many),
		cmocka_unit_test(test_hostile_names), cmocka_unit_test(test_garbage),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
