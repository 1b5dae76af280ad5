/*
 * cmocka.h - the few checks that tests/unit/test_hooks.c uses, for processors whose cmocka is
 * not installed (tests/preload/test_aarch64.sh). The first failure ends the program.
 */
#ifndef MINI_CMOCKA_H
#define MINI_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define assert_true(x)                                              \
	do {                                                            \
		if (!(x)) {                                                 \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
			exit(1);                                                \
		}                                                           \
	} while (0)
#define assert_null(x) assert_true((x) == NULL)
#define assert_non_null(x) assert_true((x) != NULL)
#define assert_int_equal(a, b) assert_true((uintmax_t)(a) == (uintmax_t)(b))
#define assert_ptr_equal(a, b) assert_true((const void *)(a) == (const void *)(b))
#define assert_ptr_not_equal(a, b) assert_true((const void *)(a) != (const void *)(b))
#define assert_string_equal(a, b) assert_true(strcmp(a, b) == 0)
#define assert_string_not_equal(a, b) assert_true(strcmp(a, b) != 0)

struct CMUnitTest {
	const char *name;
	void (*run)(void **state);
};
/* clang-format off */
#define cmocka_unit_test(f) {#f, f}
/* clang-format on */
#define cmocka_run_group_tests(tests, setup, teardown) mini_run(tests, sizeof(tests) / sizeof((tests)[0]))

static inline int mini_run(const struct CMUnitTest *tests, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		tests[i].run(NULL);
		printf("passed: %s\n", tests[i].name);
	}
	return 0;
}

#endif
