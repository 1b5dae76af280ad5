"""Large host memory as programs use it: arrays made, filled and dropped; pinned memory made and freed; one tensor copied
to the device again and again; a loader in the program's own process. Milliseconds of each round."""
import ctypes
import time

import torch_common as common
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

MIB = 1 << 20
BATCH, SHAPE = 64, (3, 224, 224)


def clock(f, n):
    """Milliseconds of each of n calls, after two that do not count."""
    times = []
    for i in range(n + 2):
        start = time.perf_counter()
        f()
        times.append((time.perf_counter() - start) * 1e3)
    return times[2:]


def torch_churn(mib):
    def once():
        torch.empty(mib * MIB // 4, dtype=torch.int32).fill_(1)
    return lambda: clock(once, 6)


def numpy_churn(mib):
    def once():
        np.empty(mib * MIB // 4, dtype=np.int32).fill(1)
    return lambda: clock(once, 6)


def pinned_churn():
    runtime = ctypes.CDLL("libcudart.so.%s" % torch.version.cuda.split(".")[0])
    p = ctypes.c_void_p()

    def once():
        assert runtime.cudaMallocHost(ctypes.byref(p), ctypes.c_size_t(256 * MIB)) == 0
        assert runtime.cudaFreeHost(p) == 0
    torch.cuda.synchronize()
    return clock(once, 5)


SOURCE = {}


def again(pin):
    """64 MiB, the same tensor each time, changed in between."""
    def part():
        if pin not in SOURCE:
            x = torch.empty(64 * MIB // 4, dtype=torch.int32)
            SOURCE[pin] = x.pin_memory() if pin else x
        x, to = SOURCE[pin], torch.empty(64 * MIB // 4, dtype=torch.int32, device="cuda")
        times = []
        for i in range(12):
            x.fill_(i)
            ms, _ = common.timed(lambda: to.copy_(x))
            assert int(to[0]) == i and int(to[-1]) == i
            times.append(ms)
        return times[4:]
    return part


class Images(Dataset):
    def __init__(self):
        self.rows = torch.randn(64, *SHAPE, generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return BATCH * 14

    def __getitem__(self, i):
        return self.rows[i % 64]


def loader():
    """Milliseconds a batch, its collation included."""
    times, start = [], time.perf_counter()
    for x in DataLoader(Images(), batch_size=BATCH, num_workers=0):
        x.cuda()
        torch.cuda.synchronize()
        now = time.perf_counter()
        times.append((now - start) * 1e3)
        start = now
    return times[4:]


PARTS = {
    "torch_64": torch_churn(64), "torch_256": torch_churn(256), "numpy_64": numpy_churn(64),
    "numpy_256": numpy_churn(256), "pinned": pinned_churn, "again": again(False), "again_pinned": again(True),
    "loader": loader,
}

if __name__ == "__main__":
    common.need_gpu()
    common.taking_turns(PARTS)
