"""Python packages that tests compare with: installed below the build directory, nowhere else.

    sys.path.insert(0, packages.folder())     # or the test ends here with 77, "skipped"
"""
import fcntl
import os
import shutil
import subprocess
import sys
import time

# Their own dependencies are named here, because those that only notebooks and servers need are large.
WANTED = ["HolisticTraceAnalysis==0.5.0", "torch_tb_profiler==0.4.3", "perfetto==0.59.1"]
NEEDED = ["numpy<3", "pandas<3", "networkx", "plotly", "pydot", "pyyaml", "psutil", "protobuf"]
SECONDS = 90  # less than a test's time limit


def skip(why):
    print(why)
    sys.exit(77)


def install(target):
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-input", "--target", target,
           "--only-binary", ":all:"]
    end = time.monotonic() + SECONDS
    shutil.rmtree(target)  # half of an earlier one
    try:
        for more in (NEEDED, ["--no-deps", *WANTED]):
            done = subprocess.run(pip + more, capture_output=True, text=True, timeout=max(1, end - time.monotonic()))
            if done.returncode:
                lines = done.stderr.strip().splitlines() or ["pip failed"]
                skip(f"no packages to compare with: {lines[-1]}")
    except subprocess.TimeoutExpired:
        skip(f"no packages to compare with: pip took more than {SECONDS} s")


def folder():
    target = os.path.join(os.path.abspath(os.environ.get("BUILD", "build")), "python")
    done = os.path.join(target, "complete")
    want = "\n".join([sys.version, *WANTED, *NEEDED])
    os.makedirs(target, exist_ok=True)
    with open(target + ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            with open(done, encoding="utf-8") as have:
                if have.read() == want:
                    return target
        except FileNotFoundError:
            pass
        install(target)
        with open(done, "w", encoding="utf-8") as mark:
            mark.write(want)
    return target
