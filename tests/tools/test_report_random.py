"""`turbo report` on random timelines, against answers that are counted out. SEED (of the first), SOAK_S."""
import collections
import os
import random
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import random_timeline  # noqa: E402
import timeline_file  # noqa: E402
from test_report import report  # noqa: E402

ROUNDS = 40


def check_window(rng, seed, timeline, path, made):
    begin = min(r.start for r in timeline.records) - timeline_file.START
    end = max(r.start + r.duration for r in timeline.records) - timeline_file.START
    low = rng.randrange(begin // 1000, end // 1000 + 1)
    high = rng.randrange(low, end // 1000 + 1)
    if low == high:
        return
    at = [f"{us * 1000 - begin}" for us in (low, high)]
    have = report(path, "--window", f"{int(at[0]) / 1000}us..{int(at[1]) / 1000}us")["ranks"][0]["gpus"][0]["time"]
    for key, want in random_timeline.answers(made, (low, high), end / 1000).items():
        assert have[key] == want, f"seed {seed}, from {low} to {high} us: {key} is {have[key]}, not {want}"


def check_random(folder, seed):
    rng = random.Random(seed)
    timeline = timeline_file.Timeline()
    made = random_timeline.fill(rng, timeline, rng.choice((1, 2, 30, 300)), rng.randrange(2), gaps=rng.choice((0, 0, 3, 30)))
    path = os.path.join(folder, f"{seed}.timeline")
    timeline.write(path)
    have = report(path)
    gpu = have["ranks"][0]["gpus"][0]
    for key, want in random_timeline.answers(made).items():
        assert gpu["time"][key] == want, f"seed {seed}: {key} is {gpu['time'][key]}, not {want}"
    check_window(rng, seed, timeline, path, made)
    durations = collections.defaultdict(list)
    for _, name, category, start, end, _ in made:
        if category != "gap" and not name.startswith(("Memcpy ", "Memset ")):
            durations[name].append((end - start) * 1000)
    assert have["kernels"]["names"] == len(durations)
    for k in have["kernels"]["top"]:
        of = sorted(durations[k["name"]])
        assert (k["count"], k["sum_ns"], k["min_ns"], k["max_ns"]) == (len(of), sum(of), of[0], of[-1]), (seed, k)
        for key, q in (("p50_ns", 50), ("p99_ns", 99)):
            want = of[(len(of) * q + 99) // 100 - 1]
            assert abs(k[key] - want) <= 0.0315 * want + 1, (seed, key, k[key], want)
    idle = sum(c["ns"] for c in gpu["idle"].values())
    assert idle == gpu["time"]["idle_ns"] == sum(g["ns"] for g in gpu["gaps"]), (seed, idle)
    assert sum(c["count"] for c in gpu["idle"].values()) == sum(g["count"] for g in gpu["gaps"])
    assert sum(s["count"] for s in gpu["streams"]) == gpu["operations"] == sum(m[2] != "gap" for m in made)
    os.unlink(path)


def main():
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 30))
    until = time.monotonic() + float(os.environ.get("SOAK_S", 0))
    print(f"SEED={seed}", flush=True)
    done = 0
    with tempfile.TemporaryDirectory() as folder:
        while done < ROUNDS or time.monotonic() < until:
            check_random(folder, seed + done)
            done += 1
    print("where time goes, kernels, gaps:", done, "random timelines")


if __name__ == "__main__":
    main()
