#!/bin/sh
# Does shim/hooks.def account for every function of the installed headers?  Part of the
# build; one line a fault, naming the symbol, and exit 1.
#
#   tests/check_hooks.sh [HOOKS_DEF]
#
# Environment, as tools/cuda_headers.sh finds it: CC, CUDA_INC (compiler flags), CUDA_H,
# NCCL_H, CUPTI_H (paths; one that is empty is said to be unchecked).
#
# Faults: a function without a row; a driver function that takes a stream (as an argument,
# inside a structure, or by having a per-thread variant) but is pass; a symbol listed twice
# or a malformed row (both found by hooks.awk); a header in which nothing is found.
set -u
export LC_ALL=C
root=$(cd "$(dirname "$0")/.." && pwd)
def=${1:-$root/shim/hooks.def}
CC=${CC:-cc}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

# Headers of other packages that only declare types: empty ones serve the preprocessor.
mkdir -p "$tmp/inc/GL" "$tmp/inc/EGL" "$tmp/inc/vdpau"
for header in GL/gl.h EGL/egl.h EGL/eglext.h vdpau/vdpau.h string fstream; do
	: >"$tmp/inc/$header"
done

# expand LABEL "HEADER..." FLAG...: preprocessed text after a line that says where it is from.
expand()
{
	label=$1 headers=$2
	shift 2
	for header in $headers; do
		printf '#include <%s>\n' "$header"
	done >"$tmp/all.h"
	echo "@@ $label"
	# shellcheck disable=SC2086 # CUDA_INC is a list of flags
	if ! $CC -E -P -w "$@" $CUDA_INC -idirafter "$tmp/inc" "$tmp/all.h" 2>"$tmp/log"; then
		echo "check_hooks: cannot preprocess $headers" >&2
		cat "$tmp/log" >&2
		return 1
	fi
}

# in_dir HEADER NAME...: the names that exist beside HEADER.
in_dir()
{
	dir=$(dirname "$1")
	shift
	for name in "$@"; do
		[ ! -f "$dir/$name" ] || echo "$name"
	done
}

all_headers()
{
	driver=$(in_dir "$CUDA_H" cuda.h cudaProfiler.h cudaGL.h cudaEGL.h cudaVDPAU.h)
	expand cuda "$driver" || return 1
	expand cuda "$driver" -DCUDA_API_PER_THREAD_DEFAULT_STREAM= || return 1
	expand cuda "$driver" -D__CUDA_API_VERSION_INTERNAL= || return 1
	if [ -n "${NCCL_H:-}" ]; then
		expand nccl nccl.h || return 1
	fi
	if [ -n "${CUPTI_H:-}" ]; then
		# shellcheck disable=SC2046 # header names have no blanks
		expand cupti "$(in_dir "$CUPTI_H" $(cd "$(dirname "$CUPTI_H")" && ls cupti*.h))"
	fi
}

: "${CUDA_INC:=}"
if [ ! -f "${CUDA_H:-}" ]; then
	echo "check_hooks: CUDA_H=${CUDA_H:-}: no such header" >&2
	exit 1
fi
[ -n "${NCCL_H:-}" ] || echo "check_hooks: nccl.h is not installed: not checked"
[ -n "${CUPTI_H:-}" ] || echo "check_hooks: cupti.h is not installed: not checked"

awk -f "$root/shim/hooks.awk" -v what=table "$def" >"$tmp/table" || exit 1
all_headers >"$tmp/text" || exit 1
awk -v def="$def" -f "$root/tests/check_hooks.awk" "$tmp/table" "$tmp/text"
