#!/bin/sh
# The watchdog and coalescing on as many ranks as there are GPUs: faults and fault-free jobs of real PyTorch and NCCL.
#
#   BUILD=build tests/gpu/multi/run.sh [--out DIR] [NAME...]
#
# CHECK_RANKS=N asks for another number; with fewer GPUs than ranks they share them (../ranks.py).
set -eu
cd "$(dirname "$0")/../../.."
case "$*" in
*nccl_* | *coalesce_*) ;;
*) set -- "$@" nccl_faults nccl_stopped nccl_quiet nccl_busy nccl_abort \
	coalesce_ranks coalesce_torch coalesce_gathers coalesce_trials coalesce_stress ;;
esac
exec python3 tests/gpu/run_check.py "$@"
