"""How much memory an allocator needs for what is live: training with sequences of all lengths, and
programs that splinter a memory of LIMIT bytes.

The rest of the device is held back by an allocation of the program's own, made with the driver, so
that LIMIT holds for every allocator in the same way: no allocator knows of it, all run into it.
"""
import ctypes
import os
import random

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch_common as common  # noqa: E402
import torch  # noqa: E402
import torch_gpt as gpt  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30
LIMIT = 8 * GIB
STEPS, LONGEST, VOCABULARY = 40, 4096, 32000
DEVICE = "cuda"


def varlen():
    """Training, with a longer evaluation now and then."""
    torch.manual_seed(9)
    draw = random.Random(4)
    model = gpt.Gpt(width=1024, layers=6, heads=16, vocabulary=VOCABULARY, longest=LONGEST).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    total = 0.0
    for step in range(STEPS):
        length = 8 * draw.randint(16, LONGEST // 8 - 1)
        loss = gpt.loss_of(model, gpt.batch(step, 4, length, VOCABULARY, DEVICE))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        if step % 10 == 9:
            with torch.no_grad():
                total += gpt.loss_of(model, gpt.batch(step, 12, 8 * draw.randint(16, 400), VOCABULARY, DEVICE)).item()
    stats = torch.cuda.memory_stats()
    peaks = {"reserved": stats["reserved_bytes.all.peak"], "live": stats["allocated_bytes.all.peak"], "loss": total.hex()}
    del model, optimizer, loss
    torch.cuda.empty_cache()
    return peaks


# ---- near the limit --------------------------------------------------------------------------

def driver():
    return ctypes.CDLL("libcuda.so.1")


def free_bytes():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    if driver().cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)):
        raise RuntimeError("cuMemGetInfo fails")
    return free.value


def hold_back():
    """Leaves LIMIT bytes of the device free."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    p, n = ctypes.c_uint64(), (free_bytes() - LIMIT) // (2 * MIB) * (2 * MIB)
    if n <= 0 or driver().cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(n)):
        raise RuntimeError("%d bytes cannot be held back" % n)
    return p


def let_go(p):
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    driver().cuMemFree_v2(p)


class Blocks:
    """Blocks with a value each, checked at the end: memory that was joined must not be shared."""

    def __init__(self):
        self.kept, self.next, self.live, self.peak = [], 1, 0, 0

    def new(self, size):
        x = torch.empty(int(size) // 8, dtype=torch.int64, device=DEVICE)
        x.fill_(self.next)
        self.kept.append((self.next, x))
        self.next += 1
        self.live += x.numel() * 8
        self.peak = max(self.peak, self.live)

    def keep(self, wanted):
        self.kept = [b for i, b in enumerate(self.kept) if wanted(i)]
        self.live = sum(x.numel() * 8 for _, x in self.kept)

    def drop(self, i):
        self.live -= self.kept.pop(i)[1].numel() * 8

    def check(self):
        torch.cuda.synchronize()
        for value, x in self.kept:
            if not bool((x[0] == value) & (x[-1] == value) & (x[x.numel() // 2] == value)):
                raise RuntimeError("block %d was overwritten" % value)


def warm():
    """Loads the kernels that the programs launch, which takes memory too; on both streams."""
    for s in (torch.cuda.current_stream(), SIDE):
        with torch.cuda.stream(s):
            b = Blocks()
            b.new(4 * MIB)
            b.check()


def splinters(b):
    """One large block gives way to blocks of 16 MiB; every other one stays; the large one comes back."""
    b.new(0.49 * LIMIT)
    b.keep(lambda i: False)
    for _ in range(int(0.88 * LIMIT / (16 * MIB))):
        b.new(16 * MIB)
    b.keep(lambda i: i % 2)
    b.new(0.49 * LIMIT)


def slabs(b):
    """The same with blocks of 48 MiB, of which two in three go."""
    b.new(0.62 * LIMIT)
    b.keep(lambda i: False)
    for _ in range(int(0.92 * LIMIT / (48 * MIB))):
        b.new(48 * MIB)
    b.keep(lambda i: i % 3 == 1)
    b.new(0.62 * LIMIT)


def survivors(b):
    """Of many blocks of 2.5 MiB a few stay, everywhere; then four large ones."""
    for _ in range(int(0.92 * LIMIT / (2.5 * MIB))):
        b.new(2.5 * MIB)
    b.keep(lambda i: i % 14 == 0)
    for _ in range(4):
        b.new(0.21 * LIMIT)


def lifetimes(b):
    """Two streams allocate in turns, sizes and lifetimes as they come; then large blocks on one of them."""
    draw = random.Random(6)
    for step in range(1500):
        with torch.cuda.stream(SIDE if step % 2 else torch.cuda.current_stream()):
            size = int(draw.choice([3, 9, 22, 70, 150]) * MIB * draw.uniform(0.7, 1.3))
            while b.live + size > 0.9 * LIMIT:
                b.drop(draw.randrange(len(b.kept)))
            b.new(size)
    torch.cuda.synchronize()
    while b.live > 0.50 * LIMIT:
        b.drop(draw.randrange(len(b.kept)))
    for _ in range(2):
        b.new(0.21 * LIMIT)


def growth(b):
    """Blocks that grow by turns, as caches of a generation do; each new one is made beside its old one."""
    size = [0.03 * LIMIT] * 16
    for x in size:
        b.new(x)
    for step in range(16 * 14):
        size[step % 16] *= 1.045
        b.new(size[step % 16])
        b.drop(0)


def near_limit(program):
    def run():
        warm()
        held, b, finished, why = hold_back(), Blocks(), True, ""
        torch.cuda.reset_peak_memory_stats()
        left = free_bytes()
        try:
            ms, _ = common.timed(lambda: program(b))
            b.check()
        except torch.cuda.OutOfMemoryError as e:
            finished, why, ms = False, str(e), 0.0
        stats = torch.cuda.memory_stats()
        out = {"finished": finished, "why": why, "ms": ms, "left": left, "live": b.peak, "wanted_at": b.live,
               "reserved": stats["reserved_bytes.all.peak"]}
        del b
        let_go(held)
        return out
    return run


PARTS = {"varlen": varlen}
PARTS.update({p.__name__: near_limit(p) for p in (splinters, slabs, survivors, lifetimes, growth)})

if __name__ == "__main__":
    common.need_gpu()
    # The same kernels with the same results, whatever the allocator.
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    SIDE = torch.cuda.Stream()
    common.taking_turns(PARTS)
