/*
 * nccl_dl.h - NCCL by dlopen: the real library, or the simulated one.
 */
#ifndef TURBO_TEST_NCCL_DL_H
#define TURBO_TEST_NCCL_DL_H

#include "tests/sim/sim_nccl.h"

#define NCCL_DL_SIM(X)     \
	X(sim_nccl_mistakes)   \
	X(sim_nccl_fault)      \
	X(sim_nccl_launches)   \
	X(sim_nccl_launch_ops) \
	X(sim_nccl_signature) X(sim_nccl_order) X(sim_nccl_started) X(sim_nccl_completed) X(sim_nccl_comms)

struct nccl_dl {
#define R(name, params) __typeof__(&name) name;
	NCCL_ABI_FUNCTIONS(R)
#undef R
	__typeof__(&ncclGetErrorString) ncclGetErrorString;
	__typeof__(&ncclGetLastError) ncclGetLastError;
#define X(name) __typeof__(&name) name;
	NCCL_DL_SIM(X) /* NULL in the real library */
#undef X
};

/* Filled by nccl_dl_open(), constant afterwards. A function that the library lacks is NULL. */
extern struct nccl_dl nccl;

/* Loads libnccl.so.2. NULL, or one sentence why not. */
const char *nccl_dl_open(void);

#endif
