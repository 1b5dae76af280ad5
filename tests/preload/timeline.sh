# timeline.sh - sourced by the test_timeline scripts, after common.sh: runs timeline_work, and asks what its files hold.
[ -f "$SIM_DIR/libcupti.so.13" ] || skip "no CUPTI headers: the simulated libcupti is not built"
[ -x "$BUILD/tests/preload/timeline_dump" ] || skip "timeline_dump is not built"
unset CUDA_HOME CUDA_PATH CONDA_PREFIX CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH
# Copies as the program makes them.
export TURBO_COPY=off
path=$SIM_DIR

# work NAME STEP...: in a folder of its own, $work/NAME; the files' content goes to NAME.dump.
work()
{
	local name=$1
	shift
	mkdir -p "$work/$name"
	(cd "$work/$name" && LD_LIBRARY_PATH=$path LD_PRELOAD=${pre:-}$LIBTURBO \
		timeout 60 "$BUILD/tests/preload/timeline_work" "$@") >"$work/$name.out" 2>"$work/$name.err" </dev/null
	echo $? >"$work/$name.status"
	dump "$name"
}

files() { find "$work/$1" -name '*.timeline' | sort; }

dump() { files "$1" | xargs -r "$BUILD/tests/preload/timeline_dump" >"$work/$1.dump" 2>&1; }

# number NAME WHAT...: of records with that kind and name, or of a count; all files of the run added up.
number()
{
	local name=$1
	shift
	sed -n "s/^$* \([0-9]*\)\( [0-9]*ms\)\?$/\1/p" "$work/$name.dump" | awk '{ n += $1 } END { printf "%.0f\n", n }'
}

# at_least WHAT LEAST FOUND
at_least()
{
	if [ "$3" -ge "$2" ]; then
		ok "$1 ($3)"
	else
		fail "$1: expected $2 or more, found $3"
	fi
}

# lines NAME PATTERN: how many lines of a run's stderr match.
lines() { grep -cE -- "$2" "$work/$1.err"; }

# clean NAME: it ended well and said nothing.
clean()
{
	is "$1 ends well" 0 "$(cat "$work/$1.status")"
	[ -s "$work/$1.err" ] && fail "$1 says: $(head -n 3 "$work/$1.err")"
}

# start NAME STEP...: the program in the background, its input held open; sets pid, and timeout_of, its parent.
declare -A hold
start()
{
	local name=$1
	shift
	mkdir -p "$work/$name"
	mkfifo "$work/$name.in"
	(cd "$work/$name" && LD_LIBRARY_PATH=$path LD_PRELOAD=$LIBTURBO \
		exec timeout 100 "$BUILD/tests/preload/timeline_work" say=ready "$@") \
		>"$work/$name.out" 2>"$work/$name.err" <"$work/$name.in" &
	timeout_of=$!
	exec {hold[$name]}>"$work/$name.in"
	for _ in $(seq 500); do
		[ -s "$work/$name.out" ] && break
		sleep 0.02
	done
	pid=$(pgrep -P $timeout_of)
}

# go NAME: the program goes on after `wait`.
go() { echo >&"${hold[$1]}"; }

# soon WORD...: the command succeeds within five seconds.
soon()
{
	for _ in $(seq 250); do
		"$@" && return 0
		sleep 0.02
	done
	return 1
}

# has NAME: there is a recording in the folder $work/NAME.
has() { [ -n "$(files "$1")" ]; }

h2d='copy Memcpy HtoD (Pageable -> Device)'
