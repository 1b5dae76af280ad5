"""CuPy without its memory pool: every array is a cudaMalloc and a cudaFree. Milliseconds a step, and
the bytes of the result."""
import hashlib
import sys
import time

import script_common as common

try:
    import cupy as cp
except ImportError:
    print("skipped: CuPy is not installed")
    sys.exit(77)

SIDE, STEPS = 1024, 30


def start():
    x = cp.arange(SIDE * SIDE, dtype=cp.float32).reshape(SIDE, SIDE)
    return cp.sin(x)


def step(x):
    """A diffusion with a few temporaries, a product, a reduction and a sort."""
    around = cp.roll(x, 1, 0) + cp.roll(x, -1, 0) + cp.roll(x, 1, 1) + cp.roll(x, -1, 1)
    y = x + 0.1 * (around - 4 * x)
    scale = cp.maximum(cp.abs(y).max(), 1e-6)
    rows = cp.sort(y[::8], axis=1)[:, :: SIDE // 8]
    return y / scale + 1e-3 * rows.mean()


class Work:
    def __init__(self):
        cp.cuda.set_allocator(None)
        self.x = start()
        self.steps(3)

    def steps(self, n):
        for _ in range(n):
            self.x = step(self.x)
        cp.cuda.Device().synchronize()

    def group(self):
        begun = time.perf_counter()
        self.steps(STEPS // 3)
        return (time.perf_counter() - begun) * 1e3 / (STEPS // 3)

    def timed(self):
        return common.groups(self.group, 3)

    def bytes(self):
        return hashlib.sha256(cp.asnumpy(self.x).tobytes()).hexdigest()


if __name__ == "__main__":
    try:
        cp.cuda.runtime.getDeviceCount()
    except cp.cuda.runtime.CUDARuntimeError:
        print("skipped: no GPU")
        sys.exit(77)
    work = Work()
    common.taking_turns({"time": work.timed, "losses": work.bytes})
