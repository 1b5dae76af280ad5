"""Whole programs (scenarios/), bare and preloaded in turns: time, what libturbo did, losses to the last bit.

run_check.py runs one as `scenario_NAME`; `scenarios` prints the table of all and the geometric means.
"""
import math
import sys

import check_torch
import harness as h
from turns import Players

DEFAULT, NAMED = "defaults", "option"
LEAST, LEAST_MEAN_NAMED, LEAST_MEAN_DEFAULT = 0.98, 1.8, 1.3
ROUNDS = 3
# name -> the option that its users would set, beside the defaults; bit by bit?
SCENARIOS = {
    "tensor_dataset": ({"TURBO_HOSTMEM": "on"}, True),
    "resnet_loader": ({}, True),
    "varying_lengths": ({"TURBO_DEVMEM": "stream"}, True),
    "checkpoints": ({"TURBO_HOSTMEM": "on"}, True),
    "cpu_optimizer": ({"TURBO_HOSTMEM": "on"}, True),
    "inference_outputs": ({"TURBO_HOSTMEM": "on"}, True),
    "model_load": ({"TURBO_HOSTMEM": "on"}, True),
    "gather_loop": ({"TURBO_NCCL_COALESCE": "on"}, True),
    "fsdp2": ({"TURBO_NCCL_COALESCE": "on"}, True),
    "fp32_transformer": ({"TURBO_MATH": "tf32"}, False),
    "static_mem": ({"TURBO_DEVMEM": "deferred"}, True),
}
# Those that want the device to themselves: one process after another.
ALONE = {"varying_lengths", "static_mem"}
DONE = {}  # name -> its row, for the table


def settings(name):
    option, _ = SCENARIOS[name]
    return [("bare", h.BARE, None), (DEFAULT, h.PRELOADED, None)] + ([(NAMED, h.PRELOADED, option)] if option else [])


def script(name):
    return [sys.executable, os.path.join(h.HERE, "scenarios", name + ".py"), "--turns"]


def play(name):
    """{setting: ([milliseconds of each round], losses, peak MiB, counters, stderr)}"""
    groups = [[s] for s in settings(name)] if name in ALONE else [settings(name)]
    runs = {}
    for group in groups:
        with Players(script(name), group, limit=300) as players:
            rounds = players.one_by_one("go", ROUNDS)
            ends = players.end()
        for s, turns in rounds.items():
            runs[s] = ([t["ms"] for t in turns], [x for t in turns for x in t["losses"]],
                       max(t["peak_mib"] for t in turns), ends[s]["stats"], ends[s]["stderr"])
    return runs


def play_static(name):
    program = h.built("tests/gpu/static_mem", ["tests/gpu/static_mem.cu"], "-cudart", "static", "-arch=sm_75",
                      "-std=c++17", compiler="nvcc")
    runs = {}
    for _ in range(ROUNDS):
        for s, mode, extra in settings(name):
            p = h.run([program], mode, extra, limit=60)
            r = check_torch.result_of(p, s)
            counters = (h.json_line(p.out, "stats") or {"counters": {}})["counters"]
            run = runs.setdefault(s, ([], [], 0, counters, r["stderr"]))
            run[0].append(h.median(r["ms"]))
            run[1].extend(r["losses"])
    return runs


def what_it_did(counters):
    """The largest of the counters that say what was sped up."""
    telling = ("copy.h2d.staged", "copy.d2h.staged", "devmem.cache.hits", "devmem.stream.", "hostmem.", "nccl.coalesce")
    found = sorted(((v, k) for k, v in counters.items() if k.startswith(telling) and isinstance(v, int) and v), reverse=True)
    return ", ".join("%s %d" % (k, v) for v, k in found[:4]) or "nothing"


def scenario(name, details):
    bits = SCENARIOS[name][1]
    runs = (play_static if name == "static_mem" else play)(name)
    bare, problems = runs["bare"], []
    row = {"bare_ms": h.median(bare[0])}
    for s in [x for x in (DEFAULT, NAMED) if x in runs]:
        ms, losses, peak, counters, err = runs[s]
        ratio = h.median(bare[0]) / h.median(ms)
        same = losses == bare[1]
        row[s] = {"ms": h.median(ms), "ratio": ratio, "same": same, "peak_mib": peak}
        details["lines"].append("%-18s %-9s bare %8.1f ms, %8.1f ms: %5.2f x, losses %s, peak %d (bare %d) MiB; %s" % (
            name, s, h.median(bare[0]), h.median(ms), ratio, "same" if same else "differ", peak, bare[2],
            what_it_did(counters)))
        if ratio < LEAST:
            problems.append("%s: %.3f x is below %.2f x" % (s, ratio, LEAST))
        if not same and (bits or s == DEFAULT):
            problems.append("%s: losses differ" % s)
        check_torch.quiet({"stderr": err}, problems)
    details["figures"].update(row)
    DONE[name] = row
    return problems


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else float("nan")


def scenarios(details):
    """The table of those that ran before it in this run, and their geometric means beside the limits."""
    if not DONE:
        raise h.Skip("no scenario ran before it; name some, or none for all")
    problems = []
    for s, limit, ratios in (
            (DEFAULT, LEAST_MEAN_DEFAULT, [r[DEFAULT]["ratio"] for r in DONE.values()]),
            (NAMED, LEAST_MEAN_NAMED, [r.get(NAMED, r[DEFAULT])["ratio"] for r in DONE.values()])):
        details["lines"].append("%s: geometric mean of %d: %.2f x, limit %.1f x" % (s, len(ratios), mean(ratios), limit))
        if mean(ratios) < limit:
            problems.append("%s: %.2f x is below %.1f x" % (s, mean(ratios), limit))
    return problems


def passive(details):
    """TURBO=off and TURBO=observe: every scenario as fast as bare."""
    problems = []
    for name in SCENARIOS:
        if name in ALONE:
            continue
        with Players(script(name), [("bare", h.BARE, None), ("off", h.PRELOADED, {"TURBO": "off"}),
                                    ("observe", h.PRELOADED, {"TURBO": "observe"})], limit=300) as players:
            rounds = players.one_by_one("go", ROUNDS)
        ms = {s: h.median([t["ms"] for t in turns]) for s, turns in rounds.items()}
        for s in ("off", "observe"):
            ratio = ms["bare"] / ms[s]
            details["lines"].append("%-18s %-8s %.3f x, limits 0.98 and 1.02" % (name, s, ratio))
            if not 0.98 <= ratio <= 1.02:
                problems.append("%s, %s: %.3f x" % (name, s, ratio))
    return problems


TESTS = [("scenario_" + name, lambda details, name=name: scenario(name, details)) for name in SCENARIOS]
TESTS += [("scenarios", scenarios), ("scenarios_passive", passive)]
