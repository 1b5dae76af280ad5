/*
 * multi.h - what the parts of `multi` share.
 */
#ifndef TURBO_TEST_MULTI_H
#define TURBO_TEST_MULTI_H

#include "tests/gpu/common/gathers.h"
#include "tests/gpu/common/trial_jobs.h"

struct multi {
	int ranks, rounds;
	unsigned seed, number, seconds;
	bool shared; /* fewer GPUs than ranks */
};
extern struct multi multi;

const char *const *multi_env(bool preloaded, const char *const *more); /* never freed */
int multi_gathers(void);
int multi_trials(void);

#endif
