/*
 * simrt.h - a tiny runtime that reaches the driver as NVIDIA's runtime library does.
 *
 * rtInit(): dlopen("libcuda.so.1"), dlsym("cuGetProcAddress_v2"), then one lookup of name
 * "" and version 0, then each function by name, version and flags, with a NULL status.
 * A program that uses it has no link to the driver, and sees what a CUDA program sees.
 *
 * Functions return a CUresult as int (0: success). rt* use the legacy default stream for
 * stream NULL, rt*_ptsz / rt*_ptds the per-thread one (lookups with flags 2). Any thread;
 * each uses the primary context of device 0 unless rtSetDevice was called in it.
 *
 * Kernels (any image loads in the simulated driver; tests/gpu/kernels_ptx.h has them for a
 * real one). Parameters, sizes in bits:
 *   fill32(ptr 64, n 64, value 32)       ptr[i] = value
 *   add32(ptr 64, n 64, value 32)        ptr[i] += value
 *   checksum64(ptr 64, bytes 64, out 64) *out = FNV-1a of the bytes
 *   copy(dst 64, src 64, bytes 64)
 *   spin_us(us 64)                       busy that long
 *   spin_flag(ptr 64)                    busy until the 32-bit *ptr is not 0
 * and in the simulated driver alone:
 *   saxpy(y 64, x 64, n 64, a float)     y[i] += a * x[i]
 *   empty(), trap()                      trap: CUDA_ERROR_LAUNCH_FAILED
 *   tag_fill(ptr 64, bytes 64, tag 64)   marks a block: all words, or some when it is large
 *   tag_check(ptr 64, bytes 64, tag 64, wrong 64)  adds the number of words that lost the mark
 *                                        to the pinned 64-bit *wrong; ptr, bytes: multiples of 8
 */
#ifndef SIMRT_H
#define SIMRT_H

#include <stddef.h>
#include <stdint.h>

#define RT_H2D 1
#define RT_D2H 2
#define RT_D2D 3
#define RT_ANY 4 /* found out from the pointers */

/* 0, or the first error; once a process, further calls answer the same. */
int rtInit(void);
/* A driver function as the runtime finds it; NULL: the driver has none. flags: 0 or 2. */
void *rtDriver(const char *name, int version, uint64_t flags);

int rtSetDevice(int device);
int rtDeviceSynchronize(void);

int rtMalloc(void **ptr, size_t n); /* device memory: never to be touched by the host */
int rtFree(void *ptr);
int rtMallocHost(void **ptr, size_t n); /* pinned */
int rtFreeHost(void *ptr);
int rtHostRegister(void *ptr, size_t n);
int rtHostUnregister(void *ptr);
int rtMallocAsync(void **ptr, size_t n, void *stream);
int rtFreeAsync(void *ptr, void *stream);

int rtMemcpy(void *dst, const void *src, size_t n, int kind);
int rtMemcpyAsync(void *dst, const void *src, size_t n, int kind, void *stream);
int rtMemcpy_ptds(void *dst, const void *src, size_t n, int kind);
int rtMemcpyAsync_ptsz(void *dst, const void *src, size_t n, int kind, void *stream);
int rtMemset(void *dst, int value, size_t n);
int rtMemsetAsync(void *dst, int value, size_t n, void *stream);

int rtStreamCreate(void **stream); /* blocking; rtStreamCreateWithFlags: 1 is non-blocking */
int rtStreamCreateWithFlags(void **stream, unsigned flags);
int rtStreamDestroy(void *stream);
int rtStreamSynchronize(void *stream);
int rtStreamSynchronize_ptsz(void *stream);
int rtStreamQuery(void *stream);
int rtStreamWaitEvent(void *stream, void *event);
int rtLaunchHostFunc(void *stream, void (*fn)(void *), void *user);

int rtEventCreate(void **event, unsigned flags);
int rtEventDestroy(void *event);
int rtEventRecord(void *event, void *stream);
int rtEventQuery(void *event);
int rtEventSynchronize(void *event);

/* Loads an image (once a process is enough) and launches kernels of it by name; args as for
 * cuLaunchKernel. blocks of 256 threads. */
int rtLoad(const void *image);
int rtLaunch(const char *kernel, unsigned blocks, void *stream, void **args);
int rtLaunchEx(const char *kernel, unsigned blocks, void *stream, void **args);

#endif
