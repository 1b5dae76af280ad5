#!/bin/bash
# TURBO_MATH=tf32 sets two variables for frameworks: only when the user named it, only in python and what turbo run starts, never
# against the user's own, and not for children of a process whose PyTorch has read them. It says what came of it.
. "$(dirname "$0")/common.sh"
have python3 || skip "no python3"
python=$(command -v python3)
unset NVIDIA_TF32_OVERRIDE TORCH_ALLOW_TF32_CUBLAS_OVERRIDE

# run [VAR=VALUE...] -- COMMAND...: preloaded; stdout into $out, stderr into $work/err
run()
{
	local vars=()
	while [ "$1" != -- ]; do
		vars+=("$1")
		shift
	done
	shift
	out=$(env "${vars[@]}" LD_PRELOAD="$LIBTURBO" LD_LIBRARY_PATH="$SIM_DIR" "$@" 2>"$work/err")
}
expect()
{
	if [ "$out" = "$2" ]; then ok "$1"; else fail "$1: got '$out', not '$2' ($(head -c 300 "$work/err"))"; fi
}
says()
{
	if grep -q "$2" "$work/err"; then ok "$1"; else fail "$1: no '$2' in '$(cat "$work/err")'"; fi
}
silent() { [ ! -s "$work/err" ] || fail "$1: $(cat "$work/err")"; }

show="import os; print(os.environ.get('NVIDIA_TF32_OVERRIDE'), os.environ.get('TORCH_ALLOW_TF32_CUBLAS_OVERRIDE'))"
run TURBO_MATH=tf32 -- "$python" -c "$show"
expect "the option named: both are set" "1 1"
silent "without CUDA nothing is said"
for vars in TURBO=max TURBO=safe TURBO_MATH=off; do
	run $vars -- "$python" -c "$show"
	expect "$vars: nothing is set" "None None"
done
run TURBO=off TURBO_MATH=tf32 -- "$python" -c "$show"
expect "TURBO=off: nothing is touched" "None None"
run TURBO_MATH=tf32 NVIDIA_TF32_OVERRIDE=0 TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=0 -- "$python" -c "$show"
expect "the user's own stay" "0 0"
run TURBO_MATH=tf32 -- sh -c 'echo ${NVIDIA_TF32_OVERRIDE-none}'
expect "not in a shell" none
run TURBO_MATH=tf32 TURBO_RUN=1 -- sh -c "echo \${NVIDIA_TF32_OVERRIDE-none}; printenv NVIDIA_TF32_OVERRIDE; $python -c \"$show\""
expect "in what turbo run starts, behind a shell" "none
1
1 1"

cat >"$work/cuda.py" <<'PY'
import ctypes, os, subprocess, sys
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
torch = len(sys.argv) > 1 and ctypes.CDLL(sys.argv[1])
before = getenv(b"NVIDIA_TF32_OVERRIDE"), getenv(b"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE")
assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
os.environ.pop("LD_PRELOAD")
child = subprocess.run(["/bin/sh", "-c", "echo ${NVIDIA_TF32_OVERRIDE-none} ${TORCH_ALLOW_TF32_CUBLAS_OVERRIDE-none}"],
                       capture_output=True, text=True)
print(*before, getenv(b"NVIDIA_TF32_OVERRIDE"), getenv(b"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"), child.stdout.strip())
PY
# What PyTorch's library is to us: a name.
echo 'int nothing;' | ${CC:-cc} -shared -fPIC -x c -o "$work/libtorch_cuda.so" - || skip "no C compiler"
loud=(TURBO_MATH=tf32 TURBO_LOG=info TURBO_SUMMARY=on)

run "${loud[@]}" -- "$python" "$work/cuda.py"
expect "without PyTorch they stay for NVIDIA's libraries" "b'1' b'1' b'1' b'1' 1 1"
says "the log says so" 'info: math: .*convolutions in TF32'
says "the summary says so" '^  math .*TF32.*digits$'
run "${loud[@]}" -- "$python" "$work/cuda.py" "$work/libtorch_cuda.so"
expect "PyTorch has read its own: both are gone, for children too" "b'1' b'1' None None none none"
says "the log says that the program may choose" 'info: math: .*unless the program chose'
says "so does the summary" '^  math .*unless the program chose'
run TURBO_MATH=tf32 -- "$python" "$work/cuda.py" "$work/libtorch_cuda.so"
silent "nothing below TURBO_LOG=info"
run TURBO_MATH=tf32 NVIDIA_TF32_OVERRIDE=0 -- "$python" "$work/cuda.py" "$work/libtorch_cuda.so"
says "a contradiction is a warning" 'warn: math: .*no effect: NVIDIA_TF32_OVERRIDE=0'
run TURBO_MATH=off TURBO_LOG=info TURBO_SUMMARY=on -- "$python" "$work/cuda.py"
expect "off: nothing" "None None None None none none"
! grep -q math "$work/err" || fail "off: $(cat "$work/err")"
finish
