#!/bin/bash
# `turbo record`: recording in running processes, with TURBO_TIMELINE off.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/timeline.sh"
turbo=$BUILD/turbo
export TURBO_SUMMARY=off

# ---- one process ----

start one wait kernels=100 sync wait kernels=1000 sync wait kernels=7 sync wait
one=$pid one_waits=$timeout_of
is "before: no thread is needed, no file" "" "$(files one)"
go one
sleep 0.3
mkdir "$work/out"
"$turbo" record "$one" -d 1.2 -o "$work/out" >"$work/record.out" 2>"$work/record.err" &
record=$!
soon has out
sleep 0.3
go one
wait $record
is "record succeeds" 0 $?
is "it names the file" "$(find "$work/out" -name '*.timeline')" "$(cat "$work/record.out")"
is "and warns of nothing" "" "$(cat "$work/record.err")"
dump out
is "it has what ran meanwhile" 1000 "$(number out kernel fill32)"
is "and has ended" "ended yes" "$(grep ^ended "$work/out.dump")"
is "a report says who asked" 1 "$("$turbo" report "$work/out" | grep -c '^  on demand, by turbo record; ')"
is "in JSON, too" 1 "$("$turbo" report --json "$work/out" | grep -o '"on_demand": *true' | wc -l)"
is "nothing in the program's folder" "" "$(files one)"
# CUPTI goes at the next driver call.
go one
sleep 0.5
is "CUPTI has gone" 1 "$("$turbo" stats "$one" --json | grep -o '"timeline.detached": *[0-9]*' | grep -o '[0-9]*$')"

# Again, stopped early.
mkdir "$work/again"
"$turbo" record "$one" -d 60 -o "$work/again" >"$work/again.out" 2>"$work/again.err" &
record=$!
soon has again && sleep 0.15
"$turbo" record "$one" -d 1 -o "$work/again" >"$work/busy.out" 2>"$work/busy.err"
is "a second one is refused" 1 $?
is "with the first one's number" 1 "$(grep -c "process $one: process $record is recording it already" "$work/busy.err")"
kill -INT $record
begun=$SECONDS
wait $record
is "Ctrl-C ends it well" 0 $?
[ $((SECONDS - begun)) -le 3 ] && ok "and soon" || fail "Ctrl-C took $((SECONDS - begun)) s"
is "with a file" "$(find "$work/again" -name '*.timeline')" "$(cat "$work/again.out")"

"$turbo" record "$one" -d 1 -o /proc >"$work/dir.out" 2>"$work/dir.err"
is "a folder that cannot be written" 1 $?
is "is said" 1 "$(grep -c "^turbo record: process $one: " "$work/dir.err")"

# ---- several ----

start two rate=1000 kernels=3000 sync wait
two=$pid
start three rate=1000 kernels=3000 sync wait
three=$pid
mkdir "$work/both"
"$turbo" record "$two" "$three" 2147483000 "$two" -d 0.7 -o "$work/both" >"$work/both.out" 2>"$work/both.err"
is "one of three is not there" 1 $?
is "which is said" 1 "$(grep -c '^turbo record: process 2147483000: there is no such process' "$work/both.err")"
is "two files, though one is named twice" 2 "$(wc -l <"$work/both.out")"
dump both
at_least "both have kernels" 100 "$(number both kernel fill32)"

# One ends in the middle, the other is recorded to the end.
mkdir "$work/middle"
"$turbo" record "$two" "$three" -d 1 -o "$work/middle" >"$work/middle.out" 2>"$work/middle.err" &
record=$!
both_recorded() { [ "$(files middle | wc -l)" = 2 ]; }
soon both_recorded && sleep 0.15
kill -KILL "$three"
wait $record
is "it ends with both" 0 $?
is "and says which has ended" "turbo record: process $three: it has ended meanwhile; up to a second may be missing" \
	"$(cat "$work/middle.err")"
is "both files are named" "$(files middle)" "$(sort "$work/middle.out")"
dump middle
is "one has no end" 1 "$(grep -c '^ended yes' "$work/middle.dump")"

# Ended by who empties the file: who asked is told, in a process that goes on.
mkdir "$work/emptied"
"$turbo" record "$two" -d 60 -o "$work/emptied" >"$work/emptied.out" 2>"$work/emptied.err" &
record=$!
soon has emptied && sleep 0.15
: >"$(files emptied)"
wait $record
is "an emptied file ends it" 1 "$(grep -c 'ended before its time: somebody has shortened it' "$work/emptied.err")"
is "which the process says, too" 1 "$(lines two 'has ended: somebody has shortened it')"
kill -KILL "$two"
"$turbo" record "$two" >"$work/dead.out" 2>"$work/dead.err"
is "a dead process" 1 $?

# ---- what is refused ----

"$turbo" record $$ >"$work/none.out" 2>"$work/none.err"
is "a process without libturbo" 1 $?
is "which is said" 1 "$(grep -c 'libturbo is not loaded in it' "$work/none.err")"
for arguments in "" "x" "-d 0 1" "-d 1" "-x 1" "$one -d" "-5"; do
	# shellcheck disable=SC2086
	"$turbo" record $arguments >"$work/usage.out" 2>"$work/usage.err"
	is "usage: '$arguments'" 2 $?
done

TURBO_TIMELINE=kernel start own kernels=5 sync wait
"$turbo" record "$pid" -d 1 >"$work/own.out" 2>"$work/own.err2"
is "one that records already" 1 $?
is "names its file" 1 "$(grep -c "it is recording already, into $(files own)" "$work/own.err2")"
is "nobody asked for that" "1 1" "$("$turbo" report "$work/own" | grep -c '^  TURBO_TIMELINE=kernel, ') \
$("$turbo" report --json "$work/own" | grep -o '"on_demand": *false' | wc -l)"
CUDA_INJECTION64_PATH=/opt/tool.so start watched kernels=5 sync wait
"$turbo" record "$pid" -d 1 >"$work/watched.out" 2>"$work/watched.err2"
is "one that another tool watches" 1 $?

go one
wait "$one_waits"
is "the program never noticed" "0 " "$? $(cat "$work/one.err")"
for name in own watched; do go $name; done
finish
