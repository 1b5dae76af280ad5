#!/bin/bash
# `turbo replay` on the simulated driver: what it prints is what the trace holds, bad traces and
# arguments are refused, generated traces are the same for the same seed.
. "$(dirname "$0")/common.sh"
turbo=$BUILD/turbo
have python3 || skip "no python3"
cd "$work" || exit 1

# status COMMAND...: its status; its output goes to $work/out and $work/err.
status()
{
	timeout 120 "$@" >"$work/out" 2>"$work/err"
	echo $?
}

says() { grep -qF -- "$1" "$work/err" && echo yes || cat "$work/err"; }

# Independent of the command's own reader: operations, peak of the live bytes.
facts()
{
	python3 - "$1" <<'PY'
import gzip, sys
open_ = gzip.open if sys.argv[1].endswith(".gz") else open
live, ops, now, peak = {}, 0, 0, 0
for line in list(open_(sys.argv[1], "rt"))[1:]:
    f = line.split()
    if not f or f[0].startswith("#"):
        continue
    ops += 1
    if f[0] == "a":
        assert f[1] not in live
        live[f[1]] = int(f[2])
        now += live[f[1]]
        peak = max(peak, now)
    elif f[0] == "f":
        now -= live.pop(f[1])
print(ops, peak, len(live))
PY
}

# json EXPRESSION: of the list j that --json printed.
json() { python3 -c 'import json, sys; j = json.load(open("out")); print(eval(sys.argv[1]))' "$1"; }

# ---- shapes ----
for shape in varlen growing moe checkpoint streams oneshot; do
	"$turbo" replay --generate $shape --ops 1000 -o $shape.trace || fail "generate $shape"
	"$turbo" replay --generate $shape --ops 1000 --seed 1 >again || fail "generate $shape again"
	"$turbo" replay --generate $shape --ops 1000 -o $shape.trace.gz || fail "generate $shape compressed"
	cmp $shape.trace again && gzip -dc $shape.trace.gz | cmp - again && ok "$shape: the same for the same seed"
	read -r ops peak left < <(facts $shape.trace)
	is "$shape: everything is freed" 0 "$left"
	is "$shape: as many operations as asked" yes "$([ "$ops" -ge 1000 ] && [ "$ops" -lt 8000 ] && echo yes || echo "$ops")"
	is "$shape replays" 0 "$(status "$turbo" replay $shape.trace.gz --sim --mode bare --json)"
	is "$shape: the keys" "['trace', 'mode', 'ops', 'ns_per_op', 'peak_reserved', 'peak_live', 'ratio', 'driver_calls', 'oom']" \
		"$(json 'list(j[0])')"
	is "$shape: its facts" "[1, 'bare', $ops, $peak, 0]" \
		"$(json '[len(j), j[0]["mode"], j[0]["ops"], j[0]["peak_live"], j[0]["oom"]]')"
	is "$shape: peak reserved is seen" True "$(json '1 <= j[0]["ratio"] < 1.01 and j[0]["ratio"] == round(j[0]["peak_reserved"] / j[0]["peak_live"], 4)')"
	is "$shape: driver calls" True "$(json 'j[0]["driver_calls"] >= j[0]["ops"] * 0.8')"
done
"$turbo" replay --generate varlen --seed 2 --ops 1000 >again
cmp -s varlen.trace again && fail "another seed gives the same trace" || ok "another seed, another trace"

# ---- operations ----
cat >all.trace <<'END'
turbo-alloc-trace 1
# two devices, waits, a stream that comes again, blocks that stay
a 1 1048576 0
a 2 2097152 7
a 3 1000 7 1
w 0 7
w 9 7
s 0
s 12345
f 1 7
d 7
d 7
a 4 512 7
f 2 7
END
is "every operation" 0 "$(status "$turbo" replay all.trace --sim --mode bare --mode pool --touch --json)"
is "modes in the order asked for" "['bare', 'pool']" "$(json '[r["mode"] for r in j]')"
is "each device's peak counts" "[12, 3146728]" "$(json '[j[0]["ops"], j[0]["peak_live"]]')"
is "the driver is said to be simulated" yes "$(says 'the driver is simulated')"
printf 'turbo-alloc-trace 1\n' >empty.trace
is "an empty trace" 0 "$(status "$turbo" replay empty.trace --sim --mode bare --json)"
is "has nothing to divide" True "$(json 'not any(j[0][k] for k in ("ops", "ns_per_op", "ratio", "driver_calls"))')"
printf 'turbo-alloc-trace 1\na 1 5 0 9\n' >far.trace
is "a device that is not there" 1 "$(status "$turbo" replay far.trace --sim --mode bare)"
is "is named" yes "$(says 'device 9, this machine has 2')"
is "text" 0 "$(status "$turbo" replay all.trace varlen.trace --sim --mode bare)"
is "a title and a row each" "3" "$(wc -l <out)"
is "at most 100 columns" 0 "$(awk 'length > 100' out | wc -l)"

# ---- limits ----
{
	echo turbo-alloc-trace 1
	for i in 1 2 3; do echo "a $i 104857600 0"; done
	for i in 1 2 3; do echo "f $i 0"; done
} >three.trace
is "a limit" 0 "$(status "$turbo" replay three.trace --sim --mode bare --mode pool --json --limit 250M)"
is "counts what does not fit, and leaves out its free" "[[1, 209715200], [1, 209715200]]" \
	"$(json '[[r["oom"], r["peak_live"]] for r in j]')"
