#!/bin/bash
# Check the models with spin: each good configuration completely, without an error; each broken rule with a counterexample.
#
#   tests/model/run.sh short|full      (make model runs the full one)
#
# A line each: configuration, states, what came of it. Exit status 1 when one is not as it must be; 77 without spin.
set -u
cd "$(dirname "$0")" || exit 1
command -v spin >/dev/null && command -v gcc >/dev/null || { echo 'spin or gcc is not installed'; exit 77; }

model=$PWD/agree.pml
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
status=0

# Searches completely; leaves pan's report in `report`.
search()
{
	rm -f pan pan.*
	if ! spin -a "$@" "$model" >report 2>&1 || ! gcc -O1 -DSAFETY -DCOLLAPSE -DMEMLIM=12000 -DVECTORSZ=2048 -w -o pan pan.c >>report 2>&1; then
		return 2
	fi
	./pan -m1000000 >report 2>&1
	! grep -q 'Search not completed\|max search depth too small\|out of memory' report || return 2
	grep -q 'errors: 0' report
}

# line WANTED FLAGS...: WANTED is good or bad.
line()
{
	local wanted=$1 found states
	shift
	search "$@"
	case $? in
	0) found=good ;;
	1) found=bad ;;
	*) found='not searched' ;;
	esac
	# pan stops at the first error, so that search is not complete.
	[ $wanted != bad ] || ! grep -q 'errors: 1' report || found=bad
	states=$(sed -n 's/^ *\([0-9]*\) states, stored$/\1/p' report)
	if [ "$found" = $wanted ]; then
		printf 'ok    %-44s %10s states, %s\n' "$*" "${states:-?}" \
			"$([ $wanted = good ] && echo 'no error' || sed -n 's/^pan:1: \(assertion violated\|invalid end state\).*/\1/p' report | head -n 1)"
	else
		printf 'WRONG %-44s expected %s, found %s\n' "$*" "$wanted" "$found"
		tail -n 20 report
		status=1
	fi
}

good()
{
	line good -DN=2 -DK=3 -DCUTS
	line good -DN=2 -DK=4 -DMESSAGES
	[ "$1" = full ] || return
	line good -DN=2 -DK=5
	line good -DN=2 -DK=4 -DCRASH=1
	line good -DN=2 -DK=4 -DCUTS
	line good -DN=2 -DK=3 -DCUTS -DCRASH=1
	line good -DN=2 -DK=3 -DALONE -DCRASH=1
	line good -DN=2 -DK=3 -DLEAVE -DCRASH=1
	line good -DN=2 -DK=2 -DCUTS -DALONE -DLEAVE -DCRASH=1
	line good -DN=2 -DK=4 -DCRASH=1 -DSLOTS=2
	line good -DN=2 -DK=5 -DMESSAGES
	line good -DN=3 -DK=3
	line good -DN=3 -DK=2 -DCRASH=2
	line good -DN=3 -DK=3 -DMESSAGES
	line good -DN=3 -DK=2 -DCUTS
	line good -DN=3 -DK=2 -DLEAVE
	line good -DN=3 -DK=3 -DSLOTS=2
}

# The rules of policy/nccl/AGREE.md, each broken.
bad()
{
	line bad -DN=2 -DK=3 -DBAD_UNLOGGED
	line bad -DN=2 -DK=3 -DBAD_BEYOND
	line bad -DN=2 -DK=3 -DLEAVE -DBAD_LEAVE_PENDING
	[ "$1" = full ] || return
	line bad -DN=2 -DK=3 -DBAD_COMMITTED_ALONE
	line bad -DN=2 -DK=3 -DBAD_STORE
	line bad -DN=2 -DK=3 -DCRASH=1 -DBAD_TWO_STORES
	line bad -DN=2 -DK=3 -DBAD_JOINED_ONLY
	line bad -DN=2 -DK=3 -DBAD_NO_MUTEX
	line bad -DN=2 -DK=3 -DCUTS -DBAD_PUBLISH_FIRST
	line bad -DN=2 -DK=3 -DALONE -DBAD_ALONE_STAYS
	line bad -DN=2 -DK=3 -DBAD_UNCOUNTED
	line bad -DN=2 -DK=3 -DSLOTS=2 -DBAD_OVERWRITE
	line bad -DN=2 -DK=3 -DSLOTS=2 -DCRASH=1 -DBAD_FULL_WAITS
	line bad -DN=2 -DK=3 -DBAD_LATE_ZERO
	line bad -DN=2 -DK=3 -DBAD_NO_HELPER
	line bad -DN=2 -DK=3 -DBAD_FOLLOWER
	line bad -DN=2 -DK=3 -DCRASH=1 -DBAD_WAIT
	line bad -DN=2 -DK=3 -DMESSAGES -DBAD_WAIT
}

case ${1:-full} in
short | full)
	good "${1:-full}"
	bad "${1:-full}"
	;;
*)
	echo 'usage: tests/model/run.sh short|full' >&2
	exit 2
	;;
esac
exit $status
