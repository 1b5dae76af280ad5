#!/bin/bash
# `turbo options`, help and version; README's table is the command's output.
set -u
cd "$(dirname "$0")/../.." || exit 1
turbo=$BUILD/turbo
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
for name in $(compgen -e TURBO); do unset "$name"; done
bad=0

is()
{
	if [ "$2" = "$3" ]; then
		echo "ok: $1"
	else
		echo "NOT ok: $1: expected '$2', got '$3'"
		bad=1
	fi
}

status()
{
	"$@" >"$tmp/out" 2>"$tmp/err"
	echo $?
}

# The table between README's marks, see `make docs`.
"$turbo" options --markdown >"$tmp/table" || bad=1
sed -n '/<!-- options:begin/,/<!-- options:end/p' README.md | sed '1d;$d' | grep '^|' >"$tmp/readme"
if diff -u "$tmp/readme" "$tmp/table"; then
	echo "ok: README's option table is up to date ($(wc -l <"$tmp/table") lines)"
else
	echo "NOT ok: README's option table differs from 'turbo options --markdown'; run 'make docs'"
	bad=1
fi
is "as many rows as options.def" "$(grep -c '^OPTION(' shim/options.def)" "$(grep -c '^| `TURBO' "$tmp/table")"

"$turbo" options >"$tmp/text" || bad=1
is "no line beyond 100 columns" "" "$(awk 'length > 100' "$tmp/text")"
is "every option has a row" "$(grep -c '^OPTION(' shim/options.def)" "$(grep -c '^TURBO' "$tmp/text")"
now() { "$turbo" options 2>/dev/null | awk -v name="$1" '$1 == name { print $2 $3; exit }'; }
is "a default is in force" onon "$(now TURBO_COPY)"
is "a value of the environment is in force" 'off*' "$(TURBO_COPY=off now TURBO_COPY)"
is "a preset is in force" offon "$(TURBO=off now TURBO_COPY)"
TURBO_COPY=sideways "$turbo" options >"$tmp/out" 2>"$tmp/err"
is "a bad value is said" 1 "$(grep -c 'TURBO_COPY=sideways' "$tmp/err")"

is "unknown argument" 2 "$(status "$turbo" options --fast)"
is "no command" 2 "$(status "$turbo")"
is "unknown command" 2 "$(status "$turbo" fly)"
is "help" 0 "$(status "$turbo" --help)"
for cmd in run options stats; do
	is "help names $cmd" 1 "$(grep -c "^  $cmd " "$tmp/out")"
done
for cmd in run options stats; do
	is "help $cmd" 0 "$(status "$turbo" help $cmd)"
	is "$cmd --help is the same" "$("$turbo" help $cmd)" "$("$turbo" $cmd --help)"
done
is "help of nothing" 2 "$(status "$turbo" help fly)"
is "version" "turbo $(sed -n 's/^VERSION := //p' Makefile)" "$("$turbo" --version)"
is "a full disk is a failure" 1 "$(status sh -c "'$turbo' options >/dev/full")"
exit $bad
