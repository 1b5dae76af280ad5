#!/bin/sh
# Find cuda.h, nccl.h and cupti.h and print make variables for them:
#
#   CUDA_INC  compiler flags    CUDA_H, NCCL_H, CUPTI_H  paths, empty when not found
#
# Order: CUDA_HOME; /usr/local/cuda (unless IGNORE_SYSTEM_CUDA=1); an installed nvidia-*
# Python wheel (unless IGNORE_CUDA_WHEELS=1); the wheels that tools/setup.sh fetched into
# build/deps; the system's include directories. The three headers may come from different
# places. When there is no cuda.h anywhere, the wheels are fetched, unless the argument is
# --no-fetch.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
deps=$root/build/deps/include

wheel_dirs()
{
	command -v python3 >/dev/null 2>&1 || return 0
	python3 - <<'PY' 2>/dev/null
import glob, os, site, sys
places = list(site.getsitepackages()) + [site.getusersitepackages()] + sys.path
seen = []
for place in places:
    for pattern in ("nvidia/*/include", "nvidia/include"):
        for d in sorted(glob.glob(os.path.join(place, pattern)), reverse=True):
            if d not in seen:
                seen.append(d)
                print(d)
PY
}

places()
{
	if [ -n "${CUDA_HOME:-}" ]; then
		echo "$CUDA_HOME/include"
		echo "$CUDA_HOME/extras/CUPTI/include"
	fi
	if [ "${IGNORE_SYSTEM_CUDA:-}" != 1 ]; then
		echo /usr/local/cuda/include
		echo /usr/local/cuda/extras/CUPTI/include
	fi
	[ "${IGNORE_CUDA_WHEELS:-}" = 1 ] || wheel_dirs
	echo "$deps"
	if [ "${IGNORE_SYSTEM_CUDA:-}" != 1 ]; then
		echo /usr/local/include
		echo /usr/include
	fi
}

if [ "${1:-}" != --no-fetch ] && [ -n "${CUDA_HOME:-}" ] && [ ! -f "$CUDA_HOME/include/cuda.h" ]; then
	echo "CUDA_HOME=$CUDA_HOME has no include/cuda.h; looking elsewhere" >&2
fi
all=$(places)

# Directory of the first place that has the header.
place_of()
{
	echo "$all" | while IFS= read -r dir; do
		if [ -f "$dir/$1" ]; then
			echo "$dir"
			break
		fi
	done
}

cuda=$(place_of cuda.h)
if [ -z "$cuda" ] && [ "${1:-}" != --no-fetch ]; then
	bash "$root/tools/setup.sh" headers >&2 || exit 1
	cuda=$(place_of cuda.h)
fi
nccl=$(place_of nccl.h)
cupti=$(place_of cupti.h)

flags=
for dir in "$cuda" "$nccl" "$cupti"; do
	case " $flags " in
	*" $dir "*) ;;
	*) [ -z "$dir" ] || flags="$flags -isystem $dir" ;;
	esac
done
echo "CUDA_INC :=$flags"
echo "CUDA_H := ${cuda:+$cuda/cuda.h}"
echo "NCCL_H := ${nccl:+$nccl/nccl.h}"
echo "CUPTI_H := ${cupti:+$cupti/cupti.h}"
