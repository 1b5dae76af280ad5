#!/bin/bash
# The aarch64 stubs: the library is cross-compiled and the loader cases run in an emulator.
. "$(dirname "$0")/common.sh"

cross=aarch64-linux-gnu-gcc
sysroot=/usr/aarch64-linux-gnu
have $cross || skip "no $cross"
have qemu-aarch64 || skip 'no qemu-aarch64'
[ -e $sysroot/lib/ld-linux-aarch64.so.1 ] || skip "no aarch64 libc in $sysroot"

if ! env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u BUILD -u SAN "${MAKE:-make}" --no-print-directory -C "$root" -j2 \
	CC=$cross ARCH=aarch64 O="$work/build" "$work/build/libturbo.so" >"$work/log" 2>&1; then
	tail -n 20 "$work/log"
	fail 'cross-compiling libturbo.so'
	finish
fi
LIBTURBO=$work/build/libturbo.so
loader_cc=($cross)
loader_run=(qemu-aarch64 -L $sysroot)
preload_env()
{
	local word
	for word; do
		printf '%s\n' -E "$word"
	done
}
. "$here/loader/cases.sh"
build_loader
[ $failed = 0 ] || finish
run_cases
finish
