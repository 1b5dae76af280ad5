#!/bin/bash
# `turbo record`: recording in running processes, with TURBO_TIMELINE off.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/timeline.sh"
turbo=$BUILD/turbo
export TURBO_SUMMARY=off

# start NAME STEP...: the program in the background, its input held open; sets pid.
declare -A hold
start()
{
	local name=$1
	shift
	mkdir -p "$work/$name"
	mkfifo "$work/$name.in"
	(cd "$work/$name" && LD_LIBRARY_PATH=$SIM_DIR LD_PRELOAD=$LIBTURBO \
		exec timeout 100 "$BUILD/tests/preload/timeline_work" say=ready "$@") \
		>"$work/$name.out" 2>"$work/$name.err" <"$work/$name.in" &
	exec {hold[$name]}>"$work/$name.in"
	for _ in $(seq 200); do
		[ -s "$work/$name.out" ] && break
		sleep 0.05
	done
	pid=$(pgrep -P $!)
	timeout_of=$!
}
# go NAME: the program goes on after `wait`.
go() { echo >&"${hold[$1]}"; }
# ---- one process ----

start one wait kernels=100 sync wait kernels=1000 sync wait kernels=7 sync wait
one=$pid one_waits=$timeout_of
is "before: no thread is needed, no file" "" "$(files one)"
go one
sleep 0.3
mkdir "$work/out"
"$turbo" record "$one" -d 3 -o "$work/out" >"$work/record.out" 2>"$work/record.err" &
record=$!
sleep 1
go one
wait $record
is "record succeeds" 0 $?
is "it names the file" "$(find "$work/out" -name '*.timeline')" "$(cat "$work/record.out")"
is "and warns of nothing" "" "$(cat "$work/record.err")"
dump out
is "it has what ran meanwhile" 1000 "$(number out kernel fill32)"
is "and has ended" "ended yes" "$(grep ^ended "$work/out.dump")"
is "nothing in the program's folder" "" "$(files one)"
# CUPTI goes at the next driver call.
go one
sleep 0.5
is "CUPTI has gone" 1 "$("$turbo" stats "$one" --json | grep -o '"timeline.detached": *[0-9]*' | grep -o '[0-9]*$')"

# Again, stopped early.
mkdir "$work/again"
"$turbo" record "$one" -d 60 -o "$work/again" >"$work/again.out" 2>"$work/again.err" &
record=$!
sleep 1
"$turbo" record "$one" -d 1 -o "$work/again" >"$work/busy.out" 2>"$work/busy.err"
is "a second one is refused" 1 $?
is "with the first one's number" 1 "$(grep -c "process $one: process $record is recording it already" "$work/busy.err")"
kill -INT $record
begun=$SECONDS
wait $record
is "Ctrl-C ends it well" 0 $?
[ $((SECONDS - begun)) -le 3 ] && ok "and soon" || fail "Ctrl-C took $((SECONDS - begun)) s"
is "with a file" "$(find "$work/again" -name '*.timeline')" "$(cat "$work/again.out")"

# Who asked is killed: the recording ends by itself, and another may ask.
mkdir "$work/killed"
"$turbo" record "$one" -d 1.5 -o "$work/killed" >/dev/null 2>&1 &
record=$!
sleep 0.7
kill -KILL $record
wait $record 2>/dev/null
sleep 1.5
dump killed
is "a recording outlives who asked" "ended yes" "$(grep ^ended "$work/killed.dump")"
"$turbo" record "$one" -d 0.3 --launch -o "$work/killed" >/dev/null 2>"$work/after.err"
is "and the next may ask" 0 $?

"$turbo" record "$one" -d 1 -o /proc >"$work/dir.out" 2>"$work/dir.err"
is "a folder that cannot be written" 1 $?
is "is said" 1 "$(grep -c "^turbo record: process $one: " "$work/dir.err")"

# ---- several ----

start two rate=1000 kernels=3000 sync wait
two=$pid
start three rate=1000 kernels=3000 sync wait
three=$pid
mkdir "$work/both"
"$turbo" record "$two" "$three" 2147483000 -d 1 -o "$work/both" >"$work/both.out" 2>"$work/both.err"
is "one of three is not there" 1 $?
is "which is said" 1 "$(grep -c '^turbo record: process 2147483000: there is no such process' "$work/both.err")"
is "two files" 2 "$(wc -l <"$work/both.out")"
dump both
at_least "both have kernels" 200 "$(number both kernel fill32)"
kill -KILL "$two"
"$turbo" record "$two" >"$work/dead.out" 2>"$work/dead.err"
is "a dead process" 1 $?

# The process ends while it is recorded.
"$turbo" record "$three" -d 30 -o "$work/both" >"$work/ends.out" 2>"$work/ends.err" &
record=$!
sleep 1
kill -KILL "$three"
wait $record
is "it ends with the process" 0 $?
is "and says so" 1 "$(grep -c "process $three has ended meanwhile" "$work/ends.err")"

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
CUDA_INJECTION64_PATH=/opt/tool.so start watched kernels=5 sync wait
"$turbo" record "$pid" -d 1 >"$work/watched.out" 2>"$work/watched.err2"
is "one that another tool watches" 1 $?

go one
wait "$one_waits"
is "the program never noticed" "0 " "$? $(cat "$work/one.err")"
for name in own watched; do go $name; done
finish
