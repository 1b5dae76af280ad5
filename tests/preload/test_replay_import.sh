#!/bin/bash
# `turbo replay --import`: snapshots in the shape that PyTorch writes, in pickle protocols 2 to 5, become
# the traces that they record; broken and hostile files are refused.
. "$(dirname "$0")/common.sh"
turbo=$BUILD/turbo
have python3 || skip "no python3"
cd "$work" || exit 1
export turbo
timeout 110 python3 - <<'PY'
import io, json, os, pickle, subprocess, sys

turbo = os.environ["turbo"]
failed = False


def check(what, good, detail=""):
    global failed
    failed |= not good
    print(f"{'ok' if good else 'FAILED'}: {what}{'' if good else f' {detail}'}")


def run(data, name="snapshot.pickle"):
    open(name, "wb").write(data)
    r = subprocess.run([turbo, "replay", "--import", name], capture_output=True, text=True, timeout=20)
    return r.returncode, r.stdout, r.stderr


def lines(text):
    return [x for x in text.splitlines()[1:] if not x.startswith("#")]


frames = [{"filename": "train.py", "line": 7, "name": "step"}, {"filename": "torch.py", "line": 2**33, "name": "x"}]


def event(action, addr, size, stream, time):
    return {"action": action, "addr": addr, "size": size, "stream": stream, "time_us": time, "frames": frames}


base = 0x7F0000000000
side = 0x55D4C0FFEE00
snapshot = {
    "segments": [
        {
            "device": 0, "address": base, "total_size": 8 << 20, "stream": 0, "segment_type": "large",
            "allocated_size": 3 << 20, "active_size": 3 << 20, "is_expandable": False, "segment_pool_id": (0, 0),
            "frames": frames,
            "blocks": [
                {"address": base, "size": 1 << 20, "requested_size": 1000000, "state": "active_allocated", "frames": frames},
                {"address": base + (1 << 20), "size": 1 << 20, "requested_size": 0, "state": "inactive", "frames": []},
                {"address": base + (2 << 20), "size": 1 << 20, "requested_size": 900000, "state": "active_pending_free", "frames": []},
                {"address": base + (3 << 20), "size": 5 << 20, "requested_size": 5000000, "state": "active_allocated", "frames": []},
            ],
        },
        {   # an older snapshot: no addresses of blocks
            "device": 1, "address": base * 2, "total_size": 4096, "stream": side, "segment_type": "small",
            "blocks": [{"size": 512, "state": "inactive"}, {"size": 1024, "state": "active_allocated"}],
        },
    ],
    "device_traces": [
        [
            event("free_requested", base + 77 * 512, 300, 0, 10),
            event("free_completed", base + 77 * 512, 300, 0, 11),
            event("segment_alloc", base, 8 << 20, 0, 12),
            event("alloc", base + (3 << 20), 5000000, side, 20),
            event("alloc", base + (1 << 20), 1 << 20, 0, 22),
            event("free_requested", base + (1 << 20), 1 << 20, 0, 23),
            event("snapshot", 0, 0, 0, 24),
            event("oom", 1 << 40, 1 << 40, 0, 24),
            event("free_completed", base + (1 << 20), 1 << 20, 0, 30),
        ],
        [event("alloc", base * 2 + 2048, 100, side, 21)],
    ],
    "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0,
                           "expandable_segments": False, "last_allocator_settings": None},
}
want = """\
a 1 300 0
a 2 1000000 0
a 3 900000 0
a 4 1024 1 1
f 1 0
a 5 5000000 1
a 6 100 1 1
a 7 1048576 0
f 7 0""".splitlines()

for protocol in range(2, 6):
    code, out, err = run(pickle.dumps(snapshot, protocol))
    check(f"protocol {protocol}", code == 0 and lines(out) == want and not err, (code, lines(out), err))
