#!/bin/bash
# No driver, or one that lacks most functions: the program sees what it would see without
# libturbo, and at most one line is said.
. "$(dirname "$0")/common.sh"
probe=$BUILD/tests/preload/probe_driver
[ -x "$probe" ] || { echo "$probe is not built"; exit 1; }
have "${CC:=gcc}" || skip "no compiler"

# compare NAME LIBRARY_PATH ARGUMENT...: stderr may have one line of ours more.
compare()
{
	local name=$1 path=$2
	shift 2
	quietly bare env LD_LIBRARY_PATH="$path" "$probe" "$@"
	quietly loaded env LD_LIBRARY_PATH="$path" LD_PRELOAD="$LIBTURBO" "$probe" "$@"
	local lines
	lines=$(grep -c '^libturbo: ' "$work/loaded.err")
	[ "$lines" -le 1 ] || fail "$name: libturbo said $lines lines"
	sed -i '/^libturbo: /d' "$work/loaded.err"
	same "$name ($lines lines)" bare loaded
}

mkdir "$work/none" "$work/stripped" "$work/broken"
cat >"$work/stripped.c" <<'C'
int cuInit(unsigned flags) { return flags ? 1 : 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
C
"$CC" -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$work/stripped/libcuda.so.1" "$work/stripped.c" || exit 1
echo 'not a library' >"$work/broken/libcuda.so.1"

if env LD_LIBRARY_PATH="$work/none" "$probe" present >/dev/null; then
	echo "this machine has a driver: the missing-driver cases are left out"
else
	compare 'missing libcuda' "$work/none" lookups
	# Called through our exported symbol with nothing behind it: an error, no crash.
	quietly weak env LD_PRELOAD="$LIBTURBO" "$probe" weak
	if [ "$(cat "$work/weak.status")" = 0 ] && [ "$(cat "$work/weak.out")" = 'cuInit: error' ]; then
		ok 'cuInit without a driver is an error'
	else
		fail "cuInit without a driver: status $(cat "$work/weak.status"), $(cat "$work/weak.out" "$work/weak.err")"
	fi
fi
compare 'stripped libcuda' "$work/stripped" lookups
compare 'stripped libcuda, used' "$work/stripped" use
compare 'broken libcuda' "$work/broken" lookups
finish
