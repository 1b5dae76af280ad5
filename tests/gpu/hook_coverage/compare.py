#!/usr/bin/env python3
"""Hook coverage: what libturbo counted against what a CUPTI driver-API callback counted.

    compare.py [CLIENT...]

Each client (PyTorch with three allocators, torch.compile with CUDA graphs, Triton, CuPy, JAX, NCCL,
static cudart with both kinds of default stream) runs with libturbo.so preloaded and libcuptitrace.so
injected. TURBO=observe, because CUPTI would also see the copies and registrations that libturbo makes
itself. Every function that allocates, frees or copies must have been called equally often.
"""
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness as h  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
AT_ONCE = 4
ALLOC = {"eager_vmm": "expandable_segments:True", "eager_async": "backend:cudaMallocAsync"}
PYTHON_CLIENTS = ["compile", "jax", "nccl", "eager", "eager_vmm", "eager_async", "triton", "cupy"]
STATIC_CLIENTS = ["static", "static_ptds"]
# Allocations and copies. What else differs is reported, and does not fail the test.
COMPARED = re.compile(r"cu(Mem(Alloc|Free|HostAlloc|HostRegister|HostUnregister|Create|Release|Map|Unmap|SetAccess"
                      r"|AddressReserve|AddressFree|PoolCreate|PoolDestroy|cpy)|(Array|Array3D|MipmappedArray)"
                      r"(Create|Destroy))")


def load(path):
    with open(path) as f:
        return json.load(f)


def symbol_names(cupti, known):
    """CUPTI's names are symbols, but for a few that carry a version the export does not have
    (cuMemcpy_v2 is exported as cuMemcpy)."""
    out = {}
    for name, n in cupti.items():
        plain = re.sub(r"_v\d+(?=$|_pt)", "", name)
        key = name if name in known or plain not in known else plain
        out[key] = out.get(key, 0) + n
    return out


def compare(prefix):
    """(compared functions, their calls, differences, other differences) of one client."""
    turbo = load(prefix + ".turbo")["calls"]
    before, after = (symbol_names(load(prefix + s), turbo) for s in (".cupti0", ".cupti1"))
    functions, calls, wrong, other = 0, 0, [], []
    for name in sorted(set(turbo) | set(after)):
        low, ours, high = before.get(name, 0), turbo.get(name, 0), after.get(name, 0)
        if not ours and not high:
            continue
        good = low <= ours <= high
        if COMPARED.match(name):
            functions, calls = functions + 1, calls + ours
        if not good:
            text = "%s: libturbo %d, CUPTI %d" % (name, ours, high)
            (wrong if COMPARED.match(name) else other).append(text)
    return functions, calls, wrong, other


def static_program(client):
    flags = ["-cudart", "static", "-arch=sm_75", "-std=c++17"]
    if client == "static_ptds":
        flags += ["--default-stream", "per-thread"]
    return h.built("tests/gpu/%s_client" % client, ["tests/gpu/hook_coverage/static_client.cu"], *flags,
                   compiler="nvcc")


def start(client, folder, trace):
    extra = {"TURBO": "observe", "CUDA_INJECTION64_PATH": trace, "COVERAGE_OUT": os.path.join(folder, client),
             "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "inductor"), "TRITON_CACHE_DIR": os.path.join(folder, "triton"),
             "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "CUPTITRACE_CUPTI": h.find_library("libcupti.so.13") or ""}
    if client in ALLOC:
        extra["PYTORCH_CUDA_ALLOC_CONF"] = ALLOC[client]
    args = [static_program(client)] if client in STATIC_CLIENTS else [sys.executable, os.path.join(HERE, "client.py"), client]
    return h.Process(args, h.PRELOADED, extra, limit=170)


def report(client, p, folder, details, problems):
    if p.status == h.SKIP:
        details["lines"].append("%-12s not installed here" % client)
        return False
    if p.status != 0:
        problems.append("%s: %s" % (client, p.why()))
        return True
    functions, calls, wrong, other = compare(os.path.join(folder, client))
    details["lines"].append("%-12s %4d allocation and copy calls of %2d functions: %s" %
                            (client, calls, functions, "%d differ" % len(wrong) if wrong else "equal"))
    details["figures"][client] = {"calls": calls, "functions": functions, "differ": wrong, "others": other}
    problems += ["%s: %s" % (client, text) for text in wrong]
    if not calls:
        problems.append("%s: nothing was counted" % client)
    return True


def check(details, clients=None):
    clients = clients or PYTHON_CLIENTS + STATIC_CLIENTS
    trace = h.built("tests/gpu/libcuptitrace.so", ["tests/gpu/hook_coverage/cuptitrace.c"], "-shared", "-fPIC",
                    "-fvisibility=hidden")
    problems, ran = [], 0
    with tempfile.TemporaryDirectory(prefix="coverage.") as folder:
        waiting, running = list(clients), []
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                client = waiting.pop(0)
                try:
                    running.append((client, start(client, folder, trace)))
                except h.Skip as why:
                    details["lines"].append("%-12s %s" % (client, why))
            if running:
                client, p = running.pop(0)
                ran += report(client, p.wait(), folder, details, problems)
    if not ran:
        raise h.Skip("no client could run")
    return problems


if __name__ == "__main__":
    d = {"lines": [], "figures": {}}
    found = check(d, sys.argv[1:] or None)
    print("\n".join(d["lines"] + ["| " + x for x in found]))
    sys.exit(1 if found else 0)
