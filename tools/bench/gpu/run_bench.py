#!/usr/bin/env python3
"""make bench-gpu: host/device copies, and allocation, with and without libturbo, side by side.

    run_bench.py [--only copy|mem] [--quick] [--rounds N] [--env NAME=VALUE,...] [--markdown FILE] [--json FILE]
    run_bench.py --sweep 'TURBO_COPY_THREADS=4;TURBO_COPY_THREADS=8,TURBO_COPY_RING_MB=64' [--quick]

copy_bench runs bare and with libturbo.so preloaded in turns, at least three rounds, each in a process
of its own; the table shows medians over the rounds. pinned: the driver's pinned copy, measured in the
same processes; native: the driver's pageable copy; staged: the same call with libturbo.so. Allocation:
bench_mem.py.
Exit status: 0, 1 a limit is missed or bytes were wrong, 77 no GPU.
"""
import argparse
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 3, "tests", "gpu"))
import harness as h  # noqa: E402
import bench_mem  # noqa: E402
import bench_table as table  # noqa: E402

ALL = "4,64,1K,4K,16K,64K,256K,512K,1M,2M,4M,8M,16M,37M,64M,128M,256M,512M,1G"
QUICK = "4,4K,64K,1M,4M,16M,64M,256M,1G"
# Each a --cells of copy_bench. The last two: what loader workers hand over, and `.cpu()`.
FULL_CELLS = ["h2d,d2h:pinned,heap:async:" + ALL, "h2d,d2h:heap:sync:1M,16M,64M",
              "h2d:shm:async:16M,64M,256M", "d2h:fresh:async:16M,64M,256M"]
# Copies that libturbo passes through take microseconds, and two processes differ by more than it costs:
# many short processes in turns, and the median of them.
SMALL_CELLS = ["h2d,d2h:heap:async,sync:4,64,1K,4K,16K,64K,256K,512K", "h2d,d2h:pinned:async:4,64,1K,4K,16K,64K"]
SMALL_ROUNDS, SMALL_MS = 15, 25
QUICK_CELLS = ["h2d,d2h:pinned,heap:async:" + QUICK, "h2d:shm:async:64M"]
SWEEP_CELLS = ["h2d,d2h:pinned,heap:async:1M,2M,4M,8M,16M,37M,64M,256M,1G", "h2d:shm:async:64M"]


def parse_cells(text):
    """copy_bench's output: {(op, kind, api, bytes): {total_ns, ...}}."""
    cells = {}
    for line in text.splitlines():
        if not line.startswith("cell "):
            continue
        f = dict(x.split("=", 1) for x in line.split()[1:])
        key = (f["op"], f["kind"], f["api"], int(f["bytes"]))
        cells[key] = {k: int(v) for k, v in f.items() if k.endswith("_ns") or k == "reps"}
        cells[key]["verify"] = f["verify"]
    return cells


def measure(mode, extra, cells, cell_ms, verify):
    args = [h.program("copy_bench"), "--cell-ms", str(cell_ms)]
    for c in cells:
        args += ["--cells", c]
    if not verify:
        args.append("--no-verify")
    p = h.run(args, mode, extra, limit=200)
    if p.status == h.SKIP:
        raise h.Skip(p.out.strip())
    got = parse_cells(p.out)
    wrong = [k for k, v in got.items() if v["verify"].startswith("FAIL")]
    if p.status != 0 and not wrong:
        raise RuntimeError("copy_bench, %s: %s" % (mode, p.why()))
    return got, wrong, p.seconds


def merge(runs):
    """Medians over the rounds, cell by cell."""
    out = {}
    for key in runs[0]:
        present = [r[key] for r in runs if key in r]
        out[key] = {f: h.median([p[f] for p in present]) for f in present[0] if f != "verify"}
    return out


def passed_through(env):
    p = h.run([h.program("pass_bench")], h.PRELOADED, env, limit=100)
    if p.status != 0:
        raise RuntimeError("pass_bench: %s" % p.why())
    return table.pass_rows(p.out)


def small_rounds(settings, merged):
    """Replaces the small cells of `merged`."""
    runs = {name: [] for name, _, _ in settings}
    for i in range(SMALL_ROUNDS):
        for name, mode, env in settings if i % 2 == 0 else settings[::-1]:
            runs[name].append(measure(mode, env, SMALL_CELLS, SMALL_MS, verify=False)[0])
    for name in runs:
        merged[name].update(merge(runs[name]))


def rounds_of(settings, cells, a):
    """settings: [(name, mode, env)]. Runs them in turns; {name: merged cells}, rounds, wrong cells."""
    runs = {name: [] for name, _, _ in settings}
    wrong, started, done, last = [], time.monotonic(), 0, 0.0
    while done < a.rounds or (not a.rounds_given and time.monotonic() - started + last < a.budget):
        begun = time.monotonic()
        order = settings if done % 2 == 0 else settings[::-1]
        for name, mode, env in order:
            got, bad, seconds = measure(mode, env, cells, a.cell_ms, verify=done == 0)
            runs[name].append(got)
            wrong += ["%s: %s %s %s %d bytes" % (name, *k) for k in bad]
            print("# round %d, %s: %.1f s" % (done + 1, name, seconds), file=sys.stderr, flush=True)
        last = time.monotonic() - begun
        done += 1
        if done >= 9:
            break
    return {name: merge(r) for name, r in runs.items()}, done, wrong


