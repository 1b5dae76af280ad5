/*
 * util.h - clocks and byte patterns for the GPU programs.
 */
#ifndef TURBO_TEST_GPU_UTIL_H
#define TURBO_TEST_GPU_UTIL_H

#include <stddef.h>
#include <stdint.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* CLOCK_MONOTONIC, and the CPU time of all threads of the process; nanoseconds. */
uint64_t now_ns(void);
uint64_t cpu_ns(void);
void sleep_ms(unsigned ms);

/*
 * A byte sequence that depends on `seed` and on the position from its start, not on the
 * address: word i is mix(seed) + i * odd constant, so a shifted, stale or missing part
 * differs. pattern_check returns the offset of the first wrong byte, or -1.
 */
void pattern_fill(void *p, size_t n, uint32_t seed);
void pattern_fill_from(void *p, size_t first_word, size_t n, uint32_t seed);
int64_t pattern_check(const void *p, size_t n, uint32_t seed);
int64_t pattern_check_from(const void *p, size_t first_word, size_t n, uint32_t seed);
uint32_t pattern_word(size_t word, uint32_t seed);

/* xorshift64*: good enough to choose sizes; *state must not be 0. */
uint64_t random_next(uint64_t *state);
uint64_t random_below(uint64_t *state, uint64_t limit);

/* Median of n values (sorts them). */
uint64_t median_u64(uint64_t *v, size_t n);

/* "64M" to bytes (suffixes K, M, G of 1024); 0 when malformed. */
size_t parse_size(const char *text);

#endif
