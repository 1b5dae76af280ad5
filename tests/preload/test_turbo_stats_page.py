#!/usr/bin/env python3
"""`turbo stats` on made-up pages: right ones are printed, damaged ones refused, none crash.

The page is built here byte by byte from shim/stats_page.h's description, so that reader and
writer are not the same code. SEED repeats a failing random part.
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

turbo = os.path.join(os.environ["BUILD"], "turbo")
seed = int(os.environ.get("SEED", random.randrange(1 << 32)))
rng = random.Random(seed)
HEADER = 4096
bad = 0


def check(what, ok):
    global bad
    print(("ok: " if ok else "NOT ok: ") + what)
    bad += not ok


def start_ticks(pid):
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rpartition(")")[2].split()[19])


def page(of, rows, named, **over):
    """rows: [(name, unit, text, [value of each lane])], `named` of them symbols; `over` replaces header fields."""
    lanes, lane_bytes = 3, (len(rows) * 8 + 63) // 64 * 64
    body = bytearray(lanes * lane_bytes)
    for i, cell in enumerate(rows):
        for lane, value in enumerate(cell[3]):
            struct.pack_into("<Q", body, lane * lane_bytes + 8 * i, value)
    names = "".join(f"{c[0]}\t{c[1]}\t{c[2]}\n" for c in rows).encode("latin-1")
    h = dict(magic=b"TURBOST1", version=1, pid=of, start_ns=0, start_ticks=start_ticks(of), lanes=lanes,
             cells=len(rows), calls=named, lane_bytes=lane_bytes, lanes_off=HEADER,
             names_off=HEADER + len(body), names_bytes=len(names), engaged=1, request=0,
             version_text=b"9.9.9", command=b"python train.py --name \"a\\b\" \x1b[31mred",
             pid_ns=os.stat("/proc/self/ns/pid").st_ino)
    h.update(over)
    head = struct.pack("<8sIIQQIIIIQQQII32s256sQ", *h.values())
    return bytearray(head.ljust(HEADER, b"\0") + body + names)


CELLS = [
    ("cuLaunchKernel", "calls", "calls into libcuda", [0, 5, 7]),
    ("cuMemAlloc_v2", "calls", "calls into libcuda", [0, 0, 0]),
    ("copy.h2d.bytes", "bytes", "bytes they moved", [0, 3 << 30, 1 << 30]),
    ("copy.h2d.ns", "ns", "time the caller spent in them", [0, 10**8, 0]),
    ("errors", "events", "failures inside libturbo", [0, 0, 0]),
    ("a.counter.of.another.version", "apples", "never heard of", [1, 2, 3]),
]


def stats(folder, pid, *args):
    env = dict(os.environ, TMPDIR=folder, ASAN_OPTIONS="exitcode=99", UBSAN_OPTIONS="halt_on_error=1")
    return subprocess.run([turbo, "stats", str(pid), *args], env=env, capture_output=True, timeout=60)


def put(folder, pid, data):
    path = os.path.join(folder, f"turbo-{os.geteuid()}-{pid}.stats")
    with open(path, "wb") as f:
        f.write(data)
    return path


def right_page(folder):
    pid = os.getpid()
    put(folder, pid, page(pid, CELLS, 2))
    r = stats(folder, pid)
    text = r.stdout.decode()
    check("a right page is read", r.returncode == 0 and not r.stderr)
    check("its process is shown", f"process   {pid}  python train.py" in text)
    check("nothing in it reaches the terminal raw", "\x1b" not in text)
    check("lanes are summed", any(line.split() == ["cuLaunchKernel", "12"] for line in text.splitlines()))
    check("bytes are humanised", "4.29 GB" in text)
    check("the rate is derived", "42.95 GB/s" in text)
    check("zeros are left out", "errors" not in text and "cuMemAlloc_v2" not in text)
    check("unknown counters are shown", "a.counter.of.another.version" in text)
    everything = stats(folder, pid, "--all").stdout.decode()
    check("--all shows zeros", "errors" in everything and "cuMemAlloc_v2" in everything)

    j = json.loads(stats(folder, pid, "--json").stdout)
    check("JSON: process", j["pid"] == pid and j["running"] is True and j["version"] == "9.9.9")
    check("JSON: command is escaped", j["command"].startswith('python train.py --name "a\\b" ?[31m'))
    check("JSON: counters", j["counters"]["copy.h2d.bytes"] == 4 << 30 and j["counters"]["errors"] == 0)
    check("JSON: calls", j["calls"] == {"cuLaunchKernel": 12})
    listing = subprocess.run([turbo, "stats"], env=dict(os.environ, TMPDIR=folder), capture_output=True, timeout=60)
    check("it is listed", listing.returncode == 0 and str(pid) in listing.stdout.decode())

    put(folder, pid, page(pid, CELLS, 2, start_ticks=1))
    check("a reused process number is not taken for it", json.loads(stats(folder, pid, "--json").stdout)["running"] is False)


def damaged_pages(folder):
    pid = os.getpid()
    huge = 1 << 64
    for what, over in [
        ("other magic", dict(magic=b"NOTTURBO")), ("other version", dict(version=2)),
        ("no lanes", dict(lanes=0)), ("many lanes", dict(lanes=65535)), ("lanes overflow", dict(lanes=0xffffffff)),
        ("no cells", dict(cells=0)), ("more cells than names", dict(cells=7)), ("cells overflow", dict(cells=0xffffffff)),
        ("more calls than cells", dict(calls=7)), ("stride too small", dict(lane_bytes=8)),
        ("stride odd", dict(lane_bytes=65)), ("stride huge", dict(lane_bytes=0xfffffff8)),
        ("lanes inside the header", dict(lanes_off=64)), ("lanes past the end", dict(lanes_off=1 << 20)),
        ("lanes wrap around", dict(lanes_off=huge - 8)), ("names past the end", dict(names_off=1 << 20)),
        ("names too long", dict(names_bytes=1 << 20)), ("names wrap around", dict(names_bytes=huge - 1)),
        ("no names", dict(names_bytes=0)), ("another process", dict(pid=1)),
    ]:
        put(folder, pid, page(pid, CELLS, 2, **over))
        r = stats(folder, pid)
        check(f"{what}: refused, with the file's name", r.returncode == 1 and folder.encode() in r.stderr and not r.stdout)
    whole = page(pid, CELLS, 2)
    for size in (0, 1, 8, HEADER - 1, HEADER, HEADER + 64, len(whole) - 1):
        put(folder, pid, whole[:size])
        r = stats(folder, pid)
        check(f"cut to {size} bytes: refused", r.returncode == 1 and r.stderr and not r.stdout)
    path = put(folder, pid, whole)
    os.rename(path, path + ".real")
    os.symlink(path + ".real", path)
    check("a symbolic link is refused", stats(folder, pid).returncode == 1)
    os.unlink(path)
    os.mkfifo(path)
    check("a pipe is refused and not waited for", stats(folder, pid).returncode == 1)
    os.unlink(path)
    check("no page", stats(folder, pid).returncode == 1)
    for arg in ("0", "-5", "x", "12x", "99999999999"):
        check(f"PID {arg}: usage", stats(folder, arg).returncode == 2)


def random_pages(folder, rounds):
    """Whatever is in the file: status 0 or 1, and JSON that parses when it is 0."""
    pid = os.getpid()
    whole, wrong, read = page(pid, CELLS, 2), 0, 0
    for _ in range(rounds):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 1, 2, 5, 40))):
            at = rng.randrange(160) if rng.random() < 0.6 else rng.randrange(len(data))
            data[at] = rng.choice((0, 1, 0x7f, 0x80, 0xff, 9, 10, rng.randrange(256)))
        if rng.random() < 0.1:
            data = data[:rng.randrange(len(data))]
        put(folder, pid, data)
        r = stats(folder, pid, "--json")
        ok = r.returncode == 1 and r.stderr and not r.stdout
        if r.returncode == 0:
            read += 1
            try:
                json.loads(r.stdout)
                ok = stats(folder, pid, "--all").returncode == 0
            except ValueError:
                pass
        if not ok:
            wrong += 1
            print(f"NOT ok: status {r.returncode}: {r.stderr[-300:]!r}")
    check(f"{rounds} mutated pages ({read} still readable), seed {seed}", wrong == 0)


with tempfile.TemporaryDirectory() as folder:
    right_page(folder)
    damaged_pages(folder)
    random_pages(folder, int(os.environ.get("MUTATIONS", 400)))
sys.exit(bad != 0)
