#!/bin/bash
# What is installed runs with glibc 2.28 and later: no symbol of a version that is newer, and what moved into
# libc since then is not needed where it was (shim/glibc.h).
. "$(dirname "$0")/common.sh"
have objdump || skip "no binutils"

newer()
{
	objdump -T "$1" | sed -n 's/.*GLIBC_\([0-9]*\)\.\([0-9]*\)[0-9.]*)*  *\(.*\)/\1 \2 \3/p' |
		awk '$1 > 2 || ($1 == 2 && $2 > 28) { print $3 " is of glibc " $1 "." $2 }' | sort -u
}

for file in "$LIBTURBO" "$BUILD/turbo" "$SIM_DIR/libcuda.so.1"; do
	[ "$(objdump -T "$file" | grep -c GLIBC_)" -gt 20 ] || fail "$(basename "$file"): symbols cannot be read"
	found=$(newer "$file")
	if [ -z "$found" ]; then
		ok "$(basename "$file"): nothing newer than glibc 2.28"
	else
		fail "$(basename "$file"): $found"
	fi
done

# A process of an older libc without threads has none of these: the library must start even so.
strong=$(objdump -T "$LIBTURBO" | awk '/\*UND\*/ && !/ w / && / (pthread_(create|setspecific|key_create|mutex_timedlock|mutex_trylock|once|join|sigmask|setname_np|attr_setstacksize)|__pthread_[a-z_]*)$/ { print $NF }')
if [ -z "$strong" ]; then
	ok "what was libpthread's is asked for weakly"
else
	fail "needed at start: $strong"
fi
finish
