#!/usr/bin/env python3
"""make check-gpu: the promises that need a real GPU.

    run_check.py [--list] [--out DIR] [-v] [NAME...]

Runs each test bare and with libturbo.so preloaded, in processes of their own, taking turns where
time is measured. A line a test, with each figure beside its limit; closes with
`N passed, N failed, N skipped`. Exit status: 0, 1 a test failed, 2 usage, 77 no GPU.
BUILD names the build directory (default: build).
"""
import argparse
import json
import os
import sys
import time

import check_coalesce
import check_copies
import check_devmem
import check_devmem_scripts as scripts
import check_hostmem
import check_nccl
import check_scenarios
import check_timeline
import check_torch
import harness as h
from hook_coverage import compare

TESTS = [
    ("order", check_copies.order),
    ("order_verify", check_copies.order_verify),
    ("losses", check_torch.losses),
    ("semantics", check_torch.semantics),
    ("loader_speed", check_torch.loader_speed),
    ("model_load", check_torch.model_load),
    ("cpu_1gib", check_torch.cpu_1gib),
    ("coverage", compare.check),
    ("devmem", check_devmem.devmem),
    ("devmem_shared", check_devmem.devmem_shared),
    ("devmem_latency", check_devmem.devmem_latency),
    ("devmem_calls", check_devmem.devmem_calls),
    ("mem_train", scripts.mem_train),
    ("mem_stream", scripts.mem_stream),
    ("mem_frag", scripts.mem_frag),
    ("mem_trace", scripts.mem_trace),
    ("mem_cupy", scripts.mem_cupy),
    ("mem_jax", scripts.mem_jax),
    ("mem_static", scripts.mem_static),
] + check_timeline.TESTS + check_nccl.TESTS + check_coalesce.TESTS + check_hostmem.TESTS + check_scenarios.TESTS


def one(name, test, verbose, out):
    """Runs a test; returns ("pass" | "fail" | "skip", seconds, details)."""
    started = time.monotonic()
    details = {"lines": [], "figures": {}, "out": out}
    try:
        problems = test(details) or []
        word = "fail" if problems else "pass"
    except h.Skip as why:
        problems, word = [str(why)], "skip"
    except Exception as e:  # a broken test is a failed one, and the others still run
        problems, word = ["%s: %s" % (type(e).__name__, e)], "fail"
    seconds = time.monotonic() - started
    details.pop("out")
    details["problems"] = problems
    print("%s  %s (%.0f s)" % (word.upper(), name, seconds))
    for line in details["lines"]:
        print("      " + line)
    for line in problems:
        print("      | " + line.replace("\n", "\n      | "))
    if verbose:
        for line in details.get("output", "").splitlines():
            print("      : " + line)
    sys.stdout.flush()
    return word, seconds, details


def main():
    p = argparse.ArgumentParser(description="tests on a real GPU")
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--list", action="store_true", help="print the names of the tests")
    p.add_argument("--out", metavar="DIR",
                   help="write check_gpu.json, the outputs of the programs and the recorded traces there")
    p.add_argument("-v", "--verbose", action="store_true", help="show what the programs print")
    a = p.parse_args()
    if a.list:
        print("\n".join(name for name, _ in TESTS))
        return 0
    known = dict(TESTS)
    unknown = [n for n in a.names if n not in known]
    if unknown:
        p.error("no such test: %s (--list names them)" % " ".join(unknown))
    chosen = [(n, t) for n, t in TESTS if not a.names or n in a.names]
    why = h.have_gpu()
    if why:
        print("skipped: %s" % why)
        print("0 passed, 0 failed, %d skipped" % len(chosen))
        return h.SKIP
    if not os.path.exists(h.LIB) or not os.path.exists(h.TURBO):
        print("build first: %s and %s are missing" % (h.LIB, h.TURBO))
        return 2
    machine = h.machine()
    print("%(gpu)s, driver %(driver)s; %(cpu)s, %(cores)d cores" % machine, flush=True)
    h.warm_memory(16)
    results, count = {}, {"pass": 0, "fail": 0, "skip": 0}
    for name, test in chosen:
        word, seconds, details = one(name, test, a.verbose, a.out)
        count[word] += 1
        results[name] = {"result": word, "seconds": round(seconds, 1), **details}
    print("%(pass)d passed, %(fail)d failed, %(skip)d skipped" % count)
    if a.out:
        save(a.out, machine, results)
    return 1 if count["fail"] else 0


def save(folder, machine, results):
    os.makedirs(folder, exist_ok=True)
    for name, r in results.items():
        output = r.pop("output", None)
        if output:
            with open(os.path.join(folder, name + ".log"), "w") as f:
                f.write(output)
    with open(os.path.join(folder, "check_gpu.json"), "w") as f:
        json.dump({"date": time.strftime("%Y-%m-%d"), "machine": machine, "tests": results}, f, indent=1)


if __name__ == "__main__":
    sys.exit(main())
