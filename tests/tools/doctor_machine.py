"""A made-up machine for test_doctor.py: /proc, /sys and /dev in a folder, a Python environment with a PyTorch of a few lines, libraries
of tests/tools/doctor_fakes.c. All of it is well; a test breaks what it is about."""
import os
import shutil
import subprocess

BUILD = os.environ.get("BUILD", "build")
HERE = os.path.dirname(os.path.abspath(__file__))
DRIVER = "580.159.04"

ROOT = {
    "proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {DRIVER}  Tue Sep 30 2026",
    "proc/self/mounts": "/dev/vda1 / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0",
    "proc/self/cgroup": "0::/",
    "proc/meminfo": "MemTotal: 100000000 kB\nMemAvailable: 90000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB",
    "proc/pressure/memory": "some avg10=0.00 avg60=0.00\nfull avg10=0.00 avg60=0.00",
    "proc/loadavg": "0.50 0.40 0.30 1/200 1234",
    "proc/uptime": "100000.00 50000.00",
    "proc/sys/vm/overcommit_memory": "0",
    "proc/sys/kernel/numa_balancing": "0",
    "sys/fs/cgroup/memory.max": "max",
    "sys/fs/cgroup/memory.current": "1000000",
    "sys/fs/cgroup/cpu.max": "max 100000",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    "sys/devices/system/cpu/online": "0-63",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
    "sys/devices/system/node/node0/cpulist": "0-1023",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
    "sys/class/net/eth0/mtu": "9000",
    "sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de",
    "sys/bus/pci/devices/0000:01:00.0/class": "0x030200",
    "sys/bus/pci/devices/0000:01:00.0/numa_node": "0",
    "sys/bus/pci/devices/0000:01:00.0/max_link_speed": "32.0 GT/s PCIe",
    "sys/bus/pci/devices/0000:01:00.0/max_link_width": "16",
    "dev/nvidia0": "",
    "dev/nvidiactl": "",
    "dev/nvidia-uvm": "",
    "dev/shm/": None,
}

# What `import torch` does: loads its libraries, one of them not by its own fault.
TORCH = """
import ctypes, glob, os
if os.environ.get("FAKE_TORCH_ERROR"):
    raise ImportError(os.environ["FAKE_TORCH_ERROR"])
for path in sorted(glob.glob(os.path.join(os.path.dirname(__file__), "../nvidia/*/lib/lib*.so*"))):
    ctypes.CDLL(os.path.realpath(path))
class _C:
    @staticmethod
    def _cuda_getArchFlags():
        return os.environ.get("FAKE_ARCHS", "sm_80 sm_90 compute_90")
"""
LIBRARIES = {"cuda_runtime": "libcudart.so.13", "cudnn": "libcudnn.so.9", "nccl": "libnccl.so.2", "cuda_cupti": "libcupti.so.13"}


def write(folder, files):
    for path, text in files.items():
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text + "\n" if text else "")


def compile_c(source, out, *flags):
    subprocess.run([os.environ.get("CC") or "cc", "-O1", "-shared", "-fPIC", "-o", out, source, *flags], check=True, timeout=60)


class Parts:
    """What all made-up machines of a test share, made once."""

    def __init__(self, folder):
        self.folder = folder
        self.source = source = os.path.join(HERE, "doctor_fakes.c")
        self.library = os.path.join(folder, "library.so")
        self.driver = os.path.join(folder, "driver.so")
        self.future = os.path.join(folder, "future.so")
        compile_c(source, self.library)
        compile_c(source, self.driver, "-DDRIVER")
        compile_c(source, self.future, "-DDRIVER", "-DFUTURE")

    def driver_folder(self, name, driver=None, version=DRIVER):
        """A folder with libcuda.so.1 of that version, and the simulated NVML."""
        folder = os.path.join(self.folder, name)
        os.makedirs(folder)
        shutil.copy(driver or self.driver, os.path.join(folder, "libcuda.so." + version))
        os.symlink("libcuda.so." + version, os.path.join(folder, "libcuda.so.1"))
        os.symlink(os.path.join(os.path.abspath(BUILD), "sim/libnvidia-ml.so.1"), os.path.join(folder, "libnvidia-ml.so.1"))
        return folder

    def python_folder(self, name, cuda="13.0", libraries=None):
        """A folder for PYTHONPATH with torch and NVIDIA's packages."""
        folder = os.path.join(self.folder, name)
        write(folder, {"torch/__init__.py": TORCH,
                       "torch/version.py": f"__version__ = '2.11.0'\ncuda = {cuda!r}"})
        for package, library in (LIBRARIES if libraries is None else libraries).items():
            path = os.path.join(folder, "nvidia", package, "lib", library)
            os.makedirs(os.path.dirname(path))
            shutil.copy(self.library, path)
        return folder

    def root(self, name, **changes):
        """A root folder; changes name files, with __ for /, and their new text; None: without it."""
        folder = os.path.join(self.folder, name)
        files = dict(ROOT)
        for path, text in changes.items():
            path = path.replace("__", "/")
            if text is None:
                files.pop(path)
            else:
                files[path] = text
        write(folder, files)
        return folder
