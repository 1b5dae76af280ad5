# declarations.sh - what the installed headers declare, for awk; sourced by sh.
#
# Needs: tmp (an empty folder of the caller's), CC, CUDA_INC (compiler flags).

# Headers of other packages that only declare types: empty ones serve the preprocessor.
mkdir -p "$tmp/inc/GL" "$tmp/inc/EGL" "$tmp/inc/vdpau"
for header in GL/gl.h EGL/egl.h EGL/eglext.h vdpau/vdpau.h string fstream; do
	: >"$tmp/inc/$header"
done

# expand LABEL "HEADER..." FLAG...: preprocessed text after a line that says where it is from.
expand()
{
	label=$1 headers=$2
	shift 2
	for header in $headers; do
		printf '#include <%s>\n' "$header"
	done >"$tmp/all.h"
	echo "@@ $label"
	# shellcheck disable=SC2086 # CUDA_INC is a list of flags
	if ! $CC -E -P -w "$@" $CUDA_INC -idirafter "$tmp/inc" "$tmp/all.h" 2>"$tmp/log"; then
		echo "cannot preprocess $headers" >&2
		cat "$tmp/log" >&2
		return 1
	fi
}

# in_dir HEADER NAME...: the names that exist beside HEADER.
in_dir()
{
	dir=$(dirname "$1")
	shift
	for name in "$@"; do
		[ ! -f "$dir/$name" ] || echo "$name"
	done
}
