#!/bin/bash
# What is not read ahead: on network file systems, under memory pressure, beside too little memory; and disks that fail. A second
# library tells libturbo of another machine: FAKE_MAGIC is every file system's, files below FAKE_ROOT are read instead of /proc's.
. "$(dirname "$0")/common.sh"

cat >"$work/fake.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

int fstatfs(int fd, struct statfs *s)
{
	int (*real)(int, struct statfs *) = (int (*)(int, struct statfs *))dlsym(RTLD_NEXT, "fstatfs");
	int r = real(fd, s);

	if (getenv("FAKE_MAGIC"))
		s->f_type = strtol(getenv("FAKE_MAGIC"), NULL, 16);
	return r;
}

long syscall(long number, ...)
{
	static long (*real)(long, ...);
	const char *root = getenv("FAKE_ROOT");
	char path[512];
	long a[6];
	va_list list;

	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_openat && root && (!strcmp((char *)a[1], "/proc/meminfo") || !strcmp((char *)a[1], "/proc/pressure/memory"))) {
		snprintf(path, sizeof(path), "%s%s", root, (char *)a[1]);
		a[1] = (long)path;
	}
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
END
cc -shared -fPIC -o "$work/fake.so" "$work/fake.c" -ldl 2>/dev/null || skip 'no compiler here'

# files DIR COUNT
files()
{
	mkdir "$1"
	local names=() i
	for ((i = 0; i < $2; i++)); do
		printf -v names[i] '%s/f%05d' "$1" "$i"
	done
	head -c 8192 /dev/zero | tee "${names[@]}" >/dev/null
	sync -f "$1" 2>/dev/null || sync
}
# BUILD is on a disk, as /tmp is not everywhere.
data=$(mktemp -d "$BUILD/test-files-XXXXXX")

trap 'rm -rf "$work" "$data"' EXIT
files "$data/few" 300
files "$data/many" 3000

mkdir -p "$work/proc/pressure"
memory() { printf 'MemTotal: %d kB\nMemFree: 1 kB\nMemAvailable: %d kB\n' "$1" "$2" >"$work/proc/meminfo"; }
pressure() { printf 'some avg10=%s avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n' "$1" >"$work/next" && mv "$work/next" "$work/proc/pressure/memory"; }
memory 16000000 8000000
pressure 0.00

# ahead DIR FILE SECONDS READ [VARIABLE...]: files_ahead's status: 0 the file was read ahead, 1 it was not.
ahead()
{
	env LD_PRELOAD="$LIBTURBO:$work/fake.so" FAKE_ROOT="$work" TURBO_RUN=1 TURBO_FILES=prefetch XDG_CACHE_HOME=/proc/nonexistent "${@:5}" \
		"$BUILD/tests/preload/files_ahead" "$data/$1" "$4" "$data/$1/$2" "$3"
}

ahead few f00290 20 40
case $? in
0) ok 'files are read ahead here' ;;
77) skip 'files stay in memory here' ;;
*) fail "a local disk with much memory: status $?" ;;
esac

for magic in 6969 0bd00bd0 65735546; do
	ahead few f00290 1 40 FAKE_MAGIC=$magic
	[ $? = 1 ] || fail "network file system $magic is read ahead"
done
ahead few f00290 20 40 FAKE_MAGIC=6969 TURBO_FILES_NETWORK=1 || fail "TURBO_FILES_NETWORK=1 reads nothing ahead: $?"
ahead few f00290 1 40 FAKE_MAGIC=1021994 TURBO_FILES_NETWORK=1
[ $? = 1 ] || fail 'a file system in memory is read ahead'
ok 'network file systems only where asked for'

pressure 31.00
ahead few f00290 1 40
[ $? = 1 ] || fail 'a machine that waits for memory reads ahead'
pressure 0.00
memory 16000000 1500000
ahead few f00290 1 40
[ $? = 1 ] || fail 'a machine with a tenth of its memory left reads ahead'
ok 'nothing is read ahead while memory is short'

