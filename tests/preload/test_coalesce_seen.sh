#!/bin/bash
# Groups of all-gathers are seen: in the closing words and in the timeline.
. "$(dirname "$0")/common.sh"

program=$BUILD/tests/preload/test_coalesce_events
[ -e "$SIM_DIR/libcupti.so.13" ] || skip 'no simulated CUPTI'
mkdir "$work/files"
seen()
{
	quietly "$1" env LD_LIBRARY_PATH="$SIM_DIR" LD_PRELOAD="$LIBTURBO" TURBO_SUMMARY=on TURBO_TIMELINE=kernel \
		TURBO_TIMELINE_DIR="$work/files" TURBO_NCCL_COALESCE="$1" "$program"
}
seen on
is 'the program works' 0 "$(cat "$work/on.status")"
if grep -qE 'launched [0-9]+ all-gathers in [0-9]+ groups' "$work/on.err"; then
	ok 'the summary says so'
else
	fail "the summary says nothing of groups: $(tail -n 5 "$work/on.err")"
fi
"$BUILD/turbo" export -o "$work/on.json" "$work"/files/*.timeline >"$work/export" 2>&1 || fail "export: $(cat "$work/export")"
if python3 - "$work/on.json" <<'END'; then
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
sizes = [e["args"]["calls"] for e in events if e.get("name") == "all-gathers launched together"]
sys.exit(not sizes or max(sizes) < 2)
END
	ok 'the timeline has the groups, and how many calls they hold'
else
	fail "the timeline has no groups"
fi
seen off
is 'without groups nothing is said of them' 0 "$(grep -c all-gathers "$work/off.err")"
finish
