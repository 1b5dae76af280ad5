/* test_copy_ring_mem.c - memory for a ring: aligned, zeroed, not in a child, and NULL when there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "policy/copy/ring_mem.h"

#define MIB ((size_t)1 << 20)

/* Pages of address space of this process. */
static unsigned long vm_pages(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu", &pages), 1);
	fclose(f);
	return pages;
}

static void is_usable_on_any_node(void **state)
{
	(void)state;
	static const int nodes[] = {-1, 0, 1, 63, 64, 1023, 1024, 100000};
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		unsigned char *p = ring_mem_map(4 * MIB, nodes[i]);
		assert_non_null(p);
		assert_int_equal((uintptr_t)p % (2 * MIB), 0);
		for (size_t at = 0; at < 4 * MIB; at += 4096)
			assert_int_equal(p[at], 0);
		memset(p, 1, 4 * MIB);
		assert_int_equal(munmap(p, 4 * MIB), 0);
	}
}

/* munmap of the bytes asked for gives everything back. */
static void leaves_nothing_behind(void **state)
{
	(void)state;
	munmap(ring_mem_map(6 * MIB, -1), 6 * MIB);
	unsigned long before = vm_pages();
	for (int i = 0; i < 20; i++) {
		unsigned char *p = ring_mem_map(6 * MIB, -1);
		assert_non_null(p);
		munmap(p, 6 * MIB);
	}
	assert_in_range(vm_pages(), 0, before + 16);
}

/* The kernel's own word for it, "dc" among the flags of the mapping: what a child has at that
 * address may be something else. */
static void is_not_in_a_child(void **state)
{
	(void)state;
	unsigned char *p = ring_mem_map(4 * MIB, -1);
	assert_non_null(p);
	FILE *f = fopen("/proc/self/smaps", "r");
	assert_non_null(f);
	char line[512];
	bool inside = false, kept_back = false;
	while (fgets(line, sizeof(line), f)) {
		unsigned long from, to;
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from <= (unsigned long)p && (unsigned long)p + 4 * MIB <= to;
		else if (inside && strncmp(line, "VmFlags:", 8) == 0)
			kept_back = strstr(line, " dc") != NULL;
	}
	fclose(f);
	assert_true(kept_back);
	munmap(p, 4 * MIB);
}

static void is_null_without_address_space(void **state)
{
	(void)state;
	struct rlimit old, none;
	assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
	unsigned long before = vm_pages();
	none = old;
	none.rlim_cur = before * 4096 + 8 * MIB;
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	unsigned char *p = ring_mem_map(64 * MIB, -1);
	assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
	assert_null(p);
	assert_in_range(vm_pages(), 0, before + 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_usable_on_any_node),
		cmocka_unit_test(leaves_nothing_behind),
		cmocka_unit_test(is_not_in_a_child),
		cmocka_unit_test(is_null_without_address_space),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
