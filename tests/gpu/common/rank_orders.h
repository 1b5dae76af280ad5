/*
 * rank_orders.h - what a rank can be told to do (ranks.h), over CUDA and NCCL by dlopen.
 *
 * Answers: "ok"; a value where one is asked for; else "error …". [options] in any order; C, S, G are small numbers of
 * communicators, streams and graphs; a stream is made when it is first used. Data is TYPE values that ranks know of each
 * other, in a send and a receive buffer of RANK_BUFFER bytes each; `check` compares what the operations since the last
 * check have received.
 *
 *	init [comm=C] [nonblocking=1]                blocks until all ranks have
 *	split COLOR KEY to=C [comm=C]                COLOR -1: none
 *	shrink RANK… to=C [comm=C] [abort=1]
 *	fill [type=T] [comm=C]                       the send buffer, as the communicator's rank; init does, with f32
 *	allgather|allreduce|reducescatter|reduce|broadcast|bcast|alltoall|gather|scatter|send|recv COUNT
 *	  [type=i8 u8 i32 u32 i64 u64 f16 f32 f64 bf16 e4m3 e5m2] [op=sum prod max min avg] [root=R] [peer=R]
 *	  [comm=C] [stream=S] [inplace=1] [times=N]  peer: of send and recv
 *	group, end                                   between them operations are in one group
 *	check                                        waits for the streams first
 *	sync [stream=S], query [stream=S]            query: "done" or "busy"
 *	spin US [stream=S]                           a kernel that takes so long
 *	gate [stream=S], open                        a kernel that runs until `open`
 *	capture [stream=S], captured G [stream=S], replay G [stream=S], drop G
 *	async [comm=C]                               the result code that ncclCommGetAsyncError gives
 *	last [comm=C]                                ncclGetLastError
 *	abort|destroy|finalize|revoke [comm=C]; abortall, all in one group
 *	behind ORDER                                 obeyed by a thread of its own; answers at once
 *	joined                                       waits for that thread; its answer
 *	sleep MS, work MS (on the CPU), stop (SIGSTOP to itself), exit CODE
 *	fault NAME VALUE, mistakes, launches, signature, order, started R, completed R   of the simulated NCCL; [comm=C]
 */
#ifndef TURBO_TEST_RANK_ORDERS_H
#define TURBO_TEST_RANK_ORDERS_H

#include "ranks.h"

#define RANK_BUFFER (4u << 20)

void rank_obey(struct rank *me, char *order, char *answer);

#endif
