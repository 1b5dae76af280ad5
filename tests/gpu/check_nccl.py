"""The collective watchdog: who is stuck, and why, in jobs that go wrong in known ways; silence in all others; the
error that reaches PyTorch; and what watching costs. With one GPU the ranks share it (ranks.py)."""
import glob
import json
import os
import re
import sys
import tempfile

import harness as h
from ranks import Job, gpus, script
from turns import Players

ABORT_S = 90 # with `abort` a job has ended by then


def world():
    """Ranks of a job: one a GPU, or two that share one; CHECK_RANKS says otherwise. The last one is the culprit."""
    return int(os.environ.get("CHECK_RANKS") or max(2, gpus()))


def reports(job):
    found = []
    for path in sorted(glob.glob(os.path.join(job.folder, "turbo-nccl-*.json"))):
        with open(path) as f:
            found.append((json.load(f), os.stat(path).st_mtime))
    return found


def scenario(name, ranks=None, watchdog="report", limit=120, more=None):
    """One whose ranks are libturbo's. Use with `with`."""
    return Job(script("torch_nccl.py", name), ranks or world(), h.PRELOADED,
               {"TURBO_NCCL_WATCHDOG": watchdog, "TURBO_LOG": "info", **(more or {})}, limit)


def said(job):
    return [line for rank in range(len(job.ranks)) for line in job.read("err", rank).splitlines() if "libturbo" in line]


def table(job):
    """The job as `turbo nccl` shows it."""
    return h.run([h.TURBO, "nccl", str(job.ranks[0].pid)], h.BARE, limit=20).out


def keep(details, name, job):
    """What the ranks said, for a look at it."""
    out = details.get("out")
    if out:
        with open(os.path.join(out, "nccl_%s.txt" % name), "w") as f:
            for rank in range(len(job.ranks)):
                f.write("==== rank %d\n%s\n" % (rank, job.read("err", rank)))
            for path in sorted(glob.glob(os.path.join(job.folder, "turbo-nccl-*"))):
                with open(path, errors="replace") as r:
                    f.write("==== %s\n%s\n" % (os.path.basename(path), r.read()))


def judged(details, problems, name, verdict, last=False, limit=60, words=()):
    """A job that hangs: exactly one report, with that verdict. `last`: of the last rank."""
    with scenario(name, limit=limit) as job:
        seconds = job.wait(lambda: bool(reports(job)))
        found = reports(job)
        keep(details, name, job)
        if not found:
            problems.append("%s: no report within %d s; statuses %r\n%s" % (name, seconds, job.statuses(), table(job)))
            return
        report = found[0][0]
        who = (report.get("culprit") or {}).get("rank")
        details["lines"].append("%s: after %.1f s: %s" % (name, seconds, report["line"]))
        details["figures"][name] = {"seconds": seconds, "verdict": report["verdict"]}
        if report["verdict"] != verdict:
            problems.append("%s: the verdict is %s, not %s" % (name, report["verdict"], verdict))
        if last and who != len(job.ranks) - 1:
            problems.append("%s: the culprit is rank %r, not the last" % (name, who))
        problems += ["%s: the line does not say %s" % (name, w) for w in words if w not in report["line"]]
        if len(found) > 1:
            problems.append("%s: %d reports of one fault" % (name, len(found)))


def silent(details, problems, name, limit=150, more=None):
    """A job that ends well: no alarm."""
    with scenario(name, limit=limit, more=more) as job:
        seconds = job.wait()
        keep(details, name, job)
        details["lines"].append("%s: %.1f s" % (name, seconds))
        if set(job.statuses().values()) != {0}:
            problems.append("%s: statuses %r\n%s" % (name, job.statuses(), job.read("err", 0)[-1500:]))
        problems += ["%s: false alarm: %s" % (name, r["line"]) for r, _ in reports(job)]
        problems += ["%s: %s" % (name, line) for line in said(job) if re.search(r"libturbo\[\d+\]: (warn|error)", line)]


