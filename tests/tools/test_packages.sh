#!/bin/bash
# What people install: `make install` and uninstall, the relocatable archive, the Debian package, the wheel. Each is
# unpacked into a fresh place and used there; each says the same files for the same sources.
. "$(dirname "$0")/../preload/common.sh"
have strip && have tar || skip 'no binutils or tar'

make() { env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u SAN "${MAKE:-make}" --no-print-directory -s -C "$root" O="$BUILD" "$@" 2>&1; }

# works COMMAND: it finds its library, and the library is loaded into what it starts.
works()
{
	local maps
	maps=$("$1" run -- cat /proc/self/maps) || return 1
	grep -q 'libturbo\.so' <<<"$maps" && "$1" options >/dev/null && [ "$("$1" --version)" = "turbo $version" ] &&
		"$1" replay --sim --mode bare "$root/tests/traces/mixed-lifetimes.trace" >/dev/null
}

version=$("$BUILD/turbo" --version | cut -d' ' -f2)
out=$BUILD/package

make install DESTDIR="$work/dest" PREFIX=/opt/it >"$work/log" || { cat "$work/log"; fail 'make install'; finish; }
if works "$work/dest/opt/it/bin/turbo"; then ok 'installed below DESTDIR and PREFIX'; else fail 'the installed command does not work'; fi
make uninstall DESTDIR="$work/dest" PREFIX=/opt/it >/dev/null
left=$(find "$work/dest" -type f)
if [ -z "$left" ]; then ok 'uninstall leaves nothing'; else fail "uninstall leaves $left"; fi

# packed KIND FILE: made twice, the same twice.
packed()
{
	make "$1" >"$work/log" || { cat "$work/log"; fail "make $1"; return 1; }
	[ -s "$2" ] || { fail "make $1 leaves no $2"; return 1; }
	sha256sum <"$2" >"$work/first"
	make "$1" >/dev/null
	if sha256sum <"$2" | cmp -s - "$work/first"; then ok "$1: the same sources give the same file"; else fail "$1: another file the second time"; fi
}

archive=$out/libturbo-$version-$(uname -m).tar.gz
if packed dist "$archive"; then
	mkdir -p "$work/elsewhere"
	tar -C "$work/elsewhere" -xzf "$archive"
	if works "$work/elsewhere/libturbo-$version-$(uname -m)/bin/turbo"; then ok 'dist: works where it was unpacked'; else fail 'dist: does not work'; fi
fi

if have dpkg-deb; then
	package=$out/libturbo_${version}_$(dpkg --print-architecture).deb
	if packed deb "$package"; then
		dpkg-deb -x "$package" "$work/deb"
		if works "$work/deb/usr/bin/turbo"; then ok 'deb: works'; else fail 'deb: does not work'; fi
		dpkg-deb -f "$package" Depends | grep -q 'libc6' || fail 'deb: says nothing about libc'
	fi
fi

wheel=$out/libturbo-$version-py3-none-manylinux_2_28_$(uname -m).whl
if have zip && have basenc && python3 -m pip --version >/dev/null 2>&1 && packed wheel "$wheel"; then
	if python3 -m pip install -q --no-index --no-deps --disable-pip-version-check --prefix "$work/wheel" "$wheel" >"$work/log" 2>&1 &&
		works "$(find "$work/wheel" -path '*bin/turbo')"; then
		ok 'wheel: pip installs a command that works'
	else
		cat "$work/log"
		fail 'wheel: pip or the command'
	fi
fi

page=$(find "$work/elsewhere" -name turbo.1)
for command in $("$BUILD/turbo" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
	grep -q "^\.SS turbo $command$" "$page" || fail "turbo.1 lacks turbo $command"
done
for option in $("$BUILD/turbo" options --markdown | sed -n 's/^| `\(TURBO[A-Z_]*\)`.*/\1/p'); do
	grep -q "^\.B $option$" "$page" || fail "turbo.1 lacks $option"
done
if have man; then
	warnings=$(man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null)
	if [ -z "$warnings" ]; then ok 'turbo.1 has all commands and options, and no mistakes'; else fail "turbo.1: $warnings"; fi
fi

# completed WORDS...: what bash offers for the last of them.
completed()
{
	bash -c 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _turbo; echo "${COMPREPLY[*]}"' - \
		"$(find "$work/elsewhere" -path '*completions/turbo')" "$BUILD/turbo" "$@"
}
offers()
{
	local found
	found=$(completed "${@:2}")
	[[ " $found " = *" $1 "* ]] || fail "completion of '${*:2}': no $1 in '$found'"
}
offers record re
offers TURBO_COPY_RING_MB= run -o TURBO_COPY_R
offers --json stats --j
offers -d record -
offers safe run --preset s
offers stats help st
[ -z "$(completed run python --j)" ] || fail "completion of CMD's own arguments: '$(completed run python --j)'"
ok 'completion was tried'
finish
