"""What the programs of this folder share. Each is written as people write it before they tune: `main` gets a step that
returns a loss, and times it. They know nothing of libturbo."""
import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import torch_common as common  # noqa: E402
import torch  # noqa: E402


def start(seed=1):
    """Before the model is made: a GPU, and runs that can be compared bit by bit."""
    common.need_gpu()
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    torch.manual_seed(seed)


def forever(loader):
    """Epoch after epoch."""
    while True:
        yield from loader


def main(step, steps, warm=3):
    """step() does one step and returns its loss, a number or a tensor. `steps` of them are a turn."""
    def turn():
        torch.cuda.synchronize()
        begin = time.perf_counter()
        losses = [step() for _ in range(steps)]
        torch.cuda.synchronize()
        ms = (time.perf_counter() - begin) * 1e3
        return {"ms": ms, "losses": [float(x).hex() for x in losses],
                "peak_mib": torch.cuda.max_memory_reserved() >> 20}

    for _ in range(warm):
        step()
    common.taking_turns({"go": turn})
