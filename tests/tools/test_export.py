"""`turbo export`: the fields that other tools read, filters, names of files, and what happens when it cannot write."""
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import timelines  # noqa: E402
from timelines import export, load, make, spans  # noqa: E402

QUARTER_NS = 7889238 * 10**9


def check_head(trace, rank, ranks):
    assert trace["schemaVersion"] == 1 and trace["displayTimeUnit"] == "ms"
    assert trace["distributedInfo"]["rank"] == rank and trace["distributedInfo"]["world_size"] == ranks
    assert trace["baseTimeNanoseconds"] % QUARTER_NS == 0
    device = trace["deviceProperties"][rank]
    assert (device["id"], device["name"], device["numSms"], device["computeMajor"]) == (rank, "NVIDIA H200", 132, 9)
    assert device["totalGlobalMem"] == 150754820096 and device["warpSize"] == 32


def check_events(trace, rank, launches):
    events = trace["traceEvents"]
    for e in events:
        assert e["name"] and "pid" in e and "tid" in e and e["ts"] >= 0, e
        assert e["ph"] != "X" or (e["cat"] and e["dur"] >= 0), e
    kernel = next(e for e in spans(trace, "kernel") if e["name"].startswith("ncclDevKernel_AllReduce"))
    args = kernel["args"]
    assert kernel["pid"] == args["device"] == rank and kernel["tid"] == args["stream"] == 20 and args["context"] == rank + 1
    assert args["grid"] == [24, 1, 1] and args["block"] == [544, 1, 1] and args["registers per thread"] == 32
    assert args["shared memory"] == 1024 and args["queued"] == 0 and args["correlation"] > 0
    assert abs(args["blocks per SM"] - 24 / 132) < 1e-5 and abs(args["warps per SM"] - 24 * 17 / 132) < 1e-4
    assert args["est. achieved occupancy %"] == round(100 * 24 / 132 * 544 / 2048)
    names = {e["name"] for e in spans(trace, "gpu_memcpy")}
    assert names == {"Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pageable -> Device)",
                     "Memcpy DtoH (Device -> Pinned)"}, names
    copy = spans(trace, "gpu_memcpy")[0]
    # a time has three decimals
    rate = copy["args"]["bytes"] / copy["dur"] / 1000
    assert copy["args"]["bytes"] == 38535168 and abs(copy["args"]["memory bandwidth (GB/s)"] / rate - 1) < 1e-3
    collective = spans(trace, "nccl")[0]
    assert collective["name"] == "ncclAllReduce" and collective["args"]["sequence"] == 1
    assert collective["args"]["bytes"] == 28 << 20 and collective["args"]["communicator"] == 1
    staged = spans(trace, "libturbo")[0]
    assert staged["name"] == "staged copy H2D" and staged["args"]["bytes"] == 38535168
    assert spans(trace, "cuda_sync") and any(e["ph"] == "C" and e["args"]["value"] > 1 << 35 for e in events)
    calls = spans(trace, "cuda_runtime")
    assert bool(calls) == launches
    flows = [{e["id"] for e in events if e["ph"] == ph} for ph in "sf"]
    assert flows[0] == flows[1] and len(flows[0]) == (len(spans(trace, *timelines.GPU)) if launches else 0)
    if launches:
        assert calls[0]["name"] == "cudaLaunchKernel" and calls[0]["args"]["cbid"] == 211
        assert calls[0]["args"]["correlation"] == copy["args"]["correlation"]


def check_names(trace, rank):
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert all((e["pid"], e["tid"]) in rows for e in spans(trace)), "a row without a name"
    assert rows[rank, 7] == "stream 7" and rows[rank, 20] == "stream 20"
    host = {name.split(" (")[0] for (pid, _), name in rows.items() if pid != rank}
    assert {"NCCL", "libturbo", "waits"} <= host, rows
    processes = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"]
    assert f"rank {rank}: GPU {rank} NVIDIA H200" in processes, processes


def check_fields(folder):
    for more in ([], ["--launches"]):
        where = os.path.join(folder, "fields" + "".join(more))
        make(where, "--ranks", 2, "--records", 3000, "--layers", 4, *more)
        out = os.path.join(where, "out")
        export(where, "-o", out + "/")
        for rank, name in enumerate(sorted(os.listdir(out))):
            assert name == f"node-1_{1000 + rank}.1767225600000000000.pt.trace.json.gz", name
            trace = load(os.path.join(out, name))
            check_head(trace, rank, 2)
            check_events(trace, rank, bool(more))
            check_names(trace, rank)
            with_space = subprocess.run(["zgrep", "-c", '"rank": ' + str(rank), os.path.join(out, name)],
                                        capture_output=True, text=True, check=True)
            assert with_space.stdout == "1\n", "HTA finds the rank by its blank"
    print("fields, rows and flows")


