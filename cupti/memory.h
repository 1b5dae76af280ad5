/*
 * memory.h - how much of each device's memory is in use, each second, by NVML where it is installed.
 *
 * The helper. NVML is loaded when the first sample is due, and asks the kernel's driver alone: no CUDA call is made, no
 * context is touched.
 */
#ifndef TURBO_CUPTI_MEMORY_H
#define TURBO_CUPTI_MEMORY_H

/* Names of the counters; their value is bytes, their lane the device. */
#define MEMORY_USED "device memory used"
#define MEMORY_PROCESS "device memory of this process"

void memory_sample(void);

#endif
