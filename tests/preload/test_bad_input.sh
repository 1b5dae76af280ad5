#!/bin/bash
# Bad options and a bad log file cost one clear line each, and the program runs.
set -u
prog=$BUILD/tests/preload/engagement
failures=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$SIM_DIR

# try WHAT NAME=VALUE PATTERN: the program's own output and status are as ever, and stderr is one
# line that matches PATTERN.
try()
{
	local out
	out=$(timeout 60 env "$2" LD_PRELOAD="$LIBTURBO" "$prog" init 2>"$work/err")
	if [ $? != 0 ] || [ "$out" != "${4:-$usual}" ]; then
		echo "FAILED: $1: the program printed: $out"
	elif [ "$(wc -l <"$work/err")" != 1 ] || ! grep -Eqx "libturbo\[[0-9]+\]: warn: $3" "$work/err"; then
		echo "FAILED: $1: stderr was: $(cat "$work/err")"
	else
		echo "ok: $1: $(cat "$work/err")"
		return
	fi
	failures=$((failures + 1))
}
usual=$'init=0\ninit file=1'

try 'an unknown option' TURBO_COPPY=on 'TURBO_COPPY=on is ignored: unknown option; did you mean TURBO_COPY\? see .turbo options.'
try 'a wrong word' TURBO_COPY=yes 'TURBO_COPY=yes is ignored: allowed is off\|on\|early'
try 'a malformed number' TURBO_COPY_THREADS=4k 'TURBO_COPY_THREADS=4k is ignored: allowed is auto\|0\.\.64'
try 'a number out of range' TURBO_VERIFY=0 'TURBO_VERIFY=0 is ignored: allowed is off\|1\.\.1000000'
try 'an overflowing number' TURBO_COPY_RING_MB=18446744073709551620 'TURBO_COPY_RING_MB=18446744073709551620 is ignored: allowed is .*'
try 'an unknown preset' TURBO=turbo 'TURBO=turbo is ignored: allowed is off\|observe\|safe\|max'
try 'a line break in a value' $'TURBO_COPY=a\nb' 'TURBO_COPY=a\?b is ignored: allowed is .*'

# An unwritable log file is complained of when there is something to log: here, at level debug, there is.
for file in /proc/nonexistent/log "$work" /dev/full; do
	out=$(timeout 60 env TURBO_LOG=debug TURBO_LOG_FILE="$file" LD_PRELOAD="$LIBTURBO" "$prog" init 2>"$work/err")
	if [ "$out" = "$usual" ] && [ "$(grep -c 'cannot be written' "$work/err")" = 1 ] &&
		head -n 1 "$work/err" | grep -Eq "warn: TURBO_LOG_FILE=$file cannot be written: [A-Z][A-Za-z ]+; using stderr"; then
		echo "ok: log file $file: said once"
	else
		echo "FAILED: log file $file: $(cat "$work/err")"
		failures=$((failures + 1))
	fi
done

# A tree of processes complains once.
lines=$(TURBO_COPPY=on LD_PRELOAD=$LIBTURBO bash -c '/bin/true; (ls /dev/null; bash -c "ls /dev/null")' 2>&1 >/dev/null | wc -l)
if [ "$lines" = 1 ]; then
	echo 'ok: a shell and its commands complain once'
else
	echo "FAILED: a shell and its commands complain $lines times"
	failures=$((failures + 1))
fi

# Nothing is said by a good configuration.
said=$(timeout 60 env TURBO=max TURBO_COPY=early TURBO_LOG=warn LD_PRELOAD="$LIBTURBO" "$prog" init 2>&1)
if [ "$said" = "$usual" ]; then
	echo 'ok: good options are taken in silence'
else
	echo "FAILED: good options: $said"
	failures=$((failures + 1))
fi
[ $failures = 0 ]