pure = io.BytesIO()
pickle._Pickler(pure, 4).dump(snapshot)
code, out, err = run(pure.getvalue())
check("Python's other pickler", code == 0 and lines(out) == want, (code, out, err))
code, out, err = run(pickle.dumps(snapshot, 4))
check("what was there is counted", "# 4 blocks were there when the recording began" in out, out)
open("t.trace", "w").write(out)
r = subprocess.run([turbo, "replay", "--sim", "--mode", "bare", "--json", "t.trace"], capture_output=True, text=True)
check("it replays", r.returncode == 0 and json.loads(r.stdout)[0]["ops"] == len(want), r.stdout + r.stderr)
r = subprocess.run([turbo, "replay", "--import", "snapshot.pickle", "-o", "t.trace.gz"], capture_output=True, text=True)
import gzip
check("compressed", r.returncode == 0 and gzip.open("t.trace.gz", "rt").read() == out, r.stderr)

big = {"segments": [], "device_traces": [[event("alloc", base + i * 512, 512, 0, i) for i in range(100000)]]}
code, out, err = run(pickle.dumps(big, 4))
check("100,000 events", code == 0 and len(lines(out)) == 100000 and lines(out)[-1] == "a 100000 512 0", err)

# ---- refused ----
def refused(what, data, why):
    code, out, err = run(data)
    good = code == 1 and out == "" and err.startswith("turbo replay: snapshot.pickle: ") and why in err
    check(f"refused: {what}", good and err.count("\n") == 1, (code, out, err))


class Call:
    def __reduce__(self):
        return os.system, ("touch called",)


for protocol in (2, 4):
    refused("a call", pickle.dumps({"segments": Call(), "device_traces": []}, protocol), "only plain data")
check("nothing was called", not os.path.exists("called"))
refused("protocol 0", pickle.dumps(snapshot, 0), "not a pickle of protocol 2")
refused("an empty file", b"", "not a pickle")
refused("a text", b"turbo-alloc-trace 1\n", "not a pickle")
refused("a list", pickle.dumps([1, 2]), "device_traces")
refused("no segments", pickle.dumps({"device_traces": [[]]}), "segments")
refused("no events", pickle.dumps({"segments": [], "device_traces": [[], []]}), "_record_memory_history")
refused("traces of another kind", pickle.dumps({"segments": [], "device_traces": [7]}), "no list")
refused("65 devices", pickle.dumps({"segments": [], "device_traces": [[]] * 65}), "64 devices")
odd = {"segments": [None, {"blocks": 3, "address": 1}, {"blocks": [None], "address": -1}, {"address": 1, "blocks": [5, {}]}],
       "device_traces": [[None, 5, {}, {"action": 3}, {"action": "alloc", "addr": -1, "size": 1},
                          {"action": "alloc", "addr": 2**70, "size": 1}, {"action": "alloc", "addr": 5, "size": 0},
                          {"action": "free_completed", "addr": 9, "size": "x"}]]}
code, out, err = run(pickle.dumps(odd, 4))
check("nothing that can be read", code == 1 and out == "" and "no event of an allocation" in err, (code, out, err))
check("unread events are counted", "8 events could not be read: first event 1 of device 0: it has no text" in err, err)
odd["device_traces"] = [[event("snapshot", 0, 0, 0, 1)], odd["device_traces"][0] + [event("alloc", base, 7, 0, 1)]]
code, out, err = run(pickle.dumps(odd, 4))
check("entries of other kinds are left out", code == 0 and lines(out) == ["a 1 7 0 1"], (code, out, err))
check("and counted", err.count("\n") == 1 and "8 events could not be read: first event 1 of device 1" in err, err)
one = {"segments": [], "device_traces": [[event("alloc", base, 1, 0, 1), event("free", "x", 1, 0, 2)]]}
code, out, err = run(pickle.dumps(one, 4))
check("one is one", code == 0 and "1 event could not be read: first event 2 of device 0: its `addr`" in err, err)
code, out, err = run(pickle.dumps({"segments": [], "device_traces": [[event("snapshot", 0, 0, 0, 1)]]}, 4))
check("no operation at all", code == 1 and out == "" and err.count("\n") == 1, (code, out, err))
small = pickle.dumps({"segments": [], "device_traces": [[event("alloc", base, 1, 0, 1)]]}, 4)
bad = [n for n in range(len(small)) if run(small[:n])[0] != 1]
check(f"each of {len(small)} prefixes", not bad, bad)
sys.exit(failed)
PY
[ $? = 0 ] || failed=1
finish
