#!/bin/bash
# `turbo stats` of a live process: the page appears, its numbers are those of the program, and
# it goes away; after a kill it stays readable and the next process removes it.
. "$(dirname "$0")/common.sh"
turbo=$BUILD/turbo
have python3 || skip "no python3"
copies=5 bytes=$((8 << 20))
# On few cores libturbo leaves copies to the driver by default.
export TURBO_COPY_THREADS=2 TURBO_SUMMARY=off

# start: runs turbo_live and waits until it has copied; sets pid and the descriptor to close.
start()
{
	coproc LIVE { LD_LIBRARY_PATH=$SIM_DIR exec timeout 60 "$turbo" run "$BUILD/tests/preload/turbo_live" $copies $bytes; }
	exec {hold}>&"${LIVE[1]}"
	eval "exec ${LIVE[1]}>&-"
	read -r -t 30 word pid <&"${LIVE[0]}"
	is "the program runs" ready "$word"
	timeout=$LIVE_PID
}

stop()
{
	exec {hold}>&-
	wait "$timeout"
	is "the program ends well" 0 $?
}

# json EXPRESSION: of the object j that --json printed.
json() { python3 -c 'import json, sys; j = json.load(sys.stdin); print(eval(sys.argv[1]))' "$1" <"$work/json"; }

start
"$turbo" stats "$pid" --json >"$work/json" || fail "turbo stats PID --json"
is "JSON names the process" "$pid" "$(json 'j["pid"]')"
is "it runs" True "$(json 'j["running"]')"
is "of this version" "$("$turbo" --version | cut -d' ' -f2)" "$(json 'j["version"]')"
is "copies are counted" $copies "$(json 'j["calls"]["cuMemcpyHtoD_v2"]')"
is "one allocation" 1 "$(json 'j["calls"]["cuMemAlloc_v2"]')"
is "all were staged" $copies "$(json 'j["counters"]["copy.h2d.staged"]')"
is "all their bytes" $((copies * bytes)) "$(json 'j["counters"]["copy.h2d.bytes"]')"
is "no error" 0 "$(json 'j["counters"]["errors"]')"
"$turbo" stats "$pid" >"$work/text" || fail "turbo stats PID"
is "text names the program" 1 "$(head -n 1 "$work/text" | grep -c "^process   $pid  .*turbo_live")"
is "text humanises bytes" 1 "$(grep -c '^copy.h2d.bytes *41.9 MB ' "$work/text")"
is "text derives the rate" 1 "$(grep -c '^copy.h2d.rate .* GB/s ' "$work/text")"
is "text lists calls" 1 "$(grep -cE "^cuMemcpyHtoD_v2 +$copies\$" "$work/text")"
is "it is listed" 1 "$("$turbo" stats | grep -c "^ *$pid .*turbo_live")"
stop
"$turbo" stats "$pid" >"$work/out" 2>"$work/err"
is "after the end there is no page" 1 $?
is "which is said with the number" 1 "$(grep -c "there is no process $pid " "$work/err")"
"$turbo" stats $$ >"$work/out" 2>"$work/err"
is "a process without libturbo has none" 1 $?
is "which is said" 1 "$(grep -c "^turbo stats: process $$ has no counters: libturbo is not loaded in it, or" "$work/err")"

start
kill -KILL "$pid"
wait "$timeout"
exec {hold}>&-
"$turbo" stats "$pid" --json >"$work/json" || fail "turbo stats of a killed process"
is "a killed process's numbers stay" $copies "$(json 'j["calls"]["cuMemcpyHtoD_v2"]')"
is "it does not run" False "$(json 'j["running"]')"
killed=$pid
start
"$turbo" stats "$killed" >/dev/null 2>&1
is "the next process removes its page" 1 $?
stop
finish
