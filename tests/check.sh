#!/bin/bash
# Everything that needs no GPU (run by `make check`): builds with gcc and clang, tests, product
# gates, sanitizers, valgrind, style and documentation. One line a test; the last line
# counts them. What could not run on this machine is counted as skipped, never as passed; so is
# a single skipped case of a program that passed.
set -u
cd "$(dirname "$0")/.." || exit 1

if ! mkdir -p build || [ ! -w build ]; then
	echo "check: cannot write to $PWD/build" >&2
	exit 1
fi
make=${MAKE:-make}
jobs=-j$(nproc)
results=$(mktemp) || exit 1
log=$(mktemp) || exit 1
trap 'rm -f "$results" "$log"' EXIT

# note pass|fail|skip NAME [REASON]
note()
{
	echo "$1 $2" >>"$results"
	printf '%-4s  %s%s\n' "$1" "$2" "${3:+: $3}"
}

# step NAME COMMAND...: one line; the output's end when it fails.
step()
{
	local name=$1 start=$SECONDS
	shift
	if "$@" >"$log" 2>&1 </dev/null; then
		note pass "$name" && return 0
	fi
	note fail "$name" "after $((SECONDS - start)) s"
	tail -n 40 "$log" | sed 's/^/      | /'
	return 1
}

have() { command -v "$1" >/dev/null 2>&1; }

build() { env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u O "$make" --no-print-directory -k "$jobs" "$@"; }

run_tests() { BUILD=$PWD/$1 SAN=$2 bash tests/run.sh -r "$results" "${@:3}"; }

plain()
{
	step 'build (gcc)' build CC=gcc programs
	run_tests build '' unit sim preload tools
}

with_clang()
{
	if have clang; then
		step 'build (clang)' build CC=clang programs
	else
		note skip 'build (clang)' 'no clang'
	fi
}

sanitized()
{
	local san
	for san in address undefined thread; do
		if ! echo 'int main(void){return 0;}' | clang -fsanitize=$san -x c - -o /dev/null 2>/dev/null; then
			note skip "tests ($san sanitizer)" 'clang has no such runtime here'
			continue
		fi
		step "build ($san sanitizer)" build CC=clang SAN=$san tests
		run_tests "build-$san" $san -l "$san:" unit sim preload
	done
}

with_valgrind()
{
	if ! have valgrind; then
		note skip 'valgrind' 'not installed'
		return
	fi
	run_tests build '' -t 600 -l valgrind: \
		-w 'valgrind -q --error-exitcode=9 --suppressions=tests/valgrind.supp --leak-check=full
			--show-leak-kinds=definite --errors-for-leak-kinds=definite' unit
}

# Versions of clang-format disagree on details; the sources follow this one.
FORMAT_VERSION=14
check_format()
{
	local files
	if ! have clang-format; then
		note skip 'format' 'no clang-format'
	elif ! clang-format --version | grep -q "version $FORMAT_VERSION\\."; then
		note skip 'format' "is checked with clang-format $FORMAT_VERSION"
	else
		mapfile -t files < <(git ls-files '*.c' '*.h' 2>/dev/null)
		if [ ${#files[@]} = 0 ]; then
			note skip 'format' 'not a git checkout'
		else
			step 'format' clang-format --dry-run -Werror "${files[@]}"
		fi
	fi
}

check_model()
{
	if have spin; then
		step 'models (short)' bash tests/model/run.sh short
	else
		note skip 'models (short)' 'no spin'
	fi
}

check_docs()
{
	step 'tables in READMEs' bash tests/docs.sh
}

plain
with_clang
sanitized
with_valgrind
check_format
check_model
check_docs

count() { grep -c "^$1 " "$results"; }
failed=$(count fail)
sed -n 's/^again /passed at the second try: /p; s/^fail /failed: /p' "$results"
echo "$(count pass) passed, $failed failed, $(count skip) skipped"
[ "$failed" = 0 ]
