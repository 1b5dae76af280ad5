#!/bin/bash
# What TURBO_TIMELINE records of a program: each kernel, copy and memset, whatever way the process ends.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/timeline.sh"

# ---- modes ----

TURBO_TIMELINE=off work off kernels=10 sync
clean off
is "off leaves no file" "" "$(files off)"

TURBO_TIMELINE=kernel work kernel kernels=3000 copies=20 memsets=30 sync
clean kernel
is "mode" "mode kernel" "$(grep ^mode "$work/kernel.dump")"
is "one file" 1 "$(files kernel | wc -l)"
is "its rights" 600 "$(stat -c %a "$(files kernel)")"
is "it has ended in good order" "ended yes" "$(grep ^ended "$work/kernel.dump")"
is "its devices" "devices 2 Simulated GPU" "$(grep ^devices "$work/kernel.dump")"
is "every kernel" 3000 "$(number kernel kernel fill32)"
is "every copy" 20 "$(number kernel "$h2d")"
is "every memset" 30 "$(number kernel 'memset Memset (Device)')"
is "launches were counted" 3000 "$(number kernel count launches)"
is "no call is recorded" 0 "$(grep -c ^api "$work/kernel.dump")"
is "nothing is lost or odd" "records launches" "$(sed -n 's/^count \([a-z_]*\) .*/\1/p' "$work/kernel.dump" | xargs)"

TURBO_TIMELINE=launch work launch kernels=300 copies=2 memsets=3 sync
clean launch
is "every kernel in launch" 300 "$(number launch kernel fill32)"
is "every launch" 300 "$(number launch api cuLaunchKernel)"
is "every copy's call" 2 "$(number launch api cuMemcpyHtoD_v2)"
is "the wait" 1 "$(number launch sync Context Sync)"
is "and its call" 1 "$(number launch api cuCtxSynchronize)"
is "no other call" 4 "$(grep -c ^api "$work/launch.dump")"

TURBO_TIMELINE=kernel TURBO_TIMELINE_GRAPHS=whole work whole graph=50
is "graphs are recorded whole" "50 0" "$(number whole graph Graph 1) $(number whole kernel fill32)"
TURBO_TIMELINE=kernel work nodes graph=50
is "or each of their kernels" 150 "$(number nodes kernel fill32)"

# ---- ends ----

TURBO_TIMELINE=kernel work unsynced kernels=500
is "an exit without waiting ends well" 0 "$(cat "$work/unsynced.status")"
is "its kernels are there, or counted" 500 \
	"$(($(number unsynced kernel fill32) + $(number unsynced count zero_time)))"

TURBO_TIMELINE=kernel work leave kernels=500 sync sleep=2500 leave
is "what was before the last second survives _exit" "ended no 500" \
	"$(grep ^ended "$work/leave.dump") $(number leave kernel fill32)"
TURBO_TIMELINE=kernel work die kernels=500 sync sleep=2500 die
is "and SIGKILL" "ended no 500" "$(grep ^ended "$work/die.dump") $(number die kernel fill32)"

TURBO_TIMELINE=kernel work fork kernels=100 sync fork kernels=100 sync
clean fork
is "a fork makes no second file" 1 "$(files fork | wc -l)"
is "and costs the parent nothing" 200 "$(number fork kernel fill32)"

TURBO_TIMELINE=kernel work exec kernels=100 sync sleep=2500 exec kernels=11 sync
clean exec
is "a program started by exec has its own file" 2 "$(files exec | wc -l)"
is "and both have their kernels" "100 11" "$(sed -n 's/^kernel fill32 \([0-9]*\) .*/\1/p' "$work/exec.dump" | xargs)"

# ---- several ----

TURBO_TIMELINE=kernel work two kernels=400 sync sleep=500 &
TURBO_TIMELINE=kernel work two kernels=600 sync sleep=500
wait
dump two
is "two processes in one folder" "2 1000" "$(files two | wc -l) $(number two kernel fill32)"

mkdir "$work/elsewhere"
TURBO_TIMELINE=kernel TURBO_TIMELINE_DIR=$work/elsewhere work dir kernels=10 sync
is "TURBO_TIMELINE_DIR" "0 1" "$(files dir | wc -l) $(files elsewhere | wc -l)"
TURBO_TIMELINE=kernel TURBO_TIMELINE_DIR=/proc/none work nowhere kernels=10 sync
is "a folder that is not there: the program runs" 0 "$(cat "$work/nowhere.status")"
is "which is said in one line" "1 1" "$(lines nowhere 'timeline: nothing is recorded: ') $(lines nowhere .)"

finish
