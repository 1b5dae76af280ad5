/*
 * nccl_abi.h - NCCL 2.28's ABI, as the simulated NCCL and programs that use it need it.
 *
 * There may be no nccl.h where tests are built. Where there is one, nccl/abi_check.c compares. Meanings are
 * NCCL's own documentation's. A stream is a CUstream.
 */
#ifndef NCCL_ABI_H
#define NCCL_ABI_H

#include <limits.h>
#include <stddef.h>

#define NCCL_ABI_VERSION 22809

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
typedef struct CUstream_st *ncclStream_t;

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
	char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
	ncclSuccess,
	ncclUnhandledCudaError,
	ncclSystemError,
	ncclInternalError,
	ncclInvalidArgument,
	ncclInvalidUsage,
	ncclRemoteError,
	ncclInProgress,
	ncclNumResults
} ncclResult_t;

typedef enum { ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg, ncclNumOps, ncclMaxRedOp = INT_MAX } ncclRedOp_t;

typedef enum {
	ncclInt8,
	ncclUint8,
	ncclInt32,
	ncclUint32,
	ncclInt64,
	ncclUint64,
	ncclFloat16,
	ncclFloat32,
	ncclFloat64,
	ncclBfloat16,
	ncclFloat8e4m3,
	ncclFloat8e5m2,
	ncclNumTypes
} ncclDataType_t;

typedef enum { ncclScalarDevice, ncclScalarHostImmediate } ncclScalarResidence_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_MAGIC 0xcafebeefu
#define NCCL_SPLIT_NOCOLOR (-1)
#define NCCL_SHRINK_DEFAULT 0
#define NCCL_SHRINK_ABORT 1

typedef struct {
	size_t size;
	unsigned magic, version;
	int blocking, cgaClusterSize, minCTAs, maxCTAs;
	const char *netName;
	int splitShare, trafficClass;
	const char *commName;
	int collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs, nChannelsPerNetPeer, nvlinkCentricSched;
} ncclConfig_t;

#define NCCL_UNDEF_ NCCL_CONFIG_UNDEF_INT
#define NCCL_CONFIG_INITIALIZER                                                                           \
	{                                                                                                     \
		sizeof(ncclConfig_t), NCCL_CONFIG_MAGIC, NCCL_ABI_VERSION, NCCL_UNDEF_, NCCL_UNDEF_, NCCL_UNDEF_, \
			NCCL_UNDEF_, NULL, NCCL_UNDEF_, NCCL_UNDEF_, NULL, NCCL_UNDEF_, NCCL_UNDEF_, NCCL_UNDEF_,     \
			NCCL_UNDEF_, NCCL_UNDEF_, NCCL_UNDEF_                                                         \
	}

#define NCCL_SIM_INFO_MAGIC 0x74685283u
typedef struct {
	size_t size;
	unsigned magic, version;
	float estimatedTime;
} ncclSimInfo_t;

/*
 * R(function, parameters): those that return a ncclResult_t. Each is also there as p##function.
 */
#define NCCL_ABI_COLLECTIVES(R)                                                                              \
	R(ncclAllGather, (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,      \
					  ncclStream_t stream))                                                                  \
	R(ncclAllReduce, (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,       \
					  ncclComm_t comm, ncclStream_t stream))                                                 \
	R(ncclReduceScatter, (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,   \
						  ncclComm_t comm, ncclStream_t stream))                                             \
	R(ncclReduce, (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,          \
				   int root, ncclComm_t comm, ncclStream_t stream))                                          \
	R(ncclBroadcast, (const void *send, void *recv, size_t count, ncclDataType_t type, int root,             \
					  ncclComm_t comm, ncclStream_t stream))                                                 \
	R(ncclBcast,                                                                                             \
	  (void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, ncclStream_t stream))     \
	R(ncclAlltoAll, (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,       \
					 ncclStream_t stream))                                                                   \
	R(ncclGather, (const void *send, void *recv, size_t count, ncclDataType_t type, int root,                \
				   ncclComm_t comm, ncclStream_t stream))                                                    \
	R(ncclScatter, (const void *send, void *recv, size_t count, ncclDataType_t type, int root,               \
					ncclComm_t comm, ncclStream_t stream))                                                   \
	R(ncclSend,                                                                                              \
	  (const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, ncclStream_t stream)) \
	R(ncclRecv,                                                                                              \
	  (void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, ncclStream_t stream))

#define NCCL_ABI_OTHERS(R)                                                                                 \
	R(ncclMemAlloc, (void **ptr, size_t size))                                                             \
	R(ncclMemFree, (void *ptr))                                                                            \
	R(ncclGetVersion, (int *version))                                                                      \
	R(ncclGetUniqueId, (ncclUniqueId * id))                                                                \
	R(ncclCommInitRankConfig,                                                                              \
	  (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config))                     \
	R(ncclCommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank))                         \
	R(ncclCommInitAll, (ncclComm_t * comms, int devices, const int *list))                                 \
	R(ncclCommInitRankScalable,                                                                            \
	  (ncclComm_t * comm, int ranks, int rank, int ids, ncclUniqueId *id, ncclConfig_t *config))           \
	R(ncclCommFinalize, (ncclComm_t comm))                                                                 \
	R(ncclCommDestroy, (ncclComm_t comm))                                                                  \
	R(ncclCommAbort, (ncclComm_t comm))                                                                    \
	R(ncclCommRevoke, (ncclComm_t comm, int flags))                                                        \
	R(ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *out, ncclConfig_t *config))         \
	R(ncclCommShrink,                                                                                      \
	  (ncclComm_t comm, int *exclude, int excludes, ncclComm_t *out, ncclConfig_t *config, int flags))     \
	R(ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t * error))                                      \
	R(ncclCommCount, (const ncclComm_t comm, int *count))                                                  \
	R(ncclCommCuDevice, (const ncclComm_t comm, int *device))                                              \
	R(ncclCommUserRank, (const ncclComm_t comm, int *rank))                                                \
	R(ncclCommRegister, (const ncclComm_t comm, void *buffer, size_t size, void **handle))                 \
	R(ncclCommDeregister, (const ncclComm_t comm, void *handle))                                           \
	R(ncclCommWindowRegister, (ncclComm_t comm, void *buffer, size_t size, ncclWindow_t *win, int flags))  \
	R(ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win))                                       \
	R(ncclRedOpCreatePreMulSum,                                                                            \
	  (ncclRedOp_t * op, void *scalar, ncclDataType_t type, ncclScalarResidence_t where, ncclComm_t comm)) \
	R(ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm))                                                 \
	R(ncclGroupStart, (void))                                                                              \
	R(ncclGroupEnd, (void))                                                                                \
	R(ncclGroupSimulateEnd, (ncclSimInfo_t * info))

#define NCCL_ABI_FUNCTIONS(R) NCCL_ABI_COLLECTIVES(R) NCCL_ABI_OTHERS(R)

#define NCCL_ABI_DECLARE(name, params) \
	ncclResult_t name params;          \
	ncclResult_t p##name params;
NCCL_ABI_FUNCTIONS(NCCL_ABI_DECLARE)
#undef NCCL_ABI_DECLARE

const char *ncclGetErrorString(ncclResult_t result);
const char *pncclGetErrorString(ncclResult_t result);
const char *ncclGetLastError(ncclComm_t comm);
const char *pncclGetLastError(ncclComm_t comm);
void ncclResetDebugInit(void);
void pncclResetDebugInit(void);

#endif
