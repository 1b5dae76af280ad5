#!/bin/bash
# The hook table's own gates: a malformed row, a function without a row and a stream that is
# not seen are refused by name; the table inside libturbo.so holds our own addresses.
. "$(dirname "$0")/common.sh"
awks=$(for a in mawk gawk 'busybox awk' awk; do have ${a%% *} && echo "$a"; done | sort -u)

# refuse TEXT PATTERN: hooks.awk says PATTERN with the line, prints nothing, exits 1.
refuse()
{
	printf '%b' "$1" >"$work/bad.def"
	while IFS= read -r awk; do
		$awk -f "$root/shim/hooks.awk" -v what=table "$work/bad.def" >"$work/out" 2>"$work/err"
		if [ $? = 1 ] && [ ! -s "$work/out" ] && grep -q -- "$2" "$work/err"; then
			ok "$awk refuses: $2"
		else
			fail "$awk on '$1' does not say '$2' but: $(cat "$work/err")"
		fi
	done <<<"$awks"
}
good='cuda count - cuMemFree - _v2\n'
refuse "${good}cuda count - cuMemFree _v2\n" 'bad.def:2: cuMemFree_v2 is listed already in line 1'
refuse "${good}nccl count - ncclSend - p- p-\n" 'bad.def:2: pncclSend is listed already'
refuse "# text\n\ncudart count - cuInit -\n" 'bad.def:3: unknown library cudart'
refuse "cuda counts - cuInit -\n" 'bad.def:1: unknown treatment counts'
refuse "cuda hook copies cuInit -\n" 'bad.def:1: unknown taker copies'
refuse "cuda hook - cuInit -\n" 'bad.def:1: unknown taker -'
refuse "cuda count copy cuInit -\n" 'bad.def:1: count has no taker'
refuse "cuda count - ncclSend -\n" 'bad.def:1: ncclSend is no function of cuda'
refuse "cuda count - cuInit\n" 'bad.def:1: expected'
refuse "cuda count - cuInit v2\n" 'bad.def:1: unknown variant v2'
refuse "cuda count - cuInit p-\n" 'bad.def:1: variant p- is for nccl'
refuse '# nothing\n' 'no rows'

# All awks print the same.
first=
while IFS= read -r awk; do
	for what in ids table stubs map; do
		$awk -f "$root/shim/hooks.awk" -v what=$what "$root/shim/hooks.def"
	done >"$work/all"
	[ -n "$first" ] || cp "$work/all" "$work/first"
	first=1
	cmp -s "$work/first" "$work/all" || fail "$awk expands hooks.def differently"
done <<<"$awks"
ok "expanded alike by: $(echo $awks)"
if awk -f "$root/shim/hooks.awk" -v what=tables "$root/shim/hooks.def" >/dev/null 2>&1; then
	fail "what=tables is accepted"
fi

# check FAULT...: tests/check_hooks.sh on small headers says exactly these lines.
mkdir "$work/inc"
cat >"$work/inc/cuda.h" <<'H'
typedef struct CUstream_st *CUstream;
typedef enum { CU_STREAM_CAPTURE_MODE_GLOBAL } CUstreamCaptureMode;
typedef struct config_st { int grid; CUstream stream; } config_v1;
typedef config_v1 config;
typedef void (*CUhostFn)(CUstream s);
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define cuWait cuWait_ptsz
static inline int cuInline(CUstream s) { return s != 0; }
#endif
int cuPlain(int device, CUstreamCaptureMode *mode);
extern __attribute__((visibility("default"))) int cuWait(CUstream s, unsigned flags);
int cuCopy(void *to,
	const void *from);
#ifdef __CUDA_API_VERSION_INTERNAL
int cuCopy_ptds(void *to, const void *from); int cuWait_ptsz(CUstream s, unsigned flags);
#endif
int cuConfigured(const config *c, ...);
H
printf '#include <cuda.h>\nint ncclSend(CUstream s);\nint pncclSend(CUstream s);\n' >"$work/inc/nccl.h"
printf 'namespace A { namespace B {\nint cuptiFinalize(void);\n}}\n' >"$work/inc/cupti.h"
printf 'extern int cuptiGetVersion(unsigned *v);\n' >"$work/inc/cupti_more.h"
cat >"$work/good.def" <<'D'
cuda  pass   -     cuPlain          -
cuda  hook   copy  cuWait           - _ptsz
cuda  count  -     cuCopy           - _ptds
cuda  count  -     cuConfigured     -
cuda  count  -     cuNotInstalled   -
nccl  count  -     ncclSend         - p-
cupti pass   -     cuptiFinalize    -
cupti pass   -     cuptiGetVersion  -
D
check()
{
	local status
	CC=${CC:-cc} CUDA_INC="-I$work/inc" CUDA_H=$work/inc/cuda.h NCCL_H=$work/inc/nccl.h \
		CUPTI_H=$work/inc/cupti.h sh "$root/tests/check_hooks.sh" "$work/edit.def" >"$work/out" 2>&1
	status=$?
	if [ $# = 0 ] && [ $status = 0 ] && [ ! -s "$work/out" ]; then
		ok "a complete table is accepted"
	elif [ $# != 0 ] && [ $status = 1 ] && diff <(printf "$work/edit.def: %s\n" "$@" | sort) <(sort "$work/out"); then
		ok "refused: $*"
	else
		fail "exit status $status, expected: ${*:-nothing}; printed: $(cat "$work/out")"
	fi
}
edit() { sed "$1" "$work/good.def" >"$work/edit.def"; }
edit ''
check
edit '/cuPlain/d; /ncclSend/s/p-//; /cuptiGetVersion/d'
check 'cuPlain is declared by the headers of cuda and has no row' \
	'pncclSend is declared by the headers of nccl and has no row' \
	'cuptiGetVersion is declared by the headers of cupti and has no row'
edit '/cuConfigured/s/count/pass/'
check 'cuConfigured takes a stream and must be hook or count'
edit '/cuWait/{s/hook/pass/;s/copy/-/}'
check 'cuWait takes a stream and must be hook or count' \
	'cuWait_ptsz takes a stream and must be hook or count' \
	"cuWait_ptsz works on the calling thread's stream and must be hook or count" \
	'cuWait has a per-thread variant and must be hook or count'
printf 'cuda pass - cuCopy -\ncuda count - cuCopy _ptds\n' | cat - "$work/good.def" >"$work/edit.def"
sed -i '/- _ptds/d' "$work/edit.def"
check 'cuCopy has a per-thread variant and must be hook or count'
edit ''
: >"$work/inc/nccl.h"
check 'no function of nccl was found in its headers'
printf '#error "too new"\n' >>"$work/inc/nccl.h"
if CC=${CC:-cc} CUDA_INC="-I$work/inc" CUDA_H=$work/inc/cuda.h NCCL_H=$work/inc/nccl.h CUPTI_H= \
	sh "$root/tests/check_hooks.sh" "$work/edit.def" >"$work/out" 2>&1 || ! grep -q 'too new' "$work/out"; then
	fail "a header that cannot be read is accepted or not said"
else
	ok "a header that cannot be read is refused"
fi

# The table may not be redirected by another library that exports the same name.
have readelf || skip "no readelf"
readelf -rW "$LIBTURBO" >"$work/relocs"
grep -q RELATIVE "$work/relocs" || fail "readelf finds no relative relocations"
if grep -E ' (cu|pnccl|nccl|Cu)[A-Za-z0-9_]+( |@|$)' "$work/relocs" >"$work/out"; then
	fail "relocations by name: $(head -n 3 "$work/out")"
else
	ok "no address in the table is looked up by name"
fi
finish
