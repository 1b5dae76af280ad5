#!/bin/bash
# Run tests of one build and print a line for each.
#
#   tests/run.sh [-v] [-l LABEL] [-r FILE] [-t SECONDS] WHAT...
#
# WHAT is a suite (unit, sim, preload, tools, gpu, soak) or the name of one test, e.g. test_options.
#   -v  show the output of passing tests too
#   -l  text put before the names, e.g. "asan"
#   -r  append "pass|fail|skip|again NAME[: CASE]" lines to FILE and leave the closing line to the caller
#   -t  time limit of one test (default 120; x4 under a sanitizer)
#   -w  command put before unit test programs, e.g. "valgrind -q"
#   -j  tests that run at once (default: as many as there are cores; 1 with a single name). A test whose
#       first lines say ALONE runs by itself; so does one that says TIMED, because its promise is a limit in
#       seconds, which a machine that does not run us for a while breaks.
#
# A test that fails has a second try, by itself: a machine that stands still for a while fails tests that are right. Both
# are shown, and what passed at the second try is counted as such. No second try: a random test, whose next seed would
# prove nothing; what a sanitizer or valgrind has found.
#
# A test exits with 0 (passed), 77 (skipped) or anything else (failed). The end of
# a failing test's output is shown. Each case that a passing cmocka program skipped has a line
# of its own and counts as one skipped test; a program that skipped every case counts as
# skipped, too. Environment: BUILD (build directory), SAN.
set -u
cd "$(dirname "$0")/.." || exit 1

verbose= label= results= limit= wrap= jobs=$(nproc)
while getopts vl:r:t:w:j: opt; do
	case $opt in
	v) verbose=1 ;;
	l) label=$OPTARG ;;
	r) results=$OPTARG ;;
	t) limit=$OPTARG ;;
	w) wrap=$OPTARG ;;
	j) jobs=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))

BUILD=${BUILD:-$PWD/build}
SAN=${SAN:-}
lib=$BUILD/libturbo.so
sim=$BUILD/sim
export BUILD SAN
export SIM_DIR=$sim LIBTURBO=$lib
if [ -z "$limit" ]; then
	limit=120
	[ -z "$SAN" ] || limit=480
fi
# Only what a test asks for is in its environment: TURBO_* are options of what it runs, CMOCKA_*
# would hide its skipped cases.
for name in $(compgen -e TURBO) $(compgen -e CMOCKA) LD_PRELOAD LD_LIBRARY_PATH; do
	unset "$name"
done
own_results=
if [ -z "$results" ]; then
	results=$(mktemp) || exit 1
	own_results=1
fi
log=$(mktemp) || exit 1
trap 'rm -f "$log" "$results.lock" "$results.turn"; [ -z "$own_results" ] || rm -f "$results"' EXIT

# A unit test may replace a global of the library (-z muldefs), which is no ODR violation.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=0:detect_stack_use_after_return=1:detect_odr_violation=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}
# Worker threads live until the process ends.
# By default every process, forked children too, sleeps a second at its end.
tsan=second_deadlock_stack=1:report_thread_leaks=0:exitcode=66:atexit_sleep_ms=100
[ ! -f tests/tsan.supp ] || tsan=$tsan:suppressions=$PWD/tests/tsan.supp
export TSAN_OPTIONS=${TSAN_OPTIONS:-$tsan}
[ ! -f tests/lsan.supp ] || export LSAN_OPTIONS=${LSAN_OPTIONS:-suppressions=$PWD/tests/lsan.supp}

# The symbolizer that a sanitizer starts inherits LD_PRELOAD, and nothing but a sanitized program
# can load a sanitized libturbo.so: a static program takes it away first.
if [ -n "$SAN" ] && symbolizer=$(command -v llvm-symbolizer); then
	if ! echo "#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	unsetenv(\"LD_PRELOAD\");
	return argc ? execv(\"$symbolizer\", argv) : 1;
}" | cc -x c -O1 -static -o "$BUILD/llvm-symbolizer" - 2>"$log"; then
		echo "no symbols in sanitizer reports: $(tail -n 1 "$log")" >&2
	fi
	for options in ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS; do
		export "$options=${!options}:external_symbolizer_path=$BUILD/llvm-symbolizer"
	done
fi

