/*
 * api.c - the calls that move data, and registration, memory and operators.
 */
#include <string.h>

#include "internal.h"

#define OP(name, params, ...)                                                                          \
	NCCL_API(name, params)                                                                             \
	{                                                                                                  \
		struct op op = {                                                                               \
			.type = type, .count = count, .comm = (struct comm *)comm, .stream = stream, __VA_ARGS__}; \
		return op_enqueue(&op, #name);                                                                 \
	}

OP(ncclAllGather,
   (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm, ncclStream_t stream),
   .func = F_ALLGATHER, .send = send, .recv = recv)
OP(ncclAllReduce,
   (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op_, ncclComm_t comm,
	ncclStream_t stream),
   .func = F_ALLREDUCE, .send = send, .recv = recv, .op = op_)
OP(ncclReduceScatter,
   (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op_, ncclComm_t comm,
	ncclStream_t stream),
   .func = F_REDUCESCATTER, .send = send, .recv = recv, .op = op_)
OP(ncclReduce,
   (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op_, int root,
	ncclComm_t comm, ncclStream_t stream),
   .func = F_REDUCE, .send = send, .recv = recv, .op = op_, .root = root)
OP(ncclBroadcast,
   (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
	ncclStream_t stream),
   .func = F_BROADCAST, .send = send, .recv = recv, .root = root)
OP(ncclBcast,
   (void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, ncclStream_t stream),
   .func = F_BROADCAST, .send = buffer, .recv = buffer, .root = root)
OP(ncclAlltoAll,
   (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm, ncclStream_t stream),
   .func = F_ALLTOALL, .send = send, .recv = recv)
OP(ncclGather,
   (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
	ncclStream_t stream),
   .func = F_GATHER, .send = send, .recv = recv, .root = root)
OP(ncclScatter,
   (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
	ncclStream_t stream),
   .func = F_SCATTER, .send = send, .recv = recv, .root = root)
OP(ncclSend,
   (const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, ncclStream_t stream),
   .func = F_SEND, .send = send, .root = peer)
OP(ncclRecv, (void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, ncclStream_t stream),
   .func = F_RECV, .recv = recv, .root = peer)

/* ---- memory ---- */

NCCL_API(ncclMemAlloc, (void **ptr, size_t size))
{
	CUdeviceptr p = 0;
	count_call("ncclMemAlloc");
	if (!ptr || !size)
		return ncclInvalidArgument;
	if (driver_ready() != ncclSuccess || dr.cuMemAlloc_v2(&p, size) != CUDA_SUCCESS)
		return ncclUnhandledCudaError;
	*ptr = (void *)(uintptr_t)p;
	return ncclSuccess;
}

NCCL_API(ncclMemFree, (void *ptr))
{
	count_call("ncclMemFree");
	if (!ptr)
		return ncclSuccess;
	return driver_ready() == ncclSuccess && dr.cuMemFree_v2((CUdeviceptr)ptr) == CUDA_SUCCESS
			   ? ncclSuccess
			   : ncclUnhandledCudaError;
}

NCCL_API(ncclCommRegister, (const ncclComm_t comm, void *buffer, size_t size, void **handle))
{
	count_call("ncclCommRegister");
	ncclResult_t result = comm_ready((struct comm *)comm, "ncclCommRegister");
	if (result != ncclSuccess || !handle || !size)
		return ncclInvalidArgument;
	*handle = buffer; /* any unique value: nothing is gained by it here */
	return ncclSuccess;
}

NCCL_API(ncclCommDeregister, (const ncclComm_t comm, void *handle))
{
	(void)handle;
	count_call("ncclCommDeregister");
	return comm_check((struct comm *)comm, "ncclCommDeregister");
}

/* As on devices without symmetric memory: success, and no window. */
NCCL_API(ncclCommWindowRegister, (ncclComm_t comm, void *buffer, size_t size, ncclWindow_t *win, int flags))
{
	(void)buffer;
	(void)size;
	(void)flags;
	count_call("ncclCommWindowRegister");
	ncclResult_t result = comm_ready((struct comm *)comm, "ncclCommWindowRegister");
	if (result == ncclSuccess && win)
		*win = NULL;
	return result;
}

NCCL_API(ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win))
{
	(void)win;
	count_call("ncclCommWindowDeregister");
	return comm_check((struct comm *)comm, "ncclCommWindowDeregister");
}

/* ---- operators ---- */

NCCL_API(ncclRedOpCreatePreMulSum,
		 (ncclRedOp_t * op, void *scalar, ncclDataType_t type, ncclScalarResidence_t where, ncclComm_t comm))
{
	struct comm *c = (struct comm *)comm;
	count_call("ncclRedOpCreatePreMulSum");
	ncclResult_t result = comm_ready(c, "ncclRedOpCreatePreMulSum");
	if (result != ncclSuccess || !op || !scalar || !type_size(type))
		return ncclInvalidArgument;
	result = ncclInternalError; /* all taken */
	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < MAX_OPS; i++) {
		struct premul *p = &c->premul[i];
		if (p->used)
			continue;
		*p = (struct premul){.used = true, .device = where == ncclScalarDevice, .type = type};
		if (p->device)
			p->address = (uint64_t)(uintptr_t)scalar;
		else
			memcpy(p->scalar, scalar, type_size(type));
		*op = (ncclRedOp_t)(ncclNumOps + i);
		result = ncclSuccess;
		break;
	}
	pthread_mutex_unlock(&c->lock);
	return result;
}

NCCL_API(ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm))
{
	struct comm *c = (struct comm *)comm;
	count_call("ncclRedOpDestroy");
	ncclResult_t result = comm_check(c, "ncclRedOpDestroy");
	unsigned which = (unsigned)op - ncclNumOps;
	if (result != ncclSuccess || which >= MAX_OPS || !c->premul[which].used)
		return ncclInvalidArgument;
	pthread_mutex_lock(&c->lock);
	c->premul[which].used = false;
	pthread_mutex_unlock(&c->lock);
	return ncclSuccess;
}
