#!/bin/bash
# A bad option costs one clear line on stderr, naming it, its value and what is allowed; the program
# runs, its output and exit status are its own.
. "$(dirname "$0")/common.sh"

# one_line NAME VALUE WORD...: NAME=VALUE gives one line with NAME, VALUE and every WORD.
one_line()
{
	local name=$1 value=$2 word
	shift 2
	quietly bad env LD_PRELOAD="$LIBTURBO" "$name=$value" /bin/sh -c 'echo out; exit 5'
	local before=$failed
	failed=0
	[ "$(cat "$work/bad.status")" = 5 ] || fail "$name=$value: exit status $(cat "$work/bad.status"), not 5"
	[ "$(cat "$work/bad.out")" = out ] || fail "$name=$value: stdout is $(cat "$work/bad.out")"
	[ "$(wc -l <"$work/bad.err")" = 1 ] || fail "$name=$value: $(wc -l <"$work/bad.err") lines on stderr, not 1"
	for word in "$name" "$value" "$@"; do
		grep -qF -- "$word" "$work/bad.err" || fail "$name=$value: '$word' is not in: $(cat "$work/bad.err")"
	done
	[ $failed = 1 ] || ok "$(cat "$work/bad.err")"
	failed=$((failed | before))
}

silent()
{
	quietly good env LD_PRELOAD="$LIBTURBO" "$@" /bin/sh -c 'echo out; exit 5'
	if [ "$(cat "$work/good.status")" = 5 ] && [ "$(cat "$work/good.out")" = out ] && [ ! -s "$work/good.err" ]; then
		ok "silent: $*"
	else
		fail "$*: status $(cat "$work/good.status"), stderr: $(cat "$work/good.err")"
	fi
}

one_line TURBO_COPPY on unknown
one_line TURBO fast off observe safe max
one_line TURBO_COPY maybe off on early
one_line TURBO_COPY ON off on early
one_line TURBO_COPY_THREADS abc auto
one_line TURBO_COPY_THREADS 4x auto
one_line TURBO_COPY_THREADS -1 auto
one_line TURBO_COPY_THREADS 99999999999999999999 auto
one_line TURBO_LOG loud warn
one_line TURBO_VERIFY 1.5

# A log file that cannot be written is said when there is a line for it, and that line is not
# lost: it goes to stderr.
for file in /nonexistent/directory/turbo.log /; do
	quietly file env LD_PRELOAD="$LIBTURBO" TURBO_LOG_FILE=$file TURBO_COPY=maybe /bin/sh -c 'echo out; exit 5'
	if [ "$(cat "$work/file.status")" = 5 ] && [ "$(cat "$work/file.out")" = out ] &&
		[ "$(grep -c "TURBO_LOG_FILE=$file cannot be written" "$work/file.err")" = 1 ] &&
		[ "$(grep -c 'TURBO_COPY=maybe' "$work/file.err")" = 1 ] && [ "$(wc -l <"$work/file.err")" = 2 ]; then
		ok "$(head -n 1 "$work/file.err")"
	else
		fail "TURBO_LOG_FILE=$file: status $(cat "$work/file.status"), stderr: $(cat "$work/file.err")"
	fi
done

# A log file that can be written takes the lines.
quietly logged env LD_PRELOAD="$LIBTURBO" TURBO_LOG_FILE="$work/log" TURBO_COPY=maybe /bin/true
if [ ! -s "$work/logged.err" ] && [ "$(grep -c 'TURBO_COPY=maybe' "$work/log")" = 1 ]; then
	ok 'the line goes to TURBO_LOG_FILE'
else
	fail "TURBO_LOG_FILE: stderr $(cat "$work/logged.err"), file $(cat "$work/log")"
fi

# A long value must neither overflow the line nor split it.
long=$(printf 'x%.0s' {1..5000})
quietly long env LD_PRELOAD="$LIBTURBO" TURBO_COPY="$long" /bin/true
[ "$(cat "$work/long.status")" = 0 ] && [ "$(wc -l <"$work/long.err")" = 1 ] || fail 'a value of 5000 bytes'
# Control characters must not reach the terminal, nor make two lines of one.
quietly ctrl env LD_PRELOAD="$LIBTURBO" TURBO_COPY=$'a\nb\033[31m' /bin/true
[ "$(wc -l <"$work/ctrl.err")" = 1 ] || fail "a value with a line feed gave $(wc -l <"$work/ctrl.err") lines"
LC_ALL=C grep -q $'\033' "$work/ctrl.err" && fail 'an escape character reached stderr'

silent TURBO_COPY=on
silent TURBO=off
silent TURBO_COPY= # as good as not given
silent TURBO_COPY_THREADS=4
silent TURBO_COPY_THREADS=auto
silent TURBO_LOG_FILE="$work/turbo.log"
silent TURBOPROP=1 # not ours
finish
