#!/bin/bash
# Everyday programs print the same bytes and end the same way with the library loaded, lazily
# bound and with LD_BIND_NOW=1.
. "$(dirname "$0")/common.sh"

# compare NAME COMMAND...
compare()
{
	local name=$1
	shift
	quietly bare "$@"
	quietly lazy env LD_PRELOAD="$LIBTURBO" "$@"
	same "$name" bare lazy
	quietly now env LD_PRELOAD="$LIBTURBO" LD_BIND_NOW=1 "$@"
	same "$name, LD_BIND_NOW=1" bare now
}

compare true /bin/true
compare false /bin/false
compare ls ls -la /usr
compare 'ls of a missing file' ls /nonexistent/file
compare bash bash -c 'for i in 1 2 3; do echo $i; (exit $i); done; echo to stderr >&2; exit 7'
compare 'bash, killed' bash -c 'kill -TERM $$'
compare 'pipes and children' sh -c 'ls / | sort -r | head -n 3 | tr a-z A-Z'
compare 'closed stdout' sh -c '/bin/true >&-'
compare 'closed stderr' sh -c '/bin/true 2>&-'
compare 'no descriptor at all' sh -c '/bin/true <&- >&- 2>&-'
if have git; then
	compare git git --version
	compare 'git in a repository' git -C "$root" log -1
fi
if have python3; then
	compare python3 python3 -c 'print("hello")'
	compare 'python3, status' python3 -c 'import sys; sys.stderr.write("x\n"); sys.exit(3)'
	compare 'python3, ctypes' python3 -c 'import ctypes; print(ctypes.CDLL(None).getppid() > 0)'
	compare 'python3, missing symbol' python3 -c 'import ctypes
try:
    ctypes.CDLL("libc.so.6").no_such_function_
except AttributeError as e:
    print(e)'
	compare 'python3, threads and processes' python3 -c 'import os, subprocess, threading
threads = [threading.Thread(target=os.getpid) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
pid = os.fork()
if pid == 0:
    os._exit(4)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(subprocess.run(["sh", "-c", "echo child; exit 5"]).returncode, flush=True)'
fi

# The environment itself: nothing added, nothing removed.
quietly bare env -i PATH="$PATH" A=1 env
quietly loaded env -i PATH="$PATH" A=1 LD_PRELOAD="$LIBTURBO" env
sed -i '/^LD_PRELOAD=/d' "$work/loaded.out"
same 'env' bare loaded

# No file is left behind by a process that never touched CUDA.
shm_files() { find /dev/shm "${TMPDIR:-/tmp}" -maxdepth 1 -iname '*turbo*' -user "$(id -u)" 2>/dev/null | sort; }
before=$(shm_files)
env LD_PRELOAD="$LIBTURBO" /bin/true
leftover=$(comm -13 <(echo "$before") <(shm_files))
[ -z "$leftover" ] && ok 'no file left behind' || fail "left behind: $leftover"

# A set-user-ID program: the loader refuses the library, and nothing is said about it.
if [ "$(id -u)" = 0 ] && have setpriv; then
	chmod 755 "$work"
	cp "$(command -v id)" "$work/id" && chmod 4755 "$work/id"
	as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	quietly bare "${as_nobody[@]}" "$work/id"
	quietly loaded "${as_nobody[@]}" env LD_PRELOAD="$LIBTURBO" "$work/id"
	same 'set-user-ID program' bare loaded
fi
finish