# 300 files of 8 KiB, and half of 2 MB that they may take.
memory 20000 4000
ahead few f00290 1 60 STRIDE=37
[ $? = 1 ] || fail 'files that do not fit are read ahead in no order'
ahead few f00290 20 40 || fail "nor in the program's order: $?"
ok 'what does not fit is read ahead only in an order that can be told'

# Of 3000 files 2816 may be read until the program goes on: it does after some seconds.
memory 16000000 8000000
# The one that is read last: numbers of deleted files are given out again.
last=$(cd "$data/many" && ls -i | sort -n | awk 'END { print $2 }')
ahead many "$last" 20 80 PAUSE=2 || fail "a program that goes on: $?"
pressure 31.00 && mv "$work/proc/pressure/memory" "$work/short" && pressure 0.00
ahead many "$last" 5 80 PAUSE=1 FROM="$work/short" TO="$work/proc/pressure/memory"
[ $? = 1 ] || fail 'reading goes on when memory gets short'
[ ! -e "$work/short" ] || fail 'memory has not got short'
pressure 0.00
ok 'reading ends when memory gets short'

# A disk that ends too early: what the program sees of it is the same.
cat >"$work/read.py" <<'END'
import errno, multiprocessing, os, sys

def read(path):
    try:
        fd = os.open(path, os.O_RDONLY)
        try:
            return len(os.read(fd, 100000))
        finally:
            os.close(fd)
    except OSError as e:
        return errno.errorcode[e.errno]

if __name__ == '__main__':
    paths = sorted(os.path.join(sys.argv[1], name) for name in os.listdir(sys.argv[1]))
    if len(sys.argv) == 2:
        print([read(p) for p in paths])
    for how in sys.argv[2:]:
        with multiprocessing.get_context(how).Pool(4) as pool:
            for epoch in range(3):
                print(how, pool.map(read, paths, 5))
END
cat >"$work/broken.sh" <<'END'
# IMAGE MOUNT SCRIPT: in a mount namespace of its own; 3: not possible here.
loop=$(losetup -f --show "$1") || exit 3
trap 'umount "$2"; losetup -d "$loop"' EXIT
mount -t ext4 -o ro,noload "$loop" "$2" || exit 3
truncate -s 6600K "$1"
python3 "$3" "$2/files"
END
image() {
	truncate -s 24M "$work/image" && mkfs.ext4 -q -b 4096 -F -d "$work/tree" "$work/image"
}
if have python3; then
	mkdir "$work/tree" "$work/mount"
	files "$work/tree/files" 200 # one block of the directory, before theirs
	for f in "$work"/tree/files/*; do head -c 8192 /dev/urandom >"$f"; done # zeros would have no place on the disk
	if have mkfs.ext4 && have losetup && have unshare && image 2>/dev/null; then
		quietly bare unshare -m bash "$work/broken.sh" "$work/image" "$work/mount" "$work/read.py"
		image
		quietly with unshare -m env LD_PRELOAD="$LIBTURBO" TURBO_FILES=prefetch XDG_CACHE_HOME=/proc/nonexistent \
			bash "$work/broken.sh" "$work/image" "$work/mount" "$work/read.py"
		if [ "$(cat "$work/bare.status")" = 0 ] && grep -q EIO "$work/bare.out"; then
			cmp -s "$work/bare.out" "$work/with.out" || fail "read errors: bare $(cat "$work/bare.out"), with libturbo $(cat "$work/with.out" "$work/with.err")"
			ok "a disk with errors: $(grep -o EIO "$work/bare.out" | wc -l) files"
		else
			echo "no disk that fails here: $(tail -n 1 "$work/bare.err")"
		fi
	fi
	quietly bare python3 "$work/read.py" "$data/few" fork spawn
	quietly with env LD_PRELOAD="$LIBTURBO" TURBO_FILES=prefetch XDG_CACHE_HOME=/proc/nonexistent python3 "$work/read.py" "$data/few" fork spawn
	same 'workers that are forked and spawned' bare with
fi
finish
