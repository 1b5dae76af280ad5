"""Exports in TensorBoard's plugin for PyTorch: its loader, without TensorBoard, finds workers, devices and kernels."""
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
    from torch_tb_profiler import consts
    from torch_tb_profiler.profiler.data import RunProfileData
    from torch_tb_profiler.profiler.run_generator import RunGenerator
except ImportError as error:
    packages.skip(f"torch_tb_profiler does not load here: {error}")


def check(path, cache, rank):
    match = consts.WORKER_PATTERN.match(os.path.basename(path))
    assert match and match.group(1) == f"node-1_{1000 + rank}", path
    data = RunProfileData.parse(match.group(1), match.group(2), path, cache)
    assert data.trace_file_path == path, "the loader had to repair the file"
    assert data.used_devices == [rank] and data.has_kernel and data.has_memcpy_or_memset
    assert data.distributed_info["rank"] == rank
    profile = RunGenerator(match.group(1), match.group(2), data).generate_run_profile()
    assert {"Kernel", "Trace"} <= {view.display_name for view in profile.views}
    summary = {row["title"]: row["value"] for row in profile.gpu_summary}
    assert summary["Name"] == "NVIDIA H200" and summary["Compute Capability"] == "9.0", summary
    calls = {row[0]: row[2:4] for row in profile.kernel_table["data"]["rows"]}
    return calls


def main():
    with tempfile.TemporaryDirectory() as folder:
        timelines.make(os.path.join(folder, "in"), "--ranks", 2, "--records", 3000, "--layers", 4, "--launches")
        out = os.path.join(folder, "out")
        timelines.export(os.path.join(folder, "in"), "-o", out + "/", "--integer-us")
        for rank, name in enumerate(sorted(os.listdir(out))):
            calls = check(os.path.join(out, name), folder, rank)
            durations = {}
            for event in timelines.spans(timelines.load(os.path.join(out, name)), "kernel"):
                durations.setdefault(event["name"], []).append(event["dur"])
            want = {name: [len(each), sum(each)] for name, each in durations.items()}
            assert calls == want, f"{calls} is not {want}"
            print(f"rank {rank}: {len(calls)} kernels")


if __name__ == "__main__":
    main()
