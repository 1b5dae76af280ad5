#!/bin/bash
# What the shared object says about itself: needs libc alone, little thread-local storage,
# exports exactly the names of hooks.def, one constructor, nothing that ends the process
# or prints on stdout.
. "$(dirname "$0")/common.sh"
have readelf && have nm || skip "no binutils"

needed=$(readelf -dW "$LIBTURBO" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort | tr '\n' ' ')
if [ "$needed" = 'libc.so.6 ' ]; then
	ok "needs $needed"
else
	fail "DT_NEEDED is: $needed"
fi

tls=$(readelf -lW "$LIBTURBO" | awk '$1 == "TLS" { print $6 }')
if [ -n "$tls" ] && [ $((tls)) -le 64 ]; then
	ok "thread-local storage: $((tls)) bytes"
else
	fail "PT_TLS is '$tls', at most 64 bytes are allowed"
fi

awk '!/^[ \t]*(#|$)/ && ($2 == "hook" || $2 == "count") {
	for (i = 5; i <= NF && $i !~ /^#/; i++)
		print ($i == "-" ? $4 : $i == "p-" ? "p" $4 : $4 $i)
}' "$root/shim/hooks.def" >"$work/expected"
printf '%s\n' dlsym dlvsym dlopen >>"$work/expected"
LC_ALL=C sort -o "$work/expected" "$work/expected"
nm -D --defined-only "$LIBTURBO" | awk '{ print $NF }' | LC_ALL=C sort >"$work/exported"
if diff "$work/expected" "$work/exported" >"$work/diff"; then
	ok "exports the $(wc -l <"$work/expected") names of hooks.def and the loader's three"
else
	fail "exports (<: missing or listed twice, >: not in hooks.def)"
	head -n 20 "$work/diff"
fi
[ "$(wc -l <"$work/expected")" -gt 100 ] || fail "hooks.def lists fewer than 100 calls"

# crtbegin has one entry in each array (frame_dummy, __do_global_dtors_aux).
entries() { readelf -SW "$LIBTURBO" | sed 's/^ *\[ *[0-9]*\] *//' | awk -v s="$1" '$1 == s { print $5 }'; }
init=$((0x$(entries .init_array || echo 0) / 8))
if [ $init = 2 ]; then
	ok "one constructor"
else
	fail ".init_array has $init entries, expected ours and crtbegin's"
fi
for section in .preinit_array .ctors; do
	[ -z "$(entries $section)" ] || fail "has a $section section"
done

nm -D --undefined-only "$LIBTURBO" | awk '{ print $NF }' | sed 's/@.*//' | sort -u >"$work/imports"
# The loader's functions are found by walking libc's symbol table: calling them by name would
# come back to our own stubs or to another interposer.
for name in dlsym dlvsym dlopen dlmopen dlclose; do
	grep -qx $name "$work/imports" && fail "imports $name"
done
for name in exit _exit _Exit quick_exit abort __assert_fail err errx; do
	grep -qx $name "$work/imports" && fail "imports $name: the library must never end the process"
done
for name in printf __printf_chk puts putchar stdout vprintf __vprintf_chk; do
	grep -qx $name "$work/imports" && fail "imports $name: stdout belongs to the program"
done
grep -q '^__tls_get_addr$' "$work/imports" && fail "imports __tls_get_addr: a variable is not initial-exec"
ok "$(wc -l <"$work/imports") imports looked at"

flags=$(readelf -dW "$LIBTURBO")
grep -q TEXTREL <<<"$flags" && fail "has text relocations"
readelf -lW "$LIBTURBO" | grep -q 'GNU_STACK.*RWE' && fail "asks for an executable stack"
readelf -lW "$LIBTURBO" | grep -q 'GNU_RELRO' || fail "has no RELRO segment"
finish
