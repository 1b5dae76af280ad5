#!/bin/bash
# ALONE: others remove what dead processes leave. `turbo record` when one of the two sides is stopped, killed, replaced, or not the one that was meant.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/timeline.sh"
turbo=$BUILD/turbo
export TURBO_SUMMARY=off
uid=$(id -u)

# record NAME PID...: in the background, into the folder $work/NAME; for a minute unless it says -d.
record()
{
	local name=$1
	shift
	mkdir -p "$work/$name"
	"$turbo" record -d 60 -o "$work/$name" "$@" >"$work/$name.out" 2>"$work/$name.err" &
	record=$!
	begun=$(date +%s%N)
}
# ends WHAT STATUS: the one in the background, soon: nobody waits for ten seconds.
ends()
{
	wait $record 2>/dev/null
	is "$1" "$2" $?
	local ms=$((($(date +%s%N) - begun) / 1000000))
	[ $ms -le 5000 ] || fail "$1: it took $ms ms"
}
says() { is "$1 is said" "turbo record: process $2" "$(cat "$work/$1.err")"; }
# recording NAME: it has begun, and who asked knows.
recording() { soon has "$1" && sleep 0.15; }
ended() { dump "$1" && [ "$(grep -c '^ended yes' "$work/$1.dump")" = "$2" ]; }

# What launches all the time lets CUPTI go at once.
start one rate=5000 kernels=20000
one=$pid one_parent=$timeout_of
cp "/dev/shm/turbo-$uid-$one.stats" "$work/page" # the next process removes that of a dead one
start two wait become=sleep
two=$pid

# ---- the process is stopped ----

kill -STOP "$one"
record stopped "$one"
ends "a stopped process is given up" 1
says stopped "$one: it is stopped (by a signal or a debugger); nothing is recorded when it goes on"

record interrupted "$one" "$two"
recording interrupted
kill -INT $record
begun=$(date +%s%N)
ends "Ctrl-C while one is not heard" 130
says interrupted "$one: it had not answered yet; nothing is recorded"
is "the other's recording is there" "$(files interrupted)" "$(cat "$work/interrupted.out")"

# Who asked is killed before it is heard.
record unheard "$one"
sleep 0.2
kill -KILL $record
wait $record 2>/dev/null
kill -CONT "$one"
sleep 0.3
is "nothing is recorded when it goes on" "" "$(files stopped)$(files unheard)"

# ---- who asked is killed ----

record killed "$one"
recording killed
kill -KILL $record
record killed "$one" -d 0.2
ends "another takes over at once" 0
is "both recordings have ended" 2 "$(ended killed 2 && files killed | wc -l)"
record alone "$one"
recording alone
kill -KILL $record
soon ended alone 1
is "the recording ends with who asked" 0 $?

# ---- two at the same moment ----

for i in 1 2; do
	record "race$i" "$one"
	first=$record
	record "race$i" "$one" 2>/dev/null
	wait -n $first $record
	is "one of two is refused, $i" 1 $?
	recording "race$i"
	kill -INT $first $record 2>/dev/null
	wait $first
	status=$?
	wait $record
	is "and the other records" "0 1" "$(printf '%s\n' $status $? | sort | xargs)"
	is "one file" 1 "$(files "race$i" | wc -l)"
done

# ---- the folder goes ----

record folder "$one"
recording folder
file=$(files folder)
mv "$work/folder" "$work/moved"
kill -INT $record
ends "the folder is gone" 1
says folder "$one: $file is gone: it or its folder was removed meanwhile"

# ---- the process is another ----

record exec "$two"
recording exec
go two
begun=$(date +%s%N)
ends "it starts another program" 0
says exec "$two: it has started another program (exec) meanwhile; up to a second may be missing"
is "the file is named" "$(files exec)" "$(cat "$work/exec.out")"
record sleep "$two"
ends "a program without CUDA" 1
says sleep "$two: it has started another program (exec), in which libturbo is not loaded, or which has not used CUDA yet"
kill "$two"

start again wait exec rate=5000 kernels=20000
again=$pid
record again "$again"
recording again
go again
begun=$(date +%s%N)
ends "it starts itself anew" 0
page=/dev/shm/turbo-$uid-$again.stats
is "with a page in the place of the old one" 1 "$(grep -c "$page\$" "/proc/$again/maps")"
record anew "$again" -d 0.1
ends "which can be recorded" 0
kill "$again"

# A zombie: killed, and its parent takes no notice.
record zombie "$one"
recording zombie
kill -STOP "$one_parent"
kill -KILL "$one"
begun=$(date +%s%N)
ends "it is killed" 0
says zombie "$one: it has ended meanwhile; up to a second may be missing"
record undead "$one"
ends "a zombie" 1
says undead "$one: it has ended"

# A page that was left under a number which is another process's now.
sleep 60 &
other=$!
page=/dev/shm/turbo-$uid-$other.stats
cp "$work/page" "$page"
record foreign "$other"
ends "a page of another process" 1
says foreign "$other: its stats page is damaged: it says that it is another process's"
python3 -c "import struct, sys
with open(sys.argv[1], 'r+b') as f:
    f.seek(12)
    f.write(struct.pack('<I', $other))" "$page"
record reused "$other"
ends "a number that is another's now" 1
says reused "$other: the process with libturbo that had this number has ended; in the one that has it now libturbo is not \
loaded, or it has not used CUDA yet"
rm -f "$page"
kill $other
kill -CONT "$one_parent"

# ---- another user's ----

if [ "$uid" != 0 ]; then
	record user 1
	ends "another user's process" 1
	says user "1: it belongs to user 0, not to you"
elif have setpriv && setpriv --reuid 65534 --clear-groups "$turbo" --version >/dev/null 2>&1; then
	setpriv --reuid 65534 --clear-groups "$turbo" record $$ -o / >"$work/user.out" 2>"$work/user.err"
	is "another user's process" 1 $?
	says user "$$: it belongs to user 0, not to you"
fi
finish
