"""What the GPU tests and benchmarks share: processes with and without libturbo, the programs, the
machine. Standard library only."""
import functools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.abspath(os.environ.get("BUILD") or os.path.join(ROOT, "build"))
LIB = os.path.join(BUILD, "libturbo.so")
TURBO = os.path.join(BUILD, "turbo")

BARE, PRELOADED = "bare", "preloaded"
SKIP = 77


class Skip(Exception):
    """The test cannot run here; the text says why."""


def environment(mode, extra=None):
    """The environment of a process: nothing of libturbo's but what `mode` and `extra` say."""
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith("TURBO")}
    if mode == PRELOADED:
        env["LD_PRELOAD"] = LIB
    env["PYTHONUNBUFFERED"] = "1"
    env["GPU_TEST_TURBO"] = TURBO
    env.update(extra or {})
    return env


class Process:
    """A running child whose output goes to memory; `wait` enforces the time limit."""

    def __init__(self, args, mode, extra=None, limit=180):
        self.args, self.limit, self.started = args, limit, time.monotonic()
        self.child = subprocess.Popen(args, env=environment(mode, extra), stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=ROOT,
                                      start_new_session=True)

    def wait(self):
        left = max(1.0, self.limit - (time.monotonic() - self.started))
        try:
            self.out, self.err = self.child.communicate(timeout=left)
            self.status = self.child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(self.child.pid, 9)
            self.out, self.err = self.child.communicate()
            self.status = None
        self.seconds = time.monotonic() - self.started
        return self

    def why(self):
        """None when it ended well, else one line and the end of its output."""
        if self.status == 0:
            return None
        name = os.path.basename(self.args[-1])
        end = "no end within %d s" % self.limit if self.status is None else "exit status %d" % self.status
        tail = (self.err or self.out).strip().splitlines()[-12:]
        return "\n    ".join(["%s: %s" % (name, end)] + tail)


def run(args, mode, extra=None, limit=180):
    return Process(args, mode, extra, limit).wait()


def have_gpu():
    """None, or why there is no GPU to use. Asks in a child, so that this process never holds one."""
    code = ("import ctypes,sys\n"
            "try: c=ctypes.CDLL('libcuda.so.1')\n"
            "except OSError: sys.exit('no libcuda.so.1')\n"
            "n=ctypes.c_int(0)\n"
            "r=c.cuInit(0) or c.cuDeviceGetCount(ctypes.byref(n))\n"
            "sys.exit('cuInit answers %d' % r if r else None if n.value else 'no device')\n")
    p = subprocess.run([sys.executable, "-c", code], env=environment(BARE), capture_output=True, text=True)
    return None if p.returncode == 0 else p.stderr.strip().splitlines()[-1]


def cuda_include():
    """A folder with cuda.h and cupti.h, or None."""
    places = [os.environ.get("CUDA_HOME", "") + "/include", "/usr/local/cuda/include"]
    nvcc = shutil.which("nvcc")
    if nvcc:
        places.append(os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))), "include"))
    for site in sys.path:
        for sub in ("cu13", "cuda_runtime"):
            places.append(os.path.join(site, "nvidia", sub, "include"))
    for p in places:
        if os.path.exists(os.path.join(p, "cuda.h")):
            return p
    return None


@functools.lru_cache(maxsize=None)
def find_library(name):
    """A library of an installed nvidia wheel or of the toolkit, by its file name, or None."""
    roots = [os.path.join(p, "nvidia") for p in sys.path if p] + ["/usr/local/cuda"]
    for root in roots:
        for folder, _, files in os.walk(root):
            if name in files:
                return os.path.join(folder, name)
    return None


def built(relative, sources, *flags, compiler="gcc"):
    """BUILD/relative, compiled here when `make` has not left it."""
    path = os.path.join(BUILD, relative)
    if os.path.exists(path):
        return path
    tool = shutil.which(compiler)
    include = cuda_include()
    if not tool or not include:
        raise Skip("%s is not built, and %s or the CUDA headers are missing" % (relative, compiler))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    args = [tool, "-O2", "-I" + ROOT, "-I" + include, *flags, "-o", path]
    if compiler == "gcc":
        args[1:1] = ["-std=gnu11", "-D_GNU_SOURCE=", "-pthread"]
    args += [os.path.join(ROOT, s) for s in sources]
    args += ["-ldl", "-lpthread"] if compiler == "gcc" else ["-ldl"]
    p = subprocess.run(args, capture_output=True, text=True)
    if p.returncode:
        raise RuntimeError("building %s: %s" % (relative, p.stderr[-2000:]))
    return path


def sources_in(folder):
    return [os.path.join(folder, f) for f in sorted(os.listdir(os.path.join(ROOT, folder))) if f.endswith(".c")]


def program(name):
    """A C program of the GPU tests: `order_check`, `devmem_check`, `probe`, or a benchmark's."""
    common = sources_in("tests/gpu/common")
    if name.endswith("_bench"):
        mine = [s for s in sources_in("tools/bench/gpu") if os.path.basename(s).startswith(name)]
        return built("bench/gpu/" + name, common + mine)
    return built("tests/gpu/" + name, common + sources_in("tests/gpu/" + name))


def warm_memory(gib):
    """Touches memory in a child, then gives it back: a virtual machine may get its memory from the
    host only at first touch, which the first process timed would pay for."""
    code = ("import ctypes,mmap,os\n"
            "n=min(%d<<30, os.sysconf('SC_AVPHYS_PAGES')*os.sysconf('SC_PAGE_SIZE')//2)\n"
            "m=mmap.mmap(-1,n)\n"
            "ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(m)),1,n)\n" % gib)
    try:
        subprocess.run([sys.executable, "-c", code], env=environment(BARE), capture_output=True, timeout=30)
    except subprocess.TimeoutExpired:
        pass  # a slow machine: what it got by then stays


def median(values):
    v = sorted(values)
    n = len(v)
    return (v[n // 2] if n % 2 else (v[n // 2 - 1] + v[n // 2]) / 2) if n else float("nan")


def machine():
    """What the figures were measured on."""
    info = {"cores": len(os.sched_getaffinity(0)), "kernel": platform.release(), "python": platform.python_version()}
    try:
        out = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                             capture_output=True, text=True, timeout=30).stdout.splitlines()
        info["gpu"], info["driver"] = [x.strip() for x in out[0].split(",")]
        info["gpus"] = len(out)
    except (OSError, IndexError, ValueError, subprocess.TimeoutExpired):
        info["gpu"], info["driver"], info["gpus"] = "unknown", "unknown", 0
    with open("/proc/cpuinfo") as f:
        found = re.search(r"model name\s*:\s*(.*)", f.read())
    info["cpu"] = found.group(1) if found else platform.machine()
    return info


def json_line(text, word):
    """The JSON after `word` on the last line that starts with it, or None."""
    for line in reversed(text.splitlines()):
        if line.startswith(word + " "):
            return json.loads(line[len(word) + 1:])
    return None


def json_text(text):
    """The JSON of a whole output, or None."""
    try:
        return json.loads(text)
    except ValueError:
        return None