# What came of a test that exited with 0: "pass", or "skip" when it skipped every case; then
# "CASE[: REASON]" for each skipped case. cmocka names these twice: at the end of the case, where
# the line before is the reason, and in the closing list, which is the one that counts.
outcome()
{
	awk '
	/\[ RUN      \] / { said = ""; next }
	/^\[  PASSED  \] [0-9]+ test\(s\)/ { passed += $4 }
	match($0, /\[  SKIPPED \] /) {
		name = substr($0, RSTART + RLENGTH)
		if (name ~ /^[0-9]+ test\(s\), listed below:$/)
			listed = name + 0
		else if (listed-- > 0)
			skipped = skipped name (reason[name] == "" ? "" : ": " reason[name]) "\n"
		else
			reason[name] = RSTART > 1 ? substr($0, 1, RSTART - 1) : said
		next
	}
	{ said = $0 }
	END { printf "%s\n%s", skipped != "" && !passed ? "skip" : "pass", skipped }' "$log"
}

# report NAME STATUS SECONDS: one line, one for each skipped case, and the output when it matters.
report()
{
	local name=$1 status=$2 seconds=$3 word why= one cases=()
	case $status in
	0)
		mapfile -t cases < <(outcome)
		word=${cases[0]:-fail} cases=("${cases[@]:1}")
		why='every case'
		;;
	77) word=skip why=$(tail -n 1 "$log") ;;
	124 | 137) word=fail && echo "time limit of $limit s exceeded" >>"$log" ;;
	*) word=fail && echo "exit status $status" >>"$log" ;;
	esac
	echo "$word ${label:+$label }$name" >>"$results"
	local again=${first:-}
	[ $word != fail ] || again=
	[ -z "$again" ] || echo "again ${label:+$label }$name" >>"$results"
	printf '%-4s  %s (%s s)' "$word" "${label:+$label }$name" "$seconds"
	[ $word != skip ] || printf ': %s' "$why"
	[ -z "$again" ] || printf ' at the second try'
	printf '\n'
	for one in "${cases[@]}"; do
		echo "skip ${label:+$label }$name: $one" >>"$results"
		printf 'skip  %s: %s\n' "${label:+$label }$name" "$one"
	done
	if [ -n "$verbose" ]; then
		sed 's/^/      | /' "$log"
	elif [ $word = fail ]; then
		tail -n 60 "$log" | sed 's/^/      | /'
	fi
}

# How many tests run beside this one: each holds a shared lock, a second try an exclusive one.
alone()
{
	flock "$1" 8
	timeout -k 5 "$limit" "${@:2}" >"$log" 2>&1 </dev/null 8>&-
} 8>>"$results.turn"

# deserves_another NAME STATUS: see above.
deserves_another()
{
	[ "$2" != 0 ] && [ "$2" != 77 ] && [ "$2" != 66 ] && [[ $1 != *random* ]] &&
		! grep -qE 'Sanitizer|runtime error:|^==[0-9]+==' "$log"
}

# run_now NAME COMMAND...: what it has to say comes in one piece.
run_now()
{
	local name=$1 start=$SECONDS text status first=
	shift
	alone -s "$@"
	status=$?
	if deserves_another "$name" $status; then
		first=$(tail -n 60 "$log" | sed "s/^/      | first try ($status): /")
		alone -x "$@"
		status=$?
	fi
	text=$(report "$name" $status $((SECONDS - start)))${first:+$'\n'$first}
	(flock 9 && printf '%s\n' "$text") 9>>"$results.lock"
}

# run_beside MACHINE NAME COMMAND...: the same beside others, on a simulated machine of its own. A shell's background jobs ignore SIGINT, which tests are about.
run_beside()
{
	trap - INT QUIT
	log=$(mktemp) || exit 1
	SIM_MACHINE=$1
	export SIM_MACHINE
	shift
	run_now "$@"
	rm -f "$log"
}

# run_one NAME COMMAND...; $source is the test's.
running=0 machine=0
run_one()
{
	if [ "$jobs" = 1 ] || head -n 3 "$source" | grep -qwE 'ALONE|TIMED'; then
		wait
		running=0
		run_now "$@"
		return
	fi
	if [ $running -ge "$jobs" ]; then
		wait -n
		running=$((running - 1))
	fi
	machine=$(((machine + 1) % 64))
	run_beside $machine "$@" &
	running=$((running + 1))
}

# Words after KEY: on the first line of a test's source.
first_line()
{
	sed -n "1{s/.*$2: *\([^*]*\).*/\1/p}" "$1" | sed 's/  *[A-Z]*: .*//; s/ *BARE.*//'
}

