/*
 * sim_nccl.h - what tests may ask of the simulated NCCL beyond NCCL.
 *
 * Found with dlsym in build/sim/libnccl.so.2; the real one has none of these. Any thread, any time, but for those that
 * are given a communicator: not while it is being destroyed.
 */
#ifndef SIM_NCCL_H
#define SIM_NCCL_H

#include <stddef.h>
#include <stdint.h>

#include "nccl_abi.h"

/*
 * Mistakes seen by this process: ranks that called or grouped unlike (told by every rank that has come to
 * it on its device), a communicator used after it was destroyed or aborted, bad memory. A line on stderr each unless
 * SIM_QUIET, and in the file SIM_NCCL_STRICT.
 */
uint64_t sim_nccl_mistakes(void);

/* Sets a fault by the name of its variable without SIM_NCCL_, e.g. ("STUCK", 3). 0: no such fault. */
int sim_nccl_fault(const char *name, uint64_t value);

/* Calls of one function since the start, e.g. "ncclAllReduce" (pnccl* count as nccl*). */
uint64_t sim_nccl_calls(const char *function);
uint64_t sim_nccl_comms(void); /* that live in this process */

/* ---- how this rank's operations were grouped: same answers on all ranks of a correct program ---- */
/* Launches of collectives (a group, or a call outside one; not of sends and receives), and replays of captured ones are
 * not counted again. */
uint64_t sim_nccl_launches(ncclComm_t comm);
/* Operations of the nth (from 0) launch; 0 when it is not known any more (the last 4096 are). */
uint32_t sim_nccl_launch_ops(ncclComm_t comm, uint64_t nth);
/* Hash of all launches so far: functions, counts, types, operators, roots, and where the groups end. */
uint64_t sim_nccl_signature(ncclComm_t comm);
/* Hash of the operations since the last such question, sends and receives too, however they are grouped. */
uint64_t sim_nccl_order(ncclComm_t comm);

/* ---- what the ranks' devices have done, as any rank sees it; replays count ---- */
uint64_t sim_nccl_started(ncclComm_t comm, int rank);
uint64_t sim_nccl_completed(ncclComm_t comm, int rank);

#endif
