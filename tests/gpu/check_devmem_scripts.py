"""Device memory by whole programs (torch_mem_*.py, cupy_mem.py, jax_mem.py, static_mem.cu): the same
results under every allocator, how fast, and how much memory they take."""
import glob
import os
import sys
import tempfile
import time

import harness as h
from check_torch import quiet, result_of
from turns import Players

MODES = ["cache", "deferred"]
MIB, GIB = 1 << 20, 1 << 30


def script(name):
    return [sys.executable, os.path.join(h.HERE, name), "--turns"]


def settings(extra, modes):
    return [("bare", h.BARE, extra)] + [(m, h.PRELOADED, {**extra, "TURBO_DEVMEM": m}) for m in modes]


def flat(rounds):
    """Median of all figures of all rounds."""
    return h.median([x for r in rounds for x in r])


def compare(details, problems, what, base, base_name, others, limits):
    """others: {name: ms}; limits: {name: most, as a multiple of base}. The ratio is judged as printed."""
    parts = ["%s %.2f ms" % (base_name, base)]
    for name, ms in others.items():
        ratio = round(ms / base, 2)
        details["figures"]["%s.%s" % (what, name)] = {"ms": ms, "base_ms": base, "ratio": ratio, "limit": limits.get(name)}
        limit = limits.get(name)
        parts.append("%s %.2f ms (%.2f x%s)" % (name, ms, ratio, ", limit %.2f" % limit if limit else ""))
        if limit and ratio > limit:
            problems.append("%s: %s takes %.2f times %s's, limit %.2f" % (what, name, ratio, base_name, limit))
    details["lines"].append("%s: %s" % (what, "; ".join(parts)))


def same(problems, what, values):
    """values: {name: anything}; all must equal the first."""
    first = next(iter(values))
    for name, value in values.items():
        if value != values[first]:
            problems.append("%s: the results of %s and %s differ" % (what, name, first))


def served(problems, name, stats, counter, least=100):
    if stats.get(counter, 0) < least:
        problems.append("%s: %s is %s, expected at least %d" % (name, counter, stats.get(counter), least))


def close(players, problems, counter="devmem.cache.hits"):
    """Ends the processes; preloaded ones must have been served, and quiet."""
    for name, r in players.end().items():
        if name in MODES + ["stream"]:
            served(problems, name, r["stats"], counter)
            quiet(r, problems)


# ---- PyTorch -----------------------------------------------------------------------------------

def mem_train(details):
    """PYTORCH_NO_CUDA_MEMORY_CACHING=1 beside PyTorch's own caching allocator."""
    problems = []
    uncached = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    with Players(script("torch_mem_train.py"), [("own", h.BARE, {})] + settings(uncached, MODES)) as players:
        times = {name: flat(r) for name, r in players.one_by_one("time", 3).items()}
        same(problems, "losses", players.together("losses"))
        close(players, problems)
    own = times.pop("own")
    compare(details, problems, "training without PyTorch's cache", own, "PyTorch's cache", times, {"deferred": 1.10})
    if times["cache"] > times["bare"]:
        problems.append("cache is slower than the driver")
    return problems


STREAM_PARTS = ["eager", "conv", "graph", "fsdp", "compile"]


