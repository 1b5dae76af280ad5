"""Loops of small all-gathers as optimizers and sharded models have them, and training steps: parts that are timed in turns.

    RANK, WORLD_SIZE, LOCAL_RANK, JOB_STORE; alone without them. With more ranks than one, each runs every part once.
"""
import gc
import os
import tempfile

import torch_common as common
import torch
import torch.distributed as dist
import torch_gpt as gpt
from torch import nn

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
GATHERS, ELEMENTS, ROUNDS = 64, 1 << 10, 30 # 4 KiB each
STEPS, ALL = 6, int(os.environ.get("STEPS", "300"))


def shards(n=GATHERS, elements=ELEMENTS):
    """What this rank has of n parameters, and room for the whole ones."""
    mine = [torch.full((elements + 64 * (i % 5),), float(1000 * RANK + i), device="cuda") for i in range(n)]
    return mine, [torch.empty(WORLD * x.numel(), device="cuda") for x in mine]


def check(mine, whole):
    for i, w in enumerate(whole):
        for rank, part in enumerate(w.view(WORLD, -1)):
            want = float(1000 * rank + i)
            if part[0].item() != want or part[-1].item() != want:
                raise SystemExit("gather %d: %r of rank %d, not %r" % (i, part[0].item(), rank, want))


def timed(body, rounds=ROUNDS):
    """Milliseconds of each round, the device being idle before and after."""
    gc.disable()
    body()
    ms = [common.timed(body)[0] for _ in range(rounds)]
    gc.enable()
    return ms


class Loop:
    """All are issued, then all are waited for."""

    def __init__(self):
        self.mine, self.whole = shards()

    def once(self):
        works = [dist.all_gather_into_tensor(w, x, async_op=True) for w, x in zip(self.whole, self.mine)]
        for work in works:
            work.wait()

    def timed(self):
        ms = timed(self.once)
        check(self.mine, self.whole)
        return ms


class Sequential(Loop):
    """One parameter after the other on a stream of their own."""

    def __init__(self):
        super().__init__()
        self.stream = torch.cuda.Stream()

    def once(self):
        with torch.cuda.stream(self.stream):
            works = [dist.all_gather_into_tensor(w, x, async_op=True) for w, x in zip(self.whole, self.mine)]
        for work in works:
            work.wait()
        torch.cuda.current_stream().wait_stream(self.stream)


class Zero3(Loop):
    """Modules fetched as DeepSpeed's stage 3 does with allgather_sequential: each parameter by a gather of its own into new
    memory, on a stream for that, the next module's while this one computes; freed behind their use."""
    MODULES = 8

    def __init__(self):
        super().__init__()
        self.stream = torch.cuda.Stream()
        self.sums = [torch.zeros((), device="cuda") for _ in range(self.MODULES)]

    def fetch(self, m):
        mine = self.mine[m::self.MODULES]
        with torch.cuda.stream(self.stream):
            whole = [torch.empty(WORLD * x.numel(), device="cuda") for x in mine]
            return whole, [dist.all_gather_into_tensor(w, x, async_op=True) for w, x in zip(whole, mine)]

    def once(self):
        coming = self.fetch(0)
        for m in range(self.MODULES):
            whole, works = coming
            coming = self.fetch(m + 1) if m + 1 < self.MODULES else None
            with torch.cuda.stream(self.stream):
                for work in works:
                    work.wait()
            torch.cuda.current_stream().wait_stream(self.stream)
            self.sums[m] = torch.stack([w.sum() for w in whole]).sum()
            for w in whole:
                w.record_stream(torch.cuda.current_stream())

    def timed(self):
        ms = timed(self.once)
        for m in range(self.MODULES):
            want = sum((1000 * rank + i) * self.mine[i].numel() for rank in range(WORLD)
                       for i in range(m, GATHERS, self.MODULES))
            if abs(self.sums[m].item() - want) > 1e-5 * want:
                raise SystemExit("module %d: %r, not %r" % (m, self.sums[m].item(), want))
        return ms


class Muon(Loop):
    """Updates of this rank's shards, gathered parameter by parameter, then applied."""

    def __init__(self):
        super().__init__()
        self.update = [torch.empty_like(w) for w in self.whole]
        self.moment = [torch.zeros_like(x) for x in self.mine]
        self.gradient = [torch.full_like(x, 1e-3) for x in self.mine]

    def once(self):
        torch._foreach_lerp_(self.moment, self.gradient, 0.05)
        works = [dist.all_gather_into_tensor(u, m, async_op=True) for u, m in zip(self.update, self.moment)]
        for work in works:
            work.wait()
        torch._foreach_add_(self.whole, self.update, alpha=-0.02)

    def timed(self):
        for w in self.whole:
            w.zero_()
        ms = timed(self.once)
        self.sum = torch.stack([w.double().sum() for w in self.whole]).sum().item().hex()
        return ms


class MuonMixed(Muon):
    """The same, each update being computed just before it is gathered."""

    def once(self):
        works = []
        for u, m, g in zip(self.update, self.moment, self.gradient):
            m.lerp_(g, 0.05)
            works.append(dist.all_gather_into_tensor(u, m, async_op=True))
        for work, w, u in zip(works, self.whole, self.update):
            work.wait()
            w.add_(u, alpha=-0.02)


class Sync(Loop):
    """Without async_op: on the current stream."""

    def once(self):
        for w, x in zip(self.whole, self.mine):
            dist.all_gather_into_tensor(w, x)


class Train:
    def __init__(self, wrap):
        torch.manual_seed(5)
        self.model = gpt.Gpt(layers=4, vocabulary=8192, longest=256).cuda()
        self.model = wrap(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.n, self.losses = 0, []
        self.steps(4)

    def steps(self, n):
        for _ in range(n):
            loss = gpt.loss_of(self.model, gpt.batch(WORLD * self.n + RANK, 8, 256, 8192, "cuda"))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.detach())
            self.n += 1

    def timed(self):
        gc.collect()
        gc.disable()
        self.steps(1)
        ms = [common.timed(lambda: self.steps(STEPS))[0] / STEPS for _ in range(3)]
        gc.enable()
        return ms

    def all_losses(self):
        self.steps(ALL - self.n)
        return [x.item().hex() for x in self.losses]


def fsdp(model):
    from torch.distributed.fsdp import fully_shard
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def main():
    common.need_gpu()
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    store = os.environ.get("JOB_STORE") or os.path.join(tempfile.mkdtemp(), "store")
    dist.init_process_group("nccl", init_method="file://" + store, rank=RANK, world_size=WORLD,
                            device_id=torch.device("cuda", torch.cuda.current_device()))
    torch.use_deterministic_algorithms(True, warn_only=True)
    loops = {"loop": Loop(), "sequential": Sequential(), "zero3": Zero3(), "muon": Muon(), "muon_mixed": MuonMixed(), "sync": Sync()}
    trains = {"plain": Train(lambda m: m), "ddp": Train(nn.parallel.DistributedDataParallel), "fsdp": Train(fsdp)}
    parts = {name: part.timed for name, part in {**loops, **trains}.items()}
    parts["losses"] = lambda: {**{n: p.all_losses() for n, p in trains.items()},
                               **{n: loops[n].sum for n in ("muon", "muon_mixed")}}
    common.taking_turns(parts)
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
