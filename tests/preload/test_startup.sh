#!/bin/bash
# A process that never touches CUDA starts at most 1 ms later.
#
# Bare and preloaded starts of /bin/true alternate, so that both see the same machine; the
# difference of the medians counts. A busy machine can only make it larger, so the best
# of a few rounds is taken.
. "$(dirname "$0")/common.sh"
have python3 || skip "no python3"

python3 - "$LIBTURBO" <<'PY'
import os, statistics, sys, time

LIMIT_MS, RUNS, ROUNDS = 1.0, 100, 5
bare_env = {"PATH": os.environ["PATH"]}
loaded_env = dict(bare_env, LD_PRELOAD=sys.argv[1])

def start_ms(env):
    begin = time.perf_counter()
    pid = os.posix_spawn("/bin/true", ["true"], env)
    _, status = os.waitpid(pid, 0)
    if status:
        sys.exit(f"FAILED: /bin/true ended with status {status}")
    return (time.perf_counter() - begin) * 1e3

best = float("inf")
for _ in range(ROUNDS):
    pairs = [(start_ms(bare_env), start_ms(loaded_env)) for _ in range(RUNS)]
    bare, loaded = (statistics.median(p) for p in zip(*pairs))
    print(f"median of {RUNS}: bare {bare:.3f} ms, preloaded {loaded:.3f} ms, added {loaded - bare:.3f} ms")
    best = min(best, loaded - bare)
    if best <= LIMIT_MS:
        break
sys.exit(0 if best <= LIMIT_MS else f"FAILED: {best:.3f} ms added, at most {LIMIT_MS} ms are allowed")
PY
