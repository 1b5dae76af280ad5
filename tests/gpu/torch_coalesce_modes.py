"""All-gathers in the ways that must pass, or be right: what comes of each, as hashes and numbers.

    RANK, WORLD_SIZE, LOCAL_RANK, JOB_STORE as the launcher (ranks.py) sets them; the argument names the way.
"""
import os
import random
import sys
import time

import torch_common as common
import torch
import torch.distributed as dist

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def shards(n, seed=0, elements=257):
    g = torch.Generator().manual_seed(100 * seed + RANK)
    mine = [torch.randn(elements + 3 * i, generator=g).cuda() for i in range(n)]
    return mine, [torch.empty(WORLD * x.numel(), device="cuda") for x in mine]


def gather_all(mine, whole, group=None):
    works = [dist.all_gather_into_tensor(w, x, group=group, async_op=True) for w, x in zip(whole, mine)]
    for work in works:
        work.wait()


def loop():
    """Many rounds of it; each result feeds the next round."""
    mine, whole = shards(40)
    for _ in range(20):
        gather_all(mine, whole)
        for x, w in zip(mine, whole):
            x.add_(w.view(WORLD, -1).sum(0), alpha=0.01)
    return whole


def waits():
    """Each is waited for by the host (with TORCH_NCCL_BLOCKING_WAIT=1), or asked for."""
    mine, whole = shards(40)
    for k, (w, x) in enumerate(zip(whole, mine)):
        work = dist.all_gather_into_tensor(w, x, async_op=True)
        while k % 3 == 1 and not work.is_completed():
            time.sleep(0.0002)
        work.wait()
    return whole


def timing():
    """With TORCH_NCCL_ENABLE_TIMING=1 every work has a duration."""
    mine, whole = shards(30)
    works = [dist.all_gather_into_tensor(w, x, async_op=True) for w, x in zip(whole, mine)]
    for work in works:
        work.wait()
    torch.cuda.synchronize()
    if any(work._get_duration() < 0 for work in works):
        sys.exit("a duration is negative")
    return whole


def graph():
    mine, whole = shards(12)
    gather_all(mine, whole)
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        gather_all(mine, whole)
        for x in mine:
            x.mul_(1.01)
    eager_mine, eager_whole = shards(12, 1)
    for _ in range(20):
        gather_all(eager_mine, eager_whole)
        g.replay()
        gather_all(eager_mine, eager_whole)
    torch.cuda.synchronize()
    g.reset()
    return whole + eager_whole


