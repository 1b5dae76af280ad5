"""All-gathers in groups: what the loops gain, what a lone call and training pay, that results stay the same in every way
that all-gathers are used, and that nothing hangs. With one GPU, ranks share it (ranks.py), and speed is not judged."""
import json
import os
import tempfile

import check_nccl
import harness as h
from ranks import Job, gpus, script
from turns import Players

ON = {"TURBO_NCCL_COALESCE": "on"}
LESS = 0.85           # of the time of a loop
SAME = (0.99, 1.01)   # of a training step
LONE_NS = 1000
MODES = [("bare", h.BARE, {}), ("off", h.PRELOADED, {"TURBO_NCCL_COALESCE": "off"}), ("on", h.PRELOADED, ON)]
JUDGED = ("loop", "muon")
LOOPS = ("loop", "sequential", "zero3", "muon", "muon_mixed", "sync")
TRAINS = ("plain", "ddp", "fsdp")


def settings(folder, **more):
    return [(n, m, {**e, **more, "TURBO_NCCL_DIR": folder, "JOB_STORE": os.path.join(folder, n)}) for n, m, e in MODES]


def shown(details, part, unit, rounds):
    """{name: ratio to bare}: the median over neighbours in time of each round's least."""
    least = {n: [min(r) for r in rounds[n]] for n in rounds}
    out = {n: h.median([x / y for x, y in zip(least[n], least["bare"])]) for n in least}
    base = h.median(least["bare"])
    details["lines"].append("%s: bare %.5g %s; %s" % (part, base, unit, ", ".join(
        "%s %.5g (%.4f x)" % (n, h.median(least[n]), out[n]) for n in least if n != "bare")))
    details["figures"][part] = {"bare": base, **{n: out[n] for n in out if n != "bare"}}
    return out


def groups_of(stats):
    """What libturbo counted, of what has to do with it."""
    return {k: v for k, v in stats.items() if "coalesc" in k and v}


def coalesce_alone(details):
    """World size 1: loops, a lone call, training."""
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        with Players(script("torch_coalesce.py", "--turns"), settings(folder), limit=420,
                     cores=check_nccl.same_cores()) as players:
            for part in LOOPS:
                ratio = shown(details, part, "ms", players.one_by_one(part, 7))["on"]
                if part in JUDGED and ratio > LESS:
                    problems.append("%s: %.3f of bare, limit %.2f" % (part, ratio, LESS))
            for part in TRAINS:
                ratio = shown(details, part, "ms", players.one_by_one(part, 11))["on"]
                if not SAME[0] <= ratio <= SAME[1]:
                    problems.append("%s: %.4f of bare, limits %.2f and %.2f" % (part, ratio, *SAME))
            losses = players.together("losses")
            counted = groups_of(players.end()["on"]["stats"])
    details["lines"].append("counted: %s" % ", ".join("%s %s" % x for x in sorted(counted.items())))
    if len({json.dumps(x) for x in losses.values()}) != 1:
        problems.append("the losses differ")
    if not counted:
        problems.append("nothing was coalesced")
    return problems


def coalesce_lone(details):
    """Nanoseconds more of an all-gather that is issued and waited for, by the stream and by an event."""
    where = h.find_library("libnccl.so.2")
    if not where:
        raise h.Skip("libnccl.so.2 is not installed")
    path = os.pathsep.join([os.path.dirname(where)] + [x for x in [os.environ.get("LD_LIBRARY_PATH")] if x])
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        with Players([h.program("nccl_bench")], settings(folder, LD_LIBRARY_PATH=path),
                     cores=check_nccl.same_cores()) as players:
            for part in ("lone", "lone_event"):
                rounds = players.one_by_one(part, 9)
                shown(details, part, "ns", rounds)
                # Off is watched, too: what is judged is what holding back adds.
                more = h.median([min(a) - min(b) for a, b in zip(rounds["on"], rounds["off"])])
                details["lines"].append("%s: %+.0f ns, limit %d" % (part, more, LONE_NS))
                if more > LONE_NS:
                    problems.append("%s: %.0f ns more, limit %d" % (part, more, LONE_NS))
            players.end()
    return problems


WAYS = [("loop", {}), ("waits", {}), ("waits", {"TORCH_NCCL_BLOCKING_WAIT": "1"}),
        ("timing", {"TORCH_NCCL_ENABLE_TIMING": "1"}), ("graph", {}), ("groups", {}), ("split", {}), ("mixed", {}), ("zero3", {}),
        ("loop", {"TORCH_NCCL_USE_COMM_NONBLOCKING": "1"})]


def way(name, world, mode, extra):
    """Each rank's result of one way."""
    with Job(script("torch_coalesce_modes.py", name), world, mode, extra, limit=150) as job:
        job.wait()
        if set(job.statuses().values()) != {0}:
            raise RuntimeError("%s, %s: statuses %r\n%s" % (name, mode, job.statuses(), job.read("err", 0)[-1500:]))
        alarms = [r["line"] for r, _ in check_nccl.reports(job)]
        return [h.json_line(job.read("out", r), "RESULT") for r in range(world)], alarms


