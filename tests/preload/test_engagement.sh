#!/bin/bash
# ALONE: it looks at everybody's files in /dev/shm. Engagement, fork, exit and death: what a preloaded process publishes, says and leaves behind.
set -u
prog=$BUILD/tests/preload/engagement
failures=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$SIM_DIR

# bare and loaded HOW...: what the program prints and says, and its exit status.
bare() { timeout 60 "$prog" "$@" 2>&1; echo "status=$?"; }
loaded() { timeout 60 env LD_PRELOAD="$LIBTURBO" "$prog" "$@" 2>&1; echo "status=$?"; }

check() # WHAT EXPECTED GOT
{
	if [ "$2" = "$3" ]; then
		echo "ok: $1"
	else
		printf 'FAILED: %s\n  expected: %s\n  got:      %s\n' "$1" "${2//$'\n'/ / }" "${3//$'\n'/ / }"
		failures=$((failures + 1))
	fi
}
# Our user's stats files whose process is no more.
leftovers()
{
	local file pid
	for file in /dev/shm/turbo-$(id -u)-*.stats /tmp/turbo-$(id -u)-*.stats; do
		pid=${file##*-}
		[ ! -e "$file" ] || [ -d "/proc/${pid%.stats}" ] || echo "$file"
	done
}

# What cuInit answers in a forked child is the driver's business.
child_init=$(bare fork | sed -n '/^child/,/^child/s/^init=//p')

check 'a process without CUDA has no file' $'plain file=0\nstatus=0' "$(loaded plain)"
check 'cuInit publishes, exit removes' $'init=0\ninit file=1\nstatus=0' "$(loaded init)"
check '_exit keeps the status' $'init=0\n_exit file=1\nstatus=3' "$(loaded _exit)"
check 'TURBO=off publishes nothing' $'init=0\ninit file=0\nstatus=0' "$(TURBO=off loaded init)"
check 'TURBO=observe counts' $'init=0\ninit file=1\nstatus=0' "$(TURBO=observe loaded init)"
check 'a forked child has no file of its own, the parent keeps its' \
	$'init=0\nfork file=1\nchild file=0\ninit='"$child_init"$'\nchild file=0\nchild status=0, my file=1, its file=0\nstatus=0' \
	"$(loaded fork)"
check 'a child that leaves by _exit too' \
	$'init=0\nfork-quick file=1\nchild file=0\nchild status=0, my file=1, its file=0\nstatus=0' "$(loaded fork-quick)"
check 'a child of a parent without CUDA is a process like any other' \
	$'child file=0\ninit=0\nchild file=1\nchild status=0, my file=0, its file=0\nstatus=0' "$(loaded fork-first)"
check 'vfork and exec' \
	$'init=0\nvfork file=1\nplain file=0\nchild status=0, my file=1, its file=0\nstatus=0' "$(loaded vfork)"
check 'a child of clone() does not remove the file' \
	$'init=0\nclone file=1\nchild status=0, my file=1, its file=0\nstatus=0' "$(loaded clone)"
check 'a program that closes all descriptors' $'init=0\nclosed file=1\nstatus=0' "$(loaded closed)"

# Whoever dies without a word is cleaned up after. An exec'd program keeps the number of its
# predecessor, which is why the file of "exec" may still be seen by it.
LD_PRELOAD=$LIBTURBO "$prog" kill >"$work/out" 2>&1 &
dead=$!
wait $dead 2>/dev/null
check 'a killed process leaves its file' yes \
	"$([ -e /dev/shm/turbo-$(id -u)-$dead.stats ] && echo yes || echo no)"
loaded init >/dev/null
check 'the next one removes it' no "$([ -e /dev/shm/turbo-$(id -u)-$dead.stats ] && echo yes || echo no)"
loaded exec >/dev/null
loaded init >/dev/null
check 'no file is left' '' "$(leftovers)"

# The mark of engagement comes from `turbo run` or from python, and is inherited.
check 'no mark by itself' $'none\nstatus=0' "$(loaded mark)"
check 'the command of turbo run is marked' $'1\nstatus=0' "$(TURBO_RUN=1 loaded mark)"
check 'TURBO=off marks nothing' $'none\nstatus=0' "$(TURBO=off TURBO_RUN=1 loaded mark)"
ln -s "$prog" "$work/python3.99"
check 'python is engaged' 1 "$(LD_PRELOAD=$LIBTURBO "$work/python3.99" mark 2>&1)"

[ $failures = 0 ]
