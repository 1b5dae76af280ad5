/* test_nccl_ras_report.c - what a report makes of an answer of NCCL's RAS service. */
#include "common/json_check.h"
#include "common/judge_world.h"
#include "common/report_made.h"
#include "log_fixture.h"

#define ROOM (12u << 20)

static const char whole[] = "NCCL version 2.28.3 compiled with CUDA 12.9\n"
							"\n"
							"Communicators... (1.00s)\n"
							"Errors\n"
							"======\n"
							"INCOMPLETE\n"
							"  Missing communicator data from 2 job processes\n"
							"  Process 3487984 on node 172.16.64.213 managing GPU 5\n"
							"\n"
							"DEAD\n"
							"  1 job process is considered dead (unreachable via the RAS network)\n"
							"\n"
							"#0-0 (cf264af53edbe986) INCOMPLETE\n"
							"  Missing communicator data from 3 ranks\n";

static char text[ROOM], json[ROOM];
static struct report r;
static struct ras_answer a;

static void make(const struct ras_answer *answer)
{
	struct out o;
	const struct made_case *c = made_cases;

	while (strcmp(c->name, "dead"))
		c++;
	made_report(&r, c);
	r.ras = answer;
	out_begin(&o, text, sizeof(text));
	report_as_text(&o, &r, "a line");
	assert_false(o.cut);
	out_begin(&o, json, sizeof(json));
	report_as_json(&o, &r, "a line");
	assert_false(o.cut);
	assert_true(json_is_valid(json));
}

/* As ras_ask() leaves it. */
static void answer_is(const char *said)
{
	memset(&a, 0, sizeof(a));
	a.bytes = (unsigned)strlen(said);
	memcpy(a.text, said, a.bytes);
	snprintf(a.where, sizeof(a.where), "localhost:28028");
}

static void test_in_report(void **state)
{
	(void)state;
	make(NULL);
	assert_null(strstr(text, "RAS"));
	assert_string_equal(json_at(json, "ras"), "null");

	answer_is(whole);
	make(&a);
	assert_non_null(strstr(text, "\nwhat NCCL's RAS service (localhost:28028) says of the other hosts:\n"
								 "  NCCL version 2.28.3 compiled with CUDA 12.9\n\n  Communicators"));
	assert_string_equal(json_at(json, "ras.4"), "\"======\"");
	assert_string_equal(json_at(json, "ras.13"), "\"  Missing communicator data from 3 ranks\"");
	assert_null(json_at(json, "ras.14"));

	a.cut = "too much";
	make(&a);
	assert_non_null(strstr(text, "3 ranks\n  (too much)\n"));

	a.none = "it is asleep";
	make(&a);
	assert_non_null(strstr(
		text, "\nNCCL's RAS service (localhost:28028) says nothing of the other hosts: it is asleep\n"));
	assert_string_equal(json_at(json, "ras"), "null");
}

static void test_untrusted(void **state)
{
	(void)state;
	answer_is("a\33[2J\r\xff\"b\\\t\n\n\xe2\x80\xae..");
	make(&a);
	assert_non_null(strstr(text, "  a\\x1b[2J\\x0d\\xff\"b\\\\x09\n\n  \\xe2\\x80\\xae..\n"));
	for (const char *c = text; *c; c++)
		assert_true((unsigned char)*c >= 0x20 || *c == '\n');
	assert_non_null(strstr(json, "\"ras\": [\"a\\\\x1b[2J\\\\x0d\\\\xff\\\"b\\\\\\\\x09\", \"\", "));

	/* The worst that there is room for. */
	memset(a.text, 1, RAS_BYTES);
	a.text[RAS_BYTES] = '\0';
	make(&a);
	memset(a.text, '\n', RAS_BYTES);
	make(&a);
}

static const char *logged(unsigned dead, unsigned silent)
{
	struct report_given given = {.closed = true};

	a.dead = dead;
	a.silent = silent;
	make(&a);
	capture_start();
	report_ras(&r, &given);
	return capture_end();
}

static void test_logged(void **state)
{
	(void)state;
	start("warn", "");
	assert_string_equal(logged(0, 0), "");
	assert_string_equal(logged(1, 0),
						line_of("warn", "nccl: NCCL's RAS service takes 1 process of the job for dead"));
	assert_string_equal(logged(0, 8),
						line_of("warn", "nccl: NCCL's RAS service has no answer from 8 processes"));
	assert_string_equal(logged(2, 1),
						line_of("warn", "nccl: NCCL's RAS service takes 2 processes of the job for "
										"dead, and has no answer from 1 process"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_report),
		cmocka_unit_test(test_untrusted),
		cmocka_unit_test(test_logged),
	};

	return cmocka_run_group_tests(tests, log_set_up, log_clean_up);
}
