"""One rank of a small job that goes wrong, or does not, in the way that its argument names.

    RANK, WORLD_SIZE, JOB_STORE: as the launcher (ranks.py) sets them. Ends with 0 when the job went to its end.
"""
import os
import signal
import sys
import time

import torch_common as common
import torch
import torch.distributed as dist
from torch import nn

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
CULPRIT = WORLD - 1
SLEEP_CYCLES = 1500000000  # about a second of an H200


def tensor(elements=1 << 12):
    return torch.full((elements,), float(RANK + 1), device="cuda")


def warm(group=None):
    """All have met, and the communicator is there."""
    x = tensor()
    dist.all_reduce(x, group=group)
    torch.cuda.synchronize()


def loop_of_gathers(steps, at, fault):
    x, y = tensor(), torch.empty(WORLD << 12, device="cuda")
    for i in range(steps):
        if i == at and RANK == CULPRIT:
            fault()
        dist.all_gather_into_tensor(y, x)
        y.sum().item()


def killed():
    loop_of_gathers(40, 20, lambda: os.kill(os.getpid(), signal.SIGKILL))


def stopped():
    loop_of_gathers(40, 20, lambda: os.kill(os.getpid(), signal.SIGSTOP))


def asleep():
    """Slow, and nothing else: no alarm."""
    loop_of_gathers(40, 20, lambda: time.sleep(25))


def branch():
    x, y = tensor(), torch.empty(WORLD << 12, device="cuda")
    if RANK == CULPRIT:
        dist.all_reduce(x)
    else:
        dist.all_gather_into_tensor(y, x)
    torch.cuda.synchronize()


def shape():
    """NCCL need not hang on it: the data is wrong, and the job goes on."""
    dist.all_reduce(tensor(200 << 10 if RANK == CULPRIT else 100 << 10))
    torch.cuda.synchronize()
    time.sleep(3)


def crossed():
    first, second = dist.new_group(list(range(WORLD))), dist.new_group(list(range(WORLD)))
    warm(first), warm(second)
    for group in (first, second) if RANK == 0 else (second, first):
        x = tensor()
        dist.all_reduce(x, group=group)
        x.sum().item()


def missing():
    """A send that nobody receives; the other ranks go on to the next collective."""
    if RANK == 0:
        dist.send(tensor(16 << 20), CULPRIT)
        torch.cuda.synchronize()
    dist.all_reduce(tensor())
    torch.cuda.synchronize()


def held():
    """Behind a kernel that does not end: on one rank, or the only one."""
    if RANK == CULPRIT:
        for _ in range(50):
            torch.cuda._sleep(SLEEP_CYCLES)
    x = tensor()
    dist.all_reduce(x)
    x.sum().item()


def busy():
    """The culprit computes on the CPU for longer than any of the watchdog's times."""
    if RANK == CULPRIT:
        until, n = time.monotonic() + float(os.environ.get("BUSY_S", "65")), 0
        while time.monotonic() < until:
            n += sum(range(1000))
    loop_of_gathers(2, -1, None)


def checkpoint():
    """The culprit writes for a while, as rank 0 does of a model."""
    if RANK == CULPRIT:
        import tempfile
        until, x = time.monotonic() + float(os.environ.get("BUSY_S", "65")), torch.zeros(8 << 20)
        with tempfile.TemporaryDirectory() as folder:
            while time.monotonic() < until:
                torch.save(x, os.path.join(folder, "x"))
                with open(os.path.join(folder, "x")) as f:
                    os.fsync(f.fileno())
                time.sleep(0.2)
    loop_of_gathers(2, -1, None)


def compiled():
    model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(6)]).cuda()
    if RANK == CULPRIT:
        model = torch.compile(model)
    ddp = nn.parallel.DistributedDataParallel(model)
    for _ in range(3):
        ddp(tensor(256)).sum().backward()
    torch.cuda.synchronize()


def graph():
    """Collectives in a graph, replayed; then again beside eager ones."""
    x, pool = tensor(), torch.cuda.graph_pool_handle()
    warm()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, pool=pool):
        for _ in range(4):
            dist.all_reduce(x, op=dist.ReduceOp.MAX)
    for _ in range(50):
        g.replay()
        dist.all_reduce(x, op=dist.ReduceOp.MAX)
    torch.cuda.synchronize()
    if x[0].item() != WORLD:
        sys.exit("graph: %r instead of %d" % (x[0].item(), WORLD))
    g.reset()


def graph_held():
    """A replay that hangs on one rank's spinning kernel."""
    x = tensor()
    warm()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        dist.all_reduce(x, op=dist.ReduceOp.MAX)
    if RANK == CULPRIT:
        for _ in range(50):
            torch.cuda._sleep(SLEEP_CYCLES)
    g.replay()
    torch.cuda.synchronize()


def train():
    """DDP, no fault."""
    torch.manual_seed(3)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*[nn.Linear(256, 256) for _ in range(6)]).cuda())
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.01), []
    for i in range(int(os.environ.get("STEPS", "200"))):
        torch.manual_seed(100 * i + RANK)
        loss = model(torch.randn(32, 256, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    common.result(losses=[x.item().hex() for x in losses])


SCENARIOS = {f.__name__: f for f in (killed, stopped, asleep, branch, shape, crossed, missing, held, busy, checkpoint,
                                     compiled, graph, graph_held, train)}

if __name__ == "__main__":
    common.need_gpu()
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    # With a device, sends and receives share the communicator; without, each pair would make one of its own.
    bound = {"device_id": torch.device("cuda", torch.cuda.current_device())} if sys.argv[1] == "missing" else {}
    dist.init_process_group("nccl", init_method="file://" + os.environ["JOB_STORE"], rank=RANK, world_size=WORLD, **bound)
    if sys.argv[1] != "graph":
        warm()
    SCENARIOS[sys.argv[1]]()
    print("END %d" % RANK, flush=True)
    dist.destroy_process_group()
