#!/bin/bash
# The library builds for 64-bit Arm without warnings, and the hook table and count stubs pass
# their unit test there, under emulation. Skipped without a cross compiler and emulator.
. "$(dirname "$0")/common.sh"
cross=aarch64-linux-gnu
if [ "$(uname -m)" = aarch64 ]; then
	cc=${CC:-cc} emulator=
else
	cc=$cross-gcc emulator="qemu-aarch64 -L /usr/$cross"
	have $cc || skip "no $cc"
	have qemu-aarch64 || skip "no qemu-aarch64"
fi
echo 'int main(void) { return 0; }' | $cc -x c - -o "$work/probe" 2>/dev/null || skip "$cc has no C library"
$emulator "$work/probe" || skip "the emulator runs no program here"

cd "$root" || exit 1
eval "$(sh tools/cuda_headers.sh | sed -n 's/^CUDA_INC :=\(.*\)/inc="\1"/p')"
gen=$BUILD/gen
flags="-std=gnu11 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE= -DTURBO_VERSION=\"test\" -fPIC -fvisibility=hidden
	-fno-strict-aliasing -ftls-model=initial-exec -pthread -Ishim -I. -I$gen -Ipolicy
	-D__CUDA_API_VERSION_INTERNAL= $inc"
n=0
for source in shim/*.c policy/*.c policy/*/*.c "$gen/hook_stubs.S" shim/stubs_aarch64.S; do
	# shellcheck disable=SC2086 # flags is a list
	$cc $flags -c "$source" -o "$work/$((n++)).o" || fail "$source does not compile"
done
# shellcheck disable=SC2086
$cc $flags -Itests/unit/mini tests/unit/test_hooks.c "$work"/*.o -o "$work/test_hooks" -ldl -lm || fail "does not link"
if $emulator "$work/test_hooks"; then
	ok "hook table and count stubs on aarch64"
else
	fail "test_hooks on aarch64"
fi
# Branch protection is only on when every part of the assembly is marked.
for object in $((n - 1)) $((n - 2)); do
	readelf -nW "$work/$object.o" | grep -q 'AArch64 feature: BTI' || fail "no branch target mark in object $object"
done
finish
