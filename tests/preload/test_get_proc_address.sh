#!/bin/bash
# cuGetProcAddress answers as the driver does, status for status; what it finds is ours exactly
# where that symbol is exported by libturbo.so.
. "$(dirname "$0")/common.sh"

[ -f "$SIM_DIR/libcuda.so.1" ] || { fail 'the simulated driver is not built'; finish; }
"${CC:-cc}" -Wall -Wextra -Werror -D_GNU_SOURCE -I"$root/tests/sim/cuda" -o "$work/getproc" \
	"$here/loader/getproc.c" -ldl || fail 'compiling getproc.c'
quietly bare env LD_LIBRARY_PATH="$SIM_DIR" "$work/getproc"
quietly turbo env LD_LIBRARY_PATH="$SIM_DIR" LD_PRELOAD="$LIBTURBO" "$work/getproc"

# Names that libturbo.so exports, and for each line which object its symbol should be in.
nm -D --defined-only "$LIBTURBO" | awk '{ print $3 }' >"$work/exports"
awk 'NR == FNR { ours[$1] = 1; next }
	match($0, /[^ ]*@libcuda\.so\.1$/) {
		split(substr($0, RSTART), part, "@")
		if (part[1] in ours) {
			print substr($0, 1, RSTART - 1) part[1] "@libturbo.so"
			next
		}
	}
	{ print }' "$work/exports" "$work/bare.out" >"$work/expected.out"
cp "$work/bare.err" "$work/expected.err"
cp "$work/bare.status" "$work/expected.status"
same 'answers of cuGetProcAddress' expected turbo

lines=$(grep -c '@libturbo\.so$' "$work/turbo.out")
names=$(sed -n 's/.* \(.*\)@libturbo\.so$/\1/p' "$work/turbo.out" | sort -u | wc -l)
twins=$(grep -c '_pt[ds][sz]*@libturbo\.so$' "$work/turbo.out")
[ "$names" -ge 100 ] && [ "$twins" -ge 100 ] || fail "only $names symbols and $twins per-thread answers were ours"
echo "$lines answers, $names symbols are ours"
grep -q '^cuGetProcAddress 12000 0: 0, .*cuGetProcAddress_v2@libturbo.so$' "$work/turbo.out" || fail 'self-lookup, _v2'
finish
