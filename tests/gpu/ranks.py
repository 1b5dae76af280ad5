"""Jobs of several ranks.

With one GPU the ranks share it: each is given a host name of its own (NCCL_HOSTID), so that NCCL does not refuse two
ranks on one device, and they talk through sockets of the loopback interface. The kernels of different processes take
turns on the device, so figures of speed mean nothing there; who waits for whom does.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import harness as h

# Ranks on several GPUs of a virtual machine: multicast is left off.
QUIET_NCCL = {"NCCL_NVLS_ENABLE": "0"}


def gpus():
    return h.machine()["gpus"]


def placement(rank, world):
    """Environment that puts a rank on a device."""
    if gpus() >= world:
        return {**QUIET_NCCL, "LOCAL_RANK": str(rank)}
    return {**QUIET_NCCL, "LOCAL_RANK": "0", "NCCL_HOSTID": "host%d" % rank, "NCCL_SOCKET_IFNAME": "lo",
            "NCCL_IB_DISABLE": "1", "NCCL_P2P_DISABLE": "1"}


class Job:
    """`world` processes of `args`. Use with `with`: what is left is killed."""

    def __init__(self, args, world, mode, extra=None, limit=120):
        self.folder = tempfile.mkdtemp(prefix="ranks.")
        self.until, self.started = time.monotonic() + limit, time.monotonic()
        self.ended, self.ranks = {}, []
        for rank in range(world):
            env = {"RANK": str(rank), "WORLD_SIZE": str(world), "JOB_STORE": os.path.join(self.folder, "store"),
                   "TURBO_NCCL_DIR": self.folder, **placement(rank, world), **(extra or {})}
            with open(self.path("out", rank), "w") as out, open(self.path("err", rank), "w") as err:
                self.ranks.append(subprocess.Popen(args, env=h.environment(mode, env), stdout=out, stderr=err,
                                                   stdin=subprocess.DEVNULL, cwd=h.ROOT, start_new_session=True))

    def path(self, kind, rank):
        return os.path.join(self.folder, "%s.%d" % (kind, rank))

    def read(self, kind, rank):
        with open(self.path(kind, rank), errors="replace") as f:
            return f.read()

    def look(self):
        """Notes which have ended; True when all have."""
        for rank, p in enumerate(self.ranks):
            if rank not in self.ended and p.poll() is not None:
                self.ended[rank] = (p.returncode, time.monotonic() - self.started)
        return len(self.ended) == len(self.ranks)

    def wait(self, until=lambda: False):
        """Until all have ended, `until` holds or time is up: seconds since the start."""
        while not self.look() and not until() and time.monotonic() < self.until:
            time.sleep(0.05)
        return time.monotonic() - self.started

    def statuses(self):
        """{rank: exit status}, None of one that still runs."""
        self.look()
        return {r: self.ended.get(r, (None,))[0] for r in range(len(self.ranks))}

    def said(self, text):
        """Ranks whose stderr holds the text."""
        return [r for r in range(len(self.ranks)) if text in self.read("err", r)]

    def kill(self):
        for p in self.ranks:
            if p.poll() is None:
                os.killpg(p.pid, signal.SIGKILL)
                p.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def script(name, *args):
    return [sys.executable, os.path.join(h.HERE, name), *args]
