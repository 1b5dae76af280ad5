#!/bin/bash
# The option table in README.md is exactly what `turbo options --markdown` prints.
set -eu
cd "$(dirname "$0")/.."
turbo=${BUILD:-$PWD/build}/turbo

want=$("$turbo" options --markdown)
[ -n "$want" ] || { echo "turbo options --markdown printed nothing"; exit 1; }
have=$(sed -n '/<!-- options:begin -->/,/<!-- options:end -->/{/<!-- options:/!p}' README.md)
if ! diff <(echo "$have") <(echo "$want"); then
	echo "README.md differs from the option table; run: make docs"
	exit 1
fi
