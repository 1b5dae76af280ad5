#!/bin/bash
# Times in which nothing is recorded: between samples, and when CUPTI has stopped without a word.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/timeline.sh"

# All at once: each takes its time.
TURBO_TIMELINE=kernel SIM_CUPTI_SILENT=100 work silent rate=5000 kernels=3000 sync &
TURBO_TIMELINE=kernel work slow spin=13000 rate=20000 kernels=500 sync &
TURBO_TIMELINE=kernel work idle kernels=10 sync sleep=12500 kernels=10 sync &
TURBO_TIMELINE=sampled TURBO_TIMELINE_PERCENT=50 work sampled rate=2000 kernels=3500 sync &
TURBO_TIMELINE=sampled TURBO_TIMELINE_PERCENT=50 TURBO_TIMELINE_DETACH=off work attached rate=2000 kernels=3500 sync &
TURBO_TIMELINE=sampled TURBO_TIMELINE_PERCENT=90 work graphs kernels=10 graph=10 sleep=1500 kernels=10 graph=10 sleep=1500 graph=10 &
TURBO_TIMELINE=sampled TURBO_TIMELINE_PERCENT=50 TURBO_TIMELINE_GRAPHS=whole work whole graph=10 sync sleep=1400 graph=10 sync sleep=1300 graph=10 sync &
wait

is "capture lost: the program runs" 0 "$(cat "$work/silent.status")"
is "one line says so" "1 1" "$(lines silent 'the capture is lost') $(lines silent .)"
at_least "and a gap" 1 "$(number silent gap capture lost)"
is "what came before is there" 100 "$(number silent kernel fill32)"

clean slow
is "a long kernel is no loss" "0 500" "$(number slow gap capture lost) $(number slow kernel fill32)"
clean idle
is "nor is a pause" "0 20" "$(number idle gap capture lost) $(number idle kernel fill32)"

# share NAME: per cent of the time that was recorded.
share() { echo $(($(number "$1" count sampled_on) * 100 / $(number "$1" count sampled))); }
for name in sampled attached; do
	clean $name
	is "$name: mode" "mode sampled" "$(grep ^mode "$work/$name.dump")"
	at_least "$name: pauses" 4 "$(number $name gap between samples)"
	at_least "$name: half of the time is seen" 40 "$(share $name)"
	at_least "$name: and not much more" "$(share $name)" 70
	# One on its way when a window opens or closes may be in either figure alone.
	missing=$(($(number $name count launches) - $(number $name kernel fill32)))
	at_least "$name: each launch seen is a kernel, but for a few" "${missing#-}" 4
	at_least "$name: there are some" 500 "$(number $name kernel fill32)"
done

clean graphs
at_least "graphs outlive the pauses" 40 "$(number graphs kernel fill32)"
is "whole graphs: the program runs" 0 "$(cat "$work/whole.status")"
is "graphs that were made in a pause end the recording" "10 1" \
	"$(number whole graph Graph 1) $(lines whole 'CUPTI would crash')"

finish
