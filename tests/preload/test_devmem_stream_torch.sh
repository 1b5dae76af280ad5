#!/bin/bash
# TURBO_DEVMEM=stream puts PyTorch on backend:cudaMallocAsync: only when the user named the mode, only in
# python, not against the user's own configuration, and not for children once it has been read.
. "$(dirname "$0")/common.sh"
have python3 || skip "no python3"
python=$(command -v python3)
conf=PYTORCH_CUDA_ALLOC_CONF

# run NAME [VAR=VALUE...] -- COMMAND...: preloaded; stdout into $out
run()
{
	local vars=()
	while [ "$1" != -- ]; do
		vars+=("$1")
		shift
	done
	shift
	out=$(env "${vars[@]}" LD_PRELOAD="$LIBTURBO" LD_LIBRARY_PATH="$work:$SIM_DIR" "$@" 2>"$work/err")
}
show="import os; print(os.environ.get('$conf'), os.environ.get('PYTORCH_ALLOC_CONF'))"

expect()
{
	if [ "$out" = "$2" ]; then ok "$1"; else fail "$1: got '$out', not '$2' ($(head -c 300 "$work/err"))"; fi
}

run TURBO_DEVMEM=stream -- "$python" -c "$show"
expect "the mode named: set" "backend:cudaMallocAsync None"
[ ! -s "$work/err" ] || fail "something on stderr: $(cat "$work/err")"
for vars in TURBO=max TURBO_DEVMEM=cache TURBO_DEVMEM=deferred TURBO=off; do
	run $vars -- "$python" -c "$show"
	expect "$vars: not set" "None None"
done
run TURBO=off TURBO_DEVMEM=stream -- "$python" -c "$show"
expect "TURBO=off: nothing is touched" "None None"
run TURBO_DEVMEM=stream $conf=expandable_segments:True -- "$python" -c "$show"
expect "the user's own stays" "expandable_segments:True None"
run TURBO_DEVMEM=stream PYTORCH_ALLOC_CONF=max_split_size_mb:64 -- "$python" -c "$show"
expect "the user's own under its newer name" "None max_split_size_mb:64"
run TURBO_DEVMEM=stream -- sh -c "echo \${$conf-none}"
expect "not python: not set" "none"
run TURBO_DEVMEM=stream TURBO_RUN=1 -- sh -c "$python -c \"$show\"; echo \${$conf-none}"
expect "python below a shell" "backend:cudaMallocAsync None
none"

# A program that sets it itself before PyTorch is loaded wins, and keeps it afterwards.
cat >"$work/cuda.py" <<PY
import ctypes, os, sys, subprocess
def c_env(name):
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    return getenv(name.encode())
if 'own' in sys.argv:
    os.environ['$conf'] = 'max_split_size_mb:32'
torch = 'torch' in sys.argv and ctypes.CDLL(os.environ['TORCH_LIB'], mode=ctypes.RTLD_GLOBAL)
cuda = ctypes.CDLL('libcuda.so.1')
assert cuda.cuInit(0) == 0
ctx, p = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0) == 0
assert cuda.cuCtxSetCurrent(ctx) == 0
if 'late' in sys.argv:
    ctypes.CDLL(os.environ['TORCH_LIB'])
assert cuda.cuMemAllocAsync(ctypes.byref(p), ctypes.c_size_t(1 << 20), None) == 0
assert cuda.cuMemFreeAsync(p, None) == 0
child = subprocess.run(['/bin/sh', '-c', 'echo \${$conf-none}'], capture_output=True, text=True)
exec_ = subprocess.run([sys.executable, '-c', "import os; print(os.environ.get('$conf'))"], capture_output=True, text=True)
print(c_env('$conf'), child.stdout.strip(), exec_.stdout.strip(), c_env('TURBO_ENGAGED'))
PY
# What PyTorch's library is to us: a name.
echo 'int nothing;' | ${CC:-cc} -shared -fPIC -x c -o "$work/libc10_cuda.so" - || skip "no C compiler"
lib=TORCH_LIB=$work/libc10_cuda.so
run $lib TURBO_DEVMEM=stream -- "$python" "$work/cuda.py"
expect "without PyTorch it stays for it" "b'backend:cudaMallocAsync' backend:cudaMallocAsync backend:cudaMallocAsync b'1'"
run $lib TURBO_DEVMEM=stream -- "$python" "$work/cuda.py" torch
expect "read: children do not get it from us (python sets it anew)" "None none backend:cudaMallocAsync b'1'"
run $lib TURBO_DEVMEM=stream -- "$python" "$work/cuda.py" late
expect "PyTorch loaded after cuInit" "None none backend:cudaMallocAsync b'1'"
run $lib TURBO_DEVMEM=stream -- "$python" "$work/cuda.py" own torch
expect "the program's own survives" "b'max_split_size_mb:32' max_split_size_mb:32 max_split_size_mb:32 b'1'"

# An old driver: the mode acts as cache, in one line.
out=$(env TURBO_DEVMEM=stream LD_PRELOAD="$LIBTURBO" LD_LIBRARY_PATH="$BUILD/sim-old" "$python" -c "
import ctypes
assert ctypes.CDLL('libcuda.so.1').cuInit(0) == 0" 2>&1)
case $out in
*"acting as cache"*) [ "$(echo "$out" | wc -l)" = 1 ] && ok "an old driver: one line" || fail "more than one line: $out" ;;
*) fail "an old driver: got '$out'" ;;
esac
finish
