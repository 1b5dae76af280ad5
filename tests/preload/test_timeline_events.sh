#!/bin/bash
# What libturbo does itself, what the program waits for, and NCCL's collectives are in the timeline, with and
# without the cache of device memory.
. "$(dirname "$0")/common.sh"

have "${CC:-cc}" || skip 'no compiler'
[ -e "$SIM_DIR/libcupti.so.13" ] || skip 'no simulated CUPTI'
mkdir "$work/nccl"
"${CC:-cc}" -shared -fPIC -O1 -o "$work/nccl/libnccl.so.2" "$root/tests/preload/loader/nccl_collective.c" \
	-Wl,-soname,libnccl.so.2 || exit 1

for mode in off cache; do
	mkdir "$work/$mode"
	quietly $mode env LD_LIBRARY_PATH="$SIM_DIR" LD_PRELOAD="$LIBTURBO" TURBO_TIMELINE=kernel \
		TURBO_TIMELINE_DIR="$work/$mode" TURBO_COPY_THREADS=2 TURBO_DEVMEM=$mode TURBO_DEVMEM_CACHE_MB=0 \
		TURBO_LOG=error "$BUILD/tests/preload/timeline_events" work "$work/nccl/libnccl.so.2"
	status=$(cat "$work/$mode.status")
	[ "$status" != 77 ] || skip 'needs a driver'
	if [ "$status" != 0 ]; then
		fail "TURBO_DEVMEM=$mode: exit $status: $(cat "$work/$mode.out" "$work/$mode.err")"
	elif missing=$("$BUILD/tests/preload/timeline_events" check "$work/$mode"/*.timeline); then
		ok "all events, TURBO_DEVMEM=$mode"
	else
		fail "TURBO_DEVMEM=$mode: $missing"
	fi
done
finish
