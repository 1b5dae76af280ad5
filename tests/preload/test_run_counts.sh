#!/bin/bash
# tests/run.sh counts no skipped case of a cmocka program as passed, and each of them once.
. "$(dirname "$0")/common.sh"

# A tree with one suite; each of its programs is skipping.c with another wish.
mkdir -p "$work/tests/unit" "$work/build/tests/unit"
cp "$root/tests/run.sh" "$work/tests/"
program()
{
	: >"$work/tests/unit/$1.c"
	printf '#!/bin/sh\n%s\n' "$2" >"$work/build/tests/unit/$1"
	chmod +x "$work/build/tests/unit/$1"
}
program test_a_passes "exec '$BUILD/tests/preload/skipping' ppp"
program test_b_skips_one "exec '$BUILD/tests/preload/skipping' psp"
program test_c_skips_two "exec '$BUILD/tests/preload/skipping' sps"
program test_d_skips_all "exec '$BUILD/tests/preload/skipping' sss"
program test_e_fails "exec '$BUILD/tests/preload/skipping' fss"
program test_f_cannot_run 'echo nothing here; exit 77'
program test_g_is_no_cmocka_program 'echo "[  SKIPPED ] nothing"'

run()
{
	env BUILD="$work/build" SAN= "$@" 2>&1 | sed 's/ ([0-9]* s)//; /^      |/d'
}

cat >"$work/lines" <<'END'
pass  test_a_passes
pass  test_b_skips_one
skip  test_b_skips_one: second: asked to, 2
pass  test_c_skips_two
skip  test_c_skips_two: first: asked to, 1
skip  test_c_skips_two: third
skip  test_d_skips_all: every case
skip  test_d_skips_all: first: asked to, 1
skip  test_d_skips_all: second: asked to, 2
skip  test_d_skips_all: third
fail  test_e_fails
skip  test_f_cannot_run: nothing here
pass  test_g_is_no_cmocka_program
END
{
	cat "$work/lines"
	echo '4 passed, 1 failed, 8 skipped'
} >"$work/closed"

# expect WHAT FILE WANTED
expect()
{
	if diff "$3" "$2" >"$work/diff"; then
		ok "$1"
	else
		fail "$1 (<: expected, >: printed)"
		cat "$work/diff"
	fi
}

run bash "$work/tests/run.sh" -j 1 unit >"$work/got"
expect 'the lines and the count of a run' "$work/got" "$work/closed"

# cmocka's other formats have no list of the skipped.
run CMOCKA_MESSAGE_OUTPUT=TAP bash "$work/tests/run.sh" -j 1 -v unit >"$work/got"
expect 'the same in an environment that asks cmocka for another format' "$work/got" "$work/closed"

: >"$work/results"
run bash "$work/tests/run.sh" -j 1 -l x: -r "$work/results" unit >"$work/got"
sed 's/^\(....\)  /\1  x: /' "$work/lines" >"$work/labelled"
expect 'labelled lines' "$work/got" "$work/labelled"
sed 's/^\(....\) */\1 x: /; s/: every case$//; s/: nothing here$//' "$work/lines" >"$work/wanted"
expect 'the results for check.sh' "$work/results" "$work/wanted"

# A second try: not after what a sanitizer has found, and not with another seed. Both tries are shown.
rm "$work"/tests/unit/* "$work"/build/tests/unit/*
once='[ -e "$0.ran" ] && exit 0; : >"$0.ran"'
program test_fails_once "$once; echo too late; exit 1"
program test_fails_random "$once; exit 1"
program test_hides_nothing "$once; echo 'ERROR: AddressSanitizer: heap-use-after-free'; exit 1"
program test_races "$once; exit 66"
cat >"$work/wanted" <<'END'
pass  test_fails_once at the second try
      | first try (1): too late
fail  test_fails_random
fail  test_hides_nothing
fail  test_races
passed at the second try: test_fails_once
1 passed, 3 failed, 0 skipped
END
env BUILD="$work/build" SAN= bash "$work/tests/run.sh" -j 1 unit 2>&1 |
	sed 's/ ([0-9]* s)//; /^      | exit/d; /^      | ERROR/d' >"$work/got"
expect 'a second try is shown and counted' "$work/got" "$work/wanted"
finish
