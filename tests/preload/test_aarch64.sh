#!/bin/bash
# The aarch64 stubs: the library is cross-compiled; its unit tests of stubs and the loader cases run in an emulator.
. "$(dirname "$0")/common.sh"
# As the build has found it.
export CUDA_H=${CUDA_H:-$(sed -n 's/^CUDA_H := //p' "$BUILD"/gen/cuda*.mk | head -n 1)}

cross=aarch64-linux-gnu-gcc
sysroot=/usr/aarch64-linux-gnu
have $cross || skip "no $cross"
have qemu-aarch64 || skip 'no qemu-aarch64'
[ -e $sysroot/lib/ld-linux-aarch64.so.1 ] || skip "no aarch64 libc in $sysroot"

if ! env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u BUILD -u SAN "${MAKE:-make}" --no-print-directory -C "$root" -j2 \
	CC=$cross ARCH=aarch64 O="$work/build" "$work/build/libturbo.so" "$work/build/libturbo_test.a" >"$work/log" 2>&1; then
	tail -n 20 "$work/log"
	fail 'cross-compiling libturbo.so'
	finish
fi

# stub_test NAME: a unit test, with what stands for cmocka there.
stub_test()
{
	$cross -std=gnu11 -O2 -pthread -fno-omit-frame-pointer -D_GNU_SOURCE= -D__CUDA_API_VERSION_INTERNAL= -I"$here/aarch64" \
		-I"$root/shim" -I"$root" -I"$root/policy" -I"$work/build/gen" -isystem "$(dirname "$CUDA_H")" -funwind-tables \
		-Wl,-z,muldefs -o "$work/$1" "$root/tests/unit/$1.c" "$work/build/libturbo_test.a" -ldl -lm &&
		timeout 60 qemu-aarch64 -L $sysroot "$work/$1" && ok "$1" || fail "$1"
}
stub_test test_doors
stub_test test_count_stubs

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
