#!/bin/bash
# Large blocks of host memory: reused, sparse ones left sparse, given back when idle; beside other allocators, under
# MALLOC_ variables, in programs that are not engaged.
. "$(dirname "$0")/common.sh"
program=$BUILD/tests/preload/hostmem_reuse

# with [VARIABLE...] -- ARGS: of the program, preloaded.
with()
{
	local env=()
	while [ "$1" != -- ]; do
		env+=("$1")
		shift
	done
	shift
	env LD_PRELOAD="$LIBTURBO" "${env[@]}" "$program" "$@"
}
on=(TURBO_RUN=1 TURBO_HOSTMEM=on)

bare=$("$program" reuse)
[ "$bare" -gt 30 ] || skip "the system's own allocator maps nothing anew here ($bare faults)"
if [ "$(with "${on[@]}" -- reuse)" -lt 10 ]; then ok "a block that comes again faults nothing in (bare $bare)"; else
	fail "$(with "${on[@]}" -- reuse) faults a block, bare $bare"
fi
for off in 'TURBO_RUN=1' 'TURBO_HOSTMEM=on' 'TURBO_RUN=1 TURBO=off TURBO_HOSTMEM=on' 'TURBO_RUN=1 TURBO_HOSTMEM=on MALLOC_PERTURB_=7' \
	'TURBO_RUN=1 TURBO_HOSTMEM=on GLIBC_TUNABLES=glibc.malloc.check=0'; do
	# shellcheck disable=SC2086
	[ "$(with $off -- reuse)" -gt 30 ] || fail "$off: blocks are kept"
done
ok 'off, not engaged, and where libc itself is looked at: nothing is kept'

# A machine of less memory may refuse the larger one.
for gib in 64 16; do
	bare=$("$program" sparse $gib)
	[ "$bare" -ge 0 ] || continue
	got=$(with "${on[@]}" -- sparse $gib)
	if [ "$got" -ge 0 ] && [ "$got" -le $((bare + bare / 20 + 3)) ]; then ok "$gib GiB from calloc: $got MiB resident, bare $bare"; else
		fail "$gib GiB from calloc: $got MiB resident, bare $bare"
	fi
done

read -r before full after <<<"$(with "${on[@]}" TURBO_HOSTMEM_CACHE_MB=1024 -- idle 14)"
if [ "$full" -gt $((before + 200)) ] && [ "$after" -lt $((before + 50)) ]; then ok 'kept for some seconds, then given back'; else
	fail "resident MiB: $before before, $full kept, $after later"
fi

for other in libjemalloc.so.2 libtcmalloc_minimal.so.4; do
	path=$(ldconfig -p 2>/dev/null | sed -n "s/.*$other .*=> //p" | head -n 1)
	[ -n "$path" ] || continue
	for list in "$LIBTURBO:$path" "$path:$LIBTURBO"; do
		env LD_PRELOAD="$list" "${on[@]}" TURBO_HOSTMEM_MIN_MB=1 OPERATIONS=8000 "$BUILD/tests/preload/test_hostmem_random" >"$work/log" 2>&1 ||
			{ tail -n 3 "$work/log"; fail "$list"; }
	done
	ok "with $other, in both orders"
done

if have python3; then
	cat >"$work/py.py" <<-'EOF'
		import os, threading
		def work():
		    for i in range(60):
		        b = bytearray((i % 5 + 1) << 20)
		        assert not any(b[::4096]), "not zeroed"
		        b[::4096] = b"x" * len(b[::4096])
		threads = [threading.Thread(target=work) for _ in range(4)]
		[t.start() for t in threads]
		for _ in range(5):
		    if os.fork() == 0:
		        work(); os._exit(0)
		[t.join() for t in threads]
		assert all(os.wait()[1] == 0 for _ in range(5))
	EOF
	env LD_PRELOAD="$LIBTURBO" TURBO_HOSTMEM=on TURBO_HOSTMEM_MIN_MB=1 python3 "$work/py.py" || fail 'a Python program with threads and forks'
	ok 'a Python program with threads and forks'
fi
if have clang; then
	cat >"$work/asan.c" <<-'EOF'
		#include <stdlib.h>
		#include <string.h>
		int main(int argc, char **argv)
		{
		    for (int i = 0; i < 4; i++) {
		        char *p = malloc(64 << 20);
		        memset(p, 1, 64 << 20);
		        p = realloc(p, 128 << 20);
		        if (argc > 1)
		            p[128 << 20] = 1;
		        free(p);
		    }
		    return 0 * (argv == 0);
		}
	EOF
	if clang -g -fsanitize=address -o "$work/asan" "$work/asan.c" 2>"$work/log"; then
		env LD_PRELOAD="$LIBTURBO" "${on[@]}" "$work/asan" 2>"$work/log" || { tail -n 5 "$work/log"; fail "clang's AddressSanitizer"; }
		env LD_PRELOAD="$LIBTURBO" "${on[@]}" "$work/asan" x 2>"$work/log" && fail "clang's AddressSanitizer finds nothing any more"
		grep -q heap-buffer-overflow "$work/log" && ok "a program under clang's AddressSanitizer, which finds what it is to find"
	fi
fi
if have valgrind; then
	env LD_PRELOAD="$LIBTURBO" "${on[@]}" valgrind -q --error-exitcode=9 "$program" reuse >/dev/null 2>"$work/log" ||
		{ tail -n 5 "$work/log"; fail 'under valgrind'; }
	ok 'under valgrind'
fi
finish
