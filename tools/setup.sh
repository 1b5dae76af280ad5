#!/bin/bash
# Install what is missing, or say which command does.
#
#   tools/setup.sh build     compiler, headers: enough for `make` and `make demo`
#   tools/setup.sh check     the above, and what `make check` needs
#   tools/setup.sh headers   only fetch CUDA, CUPTI and NCCL headers as Python wheels into build/deps
#
# Packages come from the distribution through apt-get, as root or through `sudo -n`.
# Everything there already: nothing is run, nothing is printed.
set -u
cd "$(dirname "$0")/.." || exit 1

# The release that shim/hooks.def accounts for; newer headers may name functions it lacks.
WHEELS_CUDA='nvidia-cuda-runtime==13.0.* nvidia-cuda-crt==13.0.* nvidia-cuda-cupti==13.0.*'
WHEEL_NCCL='nvidia-nccl-cu13==2.28.*'
DEPS=build/deps

die()
{
	echo "setup: $*" >&2
	exit 1
}

have_command() { command -v "$1" >/dev/null 2>&1; }
have_header() { echo "#include <$1>" | cc -E - >/dev/null 2>&1 || echo "#include <$1>" | gcc -E - >/dev/null 2>&1; }
have_cmocka() { printf '#include <stdarg.h>\n#include <stddef.h>\n#include <setjmp.h>\n#include <stdint.h>\n#include <cmocka.h>\n' | gcc -E - >/dev/null 2>&1; }
have_library() { ldconfig -p 2>/dev/null | grep -q "$1" || /sbin/ldconfig -p 2>/dev/null | grep -q "$1"; }
have_sanitizer()
{
	echo 'int main(void) { return 0; }' | "$1" "-fsanitize=$2" -x c -o /dev/null - >/dev/null 2>&1
}

# Packages that the mode needs and this machine lacks, one a line.
missing_for_build()
{
	have_command gcc || echo gcc
	have_command make || echo make
	have_command awk || echo mawk
	have_header stdio.h || echo libc6-dev
	have_header libunwind.h || echo libunwind-dev
	have_header uthash.h || echo uthash-dev
	have_header zlib.h || echo zlib1g-dev
}

missing_for_check()
{
	have_cmocka || echo libcmocka-dev
	have_command clang || echo clang
	have_command clang-format || echo clang-format
	have_command valgrind || echo valgrind
	# valgrind needs the loader's symbols, which minimal images strip away.
	[ -e /usr/share/doc/libc6-dbg ] || ! have_command dpkg-query || echo libc6-dbg
	have_command readelf || echo binutils
	have_command zip || echo zip
	have_command spin || echo spin
	have_command python3 || echo python3
	# What exports are loaded with (tests/tools/packages.py).
	python3 -m pip --version >/dev/null 2>&1 || echo python3-pip
	have_command git || echo git
	have_command setarch || echo util-linux
	have_library libjemalloc.so.2 || echo libjemalloc2
	have_library libtcmalloc_minimal.so.4 || echo libtcmalloc-minimal4
	# Opens the page of `turbo report --html`. Ubuntu's package wants snapd, which containers lack.
	have_command chromium || have_command chromium-browser || have_command google-chrome ||
		! grep -q '^ID=debian' /etc/os-release 2>/dev/null || echo chromium fonts-dejavu-core
}

# clang's sanitizer runtimes are a package of their own on newer releases.
missing_runtime()
{
	have_command clang || return 0
	for kind in address undefined thread; do
		if ! have_sanitizer clang $kind; then
			echo "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
			return 0
		fi
	done
}

as_root=
find_root()
{
	if [ "$(id -u)" = 0 ]; then
		return 0
	elif have_command sudo && sudo -n true 2>/dev/null; then
		as_root='sudo -n'
		return 0
	fi
	return 1
}

updated=
install_packages()
{
	[ $# -gt 0 ] || return 0
	local line="apt-get install -y --no-install-recommends $*"
	have_command apt-get || die "missing: $*; install what these Debian packages hold, then try again"
	find_root || die "missing packages; run: sudo $line"
	echo "setup: $line"
	export DEBIAN_FRONTEND=noninteractive
	if [ -z "$updated" ]; then
		$as_root apt-get -q update >/dev/null 2>&1 || echo "setup: apt-get update failed; trying what is known" >&2
		updated=1
	fi
	local log
	log=$(mktemp) || exit 1
	if ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >"$log" 2>&1; then
		tail -n 20 "$log" >&2
		rm -f "$log"
		die "could not install; run: sudo $line"
	fi
	rm -f "$log"
}

# fetch_wheels REQUIREMENT...: unpack the headers of Python wheels into build/deps/include.
fetch_wheels()
{
	# An installed wheel is found by tools/cuda_headers.sh.
	local manual="set CUDA_HOME, or run: python3 -m pip install --no-deps$(printf " '%s'" "$@")"
	python3 -m pip --version >/dev/null 2>&1 || install_packages python3 python3-pip
	mkdir -p "$DEPS/include" || exit 1
	local dir
	dir=$(mktemp -d "$DEPS/fetch.XXXXXX") || exit 1
	echo "setup: fetching headers: $*"
	if ! python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: -d "$dir" "$@" >&2; then
		rm -rf "$dir"
		die "could not fetch the headers; $manual"
	fi
	python3 - "$dir" "$DEPS/include" <<'PY' || die "could not unpack the headers"
import glob, os, sys, zipfile
source, target = sys.argv[1:]
for wheel in glob.glob(os.path.join(source, "*.whl")):
    with zipfile.ZipFile(wheel) as z:
        for name in z.namelist():
            head, sep, tail = name.partition("/include/")
            if not sep or name.endswith("/") or ".." in tail.split("/"):
                continue
            path = os.path.join(target, tail)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as out:
                out.write(z.read(name))
PY
	rm -rf "$dir"
}

# found CUDA_H|NCCL_H|CUPTI_H: that header's path, empty when there is none.
found() { sed -n "s/^$1 := //p" <<<"$headers"; }

# The library needs cuda.h; NCCL's and CUPTI's headers are only read by the check that
# hooks.def names all their functions, and NCCL's wheel is large.
fetch_headers()
{
	local mode=$1 headers
	headers=$(sh tools/cuda_headers.sh --no-fetch)
	# Unquoted on purpose: a list of requirements. The * must reach pip, not the shell.
	set -f
	if [ -z "$(found CUDA_H)" ] || { [ "$mode" = check ] && [ -z "$(found CUPTI_H)" ]; }; then
		fetch_wheels $WHEELS_CUDA
	fi
	if [ "$mode" = check ] && [ -z "$(found NCCL_H)" ]; then
		fetch_wheels "$WHEEL_NCCL"
	fi
	set +f
}

case ${1:-} in
headers)
	fetch_headers build
	;;
build)
	install_packages $(missing_for_build)
	fetch_headers build
	;;
check)
	install_packages $(missing_for_build; missing_for_check)
	install_packages $(missing_runtime)
	fetch_headers check
	;;
*)
	echo "usage: tools/setup.sh build|check|headers" >&2
	exit 2
	;;
esac