status "$turbo" replay three.trace --sim --mode bare --json --limit 1g >/dev/null
is "a limit that is enough" 0 "$(json 'j[0]["oom"]')"

# ---- with libturbo ----
for mode in cache deferred stream; do
	if ! "$turbo" options | grep -q "^TURBO_DEVMEM .*$mode"; then
		is "mode $mode is refused where libturbo lacks it" 1 "$(status "$turbo" replay all.trace --sim --mode $mode)"
		echo "not tried: TURBO_DEVMEM=$mode is not there"
		continue
	fi
	for shape in varlen streams oneshot; do
		read -r ops peak left < <(facts $shape.trace)
		is "$shape under $mode" 0 "$(status "$turbo" replay $shape.trace --sim --mode $mode --json)"
		is "its facts" "['$mode', $ops, $peak, 0]" "$(json '[j[0][k] for k in ("mode", "ops", "peak_live", "oom")]')"
		is "reserved at least what was live" True "$(json 'j[0]["ratio"] >= 1')"
	done
	LD_PRELOAD=$LIBTURBO TURBO=off status "$turbo" replay all.trace --sim --mode $mode --mode bare --json >/dev/null
	is "libturbo around it changes nothing" "[12, 12]" "$(json '[r["ops"] for r in j]')"
done

usual="'bare'"
for mode in cache deferred stream; do
	! "$turbo" options | grep -q "^TURBO_DEVMEM .*$mode" || usual="$usual, '$mode'"
done
status "$turbo" replay all.trace --sim --json >/dev/null
is "without --mode: all there are" "[$usual]" "$(json '[r["mode"] for r in j]')"

# ---- bad traces ----
bad() # NAME LINE WHY, after NAME was written
{
	is "$1: refused" 1 "$(status "$turbo" replay "$1" --sim)"
	is "$1: line and reason" yes "$(says "turbo replay: $1:$2: $3")"
	is "$1: nothing on stdout" 0 "$(wc -c <out)"
}
printf 'turbo-alloc-trace 1\na 1 2 3\nx\n' >letter && bad letter 3 "unknown operation: x"
printf 'a 1 2 3\n' >header && bad header 1 "not an allocation trace"
printf 'turbo-alloc-trace 1\n\n# \nf 1 0\n' >unknown && bad unknown 4 "block 1 is not allocated"
printf 'turbo-alloc-trace 1\na 1 2 3\na 1 2 3\n' >twice && bad twice 3 "block 1 is allocated already"
printf 'turbo-alloc-trace 1\na 1 -2 3\n' >minus && bad minus 2 "BYTES is negative: -2"
printf 'turbo-alloc-trace 1\na 1 2\n' >short && bad short 2 "STREAM is missing"
head -c 3000 varlen.trace.gz >cut.gz && bad cut.gz "$(gzip -dc cut.gz 2>/dev/null | wc -l | awk '{print $1 + 1}')" \
	"the compressed file is truncated"
is "no such file" 1 "$(status "$turbo" replay nowhere --sim)"
is "is said" yes "$(says 'turbo replay: nowhere: No such file')"
is "one bad trace of two: nothing is replayed" 1 "$(status "$turbo" replay all.trace letter --sim)"
is "no rows" 0 "$(wc -c <out)"

# ---- asked wrongly ----
for args in "" "--sim" "all.trace --mode fast" "all.trace --mode" "all.trace --limit 0" "all.trace --limit 5X" \
	"all.trace --limit 99999999999G" "all.trace --limit -1" "all.trace --fast" "--generate" "--generate square" \
	"--generate moe --ops x" "--generate moe all.trace" "--generate moe --sim" "--generate moe --import x" \
	"all.trace --seed 1" "all.trace -o x" "all.trace --sim --limit 4K" "--import"; do
	is "replay $args" 2 "$(status "$turbo" replay $args)"
done
is "an output that cannot be written" 1 "$(status "$turbo" replay --generate moe -o nowhere/file)"
if [ -w /dev/full ]; then
	is "a full disk" 1 "$(status "$turbo" replay --generate moe -o /dev/full)"
	is "is said" yes "$(says 'No space left on device')"
fi
if ! "$turbo" replay empty.trace --mode bare >/dev/null 2>err && grep -q 'no CUDA driver' err; then
	is "no driver here: --sim is offered" yes "$(says -- '--sim replays on a simulated one')"
fi

# ---- traces that come with the sources ----
for trace in "$root"/tests/traces/*.trace; do
	read -r ops peak left < <(facts "$trace")
	is "$(basename "$trace")" 0 "$(status "$turbo" replay "$trace" --sim --mode bare --json)"
	is "its facts" "[$ops, $peak, 0]" "$(json '[j[0][k] for k in ("ops", "peak_live", "oom")]')"
done
for shape in varlen growing moe checkpoint streams oneshot; do
	if "$turbo" replay --generate $shape | cmp - <(gzip -dc "$root/tests/traces/generated-$shape.trace.gz"); then
		ok "$shape: as it comes with the sources"
	else
		fail "$shape: another trace than the one in tests/traces"
	fi
done
finish
