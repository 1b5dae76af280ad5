#!/bin/bash
# Programs that people run beside a training job, with everything that libturbo can do without a GPU turned on: the same
# output and status as bare, and nothing said.
. "$(dirname "$0")/common.sh"

# For programs of another user, too.
chmod 755 "$work"
lib=$work/libturbo.so
install -m 755 "$LIBTURBO" "$lib"
all=(LD_PRELOAD="$lib" TURBO=max TURBO_HOSTMEM=on TURBO_FILES=prefetch TURBO_NCCL_COALESCE=on TURBO_NCCL_WATCHDOG=abort)

# alike NAME COMMAND...: plain, and in a process that libturbo takes for a training program.
alike()
{
	local name=$1
	shift
	quietly bare "$@"
	quietly loaded env "${all[@]}" "$@"
	same "$name" bare loaded
	quietly engaged env TURBO_SUMMARY=off TURBO=max TURBO_HOSTMEM=on TURBO_FILES=prefetch "$BUILD/turbo" run -- "$@"
	same "$name, under turbo run" bare engaged
}

alike 'a shell script' bash -c 'set -e; d=$(mktemp -d); cd "$d"; for i in {1..50}; do echo $i >f$i; done
	cat f* | sort -n | md5sum; (exit 3) || echo $?; trap "echo bye" EXIT; kill -0 $$; rm -r "$d"'
if have git; then
	alike git bash -c 'set -e; d=$(mktemp -d); cd "$d"; export GIT_AUTHOR_DATE="1700000000 +0000" GIT_COMMITTER_DATE="1700000000 +0000"
		git init -q .; git config user.name a; git config user.email a@b; seq 20000 >f; git add f
		git commit -qm one; seq 20001 >f; git commit -qam two; git gc -q; git log --format=%H%s -p | md5sum; git fsck; rm -rf "$d"'
else
	echo 'no git here'
fi
if have ssh-keygen; then
	alike 'ssh and its key' bash -c 'd=$(mktemp -d); ssh -V 2>&1; ssh-keygen -q -t ed25519 -N "" -f "$d/k" && ssh-keygen -y -f "$d/k" | cut -c1-11
		ssh -o BatchMode=yes -o ConnectTimeout=2 -p 1 127.0.0.1 true 2>&1; echo $?; rm -r "$d"'
fi
alike 'tar and gzip' bash -c 'cd "$1" && tar cf - tests/preload | gzip -n | gzip -d | tar tf - | sort | md5sum' - "$root"
if have gcc; then
	alike 'a compiler' bash -c 'd=$(mktemp -d); echo "int main(void){return 5;}" >"$d/a.c"; gcc -o "$d/a" "$d/a.c" && "$d/a"; echo $?; rm -r "$d"'
fi
alike 'programs started from many threads' "$BUILD/tests/preload/coexist_exec"
if have python3; then
	alike 'a program that closes all descriptors and goes on' python3 -c 'import os, sys, glob
os.closerange(3, 65536)
n = 0
for root, _, files in os.walk(sys.argv[1]):
    for name in sorted(files):
        with open(os.path.join(root, name), "rb") as f:
            assert f.fileno() == 3, f.fileno()
            n += len(f.read())
print(n, sorted(os.listdir("/proc/self/fd")))' "$root/tests/preload"
	alike 'a daemon that forks twice' python3 -c 'import os, time
r, w = os.pipe()
if os.fork():
    os.close(w); print(os.read(r, 100)); os.wait(); os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.closerange(3, w); os.closerange(w + 1, 65536); x = bytearray(70 << 20); os.write(w, b"up %d" % len(x)); os._exit(0)'
fi

# A set-user-id program: the loader takes the library away, and nobody else's id changes what it does.
if [ "$(id -u)" = 0 ] && have setpriv; then
	install -m 4755 "$(command -v id)" "$work/id"
	other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	alike 'a set-user-id program' "${other[@]}" "$work/id"
	alike 'a program that gives up its rights' "${other[@]}" sh -c 'id -u; cat /proc/self/status | grep -c .'
	if have su; then
		alike su su -s /bin/sh nobody -c 'id -un; echo $?'
	fi
fi

# 200 at once.
quietly many env "${all[@]}" bash -c 'for i in {1..200}; do /bin/true & done; for p in $(jobs -p); do wait $p || echo bad; done'
is '200 starts at once' '0 ' "$(cat "$work/many.status") $(cat "$work/many.out" "$work/many.err")"
if have gdb && [ "$(gdb -batch -ex 'python print(1)' 2>/dev/null)" = 1 ]; then
	# A debugger on a process with everything on: it stops, is looked at, and goes on to its end.
	env "${all[@]}" LD_LIBRARY_PATH="$SIM_DIR" "$BUILD/tests/preload/test_coalesce_events" >"$work/debugged" 2>&1 &
	pid=$!
	for i in 1 2 3; do
		gdb -p $pid -batch -ex 'thread apply all bt 3' >"$work/gdb$i" 2>&1
	done
	wait $pid
	is 'a program that a debugger looks into' 0 $?
fi
finish
