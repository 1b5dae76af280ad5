#!/bin/bash
# Benchmarks that run on any machine: every tools/bench/bench_*.c, or those whose name
# contains $BENCH. Each prints bare and preloaded figures, the limit, and PASS or MISS; the
# exit status is 1 when one missed. From make: BUILD, SIM_DIR.
set -u
cd "$(dirname "$0")" || exit 1
export BUILD SIM_DIR
failed=0 ran=0
for source in bench_*.c; do
	name=${source%.c}
	[[ $name == *${BENCH:-}* ]] || continue
	ran=$((ran + 1))
	timeout 300 "$BUILD/bench/$name" || failed=1
done
if [ $ran = 0 ]; then
	echo "bench: no benchmark's name contains '${BENCH:-}'" >&2
	exit 2
fi
exit $failed
