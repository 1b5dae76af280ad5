"""Device memory by whole programs (torch_mem_*.py, cupy_mem.py, jax_mem.py, static_mem.cu): the same
results under every allocator, how fast, and how much memory they take."""
import glob
import gzip
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


def close(players, problems, counter="devmem.cache.hits", log=None):
    """Ends the processes; preloaded ones must have been served, and quiet. {name: devmem counters}; adds to
    `log` what libturbo reported."""
    counters = {}
    for name, r in players.end().items():
        if name in MODES + ["stream"]:
            served(problems, name, r["stats"], counter)
            quiet(r, problems)
            if log is not None:
                log += [x for x in r["stderr"].splitlines() if x.startswith("libturbo")][:40]
            counters[name] = {k[7:]: n for k, n in r["stats"].items() if k.startswith("devmem.") and n}
    return counters


def show_counters(details, counters):
    """Of whole processes: why a figure is as it is."""
    details["figures"]["counters"] = counters
    details["lines"] += ["%s: %s" % (name, ", ".join("%s %d" % x for x in c.items())) for name, c in counters.items()]


# ---- PyTorch -----------------------------------------------------------------------------------

CACHE_MOST = 1.05  # where `cache` gains nothing, it costs no more than clocks tell


def mem_train(details):
    """PYTORCH_NO_CUDA_MEMORY_CACHING=1 beside PyTorch's own caching allocator."""
    problems = []
    uncached = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    with Players(script("torch_mem_train.py"), [("own", h.BARE, {})] + settings(uncached, MODES)) as players:
        times = {name: flat(r) for name, r in players.one_by_one("time", 3).items()}
        same(problems, "losses", players.together("losses"))
        counters = close(players, problems)
    own = times.pop("own")
    compare(details, problems, "training without PyTorch's cache", own, "PyTorch's cache", times, {"deferred": 1.10})
    show_counters(details, counters)
    if times["cache"] > CACHE_MOST * times["bare"]:
        problems.append("cache takes %.2f times the driver's time, limit %.2f" %
                        (times["cache"] / times["bare"], CACHE_MOST))
    return problems


STREAM_PARTS = ["eager", "conv", "graph", "fsdp", "compile"]
STREAM_ROUNDS = 24
# They take turns, so all may have the same cores, warm for each: what another core costs is more than what is judged.
STREAM_CORES = sorted(os.sched_getaffinity(0))[:8]
ASYNC = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}


