/*
 * sim_kernel.h - what files with simulated kernels share.
 */
#ifndef SIM_KERNEL_H
#define SIM_KERNEL_H

#include "sim_internal.h"

#pragma GCC visibility push(hidden)

/* As sim_translate, for memory that a kernel can reach: not pageable memory. Lock held. */
unsigned char *sim_kernel_reach(uintptr_t addr, size_t *n, struct sim_phys **phys);

/* False, and a mistake: pageable memory. Lock held. */
bool sim_kernel_touches(uintptr_t addr);

/* True when a parameter is an address in [base, base + size). */
bool sim_kernel_names(const struct sim_launch *launch, uintptr_t base, size_t size);

const char *sim_kernel_name(const struct sim_launch *launch);

/* sim_tag.c */
CUresult sim_k_tag_fill(struct sim_ctx *ctx, const uint64_t *arg);
CUresult sim_k_tag_check(struct sim_ctx *ctx, const uint64_t *arg);

/* sim_call.c: rows of the table of kernels */
#define SIM_CALL_KERNELS                                                   \
	{"ncclDevKernel_AllGather_RING_LL", "88", sim_k_call},                 \
		{"ncclDevKernel_AllReduce_Sum_f32_RING_LL", "88", sim_k_call},     \
		{"ncclDevKernel_Broadcast_RING_LL", "88", sim_k_call},             \
		{"ncclDevKernel_Reduce_Sum_f32_RING_LL", "88", sim_k_call},        \
		{"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", "88", sim_k_call}, \
	{                                                                      \
		"ncclDevKernel_SendRecv", "88", sim_k_call                         \
	}
CUresult sim_k_call(struct sim_ctx *ctx, const uint64_t *arg);

#pragma GCC visibility pop
#endif
