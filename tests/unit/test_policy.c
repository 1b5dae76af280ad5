/* test_policy.c - walking the table: in order, with the arguments, past members that are NULL. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "policy.h"

/*
 * Stands in for the first row of policies.def: the linker takes this one instead of the
 * library's. Not const, so that the tests can take members away.
 */
struct policy copy_policy;
/* The others of the table, silent. */
struct policy devmem_policy = {.name = "silent"};
struct policy devmem_trace_policy = {.name = "silent"};
struct policy nccl_policy = {.name = "silent"};
struct policy coalesce_policy = {.name = "silent"};
struct policy timeline_policy = {.name = "silent"};
struct policy hostmem_policy = {.name = "silent"};
struct policy pinned_policy = {.name = "silent"};
struct policy files_policy = {.name = "silent"};
struct policy math_policy = {.name = "silent"};

static char calls[256];

static void note(const char *what)
{
	strcat(calls, what);
	strcat(calls, " ");
}

static void on_start(void)
{
	note("start");
}
static void on_cuda_ready(void)
{
	note("cuda_ready");
}
static void on_fork_child(void)
{
	note("fork_child");
}
static void on_stop(void)
{
	note("stop");
}

static void on_context_gone(void *ctx, int device)
{
	char text[64];

	snprintf(text, sizeof(text), "gone(%d,%d)", (int)(intptr_t)ctx, device);
	note(text);
}

static int others_are_silent(void)
{
	return policy_count == 10 && policy_table[0] == &copy_policy;
}

static void every_member_is_called_once(void **state)
{
	(void)state;
	assert_true(others_are_silent());
	copy_policy = (struct policy){.name = "fake",
								  .start = on_start,
								  .cuda_ready = on_cuda_ready,
								  .context_gone = on_context_gone,
								  .fork_child = on_fork_child,
								  .stop = on_stop};
	calls[0] = '\0';
	policies_start();
	policies_cuda_ready();
	policies_context_gone((void *)5, -1);
	policies_context_gone(NULL, 3);
	policies_fork_child();
	policies_stop();
	assert_string_equal(calls, "start cuda_ready gone(5,-1) gone(0,3) fork_child stop ");
}

static void a_missing_member_is_skipped(void **state)
{
	(void)state;
	assert_true(others_are_silent());
	copy_policy = (struct policy){.name = "fake", .stop = on_stop};
	calls[0] = '\0';
	policies_start();
	policies_cuda_ready();
	policies_context_gone((void *)5, -1);
	policies_fork_child();
	policies_stop();
	assert_string_equal(calls, "stop ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_member_is_called_once),
		cmocka_unit_test(a_missing_member_is_skipped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
