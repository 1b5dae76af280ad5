# cases.sh - the loader cases, sourced after ../common.sh. Each runs bare and with libturbo.so.
#
# loader_cc       compiler of the test libraries, with flags (an array)
# loader_run      command before a program, e.g. an emulator (an array, may be empty)
# preload_env     how a variable reaches the program: a function, `preload_env NAME=VALUE...`
#                 prints the words that go before the program

d=$here/loader
compile() { "${loader_cc[@]}" -Wall -Wextra -Werror -O1 -g -D_GNU_SOURCE "$@" || fail "compiling $*"; }
lib() { compile -shared -fPIC "$@"; }

build_loader()
{
	mkdir -p "$work"/{drv,drv2,stripped,nccl_a,nccl_b,lib/sub}
	lib -DWHO=100 -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -o "$work/drv/libcuda.so.1" "$d/driver.c"
	lib -DWHO=200 -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -Wl,--hash-style=sysv \
		-o "$work/drv2/libcuda.so.1" "$d/driver.c"
	lib -DWHO=300 -DSTRIPPED -Wl,-soname,libcuda.so.1 -o "$work/stripped/libcuda.so.1" "$d/driver.c"
	lib -DWHO=1 -Wl,-soname,libnccl.so.2 -Wl,--build-id -o "$work/nccl_a/libnccl.so.2" "$d/nccl.c"
	lib -DWHO=2 -DMOVED -Wl,-soname,libnccl.so.2 -Wl,--build-id -o "$work/nccl_b/libnccl.so.2" "$d/nccl.c"
	lib -o "$work/lib/libncclusera.so" "$d/copies_user.c" "$work/nccl_a/libnccl.so.2"
	lib -DCUDA -o "$work/lib/libcudauser.so" "$d/copies_user.c" "$work/drv/libcuda.so.1"
	lib -o "$work/lib/libnccluserb.so" "$d/copies_user.c" "$work/nccl_a/libnccl.so.2"
	local name
	for name in libasker.so libcupti.so.13 libToolsInjection64.so libsanitizer-collection.so libnvidia-tool.so.1; do
		lib -Wl,-soname,$name -o "$work/lib/$name" "$d/asker.c"
	done
	lib -DUSER -o "$work/lib/libuser.so" "$d/asker.c" "$work/drv/libcuda.so.1"
	lib -Wl,--enable-new-dtags,-rpath,'$ORIGIN/sub' -o "$work/lib/libouter.so" "$d/asker.c"
	lib -o "$work/lib/sub/libinner.so" "$d/inner.c"
	lib -o "$work/lib/libinterposer.so" "$d/interposer.c"
	lib -o "$work/lib/libearly.so" "$d/early.c"
	lib -o "$work/lib/libnull.so" "$d/null_symbol.S"
	compile -o "$work/probe" "$d/probe.c" -ldl -lpthread
	compile -o "$work/nomalloc" -fno-builtin "$d/nomalloc.c" -ldl
	compile -rdynamic -o "$work/own" "$d/own.c" -ldl
	compile -o "$work/weak" "$d/weak.c" -Wl,--unresolved-symbols=ignore-all
	compile -o "$work/stress" "$d/stress.c" -ldl -lpthread
	compile -rdynamic -o "$work/copies" "$d/copies.c" -ldl -lpthread
	compile -fPIE -pie -o "$work/linked" "$d/linked.c" "$work/drv/libcuda.so.1" -ldl -lpthread
}

# run_case OUTPUT PRELOAD PROGRAM ARGUMENTS...: path, extra (array) are set by the caller
extra=()
run_case()
{
	local name=$1 preload=$2
	shift 2
	local words=(LD_LIBRARY_PATH="$path" "${extra[@]}")
	[ -z "$preload" ] || words+=(LD_PRELOAD="$preload")
	quietly "$name" "${loader_run[@]}" $(preload_env "${words[@]}") "$@"
}

# The loader's text names the library that asked. For a hooked name that is nowhere, asked for
# by the program or a library before libturbo.so, that is libturbo.so: the one difference.
name_asker() { sed -i "s|: $LIBTURBO: undefined symbol: \(cu[A-Za-z0-9_]*\)\$|: $work/probe: undefined symbol: \1|" "$work/turbo.out"; }

# untouched WHAT PROGRAM ARGUMENTS...: libturbo.so changes nothing at all.
untouched()
{
	local what=$1
	shift
	run_case bare "$other_bare" "$@"
	run_case turbo "$other_before$LIBTURBO$other_after" "$@"
	name_asker
	grep -q . "$work/bare.out" || fail "$what: the bare run printed nothing"
	same "$what" bare turbo
}

# hooked LINES WHAT PROGRAM ARGUMENTS...: the same, but in LINES lines the function found is
# ours where it was the driver's.
hooked()
{
	local lines=$1 what=$2 found
	shift 2
	run_case bare "$other_bare" "$@"
	run_case turbo "$other_before$LIBTURBO$other_after" "$@"
	found=$(grep -c '@libturbo\.so$' "$work/turbo.out")
	[ "$found" = "$lines" ] || {
		fail "$what: ours in $found lines, not $lines"
		cat "$work/turbo.out"
	}
	name_asker
	sed -i 's/@libturbo\.so$/@libcuda.so.1/' "$work/turbo.out"
	same "$what" bare turbo
}