def paired(details, problems, part, rounds, limits):
    """rounds: {name: [figures of each round]}, the first name's being the base. Ratios are those of
    neighbours in time, so that what slows the machine for a while slows both: their median is judged, as
    printed."""
    names = list(rounds)
    ms = {n: [h.median(r) for r in rounds[n]] for n in names}
    parts = ["%s %.2f ms" % (names[0], h.median(ms[names[0]]))]
    for n in names[1:]:
        ratios = sorted(x / y for x, y in zip(ms[n], ms[names[0]]))
        ratio, spread = h.median(ratios), (ratios[-len(ratios) // 4] - ratios[len(ratios) // 4]) / 2
        limit = limits.get(n)
        details["figures"]["%s.%s" % (part, n)] = {"ms": h.median(ms[n]), "base_ms": h.median(ms[names[0]]),
                                                   "ratio": ratio, "spread": spread, "limit": limit}
        parts.append("%s %.2f ms (%.3f x, half of them +-%.3f%s)" %
                     (n, h.median(ms[n]), ratio, spread, ", limit %.2f" % limit if limit else ""))
        if limit and round(ratio, 2) > limit:
            problems.append("%s: %s takes %.2f times %s's, limit %.2f" % (part, n, ratio, names[0], limit))
    details["lines"].append("%s: %s" % (part, "; ".join(parts)))


def mem_stream(details):
    """TURBO_DEVMEM=stream, which chooses PyTorch's back end, beside the default one; and that back end on
    the driver's pool, which shows what of it is PyTorch's own."""
    problems = []
    with tempfile.TemporaryDirectory(prefix="inductor.") as folder:
        each = [("native", h.BARE, {}), ("stream", h.PRELOADED, {"TURBO_DEVMEM": "stream"}), ("async", h.BARE, ASYNC)]
        each = [(n, m, {**e, "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, n)}) for n, m, e in each]
        with Players(script("torch_mem_stream.py"), each, cores=STREAM_CORES) as players:
            for part in STREAM_PARTS:
                players.together("prepare_" + part)
            for part in STREAM_PARTS:
                paired(details, problems, part, players.one_by_one("time_" + part, STREAM_ROUNDS), {"stream": 1.00})
            losses = players.together("losses")
            for part in STREAM_PARTS:
                same(problems, part, {name: r[part] for name, r in losses.items()})
            memory = {name: r[0] for name, r in players.one_by_one("memory").items()}
            show_counters(details, close(players, problems, "devmem.stream.served"))
    details["lines"].append("losses: %d of %d programs compared bit by bit" %
                            (sum(len(x) for x in losses["native"].values()), len(STREAM_PARTS)))
    problems += ["%s: %s" % (name, text) for name, r in memory.items() if name != "async" for text in r["wrong"]]
    if memory["stream"]["backend"] != "cudaMallocAsync":
        problems.append("stream: PyTorch runs on its %s back end" % memory["stream"]["backend"])
    return problems


ALTERNATIVES = {"expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
                "driver_pool": ASYNC}
NEAR_LIMIT = ["splinters", "slabs", "survivors", "lifetimes", "growth"]


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
        log = []
        show_counters(details, close(players, problems, "devmem.stream.served", log))
    details["output"] = "\n".join(log)
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


def outcome(r):
    if r["finished"]:
        return "%.2f GiB, %.0f ms" % (r["reserved"] / GIB, r["ms"])
    return "out of memory with %.2f GiB live, %.2f reserved" % (r["wanted_at"] / GIB, r["reserved"] / GIB)


def near_limit_figures(details, problems, finished):
    """Peak reserved, where a program came to its end."""
    details["figures"]["near_limit"] = finished
    beaten = []
    for part, results in finished.items():
        mine = results["stream"]
        details["lines"].append("%s, live up to %.2f of %.2f GiB: %s" % (
            part, max(r["live"] for r in results.values()) / GIB, mine["left"] / GIB,
            "; ".join("%s %s" % (n, outcome(r)) for n, r in results.items())))
        if not mine["finished"]:
            problems.append("%s: stream runs out of memory: %s" % (part, " | ".join(mine["why"].splitlines())))
        elif not any(results[n]["finished"] for n in ALTERNATIVES):
            beaten.append(part)
    details["lines"].append("only stream (or native) finishes: " + (", ".join(beaten) or "none"))
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
            if details.get("out"):
                origin = "# captured from %s: %s() of torch_mem_trace.py\n" % (r["on"], name)
                to = os.path.join(details["out"], "captured-%s.trace.gz" % name)
                keep_trace(details, path[:-7] + ".trace", to, origin)
    return problems


TRACE_BYTES = 300000  # of a trace that is kept, compressed


def keep_trace(details, source, path, origin):
    """A copy with a line that says where it comes from, of as many operations as fit. What is not freed
    by then stays allocated, which a trace may."""
    if not os.path.exists(source):
        return
    with open(source) as f:
        lines = f.readlines()
    total = len(lines)
    lines.insert(1, origin)
    while True:
        data = gzip.compress("".join(lines).encode(), 9, mtime=0)
        if len(data) <= TRACE_BYTES:
            break
        lines = lines[:int(len(lines) * min(0.95, TRACE_BYTES / len(data)))]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)
    details["lines"].append("%s: %d bytes, %d of %d lines" % (os.path.basename(path), len(data), len(lines) - 1, total))


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
