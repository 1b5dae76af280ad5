"""Device memory by C programs: the cases of devmem_check in every mode, and the driver calls that are
left on the paths that should make none."""
import json
import os
import tempfile

import harness as h
from check_copies import parse, problems_of

MODES = ["cache", "deferred", "stream"]
# Cases that look at the whole device or at single microseconds: nothing else runs beside them.
SHARING = ["mem_info", "handover", "handover_pool", "pool_trim", "pool_out_of_memory"]
LATENCY = ["aged_while_busy", "aged_before_busy", "aged_between_bursts", "free_beside_launches"]
# What must have been served, for a run to have tested anything.
SERVED = {"cache": [("devmem.cache.hits", 40)], "deferred": [("devmem.cache.hits", 40)],
          "stream": [("devmem.cache.hits", 40), ("devmem.stream.served", 500)]}
# Answers that may be better than the driver's, by mode: a free that does not wait cannot know of a
# fault, and need not be refused for the sake of a capture; nor need an allocation or a free that makes
# no driver call, which then does not invalidate the capture either.
MAY = {"deferred": {("sticky_error", "free"), ("free_in_capture", "global.free"), ("free_in_capture", "thread_local.free"),
                    ("capture_in_other_thread", "global.free"), ("capture_in_other_thread", "global.free_refused_then")},
       "stream": {("capture_in_other_thread", "global.alloc_async")} |
                 {("other_stream_of_capturing_thread", "%s.%s" % (m, what))
                  for m in ("global", "thread_local") for what in ("alloc", "free", "end")}}
SHOWN = 4  # differing answers of a case


def start(mode, cases):
    args = [h.program("devmem_check"), "--mode", mode, *cases]
    if mode == "bare":
        return h.Process(args, h.BARE, limit=200)
    return h.Process(args, h.PRELOADED, {"TURBO_DEVMEM": mode}, limit=200)


def finish(mode, p, cases):
    """Waits; where a case has lost the context, or hung, those after it run in another process."""
    p.wait()
    if p.status == h.SKIP:
        raise h.Skip(p.out.strip())
    if p.status not in (0, 1, 3, 4):
        raise RuntimeError("%s: %s\n%s" % (mode, p.why(), "\n".join(p.out.splitlines()[-8:])))
    results = parse(p.out)
    left = [c for c in cases if c not in results[0]]
    if p.status in (3, 4) and left:
        more, (cases_, notes, stats) = finish(mode, start(mode, left), left)
        more.out, more.err, more.seconds = p.out + more.out, p.err + more.err, p.seconds + more.seconds
        return more, ({**results[0], **cases_}, results[1] + notes, stats or results[2])
    return p, results


def served(mode, stats, problems):
    if not stats:
        problems.append("%s: turbo stats found nothing of the process" % mode)
        return
    for name, least in SERVED[mode]:
        n = stats["counters"].get(name, 0)
        if n < least:
            problems.append("%s: %s is %d, expected at least %d" % (mode, name, n, least))
    if stats["counters"].get("errors"):
        problems.append("%s: %d errors inside" % (mode, stats["counters"]["errors"]))


def report(runs, details, problems):
    """runs: {mode: (process, (cases, notes, stats))}, bare among them."""
    details["output"] = "\n".join("== %s\n%s\n%s" % (m, p.out, p.err) for m, (p, _) in runs.items())
    bare_notes = runs["bare"][1][1] if "bare" in runs else None
    for mode, (p, (cases, notes, _)) in runs.items():
        passed = sum(word == "ok" for word, _ in cases.values())
        details["lines"].append("%-8s %d of %d cases, %.0f s" % (mode, passed, len(cases), p.seconds))
        details["lines"] += ["%s: not tested here: %s: %s" % (mode, name, reason)
                             for name, (word, reason) in cases.items() if word == "skip"]
        details["lines"] += [x for x in p.err.splitlines() if x.startswith("libturbo")][:3]
        problems += problems_of(mode, cases)
        if bare_notes is not None and mode != "bare":
            must, may = differences(mode, bare_notes, notes)
            problems += must
            details["lines"] += ["allowed: " + line for line in may]


def by_key(notes):
    """{(case, key): values in order}"""
    out = {}
    for note in notes:
        case, key, value = note.split(" ", 2)
        out.setdefault((case, key), []).append(value)
    return out


def changed(bare, mine):
    """The words of two values that differ."""
    a, b = bare.split(), mine.split()
    if len(a) != len(b):
        return "%s instead of %s" % (mine, bare)
    return ", ".join("%s instead of %s" % (y, x) for x, y in zip(a, b) if x != y)


