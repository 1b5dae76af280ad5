/*
 * sim_tag.c - kernels that mark a block of memory and look whether the mark is still there.
 *
 * Cheap for any size: of a large block only some words are written and looked at, the same ones
 * for the same size, the first and the last among them. A word depends on the tag and on its
 * place, so that one block's words in another's place show.
 */
#include "sim_kernel.h"

#define ALL_UP_TO 1024u /* bytes of which every word is used */
#define SAMPLES 32u

static uint64_t word_of(uint64_t tag, uint64_t at)
{
	return (tag ^ at) * 0x9e3779b97f4a7c15u ^ (tag >> 32);
}

static uint64_t step_of(uint64_t bytes)
{
	uint64_t step = bytes <= ALL_UP_TO ? 8 : bytes / SAMPLES / 8 * 8;
	return step;
}

/* Runs over the words of [base, base + bytes): writes, or counts what is wrong. */
static bool words(uintptr_t base, uint64_t bytes, uint64_t tag, bool write, uint64_t *wrong)
{
	struct sim_phys *phys = NULL;
	unsigned char *run = NULL; /* the bytes of [from, from + left) */
	uint64_t from = 0, left = 0, last = bytes - 8, step = step_of(bytes);
	bool ok = true;
	for (uint64_t at = 0; ok; at = at + step < last ? at + step : last) {
		if (!run || at - from + 8 > left) {
			size_t n = bytes - at;
			sim_lock();
			if (phys)
				sim_phys_put(phys);
			phys = NULL;
			run = sim_kernel_reach(base + at, &n, &phys);
			sim_unlock();
			from = at;
			left = n;
			ok = run && n >= 8;
		}
		uint64_t want = word_of(tag, at), have = want;
		if (ok && write)
			sim_bytes(run + (at - from), &want, 8);
		else if (ok)
			sim_bytes(&have, run + (at - from), 8);
		*wrong += have != want;
		if (at == last)
			break;
	}
	sim_lock();
	if (phys)
		sim_phys_put(phys);
	sim_unlock();
	return ok;
}

static bool well_formed(uintptr_t base, uint64_t bytes)
{
	return bytes >= 8 && bytes % 8 == 0 && base % 8 == 0;
}

CUresult sim_k_tag_fill(struct sim_ctx *ctx, const uint64_t *arg) /* ptr, bytes, tag */
{
	uint64_t wrong = 0;
	(void)ctx;
	if (!well_formed(arg[0], arg[1]))
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	return words(arg[0], arg[1], arg[2], true, &wrong) ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* ptr, bytes, tag, pinned 64-bit counter: += words that are not as sim_k_tag_fill left them */
CUresult sim_k_tag_check(struct sim_ctx *ctx, const uint64_t *arg)
{
	uint64_t wrong = 0;
	(void)ctx;
	if (!well_formed(arg[0], arg[1]))
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	if (!words(arg[0], arg[1], arg[2], false, &wrong))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	if (!wrong)
		return CUDA_SUCCESS;
	sim_lock();
	struct sim_range *r = sim_range_find(arg[3]);
	bool host = r && r->kind == MEM_PINNED && arg[3] % 8 == 0;
	if (host) /* under the lock: it is not freed meanwhile */
		__atomic_fetch_add((uint64_t *)arg[3], wrong, __ATOMIC_RELAXED);
	sim_unlock();
	return host ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}