run_cases()
{
	local other_bare= other_before= other_after=

	path=$work/drv:$work/lib
	hooked 7 'explicit handles' "$work/probe" handle
	untouched 'the driver and tools see the driver' "$work/probe" left_alone
	hooked 4 'driver in the global scope' "$work/probe" global
	hooked 4 'cuGetProcAddress by caller' "$work/probe" resolver
	run_case turbo "$LIBTURBO" "$work/probe" alias
	printf '%s@libturbo.so\n' 'by address: cuMemcpyHtoD_v2' 'by one name: cuMemFree' \
		'by the other: cuMemcpyHtoD_v2' | cmp -s - "$work/turbo.out" && ok 'two names of one function' ||
		fail "two names of one function: $(cat "$work/turbo.out")"
	untouched 'driver in another local scope' "$work/probe" local
	hooked 2 'driver in the caller'\''s scope' "$work/probe" user
	untouched 'RTLD_NEXT of a library behind libturbo' "$work/probe" user_next
	untouched 'RTLD_NEXT, twice and from 8 threads' "$work/probe" next_threads
	untouched 'callers in no object' "$work/probe" no_object
	untouched 'dlvsym' "$work/probe" versions
	untouched 'dlerror' "$work/probe" errors
	untouched 'RUNPATH and $ORIGIN' "$work/probe" runpath
	untouched 'dlmopen (not caught)' "$work/probe" dlmopen
	untouched 'no memory' "$work/nomalloc"
	untouched "a program's own cuInit" "$work/own"
	hooked 2 'linked program, arguments' "$work/linked"
	extra=(LD_BIND_NOW=1)
	hooked 2 'linked program, LD_BIND_NOW' "$work/linked"
	hooked 7 'explicit handles, LD_BIND_NOW' "$work/probe" handle
	extra=()
	hooked 3 'driver unloaded and another loaded' "$work/probe" reload "$work/drv/libcuda.so.1" "$work/drv2/libcuda.so.1"
	untouched 'copies of NCCL' "$work/probe" nccl "$work/nccl_a/libnccl.so.2" "$work/nccl_b/libnccl.so.2"
	local name
	for name in in_turn unseen same_place again users waiting threads driver; do
		untouched "copies of NCCL, $name" "$work/copies" $name "$work"/nccl_{a,b}/libnccl.so.2 \
			"$work"/lib/lib{nccluser{a,b},cudauser}.so
	done

	untouched 'many threads' "$work/stress" "$work"/{drv,drv2}/libcuda.so.1 "$work"/nccl_{a,b}/libnccl.so.2 \
		"$work/lib/libnull.so"

	path=$work/lib
	untouched 'no driver, a library asks' "$work/probe" no_driver_library
	untouched 'no driver, direct calls' "$work/weak"
	untouched 'no driver, the program asks' "$work/probe" no_driver

	path=$work/stripped:$work/lib
	hooked 6 'driver without newer symbols' "$work/probe" handle
	run_case turbo "$LIBTURBO:$work/stripped/libcuda.so.1" "$work/weak"
	grep -qx 'cuMemAlloc_v2: 500' "$work/turbo.out" && grep -qx 'cuMemcpyHtoD_v2: 500' "$work/turbo.out" ||
		fail 'direct calls of what the driver lacks'

	path=$work/drv:$work/lib
	other_bare=$work/lib/libearly.so other_after=:$work/lib/libearly.so
	untouched 'a constructor before ours' "$work/probe" local
	other_bare=$work/lib/libearly.so other_before=$work/lib/libearly.so: other_after=
	untouched 'a constructor of an earlier library' "$work/probe" local

	deepbind_cases
	interposer_cases
	[ -z "${loader_python:-}" ] || python_cases
}

python_case='import ctypes
driver = ctypes.CDLL("libcuda.so.1")
print("cuInit:", driver.cuInit(7))
address = ctypes.cast(driver.cuInit, ctypes.c_void_p).value
for line in open("/proc/self/maps"):
    low, high = (int(part, 16) for part in line.split()[0].split("-"))
    if low <= address < high:
        print("cuInit@" + line.split("/")[-1].strip())
'

python_cases()
{
	local other_bare= other_before= other_after=

	hooked 1 'python ctypes' "$loader_python" -c "$python_case"
	[ "$(wc -l <"$work/bare.out")" = 2 ] || fail "python ctypes: $(cat "$work/bare".{out,err})"
}

deepbind_cases()
{
	local other_bare= other_before= other_after=

	untouched 'RTLD_DEEPBIND, not engaged' "$work/probe" deepbind
	extra=(TURBO_RUN=1)
	hooked 1 'RTLD_DEEPBIND, engaged' "$work/probe" deepbind
	extra=(TURBO_RUN=1 TURBO_DEEPBIND=keep)
	untouched 'RTLD_DEEPBIND, to be kept' "$work/probe" deepbind
	extra=(TURBO=off)
	untouched 'explicit handles, TURBO=off' "$work/probe" handle
	extra=()
}

# An interposer before libturbo wraps ours; one behind it is asked for by nobody, but what it
# asks for itself is what comes after it.
interposer_cases()
{
	local both=$work/lib/libinterposer.so driver=$work/drv/libcuda.so.1
	local other_bare=$both:$driver other_before=$both: other_after=:$driver

	hooked 1 'an interposer before libturbo' "$work/probe" interposer
	run_case bare "$both:$driver" "$work/probe" interposer
	run_case turbo "$LIBTURBO:$both:$driver" "$work/probe" interposer
	grep '^its' "$work/bare.out" >"$work/a"
	grep '^its' "$work/turbo.out" >"$work/b"
	cmp -s "$work/a" "$work/b" && ok 'RTLD_NEXT of an interposer behind libturbo' ||
		fail "RTLD_NEXT of an interposer behind libturbo: $(diff "$work/a" "$work/b")"
}
