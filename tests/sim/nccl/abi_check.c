/*
 * abi_check.c - what comm.c asserts of ../nccl_abi.h holds of the installed nccl.h, where there is one of that version.
 */
#if defined(__has_include)
#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>
#if NCCL_VERSION_CODE >= 22807 && NCCL_VERSION_CODE < 22900

#define SAME(what, value) _Static_assert((int)(what) == (value), #what)

SAME(ncclInProgress, 7);
SAME(ncclRemoteError, 6);
SAME(ncclAvg, 4);
SAME(ncclNumOps, 5);
SAME(ncclMaxRedOp, 0x7fffffff);
SAME(ncclFloat16, 6);
SAME(ncclBfloat16, 9);
SAME(ncclFloat8e5m2, 11);
SAME(ncclNumTypes, 12);
SAME(ncclScalarHostImmediate, 1);
SAME(NCCL_SPLIT_NOCOLOR, -1);
SAME(NCCL_SHRINK_ABORT, 1);
SAME(sizeof(ncclUniqueId), 128);
SAME(sizeof(ncclConfig_t), 80);
SAME(__builtin_offsetof(ncclConfig_t, blocking), 16);
SAME(__builtin_offsetof(ncclConfig_t, netName), 32);
SAME(__builtin_offsetof(ncclConfig_t, commName), 48);
SAME(__builtin_offsetof(ncclConfig_t, nvlinkCentricSched), 76);
SAME(sizeof(ncclSimInfo_t), 24);
SAME(NCCL_CONFIG_UNDEF_INT, (int)0x80000000);

#endif
#endif
#endif

/* A source must declare something. */
struct sim_nccl_abi_is_checked;
