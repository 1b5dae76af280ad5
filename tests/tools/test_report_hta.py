"""`turbo report` and Holistic Trace Analysis agree: on random timelines of four ranks, exported for it, every figure that
both have is the same. SEED."""
import logging
import os
import random
import sys
import tempfile
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packages  # noqa: E402
import random_timeline  # noqa: E402
import timeline_file  # noqa: E402
import timelines  # noqa: E402
from test_report import report  # noqa: E402

sys.path.insert(0, packages.folder())
logging.disable(logging.CRITICAL)
warnings.filterwarnings("ignore")
try:
    from hta.trace_analysis import TraceAnalysis
except ImportError as error:
    packages.skip(f"Holistic Trace Analysis does not load here: {error}")

RANKS = 4


def us(ns):
    assert ns % 1000 == 0
    return ns // 1000


def check_breakdown(analysis, ranks):
    rows = analysis.get_temporal_breakdown(visualize=False).to_dict("records")
    assert [row["rank"] for row in rows] == list(range(RANKS))
    for row in rows:
        t = ranks[row["rank"]]["gpus"][0]["time"]
        want = [us(t["window_ns"]), us(t["idle_ns"]), us(t["compute_ns"]), us(t["busy_ns"] - t["compute_ns"])]
        have = [row[k] for k in ("kernel_time(us)", "idle_time(us)", "compute_time(us)", "non_compute_time(us)")]
        assert have == want, f"rank {row['rank']}: HTA has {have}, turbo report {want}"


def check_overlap(analysis, ranks):
    for row in analysis.get_comm_comp_overlap(visualize=False).to_dict("records"):
        want = 100 * ranks[row["rank"]]["gpus"][0]["time"]["overlap"]
        assert abs(row["comp_comm_overlap_pctg"] - want) <= 0.006, (row, want)


def check_kernels(analysis, ranks):
    rows = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000, duration_ratio=1.0)[1].to_dict("records")
    compared = 0
    for row in rows:
        want = [k for k in ranks[row["rank"]]["kernels"]["top"] if k["name"] == row["name"]]
        if not want:
            assert row["name"].startswith(("Memcpy", "Memset")) or row["name"] == "others", row
            continue
        k = want[0]
        assert row["kernel_type"].lower().startswith(k["category"][:5]), (row, k)
        assert [row["sum (us)"], row["max (us)"], row["min (us)"]] == [us(k[x]) for x in ("sum_ns", "max_ns", "min_ns")], (row, k)
        assert abs(row["mean (us)"] - k["mean_ns"] / 1000) <= 1, (row, k)
        compared += 1
    # Those that HTA has: computation and communication.
    assert compared == sum(k["category"] in ("compute", "communication") for r in ranks for k in r["kernels"]["top"]), compared


def check_idle(analysis, ranks):
    for rank, r in enumerate(ranks):
        rows = analysis.get_idle_time_breakdown(ranks=[rank], visualize=False)[0].to_dict("records")
        have = {(row["stream"], row["idle_category"]): row["idle_time"] for row in rows}
        for s in r["gpus"][0]["streams"]:
            for ours, theirs in (("host_wait_ns", "host_wait"), ("kernel_wait_ns", "kernel_wait"), ("other_ns", "other")):
                want = us(s[ours])
                assert have.get((s["stream"], theirs), 0) == want, f"rank {rank}, stream {s['stream']}, {theirs}: {have} is not {want}"


def check(folder, seed, launches):
    rng = random.Random(seed)
    os.mkdir(os.path.join(folder, "in"))
    for rank in range(RANKS):
        timeline = timeline_file.Timeline(rank, RANKS, 3 if launches else 2)
        # Of two operations of a stream that start together HTA may take either for the first.
        random_timeline.fill(rng, timeline, 400, launches, shortest=1)
        timeline.write(os.path.join(folder, "in", f"{rank}.timeline"))
    out = os.path.join(folder, "out")
    timelines.export(os.path.join(folder, "in"), "-o", out + "/", "--integer-us")
    analysis = TraceAnalysis(trace_dir=out)
    ranks = report(os.path.join(folder, "in"))["ranks"]
    check_breakdown(analysis, ranks)
    check_overlap(analysis, ranks)
    check_kernels(analysis, ranks)
    check_idle(analysis, ranks)
    print(f"temporal breakdown, overlap, kernels, idle classes: equal, {'with' if launches else 'without'} launches")


def main():
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 30))
    print(f"SEED={seed}", flush=True)
    for launches in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            check(folder, seed, launches)


if __name__ == "__main__":
    main()