def differences(mode, bare, notes):
    """The driver's answers, which must be bare's: (what must not be, what may be)."""
    expected, got, lines, may = by_key(bare), by_key(notes), {}, []
    for key in sorted(set(expected) | set(got)):
        a, b = expected.get(key, []), got.get(key, [])
        if a == b:
            continue
        text = "%d answers instead of %d" % (len(b), len(a))
        if len(a) == len(b):
            text = "; ".join(dict.fromkeys(changed(x, y) for x, y in zip(a, b) if x != y))
        line = "%s: %s %s: %s" % (mode, *key, text)
        if key in MAY.get(mode, ()):
            may.append(line)
        else:
            lines.setdefault(key[0], []).append(line)
    must = []
    for case, found in lines.items():
        must += found[:SHOWN]
        if len(found) > SHOWN:
            must.append("%s: %s: and %d more" % (mode, case, len(found) - SHOWN))
    return must, may


def case_names():
    return h.run([h.program("devmem_check"), "--list"], h.BARE).out.split()


def devmem(details):
    """All modes at the same time: what is checked is order, not speed."""
    cases = [c for c in case_names() if c not in SHARING + LATENCY]
    running = {mode: start(mode, cases) for mode in ["bare"] + MODES}
    runs, problems = {mode: finish(mode, p, cases) for mode, p in running.items()}, []
    report(runs, details, problems)
    for mode in MODES:
        served(mode, runs[mode][1][2], problems)
    return problems


def devmem_shared(details):
    """One mode after the other, alone on the device."""
    runs, problems = {}, []
    for mode in ["bare"] + MODES:
        runs[mode] = finish(mode, start(mode, SHARING), SHARING)
    report(runs, details, problems)
    return problems


def longest(text):
    """{case: longest launch in microseconds, of the last attempt}"""
    out = {}
    for line in text.splitlines():
        f = line.split()
        if f[0:1] == ["info"] and f[2:3] == ["longest_us"]:
            out[f[1]] = float(f[3])
    return out


def devmem_latency(details):
    """Old kept blocks, a spinning kernel, and launches meanwhile: none may take more than 1 ms."""
    runs, problems = {}, []
    for mode, cases in (("bare", LATENCY[-1:]), ("cache", LATENCY), ("deferred", LATENCY)):
        runs[mode] = finish(mode, start(mode, cases), cases)
    report(runs, details, problems)
    for mode, (p, _) in runs.items():
        figures = longest(p.out)
        details["figures"][mode] = figures
        details["lines"].append("%-8s longest launch: %s" % (mode, ", ".join("%s %.0f us" % x for x in figures.items())))
    return problems


# ---- driver calls -----------------------------------------------------------------------------

# What mem_bench itself calls in its timed part.
ITS_OWN = {"cuCtxSetCurrent"}


def calls_of(mode, cells, trace):
    """({function: calls that the driver got in the timed part}, batches of pairs)."""
    with tempfile.TemporaryDirectory(prefix="calls.") as folder:
        args = [h.program("mem_bench"), "--cell-ms", "30", "--calls", folder, "--cells", cells]
        extra = {"TURBO_DEVMEM": mode, "CUDA_INJECTION64_PATH": trace,
                 "CUPTITRACE_CUPTI": h.find_library("libcupti.so.13") or ""}
        p = h.run(args, h.PRELOADED, extra, limit=60)
        if p.status == h.SKIP:
            raise h.Skip(p.out.strip())
        if p.status != 0:
            raise RuntimeError("mem_bench: %s" % p.why())
        with open(os.path.join(folder, "before")) as f, open(os.path.join(folder, "after")) as g:
            before, after = json.load(f), json.load(g)
    grown = {name: n - before.get(name, 0) for name, n in after.items() if n > before.get(name, 0)}
    batches = sum(int(dict(x.split("=") for x in line.split()[1:])["batches"])
                  for line in p.out.splitlines() if line.startswith("pair "))
    return grown, batches


def devmem_calls(details):
    """The driver-API calls that CUPTI sees: warm stream-ordered pairs make none at all."""
    trace = h.built("tests/gpu/libcuptitrace.so", ["tests/gpu/hook_coverage/cuptitrace.c"], "-shared", "-fPIC",
                    "-fvisibility=hidden")
    problems = []
    for mode, cells in (("stream", "async:1:4K,2M,64M"), ("stream", "async:8:4K,2M"), ("cache", "sync:1:4K,2M"),
                        ("deferred", "sync:1:4K,2M")):
        grown, batches = calls_of(mode, cells, trace)
        left = {name: n for name, n in grown.items() if name not in ITS_OWN}
        if mode != "stream":
            left = grown
        details["figures"]["%s %s" % (mode, cells)] = left
        details["lines"].append("%-8s %s, at least %d pairs; driver calls: %s" %
                                (mode, cells, batches, ", ".join("%s %d" % x for x in sorted(left.items())) or "none"))
        if not batches:
            problems.append("%s: nothing was timed" % mode)
        forbidden = sorted(left) if mode == "stream" else [n for n in left if n.startswith(("cuMemAlloc", "cuMemFree"))]
        problems += ["%s: %d calls of %s in the timed part" % (mode, left[n], n) for n in forbidden]
    return problems
