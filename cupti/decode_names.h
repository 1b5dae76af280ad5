/*
 * decode_names.h - what records are called that have no name of their own, in the words of PyTorch's profiler, which
 * the tools that read its traces look for.
 */
#ifndef TURBO_CUPTI_DECODE_NAMES_H
#define TURBO_CUPTI_DECODE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "Memcpy HtoD (Pinned -> Device)" and "Memset (Device)"; 64 bytes are enough. */
void names_copy(char *to, size_t size, uint32_t direction, uint32_t from, uint32_t into);
void names_memset(char *to, size_t size, uint32_t memory_kind);
const char *names_wait(uint32_t type);
const char *names_overhead(uint32_t overhead);

/* Asks CUPTI for the name of a call, once. Any thread. */
void names_learn(bool runtime, uint32_t callback);
/* "cudaLaunchKernel": as learnt, without the version, else "unknown call". */
const char *names_call(bool runtime, uint32_t callback);

#endif
