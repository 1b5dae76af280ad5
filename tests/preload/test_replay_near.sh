#!/bin/bash
# Programs near the limit, replayed on a simulated device with 8 GiB: the heap has memory for all of them, without
# help from the driver's own pool, which would stand in for it.
. "$(dirname "$0")/common.sh"
turbo=$BUILD/turbo
have python3 || skip "no python3"
cd "$work" || exit 1
"$turbo" options | grep -q "^TURBO_DEVMEM .*stream" || skip "no TURBO_DEVMEM=stream"

for name in splinters-8g shifted-8g slabs-8g survivors-8g lifetimes-8g growth-8g pinned-pages; do
	trace=$root/tests/traces/$name.trace
	timeout 100 "$turbo" replay "$trace" --sim --limit 8G --mode stream --json >out 2>err || fail "$name: $(cat err)"
	oom=$(python3 -c 'import json; print(json.load(open("out"))[0]["oom"])')
	[ "$oom" = 0 ] && ok "$name: memory for all" || fail "$name: no memory for $oom"
	grep -q 'out of device memory' err && fail "$name: $(cat err)" || ok "$name: all of it the heap's"
done
finish
