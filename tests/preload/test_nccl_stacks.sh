#!/bin/bash
# Stacks of real interpreters, every version that is here: what libturbo reads of a thread's frames is what the
# interpreter says; dumps with and without the GIL, of threads that sleep, compute or block signals; an end of the
# interpreter while all this goes on. See nccl_stacks/probe.py.
. "$(dirname "$0")/common.sh"
[ -z "${SAN:-}" ] || skip "an interpreter without sanitizers cannot load a sanitized probe"
probe=$work/probe.so
${CC:-cc} -std=gnu11 -O2 -g -fno-omit-frame-pointer -D_GNU_SOURCE -fPIC -fvisibility=hidden -ftls-model=initial-exec \
	-pthread -shared -Wl,-Bsymbolic -I"$root/shim" -I"$root" -Wall -Wextra -Werror -o "$probe" \
	"$root/tests/preload/nccl_stacks/probe.c" "$BUILD/libturbo_test.a" || {
	fail "the probe does not build"
	finish
}

# find MINOR: interpreters of that version, of different builds.
find_pythons()
{
	local p
	for p in /usr/bin/python3.$1 /usr/local/bin/python3.$1 ~/.pyenv/versions/3.$1.*/bin/python3.$1; do
		[ -x "$p" ] && "$p" -c "import ctypes" 2>/dev/null && echo "$p"
	done
}

n=0
for minor in 9 10 11 12 13 14; do
	mapfile -t pythons < <(find_pythons $minor)
	[ ${#pythons[@]} -gt 0 ] || echo "not here: Python 3.$minor"
	for python in "${pythons[@]}"; do
		n=$((n + 1))
		names[n]=$python
		timeout 60 "$python" "$root/tests/preload/nccl_stacks/probe.py" "$probe" >"$work/$n" 2>&1 </dev/null &
		pids[n]=$!
	done
done
[ $n -gt 0 ] || skip "no Python that is known"
for ((i = 1; i <= n; i++)); do
	if wait "${pids[i]}"; then
		ok "${names[i]}: $(tail -n 1 "$work/$i")"
	else
		fail "${names[i]}: status $?"
		tail -n 20 "$work/$i"
	fi
done
finish
