#!/bin/bash
# libturbo.so beside a second preload library, in both orders: the allocators that people put
# into LD_PRELOAD replace malloc under us and call dlsym before main.
. "$(dirname "$0")/common.sh"

find_library()
{
	{ ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | awk -v name="$1" '$1 == name { print $NF; exit }'
}

python_work='import sys, threading
def work(n):
    blocks = [bytes(1 << (i % 20)) for i in range(400)]
    totals[n] = sum(map(len, blocks))
totals = {}
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
print(sorted(totals.items()))'

# both_orders NAME LIBRARY COMMAND...
both_orders()
{
	local name=$1 other=$2
	shift 2
	quietly alone env LD_PRELOAD="$other" "$@"
	[ "$(cat "$work/alone.status")" = 0 ] || fail "$name alone: status $(cat "$work/alone.status")"
	quietly first env LD_PRELOAD="$LIBTURBO:$other" "$@"
	same "$name after libturbo: $1" alone first
	quietly second env LD_PRELOAD="$other:$LIBTURBO" "$@"
	same "$name before libturbo: $1" alone second
}

missing=
for soname in libjemalloc.so.2 libtcmalloc_minimal.so.4; do
	library=$(find_library $soname)
	if [ -z "$library" ]; then
		missing="$missing $soname"
		continue
	fi
	both_orders $soname "$library" /bin/true
	both_orders $soname "$library" ls -la /usr
	both_orders $soname "$library" bash -c 'for i in 1 2 3; do (echo $i); done | sort -r'
	have python3 && both_orders $soname "$library" python3 -c "$python_work"
	have python3 && both_orders $soname "$library" python3 -c \
		'import os; pid = os.fork(); pid or os._exit(3); print(os.waitpid(pid, 0)[1] >> 8)'
done
[ $failed = 0 ] && [ -n "$missing" ] && skip "not installed:$missing"
finish
