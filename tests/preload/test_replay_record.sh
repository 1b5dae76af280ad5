#!/bin/bash
# TURBO_DEVMEM_TRACE on a live program, the replay of a trace: what is recorded is that trace again.
. "$(dirname "$0")/common.sh"
turbo=$BUILD/turbo
have python3 || skip "no python3"
cd "$work" || exit 1
export turbo
"$turbo" replay --generate streams --ops 3000 -o streams.trace || exit 1
"$turbo" replay --generate oneshot --ops 3000 -o oneshot.trace || exit 1
cat >two-devices.trace <<'END'
turbo-alloc-trace 1
a 1 1048576 1
a 2 4096 1 1
a 3 777 2 1
w 2 1
s 1
f 2 2 1
f 1 1
d 1
f 3 2 1
END
for trace in streams oneshot two-devices; do
	for mode in cache stream; do
		rm -f record
		TURBO_DEVMEM_TRACE=record timeout 60 "$turbo" replay --sim --mode $mode $trace.trace >out 2>err || {
			fail "$trace under $mode: $(cat err)"
			continue
		}
		timeout 60 python3 - $trace.trace record $mode <<'PY' && ok "$trace under $mode" || fail "$trace under $mode"
import sys

# The replay itself is what is compared: blocks by size, streams by what happens on them in order.
# Without stream arguments (cuMemAlloc) every block is on stream 0.
def read(path, one_stream):
    ops, size, name, fresh = [], {}, {}, 0
    for line in list(open(path))[1:]:
        f = line.split()
        if not f or f[0] == "#":
            continue
        if f[0] == "a":
            size[f[1]] = int(f[2])
            ops.append(("a", int(f[2]), 0 if one_stream else f[3], f[4] if len(f) > 4 else "0"))
        elif f[0] == "f":
            ops.append(("f", size.pop(f[1]), 0 if one_stream else f[2], f[3] if len(f) > 3 else "0"))
        else:
            ops.append(tuple(f))
    assert not size, "blocks are left"
    # Numbers of streams are names: by first appearance.
    out = []
    for op in ops:
        streams = {"a": [2], "f": [2], "w": [1, 2], "s": [1], "d": [1]}[op[0]]
        op = list(op)
        for i in streams:
            if op[i] == 0:
                continue
            if op[i] not in name:
                name[op[i]] = fresh = fresh + 1
            op[i] = name[op[i]]
        if op[0] == "d":
            name = {k: v for k, v in name.items() if v != op[1]}
        out.append(tuple(op))
    return out


def blocks(ops):
    return [op for op in ops if op[0] in "af"]


want, have = read(sys.argv[1], sys.argv[3] == "cache"), read(sys.argv[2], sys.argv[3] == "cache")
# The worker tries each device with 512 bytes before it begins.
while blocks(have)[0][1] == 512 and blocks(have)[1][:2] == ("f", 512):
    have = have[have.index(blocks(have)[1]) + 1:]
strip = lambda ops: [op[:2] + op[3:] for op in blocks(ops)]
if strip(want) != strip(have):
    sys.exit(f"blocks differ: {len(blocks(want))} {len(blocks(have))} {strip(want)[:5]} {strip(have)[:5]}")
count = lambda ops, kind: sum(op[0] == kind for op in ops)
# Streams that nothing is allocated on leave fewer lines (cuMemAlloc names none), the worker's own
# leave one or two more.
for kind in "wsd" if sys.argv[3] == "stream" else "w":
    if abs(count(want, kind) - count(have, kind)) > 4:
        sys.exit(f"{kind}: {count(want, kind)} became {count(have, kind)}")
if sys.argv[3] == "stream":
    streams = lambda ops: len({op[2] for op in blocks(ops)})
    if streams(want) > streams(have):
        sys.exit(f"{streams(want)} streams became {streams(have)}")
PY
		replayed=$("$turbo" replay --sim --mode bare record 2>err | wc -l)
		[ "$replayed" = 2 ] && ok "what was recorded is a trace" || fail "the record cannot be replayed: $(cat err)"
		[ "$(stat -c %a record)" = 600 ] && ok "nobody else can read it" || fail "mode $(stat -c %a record)"
	done
done

# TURBO=off goes before all other options.
program=$BUILD/tests/preload/test_devmem_cache_ctx
rm -f record
env LD_PRELOAD="$LIBTURBO" LD_LIBRARY_PATH="$SIM_DIR" TURBO=observe TURBO_DEVMEM_TRACE=record \
	timeout 60 "$program" >out 2>&1
[ -s record ] && ok "observed programs are recorded" || fail "no record: $(tail -n 3 out)"
rm -f record
env LD_PRELOAD="$LIBTURBO" LD_LIBRARY_PATH="$SIM_DIR" TURBO=off TURBO_DEVMEM_TRACE=record \
	timeout 60 "$program" >out 2>&1
[ ! -e record ] && ok "TURBO=off records nothing" || fail "TURBO=off has made a record"

# The worker's own failure to write is said once, and the replay goes on.
TURBO_DEVMEM_TRACE=$work/nowhere/record timeout 60 "$turbo" replay --sim --mode cache two-devices.trace >out 2>err
[ $? = 0 ] && [ "$(wc -l <out)" = 2 ] && ok "no file: the program goes on" || fail "no file: $(cat err)"
[ "$(grep -c 'TURBO_DEVMEM_TRACE' err)" = 1 ] && ok "which is said once" || fail "said: $(cat err)"
finish
