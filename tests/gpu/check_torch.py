"""The PyTorch tests: unmodified scripts (torch_*.py), bare and preloaded."""
import os
import sys

import harness as h


def script(name):
    return [sys.executable, os.path.join(h.HERE, name)]


def result_of(p, mode):
    if p.status == h.SKIP:
        raise h.Skip(p.out.strip().splitlines()[-1].replace("skipped: ", ""))
    why = p.why()
    r = h.json_line(p.out, "RESULT") if not why else None
    if r is None:
        raise RuntimeError("%s: %s" % (mode, why or "no result line"))
    r["stderr"] = p.err
    return r


def both_at_once(name):
    """Untimed: bare and preloaded run side by side."""
    running = [(mode, h.Process(script(name), mode)) for mode in (h.BARE, h.PRELOADED)]
    return [result_of(p.wait(), mode) for mode, p in running]


def in_turns(name, rounds, bare_args=()):
    """Timed: bare, preloaded, bare, ... Returns the results of each mode."""
    runs = {h.BARE: [], h.PRELOADED: []}
    for i in range(rounds):
        for mode in runs:
            args = script(name) + (list(bare_args) if mode == h.BARE and i == 0 else [])
            runs[mode].append(result_of(h.run(args, mode), mode))
    return runs[h.BARE], runs[h.PRELOADED]


def staged(r, key, least, problems):
    n = r["stats"].get(key, 0)
    if n < least:
        problems.append("preloaded: %s is %s, expected at least %d: nothing was sped up" % (key, n, least))
    return n


def quiet(r, problems):
    lines = [x for x in r["stderr"].splitlines() if x.startswith("libturbo:")]
    if lines:
        problems.append("libturbo wrote on stderr: " + lines[0])


def speed(details, problems, what, bare, loaded, limit):
    """Medians over all runs, their ratio and its limit. Results carry `ms` and `bytes`."""
    size = bare[0]["bytes"]
    ms = [h.median([x for r in runs for x in r["ms"]]) for runs in (bare, loaded)]
    rate = [size / m / 1e6 for m in ms]
    ratio = ms[0] / ms[1]
    details["figures"].update(bare_ms=ms[0], preloaded_ms=ms[1], bare_gbps=rate[0], preloaded_gbps=rate[1],
                              ratio=ratio, limit=limit)
    details["lines"].append("%s: bare %.2f ms (%.1f GB/s), preloaded %.2f ms (%.1f GB/s): %.2f x, limit %.1f x" %
                            (what, ms[0], rate[0], ms[1], rate[1], ratio, limit))
    if ratio < limit:
        problems.append("%.2f x is below the limit of %.1f x" % (ratio, limit))


def losses(details):
    bare, loaded = both_at_once("torch_losses.py")
    problems = []
    for start in ("fork", "spawn"):
        for part in ("losses", "activations", "state"):
            if bare[start][part] != loaded[start][part]:
                problems.append("%s workers: %s differ" % (start, part))
        details["lines"].append("%s workers: %d losses and the final state compared bit by bit, last loss %.6f" %
                                (start, len(bare[start]["losses"]), float.fromhex(bare[start]["losses"][-1])))
    if bare["fork"]["losses"] != bare["spawn"]["losses"]:
        problems.append("bare: fork and spawn workers give different losses: the run is not deterministic")
    staged(loaded, "copy.h2d.staged", 32, problems)
    staged(loaded, "copy.d2h.staged", 4, problems)
    quiet(loaded, problems)
    return problems


def semantics(details):
    bare, loaded = both_at_once("torch_semantics.py")
    problems = []
    for key in bare:
        if key in ("stats", "stderr"):
            continue
        if bare[key] != loaded[key]:
            problems.append("%s: bare %s, preloaded %s" % (key, bare[key], loaded[key]))
    details["lines"].append("%d behaviours compared" % (len(bare) - 2))
    staged(loaded, "copy.h2d.staged", 20, problems)
    quiet(loaded, problems)
    return problems


def loader_speed(details):
    bare, loaded = in_turns("torch_loader.py", 2, bare_args=["--pinned"])
    problems = []
    speed(details, problems, "batch.cuda(), %.0f MB" % (bare[0]["bytes"] / 1e6), bare, loaded, 4.0)
    pinned = h.median(bare[0]["pinned_ms"])
    details["figures"]["pinned_ms"] = pinned
    details["lines"].append("with pin_memory=True, bare: %.2f ms (%.1f GB/s)" % (pinned, bare[0]["bytes"] / pinned / 1e6))
    if len({r["sum"] for r in bare + loaded}) != 1:
        problems.append("sums of the batches differ")
    staged(loaded[0], "copy.h2d.staged", 30, problems)
    quiet(loaded[0], problems)
    return problems


def model_load(details):
    bare, loaded = in_turns("torch_model.py", 2)
    problems = []
    speed(details, problems, "model.cuda(), %.1f GB" % (bare[0]["bytes"] / 1e9), bare, loaded, 4.0)
    if not all(r["equal"] for r in bare + loaded):
        problems.append("parameters on the device differ from those on the host")
    staged(loaded[0], "copy.h2d.staged", 30, problems)
    quiet(loaded[0], problems)
    return problems


def cpu_1gib(details):
    bare, loaded = in_turns("torch_cpu.py", 2)
    problems = []
    speed(details, problems, ".cpu() of 1 GiB", bare, loaded, 2.5)
    if not all(r["equal"] for r in bare + loaded):
        problems.append("bytes differ")
    staged(loaded[0], "copy.d2h.staged", 5, problems)
    quiet(loaded[0], problems)
    return problems
