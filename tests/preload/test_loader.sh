#!/bin/bash
# dlsym, dlvsym and dlopen: what a lookup finds with libturbo.so is what it finds without,
# but for the driver's functions that are ours; errors read the same.
. "$(dirname "$0")/common.sh"

loader_cc=("${CC:-cc}")
loader_run=()
loader_python=$(command -v python3)
preload_env() { printf '%s\n' env "$@"; }
. "$here/loader/cases.sh"
build_loader
[ $failed = 0 ] || finish
run_cases
finish
