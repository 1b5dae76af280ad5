#!/bin/bash
# Data files read ahead, and limits: what happens, what does not, and that nothing is left behind.
. "$(dirname "$0")/common.sh"

data=$work/data
mkdir -p "$data/py"
for ((i = 0; i < 300; i++)); do
	printf -v name 'f%05d' "$i"
	head -c $((4096 + i * 16)) /dev/zero >"$data/$name"
	[ $i -ge 40 ] || cp "$data/$name" "$data/py/$name.py"
done
sync -f "$data" 2>/dev/null || sync

# ahead MODE READ FILE SECONDS [VARIABLE...]: exit status of files_ahead under TURBO_FILES=MODE.
ahead()
{
	env LD_PRELOAD="$LIBTURBO" TURBO_RUN=1 TURBO_FILES="$1" "${@:5}" "$BUILD/tests/preload/files_ahead" "$data" "$2" "$data/$3" "$4"
}

ahead prefetch 40 f00290 20
case $? in
0) ok 'files that the program has not come to are in memory' ;;
77) skip 'files stay in memory here' ;;
*) fail "prefetch: status $?" ;;
esac
for mode in limits off; do
	ahead $mode 40 f00290 1
	[ $? = 1 ] || fail "TURBO_FILES=$mode reads ahead"
done
ahead prefetch 8 f00290 1
[ $? = 1 ] || fail 'a few files are a run already'
ahead prefetch 40 py/f00030.py 1
[ $? = 1 ] || fail 'files that end otherwise, below the folder, were read'
env LD_PRELOAD="$LIBTURBO" TURBO_FILES=prefetch "$BUILD/tests/preload/files_ahead" "$data" 40 "$data/f00290" 1
[ $? = 1 ] || fail 'a process that is not engaged reads ahead'
ok 'and only where asked for, after a run, of files that end alike'

# Files vanish meanwhile.
for round in 1 2 3; do
	(sleep 0.0$round; rm -f "$data"/f0015*) &
	ahead prefetch 40 f00290 20 || fail 'reading ahead ends where files are deleted'
	wait
done
ok 'deleted files do no harm'

# Side by side: one reads for all.
ahead off 0 f00290 0
for i in 1 2 3 4; do
	KEEP=1 ahead prefetch 60 f00290 20 TURBO_LOG=debug TURBO_LOG_FILE="$work/log" &
	pids[i]=$!
done
for i in 1 2 3 4; do
	wait "${pids[i]}" || fail "one of four at once: status $?"
done
# Who comes when the first has ended finds what it has read.
[ "$(grep -c 'are read ahead' "$work/log")" -le 2 ] || fail "of four at once more than one reads: $(cat "$work/log")"
ok 'four at once'

soft() { (ulimit -Sn 256; env LD_PRELOAD="$LIBTURBO" "$@" bash -c 'ulimit -Sn'); }
hard=$(ulimit -Hn)
[ "$hard" != unlimited ] && [ "$hard" -le 65536 ] && most=$hard || most=65536
[ "$(soft TURBO_RUN=1)" = $most ] || fail "soft limit: $(soft TURBO_RUN=1), expected $most"
[ "$(soft TURBO_RUN=1 TURBO_FILES=off)" = 256 ] || fail 'TURBO_FILES=off raises the limit'
[ "$(soft)" = 256 ] || fail 'a process that is not engaged gets another limit'
[ "$(soft TURBO=off TURBO_RUN=1)" = 256 ] || fail 'TURBO=off raises the limit'
ok "the limit of descriptors is raised to $most, where it is wanted"

# A small /dev/shm is named once, by whoever puts something there first.
shared()
{
	unshare -m sh -c 'mount -t tmpfs -o size="$0" none /dev/shm && exec "$@"' "$1" env LD_PRELOAD="$LIBTURBO" "${@:2}" python3 -c '
import os
from multiprocessing.shared_memory import SharedMemory
for i in range(3):
    if os.fork() == 0:
        m = SharedMemory(create=True, size=4096)
        m.close()
        m.unlink()
        os._exit(0)
    os.wait()
' 2>&1 | grep -c '/dev/shm holds'
}
if have python3 && unshare -m true 2>/dev/null && unshare -m mount -t tmpfs none /dev/shm 2>/dev/null; then
	[ "$(shared 16m)" = 1 ] || fail "a /dev/shm of 16 MiB is named $(shared 16m) times"
	[ "$(shared 2g)" = 0 ] || fail 'a large /dev/shm is named'
	[ "$(shared 16m TURBO_FILES=off)" = 0 ] || fail 'TURBO_FILES=off speaks of /dev/shm'
	ok 'a small /dev/shm is named once'
else
	echo 'no mount of our own here: nothing is known about /dev/shm'
fi
finish
