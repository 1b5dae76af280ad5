"""Timelines of a made-up training job (tests/unit/make_trace.c), and what `turbo export` makes of them."""
import collections
import gzip
import json
import os
import subprocess

BUILD = os.environ.get("BUILD", "build")
TURBO = os.path.join(BUILD, "turbo")
GPU = ("kernel", "gpu_memcpy", "gpu_memset")


def make(folder, *arguments):
    """Writes the job's timelines into `folder`; their paths, by rank."""
    subprocess.run([os.path.join(BUILD, "tests/unit/make_trace"), *map(str, arguments), folder], check=True,
                   stdout=subprocess.DEVNULL, timeout=60)
    return sorted(os.path.join(folder, name) for name in os.listdir(folder))


def export(*arguments, code=0, **more):
    """stdout and stderr of `turbo export`, which must end with `code`."""
    done = subprocess.run([TURBO, "export", *map(str, arguments)], capture_output=True, text=True, timeout=100, **more)
    assert done.returncode == code, f"status {done.returncode}, not {code}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def load(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def spans(trace, *categories):
    return [e for e in trace["traceEvents"] if e["ph"] == "X" and (not categories or e["cat"] in categories)]


def union(intervals):
    """Disjoint, sorted."""
    out = []
    for start, end in sorted(intervals):
        if out and start <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([start, end])
    return out


def length(intervals):
    return sum(end - start for start, end in intervals)


def common(a, b):
    """Length of what two unions share."""
    total = i = k = 0
    while i < len(a) and k < len(b):
        total += max(0, min(a[i][1], b[k][1]) - max(a[i][0], b[k][0]))
        if a[i][1] < b[k][1]:
            i += 1
        else:
            k += 1
    return total


Times = collections.namedtuple("Times", "window idle compute other overlap")


def times(trace):
    """Where the GPU's time went, by the definitions of Holistic Trace Analysis; of integers, exact."""
    def of(events):
        return union((e["ts"], e["ts"] + e["dur"]) for e in events)

    gpu = spans(trace, *GPU)
    busy = of(gpu)
    comm = of(e for e in gpu if e["name"].startswith("nccl"))
    compute = of(e for e in gpu if e["cat"] == "kernel" and not e["name"].startswith("nccl"))
    window = busy[-1][1] - busy[0][0]
    return Times(window, window - length(busy), length(compute), length(busy) - length(compute),
                 common(comm, compute) / length(comm) if comm else None)
