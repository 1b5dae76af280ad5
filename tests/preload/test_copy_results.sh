#!/bin/bash
# Every copy entry point answers the same bare and preloaded, for every kind of memory and every
# mistake a program can make, and does the same bytes.
. "$(dirname "$0")/common.sh"

program=$BUILD/tests/preload/copy_results
# Memory that the program has freed is copied, too: the driver must have it back.
options="TURBO_DEVMEM=off TURBO_COPY_THREADS=2 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=8"
run()
{
	# shellcheck disable=SC2086 # words are wanted
	env LD_LIBRARY_PATH="$SIM_DIR" SIM_QUIET=1 "${@:2}" "$program" >"$work/$1.out" 2>"$work/$1.err"
	local status=$?
	[ $status != 77 ] || skip 'no driver'
	echo $status >"$work/$1.status"
}

run bare
run preloaded LD_PRELOAD="$LIBTURBO" $options
staged=$(sed -n 's/^staged //p' "$work/preloaded.err")
sed -i '/^staged /d' "$work"/*.err
same "results of $(wc -l <"$work/bare.out") calls" bare preloaded
[ "$(cat "$work/bare.status")" = 0 ] && ok 'the program ran to its end' || fail "exit status $(cat "$work/bare.status")"
if [ "${staged:-0}" -gt 20 ]; then
	ok "$staged copies were staged"
else
	fail "only ${staged:-no} copies were staged"
fi
finish
