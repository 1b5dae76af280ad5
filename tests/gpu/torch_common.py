"""Helpers of the torch_*.py scripts."""
import hashlib
import sys
import time

from script_common import groups, result, stats, taking_turns  # noqa: F401

try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed")
    sys.exit(77)


def need_gpu():
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        sys.exit(77)
    torch.zeros(1).cuda()
    torch.cuda.synchronize()


def sha(tensors):
    """sha256 over the bytes of CPU tensors."""
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.contiguous().view(torch.uint8).numpy().data)
    return h.hexdigest()


def timed(f):
    """f() with the device idle before and after: (milliseconds, result)."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    r = f()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3, r


def pattern(n, seed):
    """n int32 values that differ by place and seed, on the CPU."""
    return torch.arange(n, dtype=torch.int32).mul_(-1640531527).add_(seed * 40503)
