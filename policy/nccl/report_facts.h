/*
 * report_facts.h - what a report says of a rank, an operation, a process: found in a world, put in words.
 *
 * Indices and texts of the world come from other processes; whatever is out of bounds is as if it were not there.
 */
#ifndef TURBO_NCCL_REPORT_FACTS_H
#define TURBO_NCCL_REPORT_FACTS_H

#include "judge.h"
#include "report_out.h"

#define REPORT_NAME 24 /* columns of a communicator's or host's name in a sentence */

/* NULL: there is none. */
const struct judge_member *report_member(const struct judge_world *w, int64_t member);
const struct judge_process *report_process(const struct judge_world *w, const struct judge_member *m);

/* Operation `index`; the oldest that is not over; the newest. NULL: none, or not kept (any more). */
const struct flight_op *report_op(const struct judge_member *m, uint64_t index);
const struct flight_op *report_op_open(const struct judge_member *m);
const struct flight_op *report_op_last(const struct judge_member *m);
/* What a rank is in: the open one, else the newest. */
const struct flight_op *report_op_now(const struct judge_member *m);

enum report_stage { STAGE_CAPTURED, STAGE_FAILED, STAGE_BLIND, STAGE_CALLED, STAGE_STARTED, STAGE_DONE };
enum report_stage report_stage(const struct judge_member *m, const struct flight_op *op);
const char *report_stage_name(enum report_stage stage);
/* It has begun something that is not over, so it waits for the others. */
bool report_waits(const struct judge_world *w, const struct judge_member *m);
/* Another rank waits in a call that it has not made. */
bool report_late(const struct judge_world *w, const struct judge_member *m);
/* "waits", "called", "late", "idle", "dead", "stopped", ...: one word. */
const char *report_state(const struct judge_world *w, const struct judge_member *m);
bool report_same_comm(const struct judge_member *a, const uint64_t key[2]);

uint64_t report_ago(const struct judge_world *w, uint64_t since);
/* What a thread of the process waits in; NONE: nothing. */
enum flight_wait_kind report_wait(const struct judge_process *p, uint32_t thread, uint64_t *since);

/* ---- words ---- */

/* `all_gather #22`, `send #3 to rank 5`, `graph launch with #3-#9` */
void report_call(struct out *o, const struct flight_op *op);
/* The same, ` (16.0 KiB)` behind it, or ` (4096 float32 = 16.0 KiB, sum)`. */
void report_call_size(struct out *o, const struct flight_op *op);
void report_call_whole(struct out *o, const struct flight_op *op);
/* `communicator "default" (2 ranks)`, without a name `communicator 9f3c21aa (2 ranks)`; `"default"`, `communicator
 * 9f3c21aa`. */
void report_comm(struct out *o, const struct judge_member *m);
void report_comm_name(struct out *o, const struct judge_member *m);
/* `rank 1 (job rank 5, host a, pid 4242)`; brief: without the host. */
void report_who(struct out *o, const struct judge_world *w, const struct judge_member *m, bool brief);
/* The process's rank in the job where it is not the member's, else -1. */
int32_t report_job_rank(const struct judge_world *w, const struct judge_member *m);
/* `rank 0`, `ranks 0, 2-4 and 7`; sorts. */
void report_ranks(struct out *o, int32_t *rank, unsigned count);
/* What keeps a process that lives, as the operating system shows it: `waits for a lock`, `computes`; NULL: nothing
 * shows. */
#define REPORT_COMPUTES "computes"
#define REPORT_READS "reads or writes"
const char *report_reason(const struct judge_world *w, const struct judge_process *p);
/* `killed by SIGKILL`, `exited`, `died`. */
void report_end_of(struct out *o, const struct judge_process *p);
const char *report_signal(int number, char buf[24]);
const char *report_type(unsigned type);
const char *report_reduction(unsigned reduction);

#endif