def mem_stream(details):
    """TURBO_DEVMEM=stream, which chooses PyTorch's back end, beside the default one."""
    problems = []
    with tempfile.TemporaryDirectory(prefix="inductor.") as folder:
        each = [("native", h.BARE, {"TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "a")}),
                ("stream", h.PRELOADED, {"TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "b"), "TURBO_DEVMEM": "stream"})]
        with Players(script("torch_mem_stream.py"), each) as players:
            for part in STREAM_PARTS:
                players.together("prepare_" + part)
            for part in STREAM_PARTS:
                ms = {name: flat(r) for name, r in players.one_by_one("time_" + part, 4).items()}
                compare(details, problems, part, ms["native"], "native", {"stream": ms["stream"]}, {"stream": 1.00})
            losses = players.together("losses")
            for part in STREAM_PARTS:
                same(problems, part, {name: r[part] for name, r in losses.items()})
            memory = {name: r[0] for name, r in players.one_by_one("memory").items()}
            close(players, problems, "devmem.stream.served")
    details["lines"].append("losses: %d of %d programs compared bit by bit" %
                            (sum(len(x) for x in losses["native"].values()), len(STREAM_PARTS)))
    problems += ["%s: %s" % (name, text) for name, r in memory.items() for text in r["wrong"]]
    if memory["stream"]["backend"] != "cudaMallocAsync":
        problems.append("stream: PyTorch runs on its %s back end" % memory["stream"]["backend"])
    return problems


ALTERNATIVES = {"expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
                "driver_pool": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}}
NEAR_LIMIT = ["splinters", "survivors", "growth"]


def used_by_processes():
    """{pid: bytes} as the driver's tools see them; {} where they do not say."""
    p = h.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"], h.BARE, limit=30)
    out = {}
    for line in p.out.splitlines():
        pid, _, mib = line.partition(",")
        if pid.strip().isdigit() and mib.strip().isdigit():
            out[int(pid)] = int(mib) * MIB
    return out


def mem_frag(details):
    """Peak reserved memory on one program, and programs that splinter a small memory."""
    problems = []
    each = [("native", h.BARE, {})] + [(n, h.BARE, e) for n, e in ALTERNATIVES.items()]
    each.append(("stream", h.PRELOADED, {"TURBO_DEVMEM": "stream"}))
    with Players(script("torch_mem_frag.py"), each) as players:
        peaks = players.together("varlen")
        time.sleep(2.5)  # what libturbo keeps has gone by then, and the others are measured alike
        finished = {p: {n: r[0] for n, r in players.one_by_one(p).items()} for p in NEAR_LIMIT}
        left = used_by_processes()
        idle = {p.name: left[p.child.pid] for p in players.all if p.child.pid in left}
        close(players, problems, "devmem.stream.served")
    peak_figures(details, problems, peaks)
    near_limit_figures(details, problems, finished)
    details["figures"]["idle_bytes"] = idle
    if idle:
        details["lines"].append("left after empty_cache(): " + ", ".join("%s %d MiB" % (n, b // MIB) for n, b in idle.items()))
    return problems


def peak_figures(details, problems, peaks):
    details["figures"]["peaks"] = peaks
    details["lines"].append("peak reserved (over live): " + ", ".join(
        "%s %.2f GiB (%.3f)" % (n, p["reserved"] / GIB, p["reserved"] / p["live"]) for n, p in peaks.items()))
    for name in ALTERNATIVES:
        if peaks["stream"]["reserved"] > peaks[name]["reserved"]:
            problems.append("stream reserves %.3f times what %s does" %
                            (peaks["stream"]["reserved"] / peaks[name]["reserved"], name))
    same(problems, "varlen", {n: p["loss"] for n, p in peaks.items()})


def near_limit_figures(details, problems, finished):
    details["figures"]["near_limit"] = finished
    beaten = []
    for part, results in finished.items():
        details["lines"].append("%s, 8 GiB: %s" % (part, ", ".join(
            "%s %s" % (n, "%.0f ms" % r["ms"] if r["finished"] else "out of memory") for n, r in results.items())))
        if not results["stream"]["finished"]:
            problems.append("%s: stream runs out of memory: %s" % (part, results["stream"]["why"]))
        elif not any(results[n]["finished"] for n in ALTERNATIVES):
            beaten.append(part)
    if not beaten:
        problems.append("there is no program that only stream finishes")


def mem_trace(details):
    """Snapshots of real trainings through `turbo replay`: reserved memory over live memory."""
    problems = []
    with tempfile.TemporaryDirectory(prefix="traces.") as folder:
        args = [sys.executable, os.path.join(h.HERE, "torch_mem_trace.py"), folder]
        r = result_of(h.run(args, h.BARE, limit=120), h.BARE)
        for path in sorted(glob.glob(os.path.join(folder, "*.pickle"))):
            name = os.path.basename(path)[:-7]
            replayed(details, problems, name, path, r[name]["events"])
    return problems


def replayed(details, problems, name, path, events):
    trace = path[:-7] + ".trace"
    p = h.run([h.TURBO, "replay", "--import", path, "-o", trace], h.BARE, limit=60)
    if p.status != 0:
        problems.append("%s: %s" % (name, p.why()))
        return
    p = h.run([h.TURBO, "replay", "--json", "--mode", "bare", "--mode", "stream", "--mode", "pool", trace], h.BARE, limit=100)
    rows = {r["mode"]: r for r in h.json_text(p.out) or []}
    if p.status != 0 or "stream" not in rows:
        problems.append("%s: %s" % (name, p.why() or "no answer"))
        return
    details["figures"][name] = rows
    details["lines"].append("%s, %d events: %s" % (name, events, ", ".join(
        "%s %.3f at %.0f ns an operation" % (m, r["ratio"], r["ns_per_op"]) for m, r in rows.items())))
    if round(rows["stream"]["ratio"], 2) > 1.05:
        problems.append("%s: stream reserves %.3f times what is live, limit 1.05" % (name, rows["stream"]["ratio"]))
    if rows["stream"]["oom"]:
        problems.append("%s: stream runs out of memory" % name)


# ---- others ------------------------------------------------------------------------------------

def alone(details, what, name, extra, busy=True):
    """A script under bare, cache and deferred: the same bytes, faster or equal. `busy`: it allocates so
    often that libturbo must be seen to serve it; else equal is as good as clocks tell."""
    problems = []
    with Players(script(name), settings(extra, MODES)) as players:
        times = {n: flat(r) for n, r in players.one_by_one("time", 3).items()}
        same(problems, what, players.together("losses"))
        if busy:
            close(players, problems)
        else:
            players.end()
    base = times.pop("bare")
    compare(details, problems, what, base, "bare", times, {m: 1.00 if busy else 1.03 for m in MODES})
    return problems


def mem_cupy(details):
    return alone(details, "CuPy without its pool", "cupy_mem.py", {})


def mem_jax(details):
    problems = alone(details, "JAX, platform allocator", "jax_mem.py", {"XLA_PYTHON_CLIENT_PREALLOCATE": "false",
                                                                      "XLA_PYTHON_CLIENT_ALLOCATOR": "platform"})
    return problems + alone(details, "JAX, preallocation off", "jax_mem.py", {"XLA_PYTHON_CLIENT_PREALLOCATE": "false",
                                                                            "XLA_PYTHON_CLIENT_ALLOCATOR": "bfc"},
                            busy=False)


def mem_static(details):
    """A program with a static CUDA runtime."""
    program = h.built("tests/gpu/static_mem", ["tests/gpu/static_mem.cu"], "-cudart", "static", "-arch=sm_75", "-std=c++17",
                      compiler="nvcc")
    problems, runs = [], {}
    for _ in range(3):
        for name, mode, extra in settings({}, MODES):
            p = h.run([program], mode, extra, limit=60)
            r = result_of(p, name)
            if mode == h.PRELOADED:
                counters = (h.json_line(p.out, "stats") or {"counters": {}})["counters"]
                served(problems, name, counters, "devmem.cache.hits")
                quiet(r, problems)
            runs.setdefault(name, []).append(r)
    times = {n: h.median([x for r in rs for x in r["ms"]]) for n, rs in runs.items()}
    for i in range(3):
        same(problems, "static runtime", {n: rs[i]["losses"] for n, rs in runs.items()})
    base = times.pop("bare")
    compare(details, problems, "static runtime", base, "bare", times, {m: 1.00 for m in MODES})
    return problems
