"""Timelines of random operations, and the exact answers about them. Times are whole microseconds, so that tools which
round to these see the same."""
import timeline_file as tf

KERNELS = ["gemm_kernel", "softmax_kernel", "myMemcpyKernel", "gridSyncKernel", "relu_kernel"]
NCCL = ["ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclDevKernel_AllGather_RING_LL"]
US = 1000


def fill(rng, timeline, operations, launches, shortest=0, gaps=0):
    """Adds operations on three streams; their list: (stream, name, category, start, end, call's start or None), in us."""
    made, correlation = [], 0
    host = timeline.lane(tf.THREAD, thread=5000)
    for stream, kinds in ((7, "kkkkkkcm"), (20, "nnnk"), (21, "kcc")):
        lane = timeline.lane(tf.STREAM, 0, 1, stream)
        at = rng.randrange(50)
        for _ in range(operations):
            at += rng.choice((0, 0, 1, 2, 5, 29, 30, 31, 60, 400)) * rng.randrange(3)
            end, kind = at + max(shortest, rng.choice((0, 1, 3, 10, 50, 200)) + rng.randrange(20) * rng.randrange(2)), rng.choice(kinds)
            correlation += 1
            call = None
            # A row that some tool drops would not be noticed without this: not every operation has a call.
            if launches and rng.randrange(10):
                call = max(0, at - rng.choice((1, 3, 10, 100, 1000)))
                timeline.add(tf.API, "cudaLaunchKernel", host, call * US, 500, (211, 1), correlation)
            if kind == "k" or kind == "n":
                name = rng.choice(KERNELS if kind == "k" else NCCL)
                timeline.add(tf.KERNEL, name, lane, at * US, (end - at) * US, (1, 1, 1, 32, 1, 1), correlation)
                category = "communication" if kind == "n" else "other" if "Memcpy" in name or "Sync" in name else "compute"
            elif kind == "c":
                up = rng.randrange(2)
                name, category = f"Memcpy {'HtoD (Pageable -> Device)' if up else 'DtoH (Device -> Pinned)'}", "memory"
                timeline.add(tf.COPY, name, lane, at * US, (end - at) * US, (1, 1, 3) if up else (2, 3, 2), correlation,
                             rng.randrange(1 << 24))
            else:
                name, category = "Memset (Device)", "memory"
                timeline.add(tf.MEMSET, name, lane, at * US, (end - at) * US, (3,), correlation, 4096)
            made.append((stream, name, category, at, end, call))
            at = end
    rng.shuffle(timeline.records)  # a file's order is that of buffers
    end = max(at for *_, at, _ in made)
    for start in rng.sample(range(end + 100), min(end, rng.randrange(gaps + 1))):
        length = rng.choice((0, 1, 50, 3000))
        timeline.add(tf.GAP, "a reason", 0, start * US, 0)  # it begins
        if length:
            timeline.add(tf.GAP, "a reason", 0, start * US, length * US)
        made.append((None, "a reason", "gap", start, start + length if length else end + 10000, None))
    return made


def union(intervals):
    """Every microsecond in which one of them is."""
    return {t for start, end in intervals for t in range(start, end)}


def answers(made, window=None, ended=None):
    """Where the time went, counted one microsecond after the other; of a window, what lies
    in it: `ended` is when the last record does."""
    if window:
        low, high = window
        made = [(*m[:3], max(m[3], low), min(m[4], high), None) for m in made if m[3] < high and m[4] > low]
    operations = [m for m in made if m[2] != "gap"]
    of = {c: union((s, e) for _, _, k, s, e, _ in operations if k == c) for c in ("compute", "communication", "memory", "other")}
    busy = set().union(*of.values())
    first, last = window or (min(s for *_, s, _, _ in operations), max(e for *_, e, _ in operations))
    if window and operations and high >= ended:
        begun = max(m[3] for m in operations)
        if any(m[2] == "gap" and m[3] > begun for m in made):
            last = max(m[4] for m in operations)  # what was not recorded after the last operation is no part of it
    unseen = union((max(s, first), min(e, last)) for _, _, k, s, e, _ in made if k == "gap") - busy
    out = {c + "_ns": len(v) for c, v in of.items()}
    out.update({
        "window_ns": last - first, "busy_ns": len(busy), "unseen_ns": len(unseen),
        "idle_ns": last - first - len(busy) - len(unseen),
        "overlap_ns": len(of["compute"] & of["communication"]),
        "exposed_communication_ns": len(of["communication"] - of["compute"]),
        "exposed_memory_ns": len(of["memory"] - of["compute"] - of["communication"]),
        "exposed_other_ns": len(of["other"] - of["compute"] - of["communication"] - of["memory"])})
    return {key: value * US for key, value in out.items()}
