#!/bin/bash
# turbo nccl over simulated ranks: a job that lives, in which one rank is late, then dead ones, as text and JSON, by any of
# its processes, again every second; records copied elsewhere; reports; and what is answered where there is nothing.
. "$(dirname "$0")/common.sh"

turbo=$BUILD/turbo
mkdir "$work/reports" "$work/copied" "$work/empty"
LD_PRELOAD=$LIBTURBO LD_LIBRARY_PATH=$SIM_DIR TURBO_LOG=none TURBO_NCCL_DIR=$work/reports SIM_QUIET=1 \
	"$BUILD/tests/preload/nccl_job" 3 -- init 'allreduce 1000' sync '0:allgather 4096' '2:allgather 4096' 'wait 60000' \
	>"$work/job.out" 2>&1 &
launcher=$!
trap 'kill -9 ${rank[*]} $launcher 2>/dev/null; rm -rf "$work"' EXIT

rank=()
for _ in $(seq 200); do
	read -r -d '' -a rank < <(sed -n 's/^pid [0-9]* //p' "$work/job.out")
	[ ${#rank[*]} = 3 ] && "$turbo" nccl "${rank[0]}" >"$work/text.out" 2>&1 &&
		[ "$(grep -c ' waits  all_gather ' "$work/text.out")" = 2 ] && break
	sleep 0.02
done

# has NAME PATTERN...: the lines are in $work/NAME.out.
has()
{
	local name=$1 pattern
	shift
	for pattern in "$@"; do
		grep -Eq -- "$pattern" "$work/$name.out" || { fail "$name: no '$pattern' in"; cat "$work/$name.out"; }
	done
}

# status NAME WANTED
status()
{
	[ "$(cat "$work/$1.status")" = "$2" ] || fail "$1: status $(cat "$work/$1.status"), $(cat "$work/$1.err")"
}

has text '^job of 3 processes on ' '^communicator [0-9a-f]{8} \(3 ranks\)' "^ +0 +${rank[0]} +waits +all_gather #3, 16.0 KiB " \
	"^[ >] +1 +${rank[1]} +late +all_reduce #2, 3.9 KiB " "^ +2 +${rank[2]} +waits +all_gather #3, 16.0 KiB "
awk 'length($0) > 100 && !/^nccl: /' "$work/text.out" | grep . && fail 'lines of more than 100 columns'
for other in "${rank[1]}" $launcher; do
	quietly other "$turbo" nccl "$other"
	status other 0
	has other "^ +2 +${rank[2]} +waits"
done
quietly all "$turbo" nccl
has all "^ +2 +${rank[2]} +waits"
ok 'a live job, by any of its processes'

cat >"$work/look.py" <<'END'
import json, sys
jobs = [json.loads(line)["jobs"] for line in open(sys.argv[1])]
pids = [int(pid) for pid in sys.argv[3:]]
for job in (j[0] for j in jobs):
    assert sorted(p["pid"] for p in job["processes"]) == sorted(pids), job["processes"]
    comm, = job["communicators"]
    ranks = comm["ranks"]
    assert comm["communicator"]["ranks"] == 3 and comm["communicator"]["missing"] == 0
    assert [r["rank"] for r in ranks] == [0, 1, 2] and [r["pid"] for r in ranks] == pids
    assert [r["sequence"] for r in ranks] == [3, 2, 3] and [r["waits"] for r in ranks] == [True, False, True]
    assert ranks[0]["open"]["function"] == "all_gather" and ranks[0]["open"]["bytes"] == 16384
    assert ranks[0]["open"]["state"] == "started" and ranks[1]["open"] is None
    assert ranks[1]["last"]["function"] == "all_reduce" and ranks[1]["last"]["state"] == "done"
assert len(jobs) >= int(sys.argv[2]), len(jobs)
END
quietly json "$turbo" nccl "${rank[2]}" --json
python3 "$work/look.py" "$work/json.out" 1 "${rank[@]}" || fail "JSON: $(cat "$work/json.out")"
timeout -k 5 --preserve-status -s INT 1.3 "$turbo" nccl "${rank[0]}" --watch --json >"$work/watch.out" 2>"$work/watch.err"
echo $? >"$work/watch.status"
status watch 0
python3 "$work/look.py" "$work/watch.out" 2 "${rank[@]}" || fail "JSON of --watch: $(cat "$work/watch.out")"
ok 'as JSON, once and every second until Ctrl-C'

# The late one is killed: the others' watchdog reports it.
kill -9 "${rank[1]}"
for _ in $(seq 250); do
	ls "$work"/reports/*.json >"$work/ls.out" 2>&1 && break
	sleep 0.02
done
quietly dead "$turbo" nccl "${rank[0]}"
has dead "^nccl: dead: rank 1 \(.*pid ${rank[1]}\) (died|was killed by SIGKILL) .*; ranks 0 and 2 wait in all_gather #3" \
	"^> +1 +${rank[1]} +dead"
quietly report "$turbo" nccl "$work/reports"
status report 0
has report "^nccl: dead: rank 1 .*pid ${rank[1]}"
quietly report "$turbo" nccl --json "$work/reports"
python3 -c 'import json, sys; r = json.load(sys.stdin); assert (r["verdict"], r["culprit"]["rank"]) == ("dead", 1), r' \
	<"$work/report.out" || fail "JSON of the report: $(cat "$work/report.out")"
ok 'a dead rank, and the report about it'

kill -9 "${rank[0]}" "${rank[2]}"
cp /dev/shm/turbo-"$(id -u)"-{"${rank[0]}","${rank[1]}","${rank[2]}"}.flight "$work/copied"
kill -9 $launcher
wait $launcher 2>/dev/null
quietly ended "$turbo" nccl "${rank[2]}"
quietly copied "$turbo" nccl "$work/copied"
for name in ended copied; do
	status $name 0
	has $name '^It has ended; .* [0-9-]{10}T[0-9:]{8}Z\.$' "^ +0 +${rank[0]} +waits +all_gather #3" \
		"^[ >] +1 +${rank[1]} +(dead|late) +all_reduce #2"
done
ok 'a job that has ended, from its records'

printf 'TURBOFL1 and nothing behind it' >"$work/copied/turbo-$(id -u)-4711.flight"
: >"$work/copied/turbo-$(id -u)-4712.flight"
dd if=/dev/urandom of="$work/copied/turbo-$(id -u)-4713.flight" bs=64k count=4 2>/dev/null
quietly copied "$turbo" nccl "$work/copied"
has copied "^ +0 +${rank[0]} +waits"
ok 'records that are none'

# refused NAME STATUS PATTERN ARG...
refused()
{
	local name=$1 wanted=$2 pattern=$3
	shift 3
	quietly refused "$turbo" nccl "$@"
	status refused "$wanted"
	[ -s "$work/refused.out" ] && fail "$name: printed $(cat "$work/refused.out")"
	grep -Eq -- "$pattern" "$work/refused.err" || fail "$name: said $(cat "$work/refused.err")"
}
refused 'a process without NCCL' 1 'has no communicator' $$
# A record of a dead one, whose number a child of the process has now.
sleep 60 &
reused=/dev/shm/turbo-$(id -u)-$!.flight
(umask 077 && cp "$work/copied/turbo-$(id -u)-${rank[0]}.flight" "$reused")
python3 -c 'import os, struct, sys; os.pwrite(os.open(sys.argv[1], os.O_WRONLY), struct.pack("<I", int(sys.argv[2])), 12)' \
	"$reused" $!
refused 'a process whose child has a number of a rank that was' 1 'has no communicator' $$
kill $! && rm -f "$reused"
refused 'no process' 1 'there is no process 2147483646' 2147483646
refused 'an empty folder' 1 'neither flight files' "$work/empty"
refused 'no folder' 2 'neither a process number nor a folder' "$work/nowhere"
refused 'no number' 2 'neither a process number nor a folder' 12x
refused 'two' 2 'one process or folder' 1 2
refused 'an option' 2 "unknown argument '--all'" --all
ok 'what there is not'
rm -f /dev/shm/turbo-"$(id -u)"-{"${rank[0]}","${rank[1]}","${rank[2]}"}.flight
finish
