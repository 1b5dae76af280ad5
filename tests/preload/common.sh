# common.sh - sourced by the scripts in tests/preload.
#
# LIBTURBO is the library's absolute path and SIM_DIR the simulated driver's directory
# (tests/run.sh sets both). TURBO_* variables of the caller are dropped: they would be
# options of the programs run here.
set -u
: "${LIBTURBO:?run this through tests/run.sh or make NAME.run_test}"
for name in $(env | sed -n 's/^\(TURBO[A-Z_]*\)=.*/\1/p'); do
	unset "$name"
done
unset LD_PRELOAD LD_LIBRARY_PATH
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

failed=0
ok() { echo "ok: $*"; }
fail()
{
	echo "FAILED: $*"
	failed=1
}
# is WHAT EXPECTED FOUND
is()
{
	if [ "$2" = "$3" ]; then
		ok "$1"
	else
		fail "$1: expected '$2', found '$3'"
	fi
}
finish()
{
	[ ! -e "$work/.mistyped" ] || fail "no such command: $(cat "$work/.mistyped")"
	exit $failed
}
# A script that calls what is not there would pass else: this runs in a shell of its own.
command_not_found_handle()
{
	echo "$1" >>"$work/.mistyped"
	return 127
}
skip()
{
	echo "$*"
	exit 77
}
have() { command -v "$1" >/dev/null 2>&1; }

# quietly NAME COMMAND...: stdout, stderr and status of a command into $work/NAME.*
quietly()
{
	local name=$1
	shift
	timeout 60 "$@" >"$work/$name.out" 2>"$work/$name.err" </dev/null
	echo $? >"$work/$name.status"
}

# same WHAT A B: both runs printed the same bytes and ended the same way.
same()
{
	local part bad=0
	for part in out err status; do
		if ! cmp -s "$work/$2.$part" "$work/$3.$part"; then
			fail "$1: $part differs"
			diff "$work/$2.$part" "$work/$3.$part" | head -n 10
			bad=1
		fi
	done
	[ $bad = 0 ] && ok "$1"
}
