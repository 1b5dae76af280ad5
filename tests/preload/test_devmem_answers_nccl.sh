#!/bin/bash
# Memory that is registered with NCCL is really freed, and the call reaches the copy of NCCL that it is
# for, unchanged.
. "$(dirname "$0")/common.sh"

have "${CC:-cc}" || skip 'no compiler'
lib() { "${CC:-cc}" -shared -fPIC -O1 -o "$1" "$root/tests/preload/loader/nccl_register.c" "${@:2}" || exit 1; }
mkdir "$work/a" "$work/b"
lib "$work/a/libnccl.so.2" -DWHO=1 -Wl,-soname,libnccl.so.2
lib "$work/b/libnccl.so.2" -DWHO=2 -Wl,-soname,libnccl.so.2
lib "$work/libuser.so" -DUSER "$work/a/libnccl.so.2"

run()
{
	quietly "$1" env LD_LIBRARY_PATH="$SIM_DIR" "${@:2}" "$BUILD/tests/preload/devmem_nccl" \
		"$work/a/libnccl.so.2" "$work/b/libnccl.so.2" "$work/libuser.so"
	[ "$(cat "$work/$1.status")" != 77 ] || skip 'needs the simulated driver'
}
run bare
grep -q '^first, p: status 201 by 1, flags -2, arguments as given, freed by the driver 1$' "$work/bare.out" ||
	fail "without libturbo: $(cat "$work/bare.out")"
for mode in off cache deferred stream; do
	run $mode LD_PRELOAD="$LIBTURBO" TURBO_DEVMEM=$mode TURBO_DEVMEM_CACHE_MB=256
	same "$(wc -l <"$work/bare.out") registrations, TURBO_DEVMEM=$mode" bare $mode
done
finish