def parse_env(text):
    env = {}
    for part in filter(None, (text or "").split(",")):
        name, eq, value = part.partition("=")
        if not eq or not name.startswith("TURBO"):
            raise SystemExit("run_bench.py: expected TURBO_NAME=VALUE, got %r" % part)
        env[name] = value
    return env


def bench_copies(a, env):
    """(text, Markdown, figures, problems)"""
    settings = [("native", h.BARE, {}), ("staged", h.PRELOADED, env)]
    merged, rounds, wrong = rounds_of(settings, QUICK_CELLS if a.quick else FULL_CELLS, a)
    if not a.quick:
        small_rounds(settings, merged)
    rows = table.rows(merged["native"], merged["staged"])
    passed = passed_through(env)
    about = table.about(h.machine(), rounds, command_line(a), env)
    missed = [r for r in rows + passed if r["verdict"] in ("MISS", "not preloaded")]
    problems = ["WRONG BYTES %s" % line for line in wrong]
    problems += ["%d of %d copy limits missed" % (len(missed), len(rows) + len(passed))] if missed else []
    figures = {"rounds": rounds, "env": env, "rows": rows, "passed": passed, "wrong": wrong}
    return (about + "\n" + table.text(rows) + table.pass_text(passed),
            table.markdown(rows, about) + table.pass_markdown(passed), figures, problems)


def bench_memory(a):
    rows, problems = bench_mem.rows(a.quick)
    missed = [r for r in rows if r["verdict"] == "MISS"]
    problems += ["%d of %d memory limits missed" % (len(missed), len(rows))] if missed else []
    about = table.about(h.machine(), bench_mem.ROUNDS, command_line(a), {})
    return about + "\n" + bench_mem.text(rows), bench_mem.markdown(rows), {"memory": rows}, problems


def command_line(a):
    files = {"--markdown", "--json", a.markdown, a.json}
    options = " ".join(x for x in sys.argv[1:] if x.partition("=")[0] not in files)
    return "make bench-gpu" + (" ARGS='%s'" % options if options else "")


def bench(a):
    parts = []
    if a.only in (None, "copy"):
        parts.append(bench_copies(a, parse_env(a.env)))
        print(parts[-1][0], flush=True)
    if a.only in (None, "mem"):
        parts.append(bench_memory(a))
        print(parts[-1][0], flush=True)
    problems = [line for part in parts for line in part[3]]
    print("\n".join(problems or ["every limit kept"]))
    if a.markdown:
        with open(a.markdown, "w") as f:
            f.write("".join(part[1] for part in parts))
    if a.json:
        with open(a.json, "w") as f:
            figures = {k: v for part in parts for k, v in part[2].items()}
            json.dump({"machine": h.machine(), "date": time.strftime("%Y-%m-%d"), **figures}, f, indent=1)
    return 1 if problems else 0


def sweep(a):
    settings = [("native", h.BARE, {}), ("default", h.PRELOADED, parse_env(a.env))]
    for text in a.sweep.split(";"):
        settings.append((text.replace("TURBO_COPY_", "").lower(), h.PRELOADED, {**parse_env(a.env), **parse_env(text)}))
    merged, rounds, wrong = rounds_of(settings, QUICK_CELLS if a.quick else SWEEP_CELLS, a)
    print(table.about(h.machine(), rounds, "run_bench.py --sweep", parse_env(a.env)))
    print(table.sweep(merged))
    for line in wrong:
        print("WRONG BYTES %s" % line)
    return 1 if wrong else 0


def main():
    p = argparse.ArgumentParser(description="benchmarks on a real GPU")
    p.add_argument("--only", choices=("copy", "mem"), help="copies, or allocation, only")
    p.add_argument("--quick", action="store_true", help="fewer sizes, at most 75 s")
    p.add_argument("--rounds", type=int, metavar="N", help="exactly N rounds (default: 3, more while time is left)")
    p.add_argument("--cell-ms", type=int, metavar="N", help="time for each cell")
    p.add_argument("--env", metavar="NAME=VALUE,...", help="options of the preloaded runs")
    p.add_argument("--sweep", metavar="'SET;SET;...'", help="compare sets of options")
    p.add_argument("--markdown", metavar="FILE", help="write the table as BENCHMARKS.md")
    p.add_argument("--json", metavar="FILE", help="write the figures")
    a = p.parse_args()
    a.rounds_given, a.rounds = a.rounds is not None, a.rounds or 3
    a.budget = 60 if a.quick else 200
    a.cell_ms = a.cell_ms or (100 if a.quick or a.sweep else 150)
    why = h.have_gpu()
    if why:
        print("skipped: %s" % why)
        return h.SKIP
    h.warm_memory(6)
    try:
        return sweep(a) if a.sweep else bench(a)
    except h.Skip as why:
        print("skipped: %s" % why)
        return h.SKIP


if __name__ == "__main__":
    sys.exit(main())
