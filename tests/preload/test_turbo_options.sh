#!/bin/bash
# `turbo options`, help and version; README's table is the command's output.
. "$(dirname "$0")/common.sh"
cd "$root" || exit 1
turbo=$BUILD/turbo

status()
{
	"$@" >"$work/out" 2>"$work/err"
	echo $?
}

# The table between README's marks, see `make docs`.
"$turbo" options --markdown >"$work/table" || fail "turbo options"
sed -n '/<!-- options:begin/,/<!-- options:end/p' README.md | sed '1d;$d' | grep '^|' >"$work/readme"
if diff -u "$work/readme" "$work/table"; then
	ok "README's option table is up to date ($(wc -l <"$work/table") lines)"
else
	fail "README's option table differs from 'turbo options --markdown'; run 'make docs'"
fi
is "as many rows as options.def" "$(grep -c '^OPTION(' shim/options.def)" "$(grep -c '^| `TURBO' "$work/table")"

"$turbo" options >"$work/text" || fail "turbo options"
is "no line beyond 100 columns" "" "$(awk 'length > 100' "$work/text")"
is "every option has a row" "$(grep -c '^OPTION(' shim/options.def)" "$(grep -c '^TURBO' "$work/text")"
now() { "$turbo" options 2>/dev/null | awk -v name="$1" '$1 == name { print $2 $3; exit }'; }
is "a default is in force" onon "$(now TURBO_COPY)"
is "a value of the environment is in force" 'off*' "$(TURBO_COPY=off now TURBO_COPY)"
is "a preset is in force" offon "$(TURBO=off now TURBO_COPY)"
TURBO_COPY=sideways "$turbo" options >"$work/out" 2>"$work/err"
is "a bad value is said" 1 "$(grep -c 'TURBO_COPY=sideways' "$work/err")"

is "unknown argument" 2 "$(status "$turbo" options --fast)"
is "no command" 2 "$(status "$turbo")"
is "unknown command" 2 "$(status "$turbo" fly)"
is "help" 0 "$(status "$turbo" --help)"
for cmd in run options stats; do
	is "help names $cmd" 1 "$(grep -c "^  $cmd " "$work/out")"
done
for cmd in run options stats; do
	is "help $cmd" 0 "$(status "$turbo" help $cmd)"
	is "$cmd --help is the same" "$("$turbo" help $cmd)" "$("$turbo" $cmd --help)"
done
is "help of nothing" 2 "$(status "$turbo" help fly)"
is "version" "turbo $(sed -n 's/^VERSION := //p' Makefile)" "$("$turbo" --version)"
is "a full disk is a failure" 1 "$(status sh -c "'$turbo' options >/dev/full")"
finish
