/*
 * sites.h - which call sites hold the device memory, for the out-of-memory report.
 *
 * A heap profiler's sample: about one allocation in SITE_PERIOD bytes has its call stack taken,
 * and stands for that many bytes until it is freed. Nothing is sampled before a process holds
 * a good part of its device.
 */
#ifndef TURBO_DEVMEM_SITES_H
#define TURBO_DEVMEM_SITES_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SITE_PERIOD_LOG2 29 /* 512 MiB: 280 samples until an H200 is full */
#define SITE_FRAMES 24

/* Written by sites_pressure(), read relaxed: a stale value loses a sample. */
extern bool sites_on;

/* What the program holds of a device of `total` bytes; on misses only. */
void sites_pressure(size_t held, size_t total);

/* The processor's clock. Its low bits are the dice: no state to share between threads. */
static inline uint64_t sites_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t t;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return t;
#else
	return 0;
#endif
}

void sites_sample(CUdeviceptr ptr, size_t bytes, uint64_t ticks);
void sites_forget(CUdeviceptr ptr);

/* The program has been given `ptr`. Some nanoseconds; about 20 us for one that is sampled. */
static inline void sites_alloc(CUdeviceptr ptr, size_t bytes)
{
	if (__builtin_expect(!__atomic_load_n(&sites_on, __ATOMIC_RELAXED), 1))
		return;
	uint64_t ticks = sites_ticks(), dice = (ticks * 0x9e3779b97f4a7c15u) >> (64 - SITE_PERIOD_LOG2);
	if (dice < bytes)
		sites_sample(ptr, bytes, ticks);
}

/* Slots of the filter that sites_free() looks into; each counts the sampled blocks in it. */
#define SITE_FILTER 8192
extern uint16_t sites_filter[SITE_FILTER];

static inline unsigned sites_slot(CUdeviceptr ptr)
{
	return (unsigned)((ptr * 0x9e3779b97f4a7c15u) >> 51); /* 13 bits */
}

/* The program has freed `ptr`. */
static inline void sites_free(CUdeviceptr ptr)
{
	/* Relaxed: the count was raised before the program was given the pointer. */
	if (__builtin_expect(__atomic_load_n(&sites_filter[sites_slot(ptr)], __ATOMIC_RELAXED) != 0, 0))
		sites_forget(ptr);
}

struct site {
	size_t bytes;    /* that its live samples stand for */
	unsigned blocks; /* live samples */
	int frames;
	void *frame[SITE_FRAMES]; /* return addresses, innermost first, without our own */
};

/* The sites that hold most, largest first; at most `max`. */
unsigned sites_top(struct site *out, unsigned max);

/* In the atfork handler: no more samples. */
void sites_fork_child(void);

#endif
