#!/bin/bash
# TURBO_NCCL_WATCHDOG=abort with an NCCL of another major version: one line says that nothing is acted on.
. "$(dirname "$0")/common.sh"

line='is not known here; what is stuck is reported, nothing is aborted'

# says VERSION MODE LINES
says()
{
	quietly run env LD_PRELOAD="$LIBTURBO" LD_LIBRARY_PATH="$SIM_DIR" SIM_NCCL_VERSION="$1" \
		TURBO_NCCL_WATCHDOG="$2" "$BUILD/tests/preload/nccl_alone"
	if [ "$(cat "$work/run.status")" = 0 ] && [ "$(grep -c "$line" "$work/run.err")" = "$3" ]; then
		ok "version $1 under $2: $3 lines"
	else
		fail "version $1 under $2: status $(cat "$work/run.status"), $(cat "$work/run.err")"
	fi
}

says 22809 abort 0
says 23007 abort 0
says 30000 abort 1
says 30000 report 0
says 30000 off 0
finish
