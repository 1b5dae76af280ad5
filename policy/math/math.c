/*
 * math.c - TURBO_MATH=tf32: the documented switches, set before a framework reads them.
 *
 * PyTorch reads its own when its libraries are loaded, cuBLAS and cuDNN theirs when they make a handle, which needs CUDA. So in a
 * process whose PyTorch is loaded by the time of cuInit both are taken out again then: PyTorch has read its own, and what the
 * program asks of PyTorch for itself later is not overridden by the other. Elsewhere they stay, because nobody
 * can tell when the last library has read them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elfsym.h"
#include "life.h"
#include "log.h"
#include "options.h"
#include "own_env.h"
#include "policy.h"

enum { MATH_OFF, MATH_TF32 }; /* as in options.def */

#define NVIDIA "NVIDIA_TF32_OVERRIDE"
#define TORCH "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"

static struct own_env nvidia = OWN_ENV(NVIDIA "=1"), torch = OWN_ENV(TORCH "=1");
/* What is in the environment from the start on, ours or the user's. Constructor; constant afterwards. */
static bool nvidia_on, nvidia_off, torch_on;
/* What came of it; cuda_ready, once. Read at exit. */
static const char *how;

/* The user's own stays. */
static bool put(struct own_env *e, const char *name)
{
	const char *users = getenv(name);

	return users ? strcmp(users, "1") == 0 : own_env_put(e);
}

/* They read neither, and would hand both on: to programs without libturbo, and to those with it as if they were the user's. */
static bool is_shell(void)
{
	static const char *const names[] = {"sh", "bash", "dash", "zsh", "ksh", "fish", "env"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(program_invocation_short_name, names[i]) == 0)
			return true;
	return false;
}

static void start(void)
{
	const char *users = getenv(NVIDIA);

	if (option_get(OPT_MATH) != MATH_TF32)
		return;
	nvidia_off = users && strcmp(users, "0") == 0;
	if (!life_engaged() || is_shell())
		return;
	nvidia_on = put(&nvidia, NVIDIA);
	torch_on = put(&torch, TORCH);
}

static int is_torch(struct elfsym_object *object, unsigned index, void *arg)
{
	(void)index;
	(void)arg;
	return elfsym_named(object, "libtorch_cuda.so");
}

static void cuda_ready(void)
{
	if (option_get(OPT_MATH) != MATH_TF32)
		return;
	if (nvidia_off) {
		log_warn("math: TURBO_MATH=tf32 has no effect: " NVIDIA "=0 is set");
	} else if (torch_on && elfsym_walk(is_torch, NULL)) {
		how = "fp32 products in TF32, unless the program chose";
		own_env_take(&torch);
		own_env_take(&nvidia);
	} else if (nvidia_on) {
		how = "fp32 products and convolutions in TF32";
	} else {
		log_warn(
			"math: TURBO_MATH=tf32 has no effect here: only python, and what turbo run starts, is told in time");
	}
	if (how)
		log_info("math: %s (TURBO_MATH=tf32)", how);
}

static int summary(char *buf, int size)
{
	return how ? snprintf(buf, (size_t)size, "%s: 3 to 4 digits\n", how) : 0;
}

const struct policy math_policy = {
	.name = "math", .start = start, .cuda_ready = cuda_ready, .summary = summary};
