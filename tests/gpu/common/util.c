#include "util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATTERN_STEP 2654435761u /* 2^32 / golden ratio, odd: no two words of a period are equal */

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t cpu_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void sleep_ms(unsigned ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

typedef uint32_t __attribute__((aligned(1), may_alias)) word_at_any_address;

static uint32_t pattern_base(uint32_t seed)
{
	uint32_t x = seed * 2246822519u + 374761393u;
	return x ^ (x >> 15);
}

uint32_t pattern_word(size_t word, uint32_t seed)
{
	return pattern_base(seed) + (uint32_t)word * PATTERN_STEP;
}

/* clang vectorises at -O2, gcc 12 only at -O3; a GiB is filled and compared often. */
#ifdef __clang__
#define VECTORISED
#else
#define VECTORISED __attribute__((optimize("O3")))
#endif

/* An addition a word, so that the compiler can vectorise it. */
VECTORISED void pattern_fill_from(void *p, size_t first_word, size_t n, uint32_t seed)
{
	word_at_any_address *w = p;
	size_t words = n / 4;
	uint32_t x = pattern_word(first_word, seed);
	for (size_t i = 0; i < words; i++, x += PATTERN_STEP)
		w[i] = x;
	memcpy((unsigned char *)p + 4 * words, &x, n % 4);
}

void pattern_fill(void *p, size_t n, uint32_t seed)
{
	pattern_fill_from(p, 0, n, seed);
}

/* True when the words are right; finding where they are not may be slow. */
VECTORISED static uint32_t pattern_differs(const word_at_any_address *w, size_t words, uint32_t x)
{
	uint32_t bad = 0;
	for (size_t i = 0; i < words; i++, x += PATTERN_STEP)
		bad |= w[i] ^ x;
	return bad;
}

int64_t pattern_check_from(const void *p, size_t first_word, size_t n, uint32_t seed)
{
	size_t words = n / 4;
	uint32_t end = pattern_word(first_word + words, seed);
	const unsigned char *tail = (const unsigned char *)p + 4 * words;
	if (!pattern_differs(p, words, pattern_word(first_word, seed)) && !memcmp(tail, &end, n % 4))
		return -1;
	for (size_t i = 0; i < n; i++) {
		uint32_t want = pattern_word(first_word + i / 4, seed);
		if (((const unsigned char *)p)[i] != ((const unsigned char *)&want)[i % 4])
			return (int64_t)i;
	}
	return -1;
}

int64_t pattern_check(const void *p, size_t n, uint32_t seed)
{
	return pattern_check_from(p, 0, n, seed);
}

uint64_t random_next(uint64_t *state)
{
	uint64_t x = *state;
	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * 2685821657736338717u;
}

uint64_t random_below(uint64_t *state, uint64_t limit)
{
	return (random_next(state) >> 11) % limit;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

uint64_t median_u64(uint64_t *v, size_t n)
{
	if (!n)
		return 0;
	qsort(v, n, sizeof(*v), compare_u64);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

size_t parse_size(const char *text)
{
	char *end;
	unsigned long long n = strtoull(text, &end, 10);
	if (end == text)
		return 0;
	unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
	if (shift)
		end++;
	return *end ? 0 : (size_t)(n << shift);
}
