"""NCCL without PyTorch: by ctypes, and by CuPy. Each makes a communicator of one rank and two calls in it.

    nccl_clients.py ctypes LIBNCCL LIBCUDART | cupy
"""
import ctypes
import sys

from script_common import result


def check(answer, what):
    if answer:
        sys.exit("%s answers %d" % (what, answer))


def by_ctypes(library, runtime):
    nccl, cudart = ctypes.CDLL(library), ctypes.CDLL(runtime)
    unique, comm, data = ctypes.create_string_buffer(128), ctypes.c_void_p(), ctypes.c_void_p()

    class UniqueId(ctypes.Structure):
        _fields_ = [("internal", ctypes.c_char * 128)]

    check(cudart.cudaMalloc(ctypes.byref(data), ctypes.c_size_t(4096)), "cudaMalloc")
    check(nccl.ncclGetUniqueId(unique), "ncclGetUniqueId")
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    check(nccl.ncclCommInitRank(ctypes.byref(comm), 1, UniqueId.from_buffer_copy(unique), 0), "ncclCommInitRank")
    for _ in range(2):
        check(nccl.ncclAllReduce(data, data, ctypes.c_size_t(16), 7, 0, comm, None), "ncclAllReduce")
    check(cudart.cudaDeviceSynchronize(), "cudaDeviceSynchronize")
    result()
    check(nccl.ncclCommDestroy(comm), "ncclCommDestroy")


def by_cupy():
    try:
        import cupy
        from cupy.cuda import nccl
    except ImportError as e:
        print("skipped: no CuPy with NCCL: %s" % e)
        sys.exit(77)
    comm, x = nccl.NcclCommunicator(1, nccl.get_unique_id(), 0), cupy.ones(16, dtype=cupy.float32)
    for _ in range(2):
        comm.allReduce(x.data.ptr, x.data.ptr, 16, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, cupy.cuda.Stream.null.ptr)
    cupy.cuda.Device().synchronize()
    result(sum=float(x.sum()))
    comm.destroy()


if __name__ == "__main__":
    by_cupy() if sys.argv[1] == "cupy" else by_ctypes(*sys.argv[2:4])
