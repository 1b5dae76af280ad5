#!/bin/bash
# Where the flight file is when /dev/shm is full, half full, read-only or missing: in TMPDIR, in /tmp, or nowhere; the program
# runs on all the same, and one line at info says why nobody sees it. In a mount namespace of its own.
. "$(dirname "$0")/common.sh"

unshare -rm true 2>/dev/null || skip 'no mount namespaces for this user'
program=$BUILD/tests/preload/nccl_alone
line='collectives are not shown to other ranks'

# room NAME WHERE LINES SETUP: the program says WHERE after SETUP, and the log has LINES lines about it.
room()
{
	local name=$1 where=$2 lines=$3 setup=$4
	mkdir -p "$work/tmp"
	quietly run unshare -rm sh -c "$setup"' && exec "$@"' sh env LD_PRELOAD="$LIBTURBO" LD_LIBRARY_PATH="$SIM_DIR" \
		TURBO_LOG=info "$program"
	if [ "$(cat "$work/run.status")" != 0 ] || [ "$(cat "$work/run.out")" != "$where" ]; then
		fail "$name: status $(cat "$work/run.status"), $(cat "$work/run.out" "$work/run.err")"
	elif [ "$(grep -c "$line" "$work/run.err")" != "$lines" ]; then
		fail "$name: $(cat "$work/run.err")"
	elif [ -n "$(ls "$work/tmp")" ]; then
		fail "$name: left $(ls "$work/tmp")"
	else
		ok "$name: $where"
	fi
}

kib=$(LD_LIBRARY_PATH=$SIM_DIR "$program" size)
shm='mount -t tmpfs -o size=4m none /dev/shm' ro='mount -t tmpfs -o ro none /dev/shm'
full='head -c 5000000 /dev/zero >/dev/shm/full 2>/dev/null; :'
tmp="export TMPDIR=$work/tmp"
room 'all is well' /dev/shm 0 "$shm && $tmp"
room '/dev/shm is full' "$work/tmp" 0 "$shm && $full && $tmp"
room '/dev/shm has room for a part' "$work/tmp" 0 "mount -t tmpfs -o size=$((kib / 2))k none /dev/shm && $tmp"
room 'half of /dev/shm is taken' "$work/tmp" 0 "$shm && head -c 2200000 /dev/zero >/dev/shm/others && $tmp"
room 'half of /dev/shm has room for no communicator' "$work/tmp" 0 \
	"mount -t tmpfs -o size=$((2 * kib + 64))k none /dev/shm && $tmp"
room '/dev/shm is read-only' "$work/tmp" 0 "$ro && $tmp"
room '/dev/shm is missing' "$work/tmp" 0 "mount -t tmpfs none /dev && $tmp"
# In /tmp the name is taken, by the number that the program will have.
taken="mkdir /tmp/turbo-0-\$\$.flight && echo /tmp/turbo-0-\$\$.flight >$work/taken"
room 'TMPDIR is no absolute path' nowhere 1 "$ro && $taken && export TMPDIR=tmp"
rmdir "$(cat "$work/taken")" || fail 'the folder that was in the way'
room 'nothing can be written' nowhere 1 "$ro && $taken && unset TMPDIR"
rmdir "$(cat "$work/taken")" || fail 'the folder that was in the way'
finish
