#!/bin/sh
# The watchdog on as many ranks as there are GPUs: faults and fault-free jobs of real PyTorch and NCCL.
#
#   BUILD=build tests/gpu/multi/run.sh [--out DIR] [NAME...]
#
# CHECK_RANKS=N asks for another number; with fewer GPUs than ranks they share them (../ranks.py).
set -eu
cd "$(dirname "$0")/../../.."
case "$*" in
*nccl_*) ;;
*) set -- "$@" nccl_faults nccl_stopped nccl_quiet nccl_busy nccl_abort ;;
esac
exec python3 tests/gpu/run_check.py "$@"
