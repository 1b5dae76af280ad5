"""Training that must give the same losses, as fast, under any allocator back end: eager, convolutions,
torch.compile, a CUDA graph by hand, FSDP2 on one GPU; and what PyTorch says about its memory."""
import gc
import os
import tempfile

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ.setdefault("TORCHINDUCTOR_DETERMINISTIC", "1")  # no choice of kernels by timing

import torch_common as common  # noqa: E402
import torch  # noqa: E402
import torch_gpt as gpt  # noqa: E402
from torch import nn  # noqa: E402

GROUP, GROUPS = 2, 3  # steps that are timed together; groups of a turn
BATCH, LENGTH, VOCABULARY = 8, 256, 8192
DEVICE = "cuda"


class Part:
    """One program; `prepare` warms it up, `timed` runs steps of it."""

    def __init__(self):
        self.step_number, self.losses = 0, []

    def build(self):
        torch.manual_seed(5)
        self.model = gpt.Gpt(vocabulary=VOCABULARY, longest=LENGTH).to(DEVICE)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def ids(self):
        return gpt.batch(self.step_number, BATCH, LENGTH, VOCABULARY, DEVICE)

    def loss(self):
        return gpt.loss_of(self.model, self.ids())

    def step(self):
        loss = self.loss()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def steps(self, n):
        for _ in range(n):
            self.losses.append(self.step())
            self.step_number += 1

    def prepare(self):
        self.build()
        self.steps(4)
        gc.collect()
        gc.freeze()
        return {}

    def timed(self):
        """Milliseconds a step. A first step finds the caches of a processor that others have used."""
        gc.disable()
        self.steps(1)
        ms = [common.timed(lambda: self.steps(GROUP))[0] / GROUP for _ in range(GROUPS)]
        gc.enable()
        return ms


class Conv(Part):
    """Convolutions ask for workspaces besides tensors."""

    def build(self):
        torch.manual_seed(5)
        layers, channels = [nn.Conv2d(3, 64, 3, padding=1)], 64
        for _ in range(8):
            layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1)]
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 100)]
        self.model = nn.Sequential(*layers).to(DEVICE)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def loss(self):
        g = torch.Generator(device=DEVICE).manual_seed(self.step_number)
        x = torch.randn(32, 3, 96, 96, generator=g, device=DEVICE)
        y = torch.randint(100, (32,), generator=g, device=DEVICE)
        return nn.functional.cross_entropy(self.model(x), y)


class Compile(Part):
    def build(self):
        super().build()
        self.model = gpt.Gpt(layers=2, vocabulary=VOCABULARY, longest=LENGTH).to(DEVICE)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.compiled = torch.compile(self.model)

    def loss(self):
        return gpt.loss_of(self.compiled, self.ids())


class Graph(Part):
    """A whole step in one CUDA graph, as PyTorch's documentation shows it."""

    def build(self):
        super().build()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
        self.static = self.ids()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.captured_step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.out = self.captured_step()

    def captured_step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = gpt.loss_of(self.model, self.static)
        loss.backward()
        self.optimizer.step()
        return loss

    def step(self):
        self.static.copy_(self.ids())
        self.graph.replay()
        return self.out.detach().clone()


class Fsdp(Part):
    def build(self):
        import torch.distributed as dist
        from torch.distributed.fsdp import fully_shard
        store = os.path.join(tempfile.mkdtemp(prefix="fsdp."), "store")
        dist.init_process_group("nccl", init_method="file://" + store, rank=0, world_size=1,
                                device_id=torch.device(DEVICE, 0))
        torch.manual_seed(5)
        self.model = gpt.Gpt(vocabulary=VOCABULARY, longest=LENGTH).to(DEVICE)
        for block in self.model.blocks:
            fully_shard(block)
        fully_shard(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)


def memory():
    """What is wrong with PyTorch's figures: a list."""
    wrong = []

    def must(what, holds):
        if not holds:
            wrong.append(what)

    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before, reserved, (free, total) = torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), torch.cuda.mem_get_info()
    must("free %d of total %d" % (free, total), 0 < free <= total)
    must("allocated %d, reserved %d" % (before, reserved), before <= reserved)
    x = torch.full((64 << 20,), 7, dtype=torch.uint8, device=DEVICE)
    torch.cuda.synchronize()
    grown = torch.cuda.memory_allocated() - before
    must("a tensor of 64 MiB adds %d to memory_allocated" % grown, 64 << 20 <= grown <= 66 << 20)
    must("memory_reserved is below memory_allocated", torch.cuda.memory_reserved() >= torch.cuda.memory_allocated())
    must("the peak does not know the tensor", torch.cuda.max_memory_allocated() >= before + (64 << 20))
    big = torch.empty(4 << 30, dtype=torch.uint8, device=DEVICE)
    big.fill_(1)
    less = free - torch.cuda.mem_get_info()[0]
    must("4 GiB allocated, %d fewer are free" % less, less >= 4 << 30)
    peak = torch.cuda.max_memory_reserved()
    must("max_memory_reserved %d" % peak, peak >= 4 << 30)
    del x, big
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    must("memory_allocated does not fall back", torch.cuda.memory_allocated() == before)
    must("memory_reserved stays %d" % torch.cuda.memory_reserved(), torch.cuda.memory_reserved() <= reserved + (256 << 20))
    must("the peak was not reset", torch.cuda.max_memory_allocated() <= before + (1 << 20))
    after, total = torch.cuda.mem_get_info()
    must("free %d, then %d of %d" % (free, after, total), free - (256 << 20) <= after <= total)
    return {"wrong": wrong, "backend": torch.cuda.get_allocator_backend()}


PARTS = {"eager": Part, "conv": Conv, "graph": Graph, "fsdp": Fsdp, "compile": Compile}


def turns():
    made = {name: part() for name, part in PARTS.items()}
    out = {}
    for name, part in made.items():
        out["prepare_" + name] = part.prepare
    for name, part in made.items():
        out["time_" + name] = part.timed
    out["memory"] = memory
    out["losses"] = lambda: {name: [x.item().hex() for x in part.losses] for name, part in made.items()}
    return out


if __name__ == "__main__":
    common.need_gpu()
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark = False
    common.taking_turns(turns())
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
