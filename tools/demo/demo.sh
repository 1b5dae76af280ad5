#!/bin/bash
# The demo: one training-like program, bare and with libturbo, in turns, on the GPU when
# there is one and on the simulated machine otherwise. Fails when the results differ.
#
# From make: BUILD, SIM_DIR (the simulated libcuda.so.1).
# ROUNDS, BATCH_MB and STEPS may be set to change the size of the run.
set -u
program=$BUILD/demo/demo turbo=$BUILD/turbo
dir=$(mktemp -d "${TMPDIR:-/tmp}/libturbo-demo.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT

if timeout 60 "$program" --probe; then
	machine=gpu rounds=${ROUNDS:-5} mb=${BATCH_MB:-96} steps=${STEPS:-40}
else
	machine=simulated rounds=${ROUNDS:-3} mb=${BATCH_MB:-16} steps=${STEPS:-12}
	export LD_LIBRARY_PATH=$SIM_DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	# On few cores libturbo leaves copies to the driver; here it shall stage them.
	export TURBO_COPY_THREADS=${TURBO_COPY_THREADS:-2}
fi
bytes=$((mb << 20))

# one NAME COMMAND...: runs the program once; its lines go to $dir/NAME.out.
one()
{
	local name=$1
	shift
	if ! timeout 300 "$@" "$program" --run "$dir" $bytes "$steps" >"$dir/$name.out" 2>"$dir/$name.err"; then
		echo "demo: the $name run failed:" >&2
		cat "$dir/$name.out" "$dir/$name.err" >&2
		exit 1
	fi
}

# value NAME KEY: the words after KEY.
value()
{
	sed -n "s/^$2 //p" "$dir/$1.out"
}

median()
{
	sort -n "$1" | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# row LABEL BARE_US PRELOADED_US RESULTS: one line; no ratio where times mean nothing.
row()
{
	awk -v label="$1" -v a="$2" -v b="$3" -v same="$4" -v machine=$machine 'BEGIN {
		ratio = machine == "gpu" ? sprintf("%8.2f x", a / b) : ""
		printf "%-7s  %10.2f ms  %10.2f ms%s   %s\n", label, a / 1000, b / 1000, ratio, same
	}'
}

"$program" --make "$dir" $bytes || exit 1
[ -n "$(ls -A "$dir")" ] || exit 1

echo "libturbo demo: $steps steps; $mb MiB a step to the device, $mb MiB back every 4th step"
different=0
for ((round = 1; round <= rounds; round++)); do
	one bare env -u LD_PRELOAD
	one preloaded "$turbo" run
	if [ $round = 1 ]; then
		if [ $machine = gpu ]; then
			echo "machine: $(value bare machine | cut -d' ' -f2-)"
		else
			echo "machine: simulated, because no GPU was found; its times say nothing about speed"
		fi
		printf '\n%-7s  %13s  %13s%s   %s\n' round bare preloaded "$([ $machine = gpu ] && printf '%10s' ratio)" results
	fi
	value bare step_us >>"$dir/bare.us"
	value preloaded step_us >>"$dir/preloaded.us"
	same=equal
	if [ -z "$(value bare checksum)" ] || [ "$(value bare checksum)" != "$(value preloaded checksum)" ]; then
		same="DIFFERENT: $(value bare checksum) $(value preloaded checksum)"
		different=1
	fi
	row $round "$(value bare step_us)" "$(value preloaded step_us)" "$same"
done
row median "$(median "$dir/bare.us")" "$(median "$dir/preloaded.us")" "$(value bare checksum)"

printf '\nWhat libturbo said at the end of the last run:\n'
# Not the rates of a simulated machine.
sed -E "s/^/  /; $([ $machine = gpu ] || echo 's/, [0-9.]+ [A-Z]?B\/s$//')" "$dir/preloaded.err"
[ -s "$dir/preloaded.err" ] || echo "  nothing"
if [ $different = 1 ]; then
	printf '\nThe results differ: this is a bug in libturbo.\n'
	exit 1
fi
