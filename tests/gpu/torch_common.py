"""Helpers of the torch_*.py scripts, which are ordinary programs: they know nothing of libturbo but
how to ask `turbo stats` about themselves when run_check.py says where it is."""
import hashlib
import json
import os
import subprocess
import sys
import time

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


def stats():
    """libturbo's counters of this process; {} when it is not preloaded."""
    command = os.environ.get("GPU_TEST_TURBO")
    if not command or not os.environ.get("LD_PRELOAD"):
        return {}
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    p = subprocess.run([command, "stats", str(os.getpid()), "--json"], env=env, capture_output=True, text=True)
    return json.loads(p.stdout)["counters"] if p.returncode == 0 else {"error": p.stderr}


def result(**values):
    """The last line for run_check.py."""
    values["stats"] = stats()
    print("RESULT " + json.dumps(values), flush=True)


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
