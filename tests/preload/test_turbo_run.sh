#!/bin/bash
# `turbo run`: CMD's status and environment, refused options, sanitizer runtimes, programs
# that libturbo cannot be loaded into.
. "$(dirname "$0")/common.sh"
turbo=$BUILD/turbo lib=$(realpath "$LIBTURBO")

# status COMMAND...: its status; its output goes to $work/out and $work/err.
status()
{
	"$@" >"$work/out" 2>"$work/err"
	echo $?
}

says() { grep -qF -- "$1" "$work/err" && echo yes || cat "$work/err"; }

# ---- the status is CMD's ----
for code in 0 1 2 77 126 255; do
	is "exit $code" $code "$(status "$turbo" run sh -c "exit $code")"
done
is "killed by SIGTERM" 143 "$(status "$turbo" run sh -c 'kill -TERM $$')"
is "killed by SIGKILL" 137 "$(status "$turbo" run -- sh -c 'kill -KILL $$')"
is "CMD not found" 127 "$(status "$turbo" run no-such-program-here)"
is "which is said" yes "$(says 'no-such-program-here')"
echo data >"$work/plain"
is "CMD not executable" 126 "$(status "$turbo" run "$work/plain")"
is "CMD is a folder" 126 "$(status "$turbo" run "$work")"
mkdir "$work/closed" && chmod a-x "$work/closed"
if [ "$(id -u)" = 0 ]; then
	echo "not tried: root may search any folder of PATH"
else
	is "a folder of PATH is closed" 127 "$(PATH=$work/closed:$PATH status "$turbo" run no-such-program-here)"
fi
printf '#!/no/such/interpreter\n' >"$work/script" && chmod +x "$work/script"
is "no interpreter" 127 "$(status "$turbo" run "$work/script")"
printf 'echo "by the shell: $1"\n' >"$work/text" && chmod +x "$work/text"
is "a script without #!" "by the shell: x" "$("$turbo" run "$work/text" x)"
is "a quiet program stays quiet" "" "$("$turbo" run true 2>&1)"
is "CMD's own options" "-o a --help" "$("$turbo" run echo -o a --help)"

# ---- what CMD sees ----
is "LD_PRELOAD" "$lib" "$("$turbo" run printenv LD_PRELOAD)"
is "LD_PRELOAD is kept" "$lib:libdl.so.2:libm.so.6" "$(LD_PRELOAD=libdl.so.2:libm.so.6 "$turbo" run printenv LD_PRELOAD)"
is "libturbo once when nested" "$lib" "$("$turbo" run "$turbo" run printenv LD_PRELOAD)"
is "loaded" yes "$("$turbo" run grep -qF libturbo.so /proc/self/maps && echo yes)"
is "the mark" 1 "$("$turbo" run printenv TURBO_RUN)"
is "the summary is on" on "$("$turbo" run printenv TURBO_SUMMARY)"
is "unless it is set" off "$(TURBO_SUMMARY=off "$turbo" run printenv TURBO_SUMMARY)"
is "-o as in the table" off "$("$turbo" run -o TURBO_COPY=off printenv TURBO_COPY)"
is "-o without prefix" off "$("$turbo" run -o COPY=off printenv TURBO_COPY)"
is "-o in small letters" 8 "$("$turbo" run -ocopy_ring_mb=8 printenv TURBO_COPY_RING_MB)"
is "-o overrides" off "$(TURBO_COPY=on "$turbo" run -o copy=off printenv TURBO_COPY)"
is "--preset" observe "$("$turbo" run --preset observe printenv TURBO)"
is "--preset=" max "$("$turbo" run --preset=max printenv TURBO)"

# ---- what is said at the end ----
export LD_LIBRARY_PATH=$SIM_DIR TURBO_COPY_THREADS=2
live() { "$turbo" run "$@" "$BUILD/tests/preload/turbo_live" 2 $((8 << 20)) 2>&1 >/dev/null </dev/null; }
is "what was sped up" 1 "$(live | grep -cE '^ +(copy +)?copies .* staged in 2 calls')"
is "nothing was" 1 "$(live -o copy=off | grep -c '^  nothing was sped up')"
is "of a child that did nothing, silence" "" "$(live -o copy=off sh -c '"$@"; true' sh)"
is "or at all" "" "$(TURBO_SUMMARY=off live)"
unset LD_LIBRARY_PATH TURBO_COPY_THREADS

# ---- refused, before CMD starts ----
is "unknown value" 2 "$(status "$turbo" run -o copy=sideways touch "$work/ran")"
is "names the option" yes "$(says TURBO_COPY=sideways)"
is "and what is allowed" yes "$(says 'off|on|early')"
is "unknown option" 2 "$(status "$turbo" run -o cpoy=on touch "$work/ran")"
is "suggests" yes "$(says 'TURBO_COPY?')"
is "malformed number" 2 "$(status "$turbo" run -o copy_threads=4x touch "$work/ran")"
is "number out of range" 2 "$(status "$turbo" run -o copy_threads=1000 touch "$work/ran")"
is "unknown preset" 2 "$(status "$turbo" run --preset fast touch "$work/ran")"
is "a mark is no option" 2 "$(status "$turbo" run -o RUN=1 touch "$work/ran")"
is "no value" 2 "$(status "$turbo" run -o copy touch "$work/ran")"
is "no name" 2 "$(status "$turbo" run -o =on touch "$work/ran")"
is "bad environment" 2 "$(TURBO_COPY=maybe status "$turbo" run touch "$work/ran")"
is "unknown name in the environment" 2 "$(TURBO_NO_SUCH=1 status "$turbo" run touch "$work/ran")"
is "but -o mends it" 0 "$(TURBO_COPY=maybe status "$turbo" run -o copy=on true)"
is "no CMD" 2 "$(status "$turbo" run)"
is "unknown argument" 2 "$(status "$turbo" run --fast true)"
is "nothing ran" no "$([ -e "$work/ran" ] && echo yes || echo no)"

# ---- programs that need something else in LD_PRELOAD ----
cat >"$work/status.c" <<'EOF'
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
	puts("ran");
	return argc > 1 ? atoi(argv[1]) : 0;
}
EOF
for san in address thread undefined; do
	if ! gcc -fsanitize=$san -o "$work/$san" "$work/status.c" 2>/dev/null || ! "$work/$san" >/dev/null 2>&1; then
		echo "not tried: gcc -fsanitize=$san does not work here"
		continue
	fi
	is "gcc -fsanitize=$san" 5 "$(status "$turbo" run "$work/$san" 5)"
	is "its output" ran "$(cat "$work/out")"
	printf '#!%s\n' "$work/$san" >"$work/script"
	is "as an interpreter" 0 "$(status "$turbo" run "$work/script")"
done
if [ -x "$work/address" ]; then
	is "plain LD_PRELOAD would not do" 1 "$(LD_PRELOAD=$lib status "$work/address" 5)"
	printf '#!/usr/bin/env -S A=1 address\n' >"$work/script"
	is "through env" 0 "$(PATH=$work:$PATH status "$turbo" run "$work/script")"
fi
if gcc -static -o "$work/static" "$work/status.c" 2>/dev/null; then
	is "static program" 9 "$(status "$turbo" run "$work/static" 9)"
	is "is said in one line" 1 "$(grep -c 'cannot be loaded into' "$work/err")"
else
	echo "not tried: no static libc here"
fi
finish
