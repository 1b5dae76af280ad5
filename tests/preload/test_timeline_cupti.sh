#!/bin/bash
# Which libcupti is used, and what happens when there is none, or one that does not work.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/timeline.sh"
export TURBO_TIMELINE=kernel
have "${CC:-cc}" || skip "no compiler"

# recorded NAME WHAT: everything is on file, nothing was said.
recorded()
{
	clean "$1"
	is "$2" 50 "$(number "$1" kernel fill32)"
}
# refused NAME WHAT PATTERN: the program runs, one line says why nothing is recorded.
refused()
{
	is "$2: the program runs" 0 "$(cat "$work/$1.status")"
	is "$2: one line" "1 1" "$(lines "$1" "nothing is recorded: .*$3") $(lines "$1" .)"
	is "$2: no file" "" "$(files "$1")"
}
go() { work "$1" kernels=50 sync; }

# A runtime of CUDA 12 is mapped.
echo 'int cudart_of_the_test;' | "${CC:-cc}" -shared -fPIC -Wl,-soname,libcudart.so.12 -x c - -o "$work/libcudart.so.12"
sed s/12/13/ <<<'int cudart_of_the_test;' | "${CC:-cc}" -shared -fPIC -Wl,-soname,libcudart.so.99 -x c - -o "$work/libcudart.so.99"
mkdir "$work/decoy" "$work/decoys"
cp "$SIM_DIR/libcuda.so.1" "$work/decoy/"
ln -s "$BUILD/sim/libcuda.so.1" "$work/decoys/libcuda.so.1"

go of_driver
recorded of_driver "the driver's major, by the loader's search"
path=$SIM_DIR:$BUILD/sim-12 pre=$work/libcudart.so.12: go of_cudart
recorded of_cudart "the runtime's major"
is "12 it is" "cupti 24" "$(grep ^cupti "$work/of_cudart.dump")"
path=$SIM_DIR:$BUILD/sim-old pre=$work/libcudart.so.12: TURBO_TIMELINE=launch go of_old
recorded of_old "a CUPTI of CUDA 12.0, which cannot choose calls"

mkdir -p "$work/beside"
cp "$work/libcudart.so.12" "$work/beside/"
cp "$BUILD/sim-12/libcupti.so.12" "$work/beside/"
pre=$work/beside/libcudart.so.12: go beside
recorded beside "beside the runtime"

root=$work/lib/python3/site-packages/nvidia
mkdir -p "$root/cuda_runtime/lib" "$root/cuda_cupti/lib"
cp "$work/libcudart.so.12" "$root/cuda_runtime/lib/"
cp "$BUILD/sim-12/libcupti.so.12" "$root/cuda_cupti/lib/"
pre=$root/cuda_runtime/lib/libcudart.so.12: go wheel
recorded wheel "in the wheel"

pre=$work/libcudart.so.12: CUDA_HOME=/nonexistent go missing
refused missing "no CUPTI of that major" 'no libcupti.so.12 was found'
pre=$work/libcudart.so.12:$SIM_DIR/libcupti.so.13: go wrong
refused wrong "one of another major is mapped" 'no libcupti.so.12 was found.*not of that version: .*libcupti.so.13'
# A file of the right name and the wrong version.
cp "$BUILD/sim/libcupti.so.13" "$work/decoy/libcupti.so.12"
path=$SIM_DIR:$work/decoy pre=$work/libcudart.so.12: SIM_CUPTI_VERSION=130001 go decoy
refused decoy "a decoy" 'no libcupti.so.12 was found'
pre=$work/libcudart.so.99: go untested
refused untested "a major that was never tested" 'CUPTI of CUDA 99 was never tested .* TURBO_TRUST=1'

SIM_CUPTI_DENY=1 go deny
refused deny "no permission" 'the driver lets administrators alone profile'
SIM_CUPTI_FOREIGN=1 go foreign
refused foreign "a tool was there first" 'another tool uses CUPTI'
CUDA_INJECTION64_PATH=/opt/tool.so go injection
refused injection "an injected tool" 'CUDA_INJECTION64_PATH is set'
NVTX_INJECTION64_PATH=/opt/tool.so go nvtx
refused nvtx "an injected NVTX tool" 'NVTX_INJECTION64_PATH is set'
NV_SANITIZER_INJECTION_PORT_BASE=49152 go sanitizer
refused sanitizer "compute-sanitizer" 'NV_SANITIZER_INJECTION_PORT_BASE is set'

# ---- faults: nothing is lost without being counted ----

# accounted NAME COUNT: the kernels that are missing are in that count.
accounted()
{
	is "$1: the program runs" 0 "$(cat "$work/$1.status")"
	at_least "$1: some are missing" 1 "$(number "$1" count "$2")"
	is "$1: all are accounted for" 20000 "$(($(number "$1" kernel fill32) + $(number "$1" count "$2")))"
}
SIM_CUPTI_ZERO=100 work zero kernels=20000 sync
accounted zero zero_time
SIM_CUPTI_BACKWARD=100 work backward kernels=20000 sync
accounted backward backwards
SIM_CUPTI_DROP=100 work drop kernels=20000 sync sleep=1300
accounted drop cupti_lost
SIM_CUPTI_GROW=24 work grow kernels=20000 sync
is "longer records of a later version" 20000 "$(number grow kernel fill32)"
SIM_CUPTI_STALE=1 work stale kernels=20000 sync
is "names that go with the callback" 20000 "$(number stale kernel fill32)"
SIM_CUPTI_UNKNOWN=5000 work unknown kernels=20000 sync
at_least "records of an unknown kind" 1 "$(number unknown count bad_buffer)"
SIM_CUPTI_KEEP=1 work keep kernels=200000 sync
is "buffers that never come back: the program runs" 0 "$(cat "$work/keep.status")"
at_least "and those that were asked for in vain are counted" 1 "$(number keep count no_buffer)"
SIM_CUPTI_SLOW=200000 work slow kernels=20000 sync
is "a slow worker: the program runs" 0 "$(cat "$work/slow.status")"
SIM_CUPTI_STRICT=1 work strict sleep=1500 kernels=10 sync
is "no flush before a buffer was asked for" 0 "$(lines strict sim)"

finish
