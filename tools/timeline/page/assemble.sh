#!/bin/sh
# assemble.sh DIR: the page on stdout, style and scripts put in, @REPORT@ left to report_html.c.
#
# The page's policy admits the style and the script by their hashes: no other script can run in it, whatever a
# kernel is called, and nothing can be fetched.
set -eu
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

{
	printf "\n(() => {\n'use strict';\n"
	for part in base stack data view table lanes steps strip sections host main; do
		cat "page_$part.js"
	done
	printf '})();\n'
} >"$work/script"
{
	printf '\n'
	cat page.css
} >"$work/style"

# sha256-… as Content-Security-Policy wants it: base64 of the 32 bytes.
hash()
{
	octal=$(sha256sum "$1" | cut -c 1-64 | awk '{
		digits = "0123456789abcdef"
		for (i = 1; i < 64; i += 2)
			printf "\\0%03o", 16 * (index(digits, substr($0, i, 1)) - 1) + index(digits, substr($0, i + 1, 1)) - 1
	}')
	printf 'sha256-%s' "$(printf '%b' "$octal" | base64)"
}

awk -v script="$(hash "$work/script")" -v style="$(hash "$work/style")" -v dir="$work" '
	{
		sub(/@SCRIPT_HASH@/, script)
		sub(/@STYLE_HASH@/, style)
	}
	match($0, /@(SCRIPT|STYLE)@/) {
		printf "%s", substr($0, 1, RSTART - 1)
		file = dir "/" (index($0, "@SCRIPT@") ? "script" : "style")
		while ((getline line < file) > 0)
			print line
		print substr($0, RSTART + RLENGTH)
		next
	}
	{ print }
' page.html
