#!/bin/bash
# Start-up learned: what a command opened is read ahead at its next start, from a list that nobody else may touch.
. "$(dirname "$0")/common.sh"
have python3 || skip 'no python3'
python=$(python3 -c 'import sys; print(sys.executable)')

export XDG_CACHE_HOME=$work/cache
lists=$XDG_CACHE_HOME/libturbo
mkdir "$XDG_CACHE_HOME" "$work/modules"
for ((i = 0; i < 80; i++)); do
	echo "value = $i" >"$work/modules/turbo_module_$i.py"
done
for name in program other; do
	printf 'import sys\nsys.path.insert(0, "%s")\nfor i in range(80): __import__("turbo_module_%%d" %% i)\nprint(len(sys.argv))\n' \
		"$work/modules" >"$work/$name.py"
done

# start MODE PYTHON-ARGUMENTS...: with libturbo, its lines in $work/log.
start()
{
	env LD_PRELOAD="$LIBTURBO" TURBO_FILES="$1" TURBO_LOG=debug TURBO_LOG_FILE="$work/log" "$python" "${@:2}" >"$work/out" 2>"$work/err" ||
		fail "python ends with $?"
	[ ! -s "$work/err" ] || fail "python says: $(cat "$work/err")"
}
count() { find "$lists" -type f 2>/dev/null | wc -l; }
# cold: the modules are not in memory.
cold()
{
	sync -f "$work" 2>/dev/null || sync
	"$python" - "$work"/modules/*.py "$work"/modules/__pycache__ <<-'END'
	import os, sys
	cache = sys.argv.pop()
	for path in sys.argv[1:] + [os.path.join(cache, n) for n in (os.listdir(cache) if os.path.isdir(cache) else [])]:
	    fd = os.open(path, os.O_RDONLY)
	    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
	END
}

start limits "$work/program.py"
[ "$(count)" = 0 ] || fail 'a list without prefetch'
start prefetch "$work/program.py"
[ "$(count)" = 1 ] || fail "$(count) lists after the first start"
list=$(find "$lists" -type f)
[ "$(stat -c %a "$list")" = 600 ] || fail "the list's mode is $(stat -c %a "$list")"
[ "$(stat -c %a "$lists")" = 700 ] || fail "the folder's mode is $(stat -c %a "$lists")"
[ "$(tr '\0' '\n' <"$list" | grep -c turbo_module_)" -ge 80 ] || fail 'modules are missing in the list'
tr '\0' '\n' <"$list" | grep -q 'libc\.so' || fail 'libc is missing in the list'
ok 'the first start is learned'

before=$(stat -c %y "$list")
start prefetch "$work/program.py" 1 2 3
[ "$(cat "$work/out")" = 4 ] || fail 'the program prints something else'
[ "$(count)" = 1 ] || fail 'other arguments make another list'
[ "$(stat -c %y "$list")" = "$before" ] || fail 'a list is written again that has nothing new'
start prefetch "$work/other.py"
[ "$(count)" = 2 ] || fail 'another script has no list of its own'
start prefetch -I -S -c 'print(1)'
[ "$(count)" = 2 ] || fail 'a start with few files has a list'
ok 'one list a command'

# Only the list's modules are out of memory, a seventh of its files at least: then it is read.
rm -f "$work/log"
cold
start prefetch "$work/program.py"
if grep -q 'files of the last start are read ahead' "$work/log" 2>/dev/null; then
	ok 'the second start reads it ahead'
else
	echo 'the list is in memory: nothing was to be read'
fi

# Whatever stands in the list, the program runs.
for text in '' 'turbo-files 1' 'turbo-files 2 x' $'turbo-files 1\n* /dev/zero' $'turbo-files 1\n0-9999999999 /etc/passwd' $'turbo-files 1\n* relative'; do
	printf '%s\0' "$text" >"$list"
	chmod 600 "$list"
	start prefetch "$work/program.py"
done
head -c 3000000 /dev/urandom >"$list"
start prefetch "$work/program.py"
printf 'turbo-files 1\n* /dev/stdin\0* %s\0* /proc/self/mem\0* %s\0' "$work/fifo" "$work" >"$list"
mkfifo "$work/fifo"
start prefetch "$work/program.py"
rm "$list"
ln -s "$work/elsewhere" "$list"
start prefetch "$work/program.py"
[ ! -e "$work/elsewhere" ] || fail 'a symbolic link was followed'
ok 'broken lists do no harm'

# A folder that others may write to, one that cannot be made, and one that is none.
rm -rf "$lists"
mkdir -m 777 "$lists"
start prefetch "$work/program.py"
[ "$(count)" = 0 ] || fail 'a list in a folder that others may write to'
export XDG_CACHE_HOME=/proc/nowhere
start prefetch "$work/program.py"
export XDG_CACHE_HOME=relative
HOME=$work/home start prefetch "$work/program.py"
[ ! -e relative ] && [ ! -e "$work/home" ] || fail 'a home was made'
mkdir "$work/home"
HOME=$work/home start prefetch "$work/program.py"
[ -d "$work/home/.cache/libturbo" ] || fail 'no list below HOME'
ok 'folders'

# Many commands: the oldest lists go.
export XDG_CACHE_HOME=$work/many
lists=$XDG_CACHE_HOME/libturbo
mkdir -p -m 700 "$lists"
for ((i = 0; i < 70; i++)); do
	touch -d "@$((1000000 + i))" "$lists/start-$i"
done
touch -d @1000 "$lists/start-0.4711" "$lists/unrelated"
start prefetch "$work/program.py"
[ ! -e "$lists/start-0" ] && [ ! -e "$lists/start-0.4711" ] && [ -e "$lists/unrelated" ] || fail 'the wrong files were removed'
ok 'the oldest list goes'
finish
