/* test_sites.c - sampled call sites: who holds what, and what a code address is called. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <unistd.h>
#include <cmocka.h>

#include "policy/devmem/sites.h"
#include "shim/symbol.h"
#include "shim/unwind.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define SAY_SKIP(text) (print_message(text "\n"), skip())

/* A loop that is not unrolled: one call is one site. */
#define REPEAT(i, n) for (volatile unsigned i = 0; i < (n); i++)

/* Two sites that no compiler may merge. The pause keeps them under the limit of samples a second. */
static __attribute__((noinline)) void first_site(CUdeviceptr ptr, size_t bytes)
{
	usleep(2000);
	sites_alloc(ptr, bytes);
	__asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void second_site(CUdeviceptr ptr, size_t bytes)
{
	usleep(2000);
	sites_alloc(ptr, bytes);
	__asm__ volatile("nop" ::: "memory");
}

static int have_stacks(void)
{
	void *frame[4];
	return unwind_stack(frame, 4) > 0;
}

static void nothing_before_the_device_fills(void **state)
{
	struct site top[4];
	(void)state;
	sites_pressure(10 * GIB, 100 * GIB);
	first_site(0x1000, 8 * GIB);
	assert_int_equal(sites_top(top, 4), 0);
}

static void holders_are_ordered(void **state)
{
	struct site top[4];
	(void)state;
	if (!have_stacks())
		SAY_SKIP("no libunwind on this machine");
	sites_pressure(30 * GIB, 100 * GIB);
	REPEAT(i, 3)
	first_site((i + 1) * GIB, GIB);
	second_site(16 * GIB, 5 * GIB);
	assert_int_equal(sites_top(top, 4), 2);
	assert_int_equal(top[0].bytes, 5 * GIB);
	assert_int_equal(top[0].blocks, 1);
	assert_int_equal(top[1].bytes, 3 * GIB);
	assert_int_equal(top[1].blocks, 3);
	assert_true(top[0].frames > 1);
	assert_int_equal(sites_top(top, 1), 1);
	assert_int_equal(top[0].bytes, 5 * GIB);
	sites_free(16 * GIB);
	sites_free(16 * GIB); /* nobody's any more */
	sites_free(2 * GIB);
	assert_int_equal(sites_top(top, 4), 1);
	assert_int_equal(top[0].bytes, 2 * GIB);
	sites_free(GIB);
	sites_free(3 * GIB);
	assert_int_equal(sites_top(top, 4), 0);
}

/* A pointer that comes again without a free that we saw stands for its last allocation only. */
static void a_pointer_is_counted_once(void **state)
{
	struct site top[4];
	(void)state;
	if (!have_stacks())
		SAY_SKIP("no libunwind on this machine");
	sites_pressure(30 * GIB, 100 * GIB);
	REPEAT(i, 2)
	first_site(GIB, (i + 1) * GIB);
	assert_int_equal(sites_top(top, 4), 1);
	assert_int_equal(top[0].bytes, 2 * GIB);
	sites_free(GIB);
	assert_int_equal(sites_top(top, 4), 0);
}

/* Entries that collide are found and taken out in any order. Seeded by the process. */
static void colliding_pointers(void **state)
{
	CUdeviceptr ptr[64];
	struct site top[1];
	unsigned n = 0, seed = (unsigned)getpid();
	(void)state;
	if (!have_stacks())
		SAY_SKIP("no libunwind on this machine");
	print_message("seed %u\n", seed);
	sites_pressure(30 * GIB, 100 * GIB);
	for (CUdeviceptr p = 512; n < 64; p += 512)
		if (sites_slot(p) % 4096 < 3 || sites_slot(p) % 4096 > 4093)
			ptr[n++] = p;
	REPEAT(i, n)
	first_site(ptr[i], GIB);
	for (unsigned left = n; left; left--) {
		assert_int_equal(sites_top(top, 1), 1);
		assert_int_equal(top[0].blocks, left);
		unsigned i = (unsigned)rand_r(&seed) % left;
		sites_free(ptr[i]);
		ptr[i] = ptr[left - 1];
	}
	assert_int_equal(sites_top(top, 1), 0);
}

static void code_has_names(void **state)
{
	char text[200];
	int local;
	(void)state;
	symbol_name((const char *)(void *)&ftok + 1, text, sizeof(text));
	assert_non_null(strstr(text, "libc"));
	assert_non_null(strstr(text, ": "));
	symbol_name((const void *)&code_has_names, text, sizeof(text)); /* in no dynamic table */
	assert_non_null(strchr(text, '+'));
	symbol_name(&local, text, sizeof(text));
	assert_memory_equal(text, "0x", 2);
	memset(text, 'x', sizeof(text));
	symbol_name((const char *)(void *)&ftok + 1, text, 8);
	assert_true(strlen(text) < 8);
	assert_int_equal(text[8], 'x');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_before_the_device_fills),
		cmocka_unit_test(holders_are_ordered),
		cmocka_unit_test(a_pointer_is_counted_once),
		cmocka_unit_test(colliding_pointers),
		cmocka_unit_test(code_has_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
