"""Timelines that libturbo has recorded itself, of four processes on the simulated machine, in Holistic Trace Analysis:
what was done is what is seen."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packages  # noqa: E402
import timelines  # noqa: E402
import test_export_hta as hta  # noqa: E402

SIM = os.environ.get("SIM_DIR", os.path.join(timelines.BUILD, "sim"))
LIBTURBO = os.environ.get("LIBTURBO", os.path.join(timelines.BUILD, "libturbo.so"))
WORK = ("kernels=300", "copies=20", "memsets=10", "sync", "graph=20", "sync")
DONE = {"fill32": 300, "Memcpy HtoD (Pageable -> Device)": 20, "Memset (Device)": 10, "CUDA graph 1": 20}


def record(folder, mode):
    for rank in range(hta.RANKS):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(hta.RANKS), "LOCAL_RANK": str(rank), "TURBO_COPY": "off",
               "TURBO_TIMELINE": mode, "TURBO_TIMELINE_DIR": folder, "TURBO_TIMELINE_GRAPHS": "whole",
               "LD_LIBRARY_PATH": SIM, "LD_PRELOAD": LIBTURBO}
        for name in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"):
            env.pop(name, None)
        subprocess.run([os.path.join(timelines.BUILD, "tests/preload/timeline_work"), *WORK], env=env, check=True, timeout=60,
                       stdout=subprocess.DEVNULL)


def check(folder, mode):
    out = os.path.join(folder, "out")
    record(folder, mode)
    timelines.export(folder, "-o", out + "/", "--integer-us")
    traces = {}
    for name in os.listdir(out):
        trace = timelines.load(os.path.join(out, name))
        traces[trace["distributedInfo"]["rank"]] = trace
    assert sorted(traces) == list(range(hta.RANKS)), sorted(traces)
    for trace in traces.values():
        seen = [e["name"] for e in timelines.spans(trace, *timelines.GPU)]
        assert {name: seen.count(name) for name in seen} == DONE, set(seen)
        assert bool(timelines.spans(trace, "cuda_driver")) == (mode == "launch")
        assert trace["libturbo"]["mode"] == mode
    analysis = hta.TraceAnalysis(trace_dir=out)
    hta.check_breakdown(analysis, [traces[rank] for rank in range(hta.RANKS)])
    analysis.get_idle_time_breakdown(ranks=[0], visualize=False)
    print(mode + ":", hta.RANKS, "ranks")


def main():
    if not os.path.exists(os.path.join(SIM, "libcupti.so.13")):
        packages.skip("no CUPTI headers: the simulated libcupti is not built")
    for mode in ("kernel", "launch"):
        with tempfile.TemporaryDirectory() as folder:
            check(folder, mode)


if __name__ == "__main__":
    main()
