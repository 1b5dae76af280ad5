#!/bin/bash
# The table of doors: a function of the driver that nobody has classed, or classed wrongly, stops the build by name; streams
# are found where headers have them, and the compiler refuses a table that is not what the header says.
. "$(dirname "$0")/common.sh"
# As the build has found it.
export CUDA_H=${CUDA_H:-$(sed -n 's/^CUDA_H := //p' "$BUILD"/gen/cuda*.mk | head -n 1)}
awks=$(for a in mawk gawk 'busybox awk' awk; do have ${a%% *} && echo "$a"; done | sort -u)

mkdir "$work/inc"
cat >"$work/inc/cuda.h" <<'H'
typedef enum { CUDA_SUCCESS } CUresult;
typedef struct CUstream_st *CUstream;
typedef struct { int type, id; } Place;
typedef CUresult (*Fn)(CUstream stream);
typedef struct { int n; Fn fn; CUstream stream; } Config;
CUresult cuPlain(void);
CUresult cuCopy_v2(void *to, const unsigned int from[], Place place, unsigned long long bytes, CUstream stream);
CUresult
cuCopy_v2_ptsz(void *to, const unsigned int from[],
	Place place, unsigned long long, CUstream stream);
static inline CUresult cuInline(CUstream stream) { return CUDA_SUCCESS; }
CUresult cuLaunch(const Config *config, CUstream *out);
CUresult cuPair(CUstream to, CUstream from);
CUresult cuQuery(CUstream);
H
cat >"$work/hooks.def" <<'D'
cuda count -    cuPlain -
cuda count -    cuCopy _v2 _v2_ptsz
cuda hook  copy cuLaunch -
cuda count -    cuPair -
cuda count -    cuQuery - _ptsz
cuda count -    cuLater -
cuda pass  -    cuUnseen -
nccl count -    ncclSend -
D
cat >"$work/good.def" <<'D'
none cuPlain # asks
own cuLaunch
streams 0 1 cuPair
D
doors()
{
	CC=${CC:-cc} CUDA_INC="-I$work/inc" CUDA_H=$work/inc/cuda.h \
		sh "$root/shim/doors.sh" "$1" "$work/doors.def" "$work/hooks.def" >"$work/out" 2>"$work/err"
}

cp "$work/good.def" "$work/doors.def"
cat >"$work/expected" <<'X'
DOOR_ROW(cuCopy_v2, STREAM, 4, 0, 0)
DOOR_TYPE(cuCopy_v2, (void *,const unsigned int *,Place,unsigned long long,CUstream))
DOOR_WORD(void *)
DOOR_WORD(const unsigned int *)
DOOR_WORD(Place)
DOOR_WORD(unsigned long long)
DOOR_ROW(cuCopy_v2_ptsz, STREAM, 4, 0, 1)
DOOR_TYPE(cuCopy_v2_ptsz, (void *,const unsigned int *,Place,unsigned long long,CUstream))
DOOR_WORD(void *)
DOOR_WORD(const unsigned int *)
DOOR_WORD(Place)
DOOR_WORD(unsigned long long)
DOOR_ROW(cuLater, WAIT, 0, 0, 0)
DOOR_ROW(cuLaunch, OWN, 0, 0, 0)
DOOR_ROW(cuPair, STREAMS, 0, 1, 0)
DOOR_TYPE(cuPair, (CUstream,CUstream))
DOOR_WORD(CUstream)
DOOR_ROW(cuPlain, NONE, 0, 0, 0)
DOOR_ROW(cuQuery, STREAM, 0, 0, 0)
DOOR_TYPE(cuQuery, (CUstream))
DOOR_ROW(cuQuery_ptsz, WAIT, 0, 0, 1)
DOOR_ROW(ncclSend, NONE, 0, 0, 0)
X
if doors table && [ ! -s "$work/err" ] && diff "$work/expected" <(sed '/^\/\*/d' "$work/out"); then
	ok 'streams are found'
else
	fail "the table is not that of the header: $(cat "$work/err")"
fi
doors stubs
grep -qx '.set door_cuPlain, 0' "$work/out" && grep -qx '.set door_cuPair, 1' "$work/out" &&
	! grep -q cuLaunch "$work/out" && ok 'stubs without a door' || fail "stubs: $(cat "$work/out")"

# refuse EDIT TEXT: doors.def edited by sed is refused with the text.
refuse()
{
	sed "$1" "$work/good.def" >"$work/doors.def"
	if ! doors table && grep -qF -- "$2" "$work/err"; then
		ok "refused: $2"
	else
		fail "'$1' does not say '$2' but: $(cat "$work/err")"
	fi
}
refuse '/cuPlain/d' 'cuPlain takes no stream as an argument and has no class in doors.def'
refuse '/cuLaunch/d' 'cuLaunch takes no stream as an argument and has no class in doors.def'
refuse '$a stream 3 cuCopy' "cuCopy_v2's stream is argument 4, not 3"
refuse '$a event 3 cuQuery' 'cuQuery has no argument 3'
refuse 's/^none/own/' 'cuPlain is own and has no C body'
refuse 's/^none/nothing/' 'unknown class nothing'
refuse '$a wait cuUnseen' 'doors.def names cuUnseen, which is no function'
refuse '$a wait cuPlain' 'cuPlain is listed already in line 1'
refuse '$a stream cuQuery' 'expected the number of an argument, not cuQuery'

# All awks print the same of the real header.
CC=${CC:-cc} CUDA_H=$CUDA_H CUDA_INC="-isystem $(dirname "$CUDA_H")" sh "$root/shim/doors.sh" table >"$work/table"
first=
while IFS= read -r awk; do
	mkdir -p "$work/bin"
	printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v ${awk%% *})${awk#${awk%% *}}" >"$work/bin/awk"
	chmod +x "$work/bin/awk"
	PATH=$work/bin:$PATH CC=${CC:-cc} CUDA_INC="-isystem $(dirname "$CUDA_H")" sh "$root/shim/doors.sh" table >"$work/all"
	cmp -s "$work/table" "$work/all" || fail "$awk reads the header differently"
done <<<"$awks"
ok "read alike by: $(echo $awks)"

# compiles TABLE: shim/doors.c with that table.
compiles()
{
	mkdir -p "$work/gen"
	cp "$1" "$work/gen/door_table.inc"
	${CC:-cc} -std=gnu11 -fsyntax-only -D_GNU_SOURCE= -D__CUDA_API_VERSION_INTERNAL= -I"$work/gen" -I"$root/shim" -I"$root" \
		-I"$root/policy" -I"$BUILD/gen" -isystem "$(dirname "$CUDA_H")" "$root/shim/doors.c" >"$work/log" 2>&1
}
compiles "$work/table" && ok 'the real table compiles' || fail "$(cat "$work/log")"
sed 's/^\(DOOR_TYPE(cuMemsetD8Async, .*\)CUstream *)/\1unsigned int)/' "$work/table" >"$work/wrong"
! compiles "$work/wrong" && grep -q 'cuMemsetD8Async has not the parameters' "$work/log" &&
	ok 'other parameters than the header has are refused' || fail 'a wrong type is not seen'
sed '0,/^DOOR_WORD/s//DOOR_WORD(CUDA_MEMCPY2D)\n&/' "$work/table" >"$work/wrong"
! compiles "$work/wrong" && ok 'a structure in memory before the stream is refused' || fail 'a big argument is not seen'
sed '0,/^DOOR_WORD/s//DOOR_WORD(double)\n&/' "$work/table" >"$work/wrong"
! compiles "$work/wrong" && ok 'a floating-point number before the stream is refused' || fail 'a double is not seen'
finish
