/*
 * profiler.h - NCCL's profiler plugin interface, versions 4 and 5: the layouts, as far as events are made here.
 */
#ifndef SIM_NCCL_PROFILER_H
#define SIM_NCCL_PROFILER_H

#include <stddef.h>
#include <stdint.h>

#include "../nccl_abi.h"

enum {
	PROFILE_GROUP = 1 << 0,
	PROFILE_COLL = 1 << 1,
	PROFILE_P2P = 1 << 2,
	PROFILE_KERNEL_CH = 1 << 6,
};
#define PROFILE_KERNEL_CH_STOP 22 /* a state */

struct profile_coll {
	uint64_t sequence;
	const char *func;
	const void *send;
	void *recv;
	size_t count;
	int root;
	const char *type;
	uint8_t channels, warps;
	const char *algorithm, *protocol;
	void *group; /* version 5 */
};
struct profile_p2p {
	const char *func;
	void *buffer;
	const char *type;
	size_t count;
	int peer;
	uint8_t channels;
	void *group; /* version 5 */
};
struct profile_kernel_ch {
	uint8_t channel;
	uint64_t timer; /* ns, the device's clock */
};

struct profile_event {
	uint64_t type; /* version 4: its first byte, which is the same on little-endian machines */
	void *parent;
	int rank;
	union {
		struct profile_coll coll;
		struct profile_p2p p2p;
		struct profile_kernel_ch kernel;
		uint64_t room[16];
	};
};

union profile_state {
	struct {
		uint64_t timer;
	} kernel;
	uint64_t room[2];
};

typedef void profile_log_fn(int level, unsigned long flags, const char *file, int line, const char *fmt, ...);

struct profile_functions { /* what both versions end with */
	ncclResult_t (*start)(void *context, void **handle, struct profile_event *event);
	ncclResult_t (*stop)(void *handle);
	ncclResult_t (*record)(void *handle, int state, union profile_state *args);
	ncclResult_t (*finalize)(void *context);
};
struct profiler_v4 {
	const char *name;
	ncclResult_t (*init)(void **context, int *mask, const char *comm_name, uint64_t comm, int nodes,
						 int ranks, int rank, profile_log_fn *log);
	struct profile_functions f;
};
struct profiler_v5 {
	const char *name;
	ncclResult_t (*init)(void **context, uint64_t comm, int *mask, const char *comm_name, int nodes,
						 int ranks, int rank, profile_log_fn *log);
	struct profile_functions f;
};

#endif
