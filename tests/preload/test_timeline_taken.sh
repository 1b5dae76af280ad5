#!/bin/bash
# The file of a timeline is emptied, shortened, punched, removed or replaced while it is recorded: the program goes on to
# its end as without us, and one line says why the recording has ended.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/timeline.sh"

# A launch every 100 us for some seconds, then 9000 that fill chunks.
steps=(rate=100 kernels=30000 rate=0 kernels=9000 sync copies=10 sync say=done)
declare -A taken=(
	[emptied]=': >FILE' [shortened]='truncate -s 300000 FILE' [punched]='fallocate -p -o 0 -l 1000000 FILE'
	[removed]='rm FILE' [replaced]='head -c 300000 FILE >copy; mv copy FILE'
)

# The file, once the recording is under way.
recording_of()
{
	local file n
	for ((n = 0; n < 500; n++)); do
		file=$(files "$1" 2>/dev/null)
		[ -n "$file" ] && sleep 0.3 && echo "$file" && return
		sleep 0.02
	done
}

for name in "${!taken[@]}"; do
	TURBO_TIMELINE=launch work "$name" "${steps[@]}" &
	(
		file=$(recording_of "$name")
		cd "$work/$name" && bash -c "${taken[$name]//FILE/$file}"
	) &
done
TURBO_TIMELINE=off work bare "${steps[@]}"
wait

for name in "${!taken[@]}"; do
	is "$name: the program ends as without" "$(cat "$work/bare.status" "$work/bare.out")" \
		"$(cat "$work/$name.status" "$work/$name.out")"
	is "$name: one line says so" "1 1" "$(lines "$name" .) $(lines "$name" 'recording into .* has ended: somebody has ')"
done

finish