def nccl_faults(details):
    problems = []
    judged(details, problems, "killed", "dead", True)
    judged(details, problems, "branch", "mismatch", words=("all_gather", "all_reduce"))
    judged(details, problems, "shape", "mismatch", words=("all_reduce",))
    judged(details, problems, "crossed", "cycle")
    judged(details, problems, "missing", "cycle")
    return problems


def nccl_stopped(details):
    problems = []
    judged(details, problems, "stopped", "stopped", True, limit=150)
    return problems


def nccl_quiet(details):
    """Ranks that are late for good reasons, at once to save time."""
    problems = []
    for name in ("asleep", "compiled", "graph", "train"):
        silent(details, problems, name)
    return problems


def nccl_busy(details):
    problems = []
    for name in ("busy", "checkpoint"):
        silent(details, problems, name)
    return problems


def nccl_alone(details):
    """World size 1: a kernel that does not end before the collective, and libturbo's limit for it."""
    problems = []
    with scenario("held", 1, "abort", ABORT_S + 40, {"TURBO_NCCL_TIMEOUT_S": "8"}) as job:
        seconds = job.wait()
        keep(details, "alone", job)
        status, found, text = job.statuses()[0], reports(job), job.read("err", 0)
        details["lines"].append("held, abort: %.1f s, exit status %r, %d report%s: %s" %
                                (seconds, status, len(found), "s" * (len(found) != 1),
                                 found[0][0]["line"] if found else ""))
        if status in (0, None):
            problems.append("held: exit status %r after %.0f s" % (status, seconds))
        if seconds > ABORT_S + 15: # of which 15 are Python's start and our limit
            problems.append("held: ended after %.0f s, limit %d" % (seconds, ABORT_S + 15))
        if not found or found[0][0]["verdict"] != "timeout":
            problems.append("held: %r" % [r["line"] for r, _ in found])
        elif found[0][0]["line"] not in text or "DistBackendError" not in text:
            problems.append("held: PyTorch's message does not carry ours:\n%s" % text[-2500:])
    return problems


def nccl_abort(details):
    """One rank killed: the others end by PyTorch's own hand."""
    problems = []
    with scenario("killed", None, "abort", ABORT_S + 60) as job:
        seconds = job.wait()
        keep(details, "abort", job)
        text = job.read("err", 0)
        details["lines"].append("killed, abort: the other rank ended after %.1f s with %r" % (seconds, job.statuses()[0]))
        if job.statuses()[0] in (0, None) or seconds > ABORT_S + 15:
            problems.append("killed: %r after %.0f s" % (job.statuses(), seconds))
        if "dead" not in text or "DistBackendError" not in text:
            problems.append("killed: PyTorch's message does not carry ours:\n%s" % text[-2500:])
    return problems


def nccl_clients(details):
    """Calls of programs that find NCCL by ctypes, and of CuPy."""
    problems, library, runtime = [], h.find_library("libnccl.so.2"), h.find_library("libcudart.so.13")
    clients = {"cupy": ["cupy"]}
    if library and runtime:
        clients["ctypes"] = ["ctypes", library, runtime]
    with tempfile.TemporaryDirectory() as folder:
        for name, args in clients.items():
            path = os.pathsep.join([os.path.dirname(library)] if library else [])
            p = h.run(script("nccl_clients.py", *args), h.PRELOADED, {"TURBO_NCCL_DIR": folder, "LD_LIBRARY_PATH": path})
            if p.status == h.SKIP:
                details["lines"].append(p.out.strip())
                continue
            stats = (h.json_line(p.out, "RESULT") or {}).get("stats", {})
            details["lines"].append("%s: %r recorded" % (name, stats.get("nccl.operations")))
            if p.why() or stats.get("nccl.operations") != 2:
                problems.append("%s: %s, %r recorded, not 2" % (name, p.why(), stats.get("nccl.operations")))
    return problems


# ---- what watching costs ------------------------------------------------------------------------

