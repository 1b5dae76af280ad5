"""Exports in Holistic Trace Analysis: four ranks load, each as itself, and what it computes of them is what the
exported events say."""
import logging
import os
import sys
import tempfile
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packages  # noqa: E402
import timelines  # noqa: E402

sys.path.insert(0, packages.folder())
logging.disable(logging.CRITICAL)
warnings.filterwarnings("ignore")
try:
    from hta.trace_analysis import TraceAnalysis
except ImportError as error:
    packages.skip(f"Holistic Trace Analysis does not load here: {error}")

RANKS = 4


def check_breakdown(analysis, traces):
    breakdown = analysis.get_temporal_breakdown(visualize=False).to_dict("records")
    assert [row["rank"] for row in breakdown] == list(range(RANKS)), breakdown
    for row, trace in zip(breakdown, traces):
        want = timelines.times(trace)
        have = (row["kernel_time(us)"], row["idle_time(us)"], row["compute_time(us)"], row["non_compute_time(us)"])
        assert have == want[:4], f"rank {row['rank']}: {have} is not {want}"
        assert min(have) >= 0
    print("temporal breakdown: the events' own, for", RANKS, "ranks")


def check_overlap(analysis, traces):
    for row in analysis.get_comm_comp_overlap(visualize=False).to_dict("records"):
        want = 100 * timelines.times(traces[row["rank"]]).overlap
        assert abs(row["comp_comm_overlap_pctg"] - want) < 0.01, f"{row} is not {want}"
    print("overlap: the events' own")


def check_kernels(analysis, traces):
    _, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=50)
    seen = 0
    for row in kernels.to_dict("records"):
        durations = [e["dur"] for e in timelines.spans(traces[row["rank"]]) if e["name"] == row["name"]]
        if not durations:  # memory kernels are grouped by direction
            continue
        seen += 1
        assert row["sum (us)"] == sum(durations) and row["max (us)"] == max(durations), row
    assert seen > 4 * RANKS, seen
    print("kernel breakdown: the events' own, for", seen, "rows")


def check_idle(analysis, host_waits):
    idle = analysis.get_idle_time_breakdown(ranks=[0], visualize=False)[0].to_dict("records")
    assert {row["stream"] for row in idle} == {7, 20}, idle
    assert all(row["idle_time"] >= 0 for row in idle), idle
    assert any(row["idle_category"] == "host_wait" for row in idle) == host_waits, idle
    print("idle time:", "with" if host_waits else "without", "launches")


def check(folder, *more):
    timelines.make(os.path.join(folder, "in"), "--ranks", RANKS, "--records", 6000, "--layers", 6, "--straggler", 2, *more)
    out = os.path.join(folder, "out")
    timelines.export(os.path.join(folder, "in"), "-o", out + "/", "--integer-us")
    analysis = TraceAnalysis(trace_dir=out)
    traces = {}
    for name in os.listdir(out):
        trace = timelines.load(os.path.join(out, name))
        traces[trace["distributedInfo"]["rank"]] = trace
    assert sorted(traces) == list(range(RANKS))
    traces = [traces[rank] for rank in range(RANKS)]
    check_breakdown(analysis, traces)
    check_overlap(analysis, traces)
    check_kernels(analysis, traces)
    check_idle(analysis, "--launches" in more)


def main():
    for more in ([], ["--launches"]):
        with tempfile.TemporaryDirectory() as folder:
            check(folder, *more)


if __name__ == "__main__":
    main()
