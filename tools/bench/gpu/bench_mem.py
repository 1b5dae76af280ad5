"""The memory part of run_bench.py: pairs of allocation and free, with and without libturbo.

mem_bench runs in turns: bare and with each mode of TURBO_DEVMEM that serves the calls, each in a
process of its own; medians over the rounds.
"""
import sys

import harness as h
from bench_table import GIB, MIB, aligned, size_name

# Each in processes of its own: memory that cells of one thread and of eight take from one another is
# no longer where it was.
CELLS = {"sync": "sync:1:4K,64K,512K,2M,20M,64M,256M,1G", "async": "async:1:4K,64K,2M,64M", "threads": "async:8:4K,2M"}
QUICK = {"sync": "sync:1:4K,2M,1G", "async": "async:1:2M", "threads": "async:8:2M"}
MODES = {"sync": ["cache", "deferred"], "async": ["stream"], "threads": ["stream"]}
ROUNDS, CELL_MS, QUICK_MS = 3, 80, 40
CALLS = {"sync": "cuMemAlloc + cuMemFree, idle GPU",
         "async": "cuMemAllocAsync + cuMemFreeAsync, the pool warm",
         "threads": "cuMemAllocAsync + cuMemFreeAsync, the pool warm, each thread on a stream of its own"}

DEFERRED_NS, ASYNC_NS, ASYNC_THREADS_NS = 500, 350, 600
CACHE_TIMES = {2 * MIB: 5.0, GIB: 100.0}
# What libturbo served; one of them must grow in the timed part.
HITS = ("devmem.cache.hits", "devmem.stream.served")
# Must stand still in it. CUPTI says the same from outside: tests/gpu/check_devmem.py, devmem_calls.
STILL = {"sync": ("devmem.cache.misses",), "async": ("devmem.stream.pass", "devmem.driver_calls"),
         "threads": ("devmem.stream.pass", "devmem.driver_calls")}
# Blocks that a cell may take from the driver under `deferred` until an event serves as many frees
# (policy/devmem/cache_defer.c); those of a cell that has not run for a while have gone back.
SPARES = 16


def parse(text):
    """mem_bench's output: ({(threads, bytes): ns}, counters before, counters after)."""
    cells = {}
    for line in text.splitlines():
        if line.startswith("pair "):
            f = dict(x.split("=", 1) for x in line.split()[1:])
            cells[(int(f["threads"]), int(f["bytes"]))] = int(f["ns"])
    stats = [(h.json_line(text, "stats " + when) or {}).get("counters", {}) for when in ("before", "after")]
    return cells, stats[0], stats[1]


def measure(api, mode, cells, cell_ms):
    args = [h.program("mem_bench"), "--cell-ms", str(cell_ms), "--cells", cells]
    if mode == "bare":
        p = h.run(args, h.BARE, limit=100)
    else:
        p = h.run(args, h.PRELOADED, {"TURBO_DEVMEM": mode}, limit=100)
    if p.status == h.SKIP:
        raise h.Skip(p.out.strip())
    if p.status != 0:
        raise RuntimeError("mem_bench %s, %s: %s" % (api, mode, p.why()))
    return parse(p.out)


def rounds_of(api, cells, rounds, cell_ms):
    """Runs the modes in turns: ({mode: {cell: median ns}}, {mode: counters' growth in the last round})."""
    modes = ["bare"] + MODES[api]
    runs, growth = {m: [] for m in modes}, {}
    for i in range(rounds):
        for mode in modes if i % 2 == 0 else modes[::-1]:
            got, before, after = measure(api, mode, cells, cell_ms)
            runs[mode].append(got)
            growth[mode] = {k: after[k] - before.get(k, 0) for k in after if k.startswith("devmem.")}
        print("# %s pairs, round %d" % (api, i + 1), file=sys.stderr, flush=True)
    return {m: {c: h.median([r[c] for r in rs]) for c in rs[0]} for m, rs in runs.items()}, growth


def limit_of(api, mode, threads, size):
    """(what must hold, in words; a function of bare's and of its own nanoseconds)."""
    if api != "sync":
        most = ASYNC_NS if threads == 1 else ASYNC_THREADS_NS
        return "%d ns" % most, lambda bare, ns: ns <= most
    if mode == "deferred":
        return "%d ns" % DEFERRED_NS, lambda bare, ns: ns <= DEFERRED_NS
    least = CACHE_TIMES.get(size, 1.0)
    return "%.0f x" % least, lambda bare, ns: bare / ns >= least


def rows(quick):
    """All rows, and what is wrong besides missed limits."""
    out, problems = [], []
    for api in CELLS:
        merged, growth = rounds_of(api, (QUICK if quick else CELLS)[api], ROUNDS, QUICK_MS if quick else CELL_MS)
        for mode in MODES[api]:
            for (threads, size), ns in merged[mode].items():
                bare = merged["bare"][(threads, size)]
                words, kept = limit_of(api, mode, threads, size)
                out.append({"api": api, "mode": mode, "threads": threads, "bytes": size, "driver_ns": bare,
                            "turbo_ns": ns, "ratio": bare / ns, "limit": words, "verdict": "ok" if kept(bare, ns) else "MISS"})
            problems += counted(api, mode, growth[mode], len(merged[mode]))
    return out, problems


def counted(api, mode, growth, cells):
    """The timed part must have been served by libturbo."""
    problems, more = [], SPARES * cells if mode == "deferred" else 0
    if not any(growth.get(k) for k in HITS):
        problems.append("%s, TURBO_DEVMEM=%s: none of %s grew: libturbo served nothing" % (api, mode, ", ".join(HITS)))
    problems += ["%s, TURBO_DEVMEM=%s: %s grew by %d while all was warm" % (api, mode, k, growth[k])
                 for k in STILL[api] if growth.get(k, 0) > more]
    return problems


HEAD = ["size", "threads", "driver ns", "TURBO_DEVMEM", "libturbo ns", "times", "limit", ""]


def cells_of(r):
    return [size_name(r["bytes"]), str(r["threads"]), "%.0f" % r["driver_ns"], r["mode"], "%.0f" % r["turbo_ns"],
            "%.1f" % r["ratio"], r["limit"], r["verdict"]]


def groups(all_rows):
    return [(CALLS[api], [r for r in all_rows if r["api"] == api]) for api in CELLS]


def text(all_rows):
    parts = ["%s\n%s\n" % (title, aligned([HEAD] + [cells_of(r) for r in members]))
             for title, members in groups(all_rows)]
    return "\n" + "\n".join(parts)


def markdown(all_rows):
    out = ["", "# Memory", "", "Nanoseconds for a pair of calls, a thread; medians. times: the driver's time over libturbo's."]
    for title, members in groups(all_rows):
        out += ["", "## " + title, "", "| " + " | ".join(HEAD) + " |", "|" + "---:|" * len(HEAD)]
        out += ["| " + " | ".join(cells_of(r)) + " |" for r in members]
    return "\n".join(out) + "\n"
