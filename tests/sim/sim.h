/*
 * sim.h - what tests may ask of the simulated driver beyond CUDA.
 *
 * Found with dlsym in build/sim/libcuda.so.1; a real driver has none of these,
 * so a program that runs on both looks them up and goes without when absent.
 * All may be called from any thread, at any time, also before cuInit.
 */
#ifndef SIM_H
#define SIM_H

#include <stddef.h>
#include <stdint.h>

/* The nth call (from 1, counted from now) of that exact symbol fails with `code`
 * without doing anything; nth 0 means every call. Codes that CUDA calls fatal
 * (700 and the like) stick to the calling thread's current context. */
void sim_fail_set(const char *symbol, int nth, int code);
void sim_fail_clear(void);

/* Calls of one exact symbol / of all symbols since the start or sim_reset(). */
uint64_t sim_calls(const char *symbol);
uint64_t sim_calls_total(void);

/* Driver calls made in forked children of a process that had called cuInit; they are
 * refused with CUDA_ERROR_NOT_INITIALIZED (version, lookup and error names answer).
 * Readable in the parent. */
uint64_t sim_calls_in_child(void);

/* Things that exist now, in all contexts. */
uint64_t sim_live_allocs(void); /* device, managed and VMM allocations; not host memory */
uint64_t sim_live_events(void);
uint64_t sim_live_streams(void); /* made by the program; default streams are not counted */
uint64_t sim_host_registrations(void);
uint64_t sim_host_allocs(void); /* cuMemHostAlloc and cuMemAllocHost blocks */

/* Bytes of the device that this process holds now, and the most it held since the start or
 * sim_reset(): allocations, what pools keep, contexts (SIM_CTX_MB). */
uint64_t sim_live_bytes(int device);
uint64_t sim_peak_bytes(int device);

/* How often a real cuMemFree, cuMemFreeHost or cuMemHostUnregister found the device busy, and
 * the longest time for which one of them held back a submission of another thread. */
uint64_t sim_free_waits(void);
uint64_t sim_launch_delay_ns_max(void);

/* Mistakes seen: use after free, DMA to memory that is not there, destroyed handles. */
uint64_t sim_errors(void);

/*
 * The kernels of the simulated NCCL (names ncclDevKernel_*) have two 64-bit parameters: a function and what it is given.
 * It runs as the kernel, on the stream's thread, and returns a CUresult. While it waits it asks
 * lost(ctx) now and then: true when the context has failed, and the kernel must end.
 */
typedef int sim_kernel_body(void *user, int (*lost)(const void *ctx), const void *ctx);
/* Inside a kernel: bytes from or to memory that the device reaches. 0: illegal address. */
int sim_device_load(void *to, uint64_t from, size_t n);
int sim_device_store(uint64_t to, const void *from, size_t n);

/* Zero the counters (calls, errors, child calls, waits, delay; the peak becomes what is
 * held now) and clear injected failures. */
void sim_reset(void);

#endif