def check_filters(folder):
    file, out = make(os.path.join(folder, "filters"), "--records", 5000, "--layers", 4)[0], os.path.join(folder, "f.json")
    export(file, "-o", out)
    everything = load(out)
    first = min(e["ts"] for e in spans(everything))
    export(file, "-o", out, "--kind", "copy,sync")
    assert {e["cat"] for e in spans(load(out))} == {"gpu_memcpy", "cuda_sync"}
    export(file, "-o", out, "--window", "20ms..0.03s")
    want = [e for e in spans(everything) if e["ts"] < first + 30000 and e["ts"] + e["dur"] > first + 20000]
    assert len(want) > 50 and len(spans(load(out))) == len(want)
    export(file, "-o", out, "--window", "0.02..")
    assert len(spans(load(out))) == sum(e["ts"] + e["dur"] > first + 20000 for e in spans(everything))
    export(file, "-o", out, "--window", "..0.02")
    assert len(spans(load(out))) == sum(e["ts"] < first + 20000 for e in spans(everything))
    export(file, "-o", out, "--integer-us")
    for a, b in zip(spans(everything), spans(load(out))):
        assert isinstance(b["ts"], int) and isinstance(b["dur"], int) and b["dur"] >= 0
        assert abs(a["ts"] - b["ts"]) < 1 and abs(a["dur"] - b["dur"]) <= 1
    assert any(e["dur"] < 1 for e in spans(everything, "kernel")), "no kernel is shorter than 1 us: nothing was shown"
    print("kinds, windows, whole microseconds")


def check_ranks(folder):
    where, out = os.path.join(folder, "ranks"), os.path.join(folder, "one.json")
    make(where, "--ranks", 3, "--records", 1000, "--layers", 2)
    assert "directory" in export(where, "-o", out, code=2)
    export(where, "--rank", 2, "-o", out)
    assert load(out)["distributedInfo"]["rank"] == 2
    assert "no timeline is of the ranks" in export(where, "--rank", 7, "-o", out, code=1)
    export(where, "--rank", "0,2", "-o", os.path.join(folder, "two/"))
    assert len(os.listdir(os.path.join(folder, "two"))) == 2
    here = os.path.join(folder, "here")
    os.mkdir(here)
    timelines.TURBO = os.path.abspath(timelines.TURBO)
    export(where, "--format", "perfetto", cwd=here)
    assert len(os.listdir(here)) == 3 and all(name.endswith(".pftrace") for name in os.listdir(here))
    print("ranks and file names")


def check_usage():
    for arguments, text in (([], "which timeline"), (["x", "--window", "3"], "START..END"), (["x", "--window", "2..1"], "ends before it begins"),
                            (["x", "--window", "a..1"], "two times"), (["x", "--window", "nan..1"], "two times"), (["x", "--kind", "kernels"], "no kind 'kernels'"),
                            (["x", "--rank", "-1"], "not a rank"), (["x", "--format", "csv"], "no format 'csv'"),
                            (["x", "-o"], "needs a value"), (["x", "-o", "a.txt"], "say --format"), (["x", "--wat"], "--wat"),
                            (["x", "-o", "a.json", "--format", "perfetto"], "not the name of a file in that format")):
        assert text in export(*arguments, code=2), (arguments, text)
    print("what is asked wrongly")


def check_bad_files(folder):
    where = os.path.join(folder, "bad")
    good = make(where, "--records", 500, "--layers", 2)[0]
    broken = os.path.join(where, "broken.timeline")
    with open(good, "rb") as source, open(broken, "wb") as target:
        target.write(source.read(5000))
    out = os.path.join(folder, "bad-out/")
    said = export(where, "-o", out, code=1)
    assert "broken.timeline: it is damaged or truncated" in said and len(os.listdir(out)) == 1, said
    assert "No such file" in export(os.path.join(where, "none"), code=1)
    assert "not a timeline file" in export(timelines.TURBO, code=1)
    assert "there is no *.timeline" in export(out, code=1)
    print("files that cannot be read")


def check_full_disk(folder):
    file = make(os.path.join(folder, "full"), "--records", 20000)[0]
    where = os.path.join(folder, "small")
    os.mkdir(where)
    for name in ("a.json", "a.json.gz", "a.pftrace"):
        said = export(file, "-o", os.path.join(where, name), code=1,
                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000)))
        assert "nothing was kept" in said and os.listdir(where) == [], (said, os.listdir(where))
    assert "No space left" in export(file, "-o", "/dev/full", "--format", "kineto", code=1)
    assert "No such file" in export(file, "-o", os.path.join(folder, "none/a.json"), code=1)
    old = os.path.join(where, "old.json")
    with open(old, "w", encoding="utf-8") as target:
        target.write("before")
    export(file, "-o", old, code=1, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000)))
    with open(old, encoding="utf-8") as target:
        assert target.read() == "before", "the old file is gone"
    print("no room: no file, and the old one stays")


def check_interrupted(folder):
    """Until one was hit in the middle."""
    file, where = make(os.path.join(folder, "long"), "--records", 300000)[0], os.path.join(folder, "long-out")
    os.mkdir(where)
    for _ in range(50):
        running = subprocess.Popen([timelines.TURBO, "export", file, "-o", os.path.join(where, "a.json")],
                                   stdout=subprocess.DEVNULL)
        while not os.listdir(where) and running.poll() is None:
            time.sleep(0.001)
        running.send_signal(signal.SIGTERM)
        status = running.wait(timeout=60)
        left = os.listdir(where)
        assert not [name for name in left if name != "a.json"], left
        if status == -signal.SIGTERM and not left:
            print("interrupted: nothing is left")
            return
        if left:  # it was done already
            load(os.path.join(where, "a.json"))
            os.remove(os.path.join(where, "a.json"))
    raise AssertionError("never hit")


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_fields(folder)
        check_filters(folder)
        check_ranks(folder)
        check_usage()
        check_bad_files(folder)
        check_full_disk(folder)
        check_interrupted(folder)


if __name__ == "__main__":
    main()
