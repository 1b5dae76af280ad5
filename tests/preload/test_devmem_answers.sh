#!/bin/bash
# What the driver is asked about memory it answers the same bare and preloaded, in every mode, also
# for memory that was handed out again; memory that others may see is really freed.
. "$(dirname "$0")/common.sh"

program=$BUILD/tests/preload/devmem_answers
run()
{
	timeout 100 env LD_LIBRARY_PATH="$SIM_DIR" SIM_QUIET=1 "${@:2}" "$program" \
		>"$work/$1.out" 2>"$work/$1.err"
	local status=$?
	[ $status != 77 ] || skip 'no driver'
	echo $status >"$work/$1.status"
	read -r reused ordered <<<"$(sed -n 's/^reused //p' "$work/$1.err")"
	sed -i '/^reused /d' "$work/$1.err"
}

run bare
[ "$(cat "$work/bare.status")" = 0 ] || fail "exit status $(cat "$work/bare.status")"
[ "$reused $ordered" = '0 0' ] || fail "$reused and $ordered allocations were reused without libturbo"
for mode in off cache deferred stream; do
	run "$mode" LD_PRELOAD="$LIBTURBO" TURBO_DEVMEM=$mode TURBO_DEVMEM_CACHE_MB=256
	same "$(wc -l <"$work/bare.out") answers, TURBO_DEVMEM=$mode" bare "$mode"
	if [ "$mode" = off ]; then
		[ "$reused" = 0 ] && ok 'nothing was reused' || fail "$reused allocations were reused"
	elif [ "${reused:-0}" -ge 12 ]; then
		ok "$reused allocations were reused"
	else
		fail "only ${reused:-no} allocations were reused"
	fi
	if [ "$mode" = stream ]; then
		[ "${ordered:-0}" -ge 4 ] || fail "only ${ordered:-no} stream-ordered allocations were the heap's"
	fi
done
finish
