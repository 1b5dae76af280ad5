#!/bin/bash
# The tables in the READMEs are exactly what the command prints.
set -eu
cd "$(dirname "$0")/.."
turbo=${BUILD:-$PWD/build}/turbo

# same NAME FILE COMMAND...
same()
{
	local name=$1 file=$2 want have
	shift 2
	want=$("$turbo" "$@")
	[ -n "$want" ] || { echo "turbo $* printed nothing"; exit 1; }
	have=$(sed -n "/<!-- $name:begin -->/,/<!-- $name:end -->/{/<!-- $name:/!p}" "$file")
	if ! diff <(echo "$have") <(echo "$want"); then
		echo "$file differs from turbo $*; run: make docs"
		exit 1
	fi
}

same options README.md options --markdown
same findings tools/doctor/README.md doctor --list --markdown
