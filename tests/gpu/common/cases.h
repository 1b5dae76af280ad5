/*
 * cases.h - programs made of cases, each a promise that is checked on whatever driver there is.
 *
 * Cases run one after the other in one process; the same program runs bare, with libturbo.so
 * preloaded, and on a simulated driver. Output, one line a case: `ok CASE`, `skip CASE: why` or
 * `FAIL CASE: why`; `note` lines that must be the same bare and preloaded; `info` lines for
 * people; a count.
 */
#ifndef TURBO_TEST_GPU_CASES_H
#define TURBO_TEST_GPU_CASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/gpu/common/cuda_dl.h"

struct gpu_case {
	const char *name; /* NULL ends a list */
	/* NULL: kept; case_skip(...): could not be tried here; else why it failed. */
	const char *(*run)(void);
};

struct case_suite {
	const char *program;
	const struct gpu_case *const *groups; /* lists of cases; NULL ends */
	/* Around each case. A failed case is closed too, and so is a failed open. */
	const char *(*open)(void);
	void (*close)(void);
	/* An option of the program's own: how many arguments it takes from argv, 0 if it is unknown. */
	int (*option)(int argc, char **argv);
	const char *options; /* for the usage line */
};

/*
 * usage: PROGRAM [--list] [--seed N] [--timeout S] [suite->options] [CASE...]
 * Exit status: 0, 1 a case failed, 2 usage, 3 a case hung, 4 a case failed and its context is lost,
 * so that those after it did not run, 77 no GPU. When a test runner has preloaded libturbo.so, the
 * last line is `stats` and the counters of this process.
 */
int cases_main(const struct case_suite *suite, int argc, char **argv);

extern uint64_t case_random;  /* state of random_next, from --seed */
extern const char *case_self; /* path of this program */

const char *case_name(void);
const char *case_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
const char *case_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* "note CASE KEY VALUE": what the driver answered. */
void case_note(const char *key, const char *value);
void case_note_status(const char *key, CUresult r);
void case_note_number(const char *key, long long value);
/* "info CASE KEY N": a figure for people, never compared. */
void case_info(const char *key, double value);

#define TRY(call)                                                                              \
	do {                                                                                       \
		CUresult r_ = (call);                                                                  \
		if (r_ != CUDA_SUCCESS)                                                                \
			return case_fail("%s at %s:%d: %s", cuda_dl_error(r_), __FILE__, __LINE__, #call); \
	} while (0)
/* A step that returns a reason itself. */
#define STEP(call)                 \
	do {                           \
		const char *why_ = (call); \
		if (why_)                  \
			return why_;           \
	} while (0)
#define NEED(function)                                        \
	do {                                                      \
		if (!cu.function)                                     \
			return case_skip("the driver has no " #function); \
	} while (0)

#endif