def groups():
    """Several communicators in turns, and pieces of the world."""
    all_ranks = list(range(WORLD))
    made = [None, dist.new_group(all_ranks), dist.new_group(all_ranks)]
    mine, whole = shards(60)
    for _ in range(5):
        works = [dist.all_gather_into_tensor(w, x, group=made[i // 4 % 3], async_op=True)
                 for i, (w, x) in enumerate(zip(whole, mine))]
        for work in works[::-1]:
            work.wait()
        for x, w in zip(mine, whole):
            x.add_(w.view(WORLD, -1).sum(0), alpha=0.01)
    return whole


def split():
    """ncclCommSplit, where PyTorch makes groups by it."""
    child = dist.split_group(split_ranks=[list(range(WORLD))]) if hasattr(dist, "split_group") else dist.new_group()
    mine, whole = shards(40)
    for _ in range(10):
        gather_all(mine[:20], whole[:20], child)
        gather_all(mine[20:], whole[20:])
    return whole


def mixed():
    """Other collectives, streams and copies between."""
    mine, whole = shards(40)
    side, total = torch.cuda.Stream(), torch.zeros(257, device="cuda")
    host = torch.empty(64, pin_memory=True)
    for k in range(20):
        works = []
        for i, (w, x) in enumerate(zip(whole, mine)):
            works.append(dist.all_gather_into_tensor(w, x, async_op=True))
            if i % 11 == k % 11:
                dist.all_reduce(total)
                total.mul_(0.5).add_(1)
            if i % 7 == 0 and (k + RANK) % 3 == 0: # one rank does what others do not
                with torch.cuda.stream(side):
                    works[0].wait()
                    host.copy_(whole[0][:64], non_blocking=True)
            if i % 13 == 5 and (k + RANK) % 5 == 0:
                torch.cuda.synchronize()
        for work in works:
            work.wait()
        torch.cuda.current_stream().wait_stream(side)
        for x, w in zip(mine, whole):
            x.add_(w.view(WORLD, -1).sum(0), alpha=0.01)
    return whole + [total]


def zero3():
    """Modules one by one as DeepSpeed's stage 3 fetches them, a gather a parameter into new memory on a stream of their own, the
    next module's while this one computes; what comes of a module is its next shards."""
    mine, _ = shards(48)
    modules, side, done = [mine[i:i + 8] for i in range(0, 48, 8)], torch.cuda.Stream(), []

    def fetch(part):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            whole = [torch.empty(WORLD * x.numel(), device="cuda") for x in part]
            return whole, [dist.all_gather_into_tensor(w, x, async_op=True) for w, x in zip(whole, part)]

    for _ in range(10):
        coming = fetch(modules[0])
        for m, part in enumerate(modules):
            whole, works = coming
            coming = fetch(modules[m + 1]) if m + 1 < len(modules) else None
            with torch.cuda.stream(side):
                for work in works:
                    work.wait()
            torch.cuda.current_stream().wait_stream(side)
            for x, w in zip(part, whole):
                x.add_(w.view(WORLD, -1).sum(0), alpha=0.01)
                w.record_stream(torch.cuda.current_stream())
            done = whole
    return mine + done


def stress():
    """Rounds of random loops for STRESS_S seconds; every gather is checked."""
    until, state, rounds = time.monotonic() + float(os.environ.get("STRESS_S", "600")), random.Random(5), 0
    own = random.Random(7 + RANK)
    going = torch.ones(1, device="cuda")
    while True:
        n = state.randint(1, 96)
        sizes = [state.choice((1, 17, 256, 1024, 5000, 40000)) for _ in range(n)]
        mine = [torch.full((s,), float(RANK * 7 + rounds % 1000 + i), device="cuda") for i, s in enumerate(sizes)]
        whole = [torch.empty(WORLD * s, device="cuda") for s in sizes]
        works = []
        for w, x in zip(whole, mine):
            works.append(dist.all_gather_into_tensor(w, x, async_op=True))
            if own.random() < 0.03:
                own.choice((lambda: torch.cuda.synchronize(), lambda: works[-1].wait(), lambda: time.sleep(0.003),
                            lambda: works[0].is_completed(), lambda: mine[0].sum().item()))()
        for work in works:
            work.wait()
        for i, w in enumerate(whole):
            want = torch.arange(WORLD, device="cuda", dtype=torch.float32).mul_(7).add_(rounds % 1000 + i)
            if not torch.equal(w.view(WORLD, -1), want.unsqueeze(1).expand(WORLD, sizes[i])):
                sys.exit("round %d: gather %d is wrong" % (rounds, i))
        rounds += 1
        if rounds % 20 == 0: # all go on, or none
            going.fill_(1.0 if time.monotonic() < until else 0.0)
            dist.all_reduce(going, op=dist.ReduceOp.MIN)
            if going.item() == 0:
                return [going]


WAYS = {f.__name__: f for f in (loop, waits, timing, graph, groups, split, mixed, zero3, stress)}

if __name__ == "__main__":
    common.need_gpu()
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    bound = {"device_id": torch.device("cuda", torch.cuda.current_device())} if sys.argv[1] == "split" else {}
    dist.init_process_group("nccl", init_method="file://" + os.environ["JOB_STORE"], rank=RANK, world_size=WORLD, **bound)
    x, y = torch.ones(8, device="cuda"), torch.empty(8 * WORLD, device="cuda")
    dist.all_gather_into_tensor(y, x) # all have met
    torch.cuda.synchronize()
    tensors = WAYS[sys.argv[1]]()
    torch.cuda.synchronize()
    common.result(data=common.sha([t.cpu() for t in tensors]))
    dist.destroy_process_group()
