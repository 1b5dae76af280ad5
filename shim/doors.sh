#!/bin/sh
# Print door_table.inc or door_stubs.inc (see doors.awk): what each function of the driver means for all-gathers that
# wait, out of hooks.def, doors.def and the installed headers.  Part of the build.
#
# Environment, as tools/cuda_headers.sh finds it: CC, CUDA_INC (compiler flags), CUDA_H (a path).
#
#   shim/doors.sh table|stubs [DOORS_DEF [HOOKS_DEF]]
set -u
export LC_ALL=C
root=$(cd "$(dirname "$0")/.." && pwd)
CC=${CC:-cc}
: "${CUDA_INC:=}"
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
. "$root/tools/declarations.sh"

if [ ! -f "${CUDA_H:-}" ]; then
	echo "doors.sh: CUDA_H=${CUDA_H:-}: no such header" >&2
	exit 1
fi
# shellcheck disable=SC2046 # header names have no blanks
expand cuda cuda.h -D__CUDA_API_VERSION_INTERNAL= >"$tmp/text" &&
	expand other "$(in_dir "$CUDA_H" cuda.h cudaGL.h cudaEGL.h cudaVDPAU.h)" -D__CUDA_API_VERSION_INTERNAL= \
		>>"$tmp/text" &&
	awk -f "$root/shim/hooks.awk" -v what=table "${3:-$root/shim/hooks.def}" >"$tmp/table" &&
	awk -f "$root/shim/doors.awk" -v what="$1" "$tmp/table" "${2:-$root/shim/doors.def}" "$tmp/text"
