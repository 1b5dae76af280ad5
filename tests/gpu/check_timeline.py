"""Timelines: what recording costs beside torch.profiler and a CUPTI client that discards, that the kernels are those
that torch.profiler sees, that torch.profiler works as if nobody recorded, and that nothing is lost uncounted."""
import collections
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import harness as h
from turns import Player, Players

MODES = ["kernel", "launch", "sampled"]
REPORT_SECONDS, REPORT_MIB = 3.0, 200  # of 10 million records
WHOLE = {"TURBO_TIMELINE_GRAPHS": "whole"} # what limits are for; nodes are shown beside it
LATE_NS = 1500000000                   # the last second may be lost, and a flush takes its time


def recording(mode, folder, **more):
    return {"TURBO_TIMELINE": mode, "TURBO_TIMELINE_DIR": folder, **{k: str(v) for k, v in more.items()}}


def turbo(*args, limit=120):
    """A subcommand: (what it printed, seconds, MiB it used at most)."""
    begun = time.monotonic()
    with tempfile.TemporaryFile(mode="w+") as out, tempfile.TemporaryFile(mode="w+") as err:
        p = subprocess.Popen([h.TURBO, *args], stdout=out, stderr=err, env=h.environment(h.BARE))
        timer = time.monotonic() + limit
        while True:
            pid, status, usage = os.wait4(p.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > timer:
                p.kill()
            time.sleep(0.01)
        p.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        if p.returncode:
            raise RuntimeError("turbo %s: exit status %d: %s" % (args[0], p.returncode, err.read().strip()[:400]))
        return out.read(), time.monotonic() - begun, usage.ru_maxrss / 1024


def report(folder):
    return json.loads(turbo("report", "--json", folder)[0])


def exported(folder):
    """[name, grid, block, stream, duration in ns, start in ns of CLOCK_REALTIME] of every kernel on file."""
    with tempfile.TemporaryDirectory() as out:
        path = os.path.join(out, "trace.json")
        turbo("export", folder, "-o", path)
        with open(path) as f:
            trace = json.load(f)
    base = trace["baseTimeNanoseconds"]
    return [[e["name"], e["args"]["grid"], e["args"]["block"], e["args"]["stream"], round(e["dur"] * 1000),
             base + round(e["ts"] * 1000)] for e in trace["traceEvents"] if e.get("cat") == "kernel"]


def between(kernels, begun, ended):
    return [k for k in kernels if begun <= k[5] < ended]


# ---- what it costs -------------------------------------------------------------------------------

def ratios(rounds, name, base):
    """Of neighbours in time, so that what slows the machine for a while slows both."""
    return h.median([h.median(x) / h.median(y) for x, y in zip(rounds[name], rounds[base])])


def judge(details, problems, what, rounds, name, base, most):
    value, ratio = h.median([x for r in rounds[name] for x in r]), round(ratios(rounds, name, base), 3)
    details["figures"]["%s.%s/%s" % (what, name, base)] = {"value": value, "ratio": ratio, "limit": most}
    if most and ratio > most:
        problems.append("%s: %s takes %.3f times %s's, limit %.2f" % (what, name, ratio, base, most))
    return "%s %.4g (%.3f x %s%s)" % (name, value, ratio, base, ", limit %.2f" % most if most else "")


def show(details, problems, what, unit, rounds, limits):
    """limits: {name: (base, most)}; the others are shown beside bare."""
    parts = ["bare %.4g %s" % (h.median([x for r in rounds["bare"] for x in r]), unit)]
    for name in [n for n in rounds if n != "bare"]:
        base, most = limits.get(name, ("bare", None))
        parts.append(judge(details, problems, what, rounds, name, base, most))
    details["lines"].append("%s: %s" % (what, "; ".join(parts)))


def timeline_cost(details):
    """Launches of a C program, beside those of a client that discards."""
    cupti = h.find_library("libcupti.so.13")
    if not cupti:
        raise h.Skip("libcupti.so.13 is not installed")
    program, problems = [h.program("timeline_bench")], []
    with tempfile.TemporaryDirectory() as folder:
        settings = [("bare", h.BARE, {}), ("discard", h.BARE, {}, program + ["discard", cupti])]
        settings += [(m, h.PRELOADED, recording(m, folder, **WHOLE)) for m in MODES]
        settings += [("nodes", h.PRELOADED, recording("kernel", folder))]
        settings += [("off", h.PRELOADED, {"TURBO_TIMELINE": "off"})]
        with Players(program, settings, cores=same_cores()) as players:
            for part, unit, limits in (("launch", "ns", {"kernel": ("discard", 1.05)}),
                                       ("graph", "us", {"kernel": ("bare", 1.01)}),
                                       ("bound", "us", {"kernel": ("bare", 1.01), "sampled": ("bare", 1.01)})):
                show(details, problems, part, unit, players.one_by_one(part, 5), limits)
            players.end()
    return problems


def same_cores():
    """Processes that take turns run on the same half of the machine: cores differ."""
    cores = sorted(os.sched_getaffinity(0))
    return set(cores[len(cores) // 2:]) if len(cores) >= 8 else None


def timeline_train(details):
    """Training steps, beside torch.profiler."""
    problems, script = [], [sys.executable, os.path.join(h.HERE, "torch_timeline.py"), "--turns"]
    with tempfile.TemporaryDirectory() as folder:
        settings = [("bare", h.BARE, {})] + [(m, h.PRELOADED, recording(m, folder, **WHOLE)) for m in MODES]
        settings += [("nodes", h.PRELOADED, recording("kernel", folder))]
        settings += [("profiler_cuda", h.BARE, {"PROFILER": "cuda"}), ("profiler_all", h.BARE, {"PROFILER": "all"})]
        with Players(script, settings, limit=250, cores=same_cores()) as players:
            for part, rounds in (("cpu", 7), ("gpu", 3), ("graph", 3)):
                players.together("prepare_" + part)
                r = players.one_by_one("time_" + part, rounds)
                show(details, problems, part, "ms", r,
                     {} if part == "cpu" else {"kernel": ("bare", 1.01), "sampled": ("bare", 1.01)})
                if part == "cpu":
                    added = {n: ratios(r, n, "bare") - 1 for n in r}
                    for other, share in (("profiler_cuda", 0.5), ("profiler_all", 0.1)):
                        if added["kernel"] > share * added[other]:
                            problems.append("cpu: kernel adds %.1f %%, limit %.1f of the %.1f %% that %s adds" %
                                            (100 * added["kernel"], share, 100 * added[other], other))
            losses = players.together("losses")
            if any(x != losses["bare"] for x in losses.values()):
                problems.append("losses differ")
            players.end()
    return problems


# ---- what it holds -------------------------------------------------------------------------------

def tally(kernels):
    return collections.Counter((k[0], tuple(k[1]), tuple(k[2]), k[3]) for k in kernels)


def compare(problems, what, mine, theirs):
    a, b = tally(mine), tally(theirs)
    for k in list((a - b).keys())[:3]:
        problems.append("%s: %d of %s, not %d" % (what, a[k], k, b[k]))
    for k in list((b - a).keys())[:3]:
        problems.append("%s: %d of %s, not %d" % (what, a[k], k, b[k]))
    if any(k[4] < 0 for k in mine):
        problems.append("%s: a duration is negative" % what)
    return sum(k[4] for k in mine) / max(1, sum(k[4] for k in theirs))


def timeline_profiler(details):
    """The same training plain, under torch.profiler, and plain again, while libturbo records: torch.profiler sees what
    it sees without libturbo, and the timeline has the same kernels before and after."""
    problems, script = [], [sys.executable, os.path.join(h.HERE, "torch_timeline.py"), "--turns"]
    with tempfile.TemporaryDirectory() as folder:
        with Players(script, [("bare", h.BARE, {}), ("kernel", h.PRELOADED, recording("kernel", folder))]) as players:
            bare, mine = players.all
            spans = [mine.turn("plain")]
            time.sleep(1.5)
            seen = mine.turn("seen")
            time.sleep(8)
            spans += [mine.turn("plain"), mine.turn("plain")]
            theirs = bare.turn("seen")
            r = players.end()["kernel"]
        details["lines"] += [x for x in r["stderr"].splitlines() if x.startswith("libturbo")][:6]
        compare(problems, "torch.profiler under libturbo", seen, theirs)
        kernels = exported(folder)
        for name, span in zip(("before torch.profiler", "after it", "once more"), spans):
            ratio = compare(problems, name, between(kernels, *span), theirs)
            details["lines"].append("%s: %d kernels, torch.profiler %d; their time %.3f of its" %
                                    (name, len(between(kernels, *span)), len(theirs), ratio))
            if not 0.9 < ratio < 1.1:
                problems.append("%s: the kernels take %.3f times as long as torch.profiler says" % (name, ratio))
        rank = report(folder)["ranks"][0]
        details["lines"].append("gaps: %s" % ", ".join("%.1f s %s" % (g["duration"] / 1e9, g["reason"])
                                                        for g in rank["gaps"]["longest"]))
        if not rank["gaps"]["count"]:
            problems.append("the report knows of no gap")
        keep(details, folder, "profiler")
    return problems


def timeline_graphs(details):
    """A CUDA graph is replayed while windows open and close, while torch.profiler comes and goes, and while `turbo record`
    starts and stops: it gives the bare run's losses."""
    problems, script = [], [sys.executable, os.path.join(h.HERE, "torch_timeline.py"), "--turns"]
    with tempfile.TemporaryDirectory() as folder:
        settings = [("bare", h.BARE, {"PROFILER": "cuda"})]
        settings += [(m, h.PRELOADED, {"PROFILER": "cuda", **recording(m, folder)}) for m in MODES]
        settings += [("off", h.PRELOADED, {"PROFILER": "", "TURBO_TIMELINE": "off"})]
        settings += [("recorded", h.PRELOADED, {"PROFILER": "", "TURBO_TIMELINE": "off"})]
        settings += [("whole", h.PRELOADED, {"PROFILER": "", **recording("sampled", folder, **WHOLE)})]
        with Players(script, settings) as players:
            players.together("prepare_graph")
            for i in range(7):
                if i % 3 == 1:
                    pid = [p.child.pid for p in players.all if p.name == "recorded"][0]
                    out, _, _ = turbo("record", str(pid), "-d", "1", "-o", folder)
                players.together("time_graph")
                time.sleep(1)
            losses = players.together("losses")
            for name, x in losses.items():
                if x["graph"] != losses["bare"]["graph"]:
                    problems.append("%s: losses differ" % name)
            for name, r in players.end().items():
                details["lines"] += ["%s: %s" % (name, x) for x in r["stderr"].splitlines() if x.startswith("libturbo")][:2]
        rest = [(r["mode"], r["records"], r["gaps"]["count"]) for r in report(folder)["ranks"]]
        details["lines"] += ["%s: %d records, %d gaps" % x for x in rest]
    return problems


def keep(details, folder, name):
    """Leaves small files for whoever looks at them."""
    if details["out"]:
        os.makedirs(details["out"], exist_ok=True)
        for i, path in enumerate(glob.glob(os.path.join(folder, "*.timeline"))):
            subprocess.run("gzip -c '%s' > '%s/%s-%d.timeline.gz'" % (path, details["out"], name, i), shell=True)


def timeline_many(details):
    """10 million kernels: all are on file, or counted; the report is quick and small."""
    problems, n = [], 10000000
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        extra = recording("kernel", folder, TURBO_TIMELINE_MB=384)
        with Players([h.program("timeline_bench")], [("kernel", h.PRELOADED, extra)]) as players:
            seconds = players.all[0].turn("many %d" % n)[0]
            err = players.end()["kernel"]["stderr"]
        details["lines"] += [x for x in err.splitlines() if x.startswith("libturbo")][:6]
        text, took, mib = turbo("report", "--json", folder)
        rank = json.loads(text)["ranks"][0]
        lost = sum(rank["lost"].values())
        kernels = sum(g["kernels"]["count"] for g in rank["gpus"])
        size = sum(os.path.getsize(f) for f in glob.glob(folder + "/*"))
        details["lines"].append("%d kernels in %.1f s: %d on file, %d lost and counted; %d bytes; report %.2f s, %.0f MiB" %
                                (n, seconds, kernels, lost, size, took, mib))
        details["figures"]["many"] = {"kernels": n, "on_file": kernels, "lost": rank["lost"], "report_s": took,
                                      "report_mib": mib, "bytes": size}
        if kernels + lost < n:
            problems.append("%d kernels are neither on file nor counted" % (n - kernels - lost))
        if took > REPORT_SECONDS or mib > REPORT_MIB:
            problems.append("the report took %.1f s and %.0f MiB" % (took, mib))
    return problems


def timeline_killed(details):
    """SIGKILL loses the last second, and `turbo record` starts and stops in a running process."""
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        p = Player("kernel", [h.program("timeline_bench")], h.PRELOADED, recording("kernel", folder))
        p.hear("READY")
        for _ in range(12):
            p.turn("bound")
        os.kill(p.child.pid, signal.SIGKILL)
        killed = time.time_ns()
        p.child.wait()
        r = report(folder)
        rank = r["ranks"][0]
        late = killed - r["origin_ns"] - max(g["last"] for g in rank["gpus"])
        details["lines"].append("killed: the last kernel on file ended %.2f s before" % (late / 1e9))
        if late > LATE_NS or rank["end"] is not None:
            problems.append("killed: the file ends %.2f s before, end %s" % (late / 1e9, rank["end"]))
    with tempfile.TemporaryDirectory() as folder:
        p = Player("off", [h.program("timeline_bench")], h.PRELOADED, {"TURBO_TIMELINE": "off"})
        p.hear("READY")
        before = h.median(p.turn("launch"))
        recorder = subprocess.Popen([h.TURBO, "record", str(p.child.pid), "-d", "2", "-o", folder],
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        during = []
        while recorder.poll() is None:
            during += p.turn("launch")
        said = recorder.stdout.read().strip()
        after = h.median(p.turn("launch"))
        details["lines"] += ["turbo record: " + x for x in said.splitlines()[:4]]
        details["lines"].append("launches before, during and after turbo record: %.0f, %.0f, %.0f ns" %
                                (before, h.median(during), after))
        p.kill()
        if recorder.returncode:
            problems.append("turbo record: exit status %d" % recorder.returncode)
        else:
            rank = report(folder)["ranks"][0]
            launched = sum(g["kernels"]["count"] for g in rank["gpus"])
            span = max(g["last"] for g in rank["gpus"]) - min(g["first"] for g in rank["gpus"]) if launched else 0
            details["lines"].append("recorded on demand: %d kernels over %.2f s" % (launched, span / 1e9))
            if not launched or not 1e9 < span < 4e9:
                problems.append("recorded on demand: %d kernels over %.2f s" % (launched, span / 1e9))
    return problems


TESTS = [(f.__name__, f) for f in (timeline_cost, timeline_train, timeline_profiler, timeline_graphs, timeline_many,
                                    timeline_killed)]