CALL_NS = 1300 # with events, which tell when the GPU begins and ends
SHARE = 0.001  # of a training step
STEPS = 1000    # as in torch_nccl_cost.py
# `again` is bare, too: it shows what two processes of one kind differ by.
MODES = [("bare", h.BARE, {}), ("again", h.BARE, {}), ("off", h.PRELOADED, {"TURBO_NCCL_WATCHDOG": "off"}),
         ("report", h.PRELOADED, {"TURBO_NCCL_WATCHDOG": "report"})]


def settings(folder, **more):
    return [(n, m, {**e, **more, "TURBO_NCCL_DIR": folder, "JOB_STORE": os.path.join(folder, n)}) for n, m, e in MODES]


def same_cores():
    """Processes that take turns run on the same half of the machine: cores differ."""
    return sorted(os.sched_getaffinity(0))[:8]


def shown(details, part, unit, rounds):
    """{name: (added to bare, ratio to bare)}: medians over the rounds of what neighbours in time took at least."""
    least = {n: [min(r) for r in rounds[n]] for n in rounds}
    base, out, parts = h.median(least["bare"]), {}, []
    for name in ("again", "off", "report"):
        pairs = list(zip(least[name], least["bare"]))
        out[name] = h.median([x - y for x, y in pairs]), h.median([x / y for x, y in pairs])
        parts.append("%s %+.4g %s (%.4f x)" % (name, out[name][0], unit, out[name][1]))
        details["figures"]["%s.%s" % (part, name)] = {"bare": base, "added": out[name][0], "ratio": out[name][1]}
    details["lines"].append("%s: bare %.5g %s; %s" % (part, base, unit, "; ".join(parts)))
    return out


def call_cost(details, problems, folder):
    """Nanoseconds that watching adds to a call."""
    where = h.find_library("libnccl.so.2")
    if not where:
        raise h.Skip("libnccl.so.2 is not installed")
    path = os.pathsep.join([os.path.dirname(where)] + [x for x in [os.environ.get("LD_LIBRARY_PATH")] if x])
    with Players([h.program("nccl_bench")], settings(folder, LD_LIBRARY_PATH=path), cores=same_cores()) as players:
        costs = {}
        for part, calls in (("call", 1), ("group", 8)):
            added = shown(details, part, "ns", players.one_by_one(part, 7))["report"][0]
            costs[part] = added / calls
            if costs[part] > CALL_NS:
                problems.append("%s: %.0f ns more a call, limit %d" % (part, costs[part], CALL_NS))
        players.end()
    return max(costs.values())


def nccl_cost(details):
    """World size 1: collectives one by one and in groups, steps of DDP and FSDP2, watched and not. A step's time
    varies by more than what is judged, so that is told from its calls."""
    problems, least = [], 0.0
    with tempfile.TemporaryDirectory() as folder:
        call_ns = call_cost(details, problems, folder)
        with Players(script("torch_nccl_cost.py", "--turns"), settings(folder), cores=same_cores()) as players:
            for part in ("ddp", "fsdp"):
                shown(details, part, "ms", players.one_by_one(part, 15))
                least += details["figures"]["%s.report" % part]["bare"]
            losses = players.together("losses")
            calls = players.end()["report"]["stats"].get("nccl.operations", 0)
    share = calls * call_ns / (STEPS * least * 1e6)
    details["figures"]["share"] = share
    details["lines"].append("losses: %d steps compared bit by bit; %d calls, %.4f %% of the steps' time, limit %.1f %%" %
                            (len(losses["bare"]["ddp"]), calls, 100 * share, 100 * SHARE))
    if len({json.dumps(x) for x in losses.values()}) != 1:
        problems.append("the losses differ")
    if not calls or share > SHARE:
        problems.append("%d calls, %.4f of the steps' time" % (calls, share))
    return problems


TESTS = [("nccl_faults", nccl_faults), ("nccl_stopped", nccl_stopped), ("nccl_quiet", nccl_quiet),
         ("nccl_busy", nccl_busy), ("nccl_alone", nccl_alone), ("nccl_abort", nccl_abort), ("nccl_clients", nccl_clients), ("nccl_cost", nccl_cost)]