# A preload program runs with libturbo.so; with BARE on its first line also without it (in
# plain builds: a sanitizer has nothing to find there that it does not find preloaded).
# A gcc sanitizer runtime must come before libturbo.so in the list (clang's is in the program).
preload_program()
{
	local program=$1 name env pre=$lib
	name=$(basename "$program")
	read -ra env <<<"$(first_line "$source" ENV)"
	# Long ones that wait most of their time name the one sanitizer that they run under.
	case $(first_line "$source" SAN) in
	'' | *"${SAN:-plain}"*) ;;
	*) [ -z "$SAN" ] || return 0 ;;
	esac
	if [ -z "$SAN" ] && sed -n 1p "$source" | grep -qw BARE; then
		run_one "$name (bare)" env LD_LIBRARY_PATH="$sim" "${env[@]}" "$program"
	fi
	local runtime
	runtime=$(ldd "$program" 2>/dev/null | sed -n 's/.*=> \(.*lib[atu]*san\.so[^ ]*\).*/\1/p')
	[ -z "$runtime" ] || pre="$runtime:$lib"
	# In a forked child LeakSanitizer misses the memory that other threads' stacks pointed to.
	# Others say NOLEAKS on their first line, and why.
	if [[ $name = *fork* ]] || sed -n 1p "$source" | grep -qw NOLEAKS; then
		env+=("ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0")
	fi
	run_one "$name" env LD_PRELOAD="$pre" LD_LIBRARY_PATH="$sim" "${env[@]}" "$program"
}

# Programs of the build that have a source still.
each_program()
{
	local dir=$1 runner=$2 pattern=$3 program
	for source in tests/"$dir"/$pattern.c; do
		[ -f "$source" ] || continue
		program=$BUILD/tests/$dir/$(basename "$source" .c)
		if [ ! -x "$program" ]; then
			grep -qw 'int main' "$source" || continue # a part of another
			echo "not built" >"$log"
			report "$(basename "$program")" 1 0
			continue
		fi
		$runner "$program"
	done
}

each_script()
{
	local dir=$1 pattern=$2
	for source in tests/"$dir"/$pattern.sh tests/"$dir"/$pattern.py; do
		[ -f "$source" ] || continue
		case $source in
		*.py) run_one "$(basename "$source" .py)" python3 "$source" ;;
		*) run_one "$(basename "$source" .sh)" bash "$source" ;;
		esac
	done
}

# A test whose first line says NATIVE does not run under another program; it says why.
unit_program()
{
	[ -z "$wrap" ] || ! sed -n 1p "$source" | grep -qw NATIVE || return 0
	run_one "$(basename "$1")" $wrap "$1"
}
sim_program() { run_one "$(basename "$1")" env LD_LIBRARY_PATH="$sim" "$1"; }
gpu_program() { run_one "$(basename "$1")" env LD_PRELOAD="$lib" "$1"; }

# run_pattern SUITE PATTERN: the suite's tests whose name matches. Scripts look at the
# product, which a sanitizer would change, so they run in the plain build only.
run_pattern()
{
	case $1 in
	unit) each_program unit unit_program "$2" ;;
	sim) each_program sim sim_program "$2" ;;
	preload)
		each_program preload preload_program "$2"
		[ -n "$SAN" ] || each_script preload "$2"
		;;
	tools) [ -n "$SAN" ] || each_script tools "$2" ;;
	gpu)
		each_program gpu gpu_program "$2"
		each_script gpu "$2"
		;;
	esac
}

for what in "$@"; do
	before=$(wc -l <"$results")
	case $what in
	unit | sim | preload | tools) run_pattern "$what" 'test_*' ;;
	gpu)
		jobs=1
		run_pattern gpu 'test_*'
		;;
	soak)
		limit=$((${SOAK_S:-600} * 2 + 120))
		export SOAK_S
		for suite in unit sim preload tools; do
			run_pattern $suite 'test_*random*'
		done
		;;
	*)
		for suite in unit sim preload tools gpu; do
			[ $suite = gpu ] && [ ! -d "$BUILD/tests/gpu" ] && continue
			run_pattern $suite "$what"
		done
		wait
		running=0
		if [ "$before" = "$(wc -l <"$results")" ]; then
			echo "no test is called $what" >"$log"
			report "$what" 1 0
		fi
		;;
	esac
done

wait
[ -n "$own_results" ] || exit 0
count() { grep -c "^$1 " "$results"; }
failed=$(count fail) again=$(count again)
[ "$again" = 0 ] || sed -n 's/^again /passed at the second try: /p' "$results"
echo "$(count pass) passed, $failed failed, $(count skip) skipped"
[ "$failed" = 0 ]
