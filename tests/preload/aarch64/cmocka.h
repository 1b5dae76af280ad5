/*
 * cmocka.h - as much of cmocka as the tests of stubs use, where there is no cmocka: for another processor.
 */
#ifndef CMOCKA_STAND_IN_H
#define CMOCKA_STAND_IN_H

#include <stdio.h>
#include <stdlib.h>

struct CMUnitTest {
	const char *name;
	void (*run)(void **state);
};
#define cmocka_unit_test(f) \
	{                       \
#f, f               \
	}

#define assert_true(c)                                              \
	do {                                                            \
		if (!(c)) {                                                 \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #c); \
			exit(1);                                                \
		}                                                           \
	} while (0)
#define assert_false(c) assert_true(!(c))
#define assert_null(p) assert_true(!(p))
#define assert_int_equal(a, b) assert_true((a) == (b))
#define assert_ptr_equal(a, b) assert_true((const void *)(a) == (const void *)(b))
#define fail_msg(...) (fprintf(stderr, __VA_ARGS__), fputs("\n", stderr), exit(1))

#define cmocka_run_group_tests(tests, setup, teardown)                       \
	({                                                                       \
		for (unsigned i_ = 0; i_ < sizeof(tests) / sizeof(tests[0]); i_++) { \
			void *state_ = NULL;                                             \
			(tests)[i_].run(&state_);                                        \
			printf("ok: %s\n", (tests)[i_].name);                            \
			fflush(stdout);                                                  \
		}                                                                    \
		0;                                                                   \
	})

#endif
