#!/usr/bin/env python3
"""One client of the driver for compare.py: client.py NAME.

Each does a bit of everything that allocates and copies, then writes what CUPTI and libturbo
have counted. Exit status 77: the framework is not installed, or there is no GPU.
"""
import ctypes
import os
import subprocess
import sys


def snapshot():
    """Counts of both sides: CUPTI before and after libturbo's, so that a call of another thread
    in between is seen as such."""
    out = os.environ["COVERAGE_OUT"]
    trace = ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"])
    env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "CUDA_INJECTION64_PATH")}
    trace.cuptitrace_dump((out + ".cupti0").encode())
    with open(out + ".turbo", "w") as f:
        subprocess.run([os.environ["GPU_TEST_TURBO"], "stats", str(os.getpid()), "--json", "--all"], env=env,
                       stdout=f, check=True)
    trace.cuptitrace_dump((out + ".cupti1").encode())


def need_torch():
    try:
        import torch
    except ImportError:
        sys.exit(77)
    if not torch.cuda.is_available():
        sys.exit(77)
    return torch


def eager():
    torch = need_torch()
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                              torch.nn.Linear(16 * 62 * 62, 64)).cuda()
    for i in range(5):
        x = torch.randn(32, 3, 64, 64)
        y = net((x.pin_memory() if i % 2 else x).cuda(non_blocking=bool(i % 2)))
        y.sum().backward()
        y.cpu()
        y.sum().item()
    big = torch.ones(16 << 20).cuda()
    big.cpu()
    big.clone().narrow(0, 1, 1 << 20).cpu()
    torch.zeros(1000, 100, device="cuda")[::3, ::2].cpu()
    del big
    torch.cuda.empty_cache()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.ones(8 << 20).cuda(non_blocking=True).sum().item()
    torch.cuda.synchronize()


def compile():
    torch = need_torch()
    import torch._inductor.config as inductor
    inductor.compile_threads = 1

    @torch.compile(mode="reduce-overhead")
    def f(x, w):
        return torch.relu(x @ w).sum(0)

    w = torch.randn(256, 256).cuda()
    for _ in range(6):
        torch.compiler.cudagraph_mark_step_begin()
        f(torch.randn(512, 256).cuda(), w).cpu()
    torch.cuda.synchronize()


def triton():
    torch = need_torch()
    try:
        import triton as tr
        import triton.language as tl
    except ImportError:
        sys.exit(77)
    del tl
    from triton_kernel import add_kernel
    x = torch.arange(1 << 20, dtype=torch.float32).cuda()
    out = torch.empty_like(x)
    for _ in range(3):
        add_kernel[(tr.cdiv(x.numel(), 1024),)](x, x, out, x.numel(), BLOCK=1024)
    assert bool((out.cpu() == 2 * x.cpu()).all())


def cupy():
    try:
        import cupy as cp
        import numpy as np
    except ImportError:
        sys.exit(77)
    a = np.arange(4 << 20, dtype=np.float32)
    for _ in range(3):
        d = cp.asarray(a)
        d2 = d * 2 + 1
        assert float(d2.get()[5]) == 11.0
        d2[::7].get()
    with cp.cuda.Stream(non_blocking=True) as s:
        e = cp.asarray(a[: 1 << 20])
        cp.asnumpy(e, stream=s)
        s.synchronize()
    pinned = cp.cuda.alloc_pinned_memory(1 << 20)
    del pinned, d, d2, e
    cp.get_default_memory_pool().free_all_blocks()
    cp.cuda.Device().synchronize()


def jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        import jax as jx
        import jax.numpy as jnp
        import numpy as np
    except ImportError:
        sys.exit(77)
    if jx.default_backend() != "gpu":
        sys.exit(77)
    f = jx.jit(lambda x, w: jnp.tanh(x @ w).sum(axis=0))
    w = jx.device_put(np.ones((512, 512), np.float32))
    for i in range(4):
        x = jx.device_put(np.full((2048, 512), 0.01 * i, np.float32))
        np.asarray(f(x, w))
        np.asarray(x)
    jx.block_until_ready(f(x, w))


def nccl():
    torch = need_torch()
    import torch.distributed as dist
    store = os.environ["COVERAGE_OUT"] + ".store"
    dist.init_process_group("nccl", init_method="file://" + store, rank=0, world_size=1,
                            device_id=torch.device("cuda", 0))
    x = torch.ones(4 << 20).cuda()
    for _ in range(3):
        dist.all_reduce(x)
        out = torch.empty_like(x)
        dist.all_gather_into_tensor(out, x)
        dist.broadcast(x, 0)
    torch.cuda.synchronize()
    x.cpu()
    snapshot()
    dist.destroy_process_group()
    sys.exit(0)


CLIENTS = {"eager": eager, "eager_vmm": eager, "eager_async": eager, "compile": compile, "triton": triton,
           "cupy": cupy, "jax": jax, "nccl": nccl}

if __name__ == "__main__":
    CLIENTS[sys.argv[1]]()
    snapshot()