def ways(details, world):
    problems = []
    for name, extra in WAYS:
        said = "%s%s" % (name, "".join(" %s=%s" % x for x in extra.items()))
        bare, _ = way(name, world, h.BARE, extra)
        with_it, alarms = way(name, world, h.PRELOADED, {**extra, **ON})
        counted = groups_of(with_it[0]["stats"])
        details["lines"].append("%s: %s" % (said, ", ".join("%s %s" % x for x in sorted(counted.items())) or "passes"))
        if [r["data"] for r in bare] != [r["data"] for r in with_it]:
            problems.append("%s: the data is another" % said)
        problems += ["%s: false alarm: %s" % (said, line) for line in alarms]
    return problems


def coalesce_ways(details):
    """World size 1."""
    return ways(details, 1)


def coalesce_ranks(details):
    """One rank a GPU, or two that share one."""
    return ways(details, check_nccl.world())


def coalesce_torch(details):
    """PyTorch's loops on as many GPUs as there are, one job after the other; judged with two and more."""
    world, problems, figures = check_nccl.world(), [], {"bare": [], "on": []}
    for i in range(4):
        name, mode, extra = ("bare", h.BARE, {}) if i % 2 == 0 else ("on", h.PRELOADED, ON)
        with Job(script("torch_coalesce.py"), world, mode, {**extra, "STEPS": "60"}, limit=280) as job:
            job.wait()
            if set(job.statuses().values()) != {0}:
                raise RuntimeError("%s: statuses %r\n%s" % (name, job.statuses(), job.read("err", 0)[-1500:]))
            figures[name].append(h.json_line(job.read("out", 0), "RESULT"))
    for part in LOOPS + TRAINS:
        least = {n: min(min(r[part]) for r in figures[n]) for n in figures}
        ratio = least["on"] / least["bare"]
        details["lines"].append("%s: bare %.4g ms, on %.4g ms (%.3f x)" % (part, least["bare"], least["on"], ratio))
        details["figures"][part] = {**least, "ratio": ratio}
        if gpus() >= world > 1 and part in JUDGED and ratio > LESS:
            problems.append("%s: %.3f of bare, limit %.2f" % (part, ratio, LESS))
    losses = {json.dumps(r["losses"]) for n in figures for r in figures[n]}
    if len(losses) != 1:
        problems.append("the losses differ")
    if not problems and gpus() < world:
        raise h.Skip("losses and data are right; what is faster is judged with a GPU for each of %d ranks" % world)
    return problems


def multi(details, *args, limit):
    """The program `multi`, which starts its ranks itself."""
    where = h.find_library("libnccl.so.2")
    if not where:
        raise h.Skip("libnccl.so.2 is not installed")
    path = os.pathsep.join([os.path.dirname(where)] + [x for x in [os.environ.get("LD_LIBRARY_PATH")] if x])
    program = h.program("multi")
    p = h.run([program, *args, "--ranks", str(check_nccl.world())], h.BARE, {"BUILD": h.BUILD, "LD_LIBRARY_PATH": path},
              limit=limit)
    details["lines"] += p.out.splitlines()
    details["output"] = details.get("output", "") + p.err
    if p.status == h.SKIP:
        raise h.Skip(p.out.strip().splitlines()[-1].replace("skipped: ", ""))
    return [p.why()] if p.why() else []


def coalesce_gathers(details):
    return multi(details, "gathers", limit=400)


def coalesce_trials(details):
    return multi(details, "trials", "--number", os.environ.get("TRIALS", "200"), limit=560)


def coalesce_stress(details):
    """STRESS_S seconds of PyTorch's loops with the watchdog on; no alarm, all data right."""
    seconds = float(os.environ.get("STRESS_S", "600"))
    with Job(script("torch_coalesce_modes.py", "stress"), check_nccl.world(), h.PRELOADED,
             {**ON, "TURBO_NCCL_WATCHDOG": "report", "STRESS_S": str(seconds)}, limit=seconds + 180) as job:
        took = job.wait()
        details["lines"].append("%.0f s, statuses %r" % (took, job.statuses()))
        problems = ["false alarm: %s" % r["line"] for r, _ in check_nccl.reports(job)]
        if set(job.statuses().values()) != {0}:
            problems.append("statuses %r\n%s" % (job.statuses(), job.read("err", 0)[-1500:]))
        else:
            counted = groups_of(h.json_line(job.read("out", 0), "RESULT")["stats"])
            details["lines"].append("counted: %s" % ", ".join("%s %s" % x for x in sorted(counted.items())))
    return problems


TESTS = [(f.__name__, f) for f in (coalesce_alone, coalesce_lone, coalesce_ways, coalesce_ranks, coalesce_torch,
                                   coalesce_gathers, coalesce_trials, coalesce_stress)]
