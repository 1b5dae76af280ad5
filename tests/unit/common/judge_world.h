/*
 * judge_world.h - worlds for the judge, written as text.
 *
 * A line each:
 *   comm A 0 2 3 [of 8]             communicator A: processes in the order of their ranks
 *   A all_reduce 1024 : d s9 i5 -   its next collective call, one token a rank
 *   A send 0>1 64 : s9 -            rank 0's next send to rank 1, and rank 1's receive
 *   P2 stopped 70                   also: dead, traced, disk, idle, sampled, child, locked, leaving
 *   P2 wait gpu 5 t2                thread 2 has been in a wait for the GPU (nccl: in a call) for 5 s
 *   A ended 1                       its rank 1 has begun to leave it
 *   watched 10                      without a gap for 10 s
 * Tokens: - not made; cT in the call for T seconds; iT made T seconds ago; sT begun on the GPU, too; sT/U made T, begun
 * U seconds ago; d, dT over; bT nothing tells; fT refused; xT captured. Followed by =all_gather/512 it is another
 * call. Behind the bytes: sum, max (reduction), rN (root), gN (group), tN (thread), SN (stream), yN (type), zN (count).
 */
#ifndef TURBO_JUDGE_WORLD_H
#define TURBO_JUDGE_WORLD_H

#include "policy/nccl/judge.h"

#define WORLD_NOW (1000000ull * 1000000000ull)

struct world_text;

/* Fails the test on a line that it does not understand. Of the last one made only. */
const struct judge_world *world_of(const char *text);
/* Its verdict, said in a line: "dead 2 at 5" (culprit's process, sequence), "nothing". */
const char *world_verdict(const char *text, const struct judge_limits *limits);

/* For worlds that are made otherwise: the parts, all empty. */
struct judge_process *world_process(unsigned i);
struct flight_page *world_page(unsigned i);
struct judge_member *world_member(unsigned i);
struct flight_op *world_ops(unsigned i);
struct judge_world *world_empty(unsigned processes);

#endif
