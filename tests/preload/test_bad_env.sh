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
	[ "$(cat "$work/bad.status")" = 5 ] || fail "$name=$value: exit status $(cat "$work/bad.status"), not 5"
	[ "$(cat "$work/bad.out")" = out ] || fail "$name=$value: stdout is $(cat "$work/bad.out")"
	[ "$(wc -l <"$work/bad.err")" = 1 ] || fail "$name=$value: $(wc -l <"$work/bad.err") lines on stderr, not 1"
	for word in "$name" "$value" "$@"; do
		grep -qF -- "$word" "$work/bad.err" || fail "$name=$value: '$word' is not in: $(cat "$work/bad.err")"
	done
	[ $failed != $before ] || ok "$(cat "$work/bad.err")"
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
one_line TURBO_COPY '' off on early
one_line TURBO_COPY_THREADS abc auto
one_line TURBO_COPY_THREADS 4x auto
one_line TURBO_COPY_THREADS -1 auto
one_line TURBO_COPY_THREADS 99999999999999999999 auto
one_line TURBO_LOG loud warn
one_line TURBO_VERIFY 1.5
one_line TURBO_LOG_FILE /nonexistent/directory/turbo.log
one_line TURBO_LOG_FILE / # a directory

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
silent TURBO_COPY_THREADS=4
silent TURBO_COPY_THREADS=auto
silent TURBO_LOG_FILE="$work/turbo.log"
silent TURBOPROP=1 # not ours
finish
