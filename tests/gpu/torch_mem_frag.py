"""How much memory an allocator needs for what is live: training with sequences of all lengths, and
programs that splinter a memory of LIMIT bytes.

The rest of the device is held back by an allocation of the program's own, made with the driver, so
that LIMIT holds for every allocator in the same way.
"""
import ctypes
import random

import torch_common as common
import torch
import torch_gpt as gpt

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


def hold_back():
    """Leaves LIMIT bytes of the device free."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    free, total, p = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
    if driver().cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)):
        raise RuntimeError("cuMemGetInfo fails")
    n = (free.value - LIMIT) // (2 * MIB) * (2 * MIB)
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
        self.kept, self.next = [], 1

    def new(self, size):
        x = torch.empty(int(size) // 8, dtype=torch.int64, device=DEVICE)
        x.fill_(self.next)
        self.kept.append((self.next, x))
        self.next += 1

    def keep(self, wanted):
        self.kept = [b for i, b in enumerate(self.kept) if wanted(i)]

    def check(self):
        for value, x in self.kept:
            if not bool((x[0] == value) & (x[-1] == value) & (x[x.numel() // 2] == value)):
                raise RuntimeError("block %d was overwritten" % value)


def splinters(b):
    """One large block gives way to blocks of 16 MiB; every other one stays; the large one comes back."""
    b.new(0.45 * LIMIT)
    b.keep(lambda i: False)
    for _ in range(int(0.86 * LIMIT / (16 * MIB))):
        b.new(16 * MIB)
    b.keep(lambda i: i % 2)
    b.new(0.45 * LIMIT)


def survivors(b):
    """Of many blocks of 2.5 MiB a few stay, everywhere; then four large ones."""
    for _ in range(int(0.88 * LIMIT / (2.5 * MIB))):
        b.new(2.5 * MIB)
    b.keep(lambda i: i % 7 == 0)
    for _ in range(4):
        b.new(0.17 * LIMIT)


def growth(b):
    """Blocks that grow by turns, as caches of a generation do; each new one is made beside its old one."""
    size = [0.028 * LIMIT] * 16
    for x in size:
        b.new(x)
    for step in range(16 * 14):
        size[step % 16] *= 1.045
        b.new(size[step % 16])
        b.kept.pop(0)


def near_limit(program):
    def run():
        held, b, finished, why = hold_back(), Blocks(), True, ""
        torch.cuda.reset_peak_memory_stats()
        try:
            ms, _ = common.timed(lambda: program(b))
            b.check()
        except torch.cuda.OutOfMemoryError as e:
            finished, why, ms = False, str(e).split(". ")[0], 0.0
        live = sum(x.numel() * 8 for _, x in b.kept)
        stats = torch.cuda.memory_stats()
        del b
        let_go(held)
        return {"finished": finished, "why": why, "live": live / LIMIT, "ms": ms, "reserved": stats["reserved_bytes.all.peak"]}
    return run


PARTS = {"varlen": varlen}
PARTS.update({p.__name__: near_limit(p) for p in (splinters, survivors, growth)})

if __name__ == "__main__":
    common.need_gpu()
    common.taking_turns(PARTS)
