#!/bin/bash
# Packages of what `make install` installs (make dist, make deb, make wheel).
#
#   tools/package/package.sh dist|deb|wheel OUT VERSION
#
# Environment: BUILD, MAKE. Writes into OUT and prints the package's path. Times in the packages are the
# SOURCE_DATE_EPOCH, or those of the last commit, so that the same sources give the same package.
set -eu
cd "$(dirname "$0")/../.."

what=$1 out=$2 version=$3
arch=$(uname -m)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
umask 022
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH

die()
{
	echo "package: $*" >&2
	exit 1
}

installed()
{
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL "${MAKE:-make}" --no-print-directory -s O="$BUILD" install DESTDIR="$1" PREFIX="$2"
	# Symbols for debuggers stay in the build directory.
	strip --strip-unneeded "$1$2/lib/libturbo.so" "$1$2/lib/libturbo/sim/libcuda.so.1" "$1$2/bin/turbo"
}

# libunwind for the stacks of reports is looked for beside the library first. A system that has none, or one that
# this copy is too new for, has reports without native stacks.
add_libunwind()
{
	local found
	found=$(ldconfig -p 2>/dev/null || /sbin/ldconfig -p)
	found=$(sed -n 's/^[[:space:]]*libunwind\.so\.8 .* => //p' <<<"$found" | head -n 1)
	[ -n "$found" ] || { echo "package: libunwind.so.8 is not here, and left out" >&2; return; }
	install -m 644 "$found" "$1/libunwind.so.8"
}

# relocatable DIR: bin/turbo and lib/libturbo, which find each other wherever DIR is.
relocatable()
{
	installed "$1" ''
	mv "$1/lib/libturbo.so" "$1/lib/libturbo/"
	add_libunwind "$1/lib/libturbo"
}

same_times() { find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +; }

dist()
{
	local name=libturbo-$version-$arch
	relocatable "$stage/$name"
	same_times "$stage"
	tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner -cf - "$name" | gzip -n9 >"$out/$name.tar.gz"
	echo "$out/$name.tar.gz"
}

deb()
{
	command -v dpkg-deb >/dev/null || die 'dpkg-deb is missing: install dpkg'
	local root=$stage/root debian
	debian=$(dpkg --print-architecture)
	installed "$root" /usr
	mv "$root/usr/share/doc/libturbo/LICENSE" "$root/usr/share/doc/libturbo/copyright"
	gzip -n9 "$root/usr/share/man/man1/turbo.1"
	mkdir "$root/DEBIAN"
	cat >"$root/DEBIAN/control" <<-EOF
		Package: libturbo
		Version: $version
		Architecture: $debian
		Maintainer: The libturbo authors <libturbo@localhost>
		Installed-Size: $(du -ks "$root/usr" | cut -f1)
		Depends: libc6 (>= 2.28), zlib1g
		Recommends: libunwind8
		Section: libs
		Priority: optional
		Description: preload library for programs on NVIDIA GPUs
		 Makes host/device copies, allocation and collectives of unmodified CUDA programs faster, watches
		 collectives for hangs, and records what the GPU does.
	EOF
	same_times "$root"
	dpkg-deb --root-owner-group -b "$root" "$out/libturbo_${version}_$debian.deb" >/dev/null
	echo "$out/libturbo_${version}_$debian.deb"
}

# A wheel is a zip whose RECORD names all files with their hashes; files below data/ go to the environment's prefix.
wheel()
{
	command -v zip >/dev/null || die 'zip is missing: install zip'
	local root=$stage/root name=libturbo-$version tag=py3-none-manylinux_2_28_$arch file
	relocatable "$stage/all"
	mkdir -p "$root/$name.data/scripts" "$root/$name.dist-info"
	mv "$stage/all/bin/turbo" "$root/$name.data/scripts/"
	rmdir "$stage/all/bin"
	mv "$stage/all" "$root/$name.data/data"
	printf '%s\n' 'Metadata-Version: 2.1' 'Name: libturbo' "Version: $version" \
		'Summary: Preload library for programs on NVIDIA GPUs' 'License: MIT' >"$root/$name.dist-info/METADATA"
	printf '%s\n' 'Wheel-Version: 1.0' 'Generator: libturbo' 'Root-Is-Purelib: false' "Tag: $tag" >"$root/$name.dist-info/WHEEL"
	(
		cd "$root"
		find . -type f -printf '%P\n' | LC_ALL=C sort | while read -r file; do
			printf '%s,sha256=%s,%s\n' "$file" \
				"$(sha256sum <"$file" | cut -d' ' -f1 | tr a-f A-F | basenc -d --base16 | basenc --base64url | tr -d =)" \
				"$(stat -c %s "$file")"
		done >"$stage/RECORD"
		printf '%s,,\n' "$name.dist-info/RECORD" >>"$stage/RECORD"
		mv "$stage/RECORD" "$name.dist-info/RECORD"
		same_times .
		rm -f "$out/$name-$tag.whl"
		find . -type f -printf '%P\n' | LC_ALL=C sort | TZ=UTC zip -q -X -9 -@ "$out/$name-$tag.whl"
	)
	echo "$out/$name-$tag.whl"
}

mkdir -p "$out"
out=$(cd "$out" && pwd)
case $what in
dist | deb | wheel) $what ;;
*) die "dist, deb or wheel, not $what" ;;
esac
