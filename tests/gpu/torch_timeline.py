"""Programs whose timeline is recorded: a training step that the CPU limits, one that the GPU limits, one in a
CUDA graph. With PROFILER=cuda or PROFILER=all torch.profiler records what is timed, as a user would have it do.

Ordinary PyTorch; check_timeline.py runs it.
"""
import contextlib
import json
import os
import tempfile
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch_common as common  # noqa: E402
import torch  # noqa: E402
import torch_gpt as gpt  # noqa: E402
import torch_mem_stream as programs  # noqa: E402

DEVICE = "cuda"
GROUP, GROUPS = 3, 4


class Bound(programs.Part):
    """Large enough that the CPU is far ahead."""

    def build(self):
        torch.manual_seed(5)
        self.model = gpt.Gpt(width=1024, layers=8, heads=16, vocabulary=16384, longest=1024).to(DEVICE)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def ids(self):
        return gpt.batch(self.step_number, 16, 1024, 16384, DEVICE)


class Graph(programs.Graph):
    """A graph whose kernels are of ordinary size."""

    def ids(self):
        return gpt.batch(self.step_number, 64, programs.LENGTH, programs.VOCABULARY, DEVICE)


PARTS = {"cpu": programs.Part, "gpu": Bound, "graph": Graph}


def activities():
    from torch.profiler import ProfilerActivity
    return {"cuda": [ProfilerActivity.CUDA],
            "all": [ProfilerActivity.CPU, ProfilerActivity.CUDA]}.get(os.environ.get("PROFILER"))


@contextlib.contextmanager
def profiled(wanted):
    """torch.profiler around what is timed; neither its start nor its end is."""
    if not wanted:
        yield None
        return
    with torch.profiler.profile(activities=wanted) as p:
        yield p


def timed(part):
    """Milliseconds a step, a figure for each group of steps."""
    with profiled(activities()):
        part.steps(2)
        return [common.timed(lambda: part.steps(GROUP))[0] / GROUP for _ in range(GROUPS)]


def kernels_of(trace):
    """[name, grid, block, stream, duration in ns] of every kernel in a Kineto trace."""
    with open(trace) as f:
        events = json.load(f)["traceEvents"]
    return [[e["name"], e["args"]["grid"], e["args"]["block"], e["args"]["stream"], round(e["dur"] * 1000)]
            for e in events if e.get("cat") == "kernel"]


def train(record):
    """The same short training each time; the nanoseconds of CLOCK_REALTIME that it began and ended at."""
    part = programs.Part()
    begun = time.time_ns()
    with record:
        part.build()
        part.steps(3)
        torch.cuda.synchronize()
    return [begun, time.time_ns()]


def plain():
    return train(contextlib.nullcontext())


def seen():
    """The kernels that torch.profiler sees of it."""
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
    train(profiler)
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(trace)
        return kernels_of(trace)


def turns():
    made = {name: part() for name, part in PARTS.items()}
    out = {"prepare_" + name: part.prepare for name, part in made.items()}
    out.update({"time_" + name: (lambda p=part: timed(p)) for name, part in made.items()})
    out.update({"plain": plain, "seen": seen})
    out["losses"] = lambda: {name: [x.item().hex() for x in part.losses] for name, part in made.items()}
    return out


if __name__ == "__main__":
    common.need_gpu()
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    common.taking_turns(turns())
