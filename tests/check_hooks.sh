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

. "$root/tools/declarations.sh"

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
