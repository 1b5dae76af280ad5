/*
 * sim_cupti.h - what tests may ask of the simulated CUPTI beyond CUPTI.
 *
 * Found with dlsym in build/sim/libcupti.so.13; the real one has none of these. Any thread, any time.
 */
#ifndef SIM_CUPTI_H
#define SIM_CUPTI_H

#include <stdint.h>

/* Mistakes seen: calls inside buffer callbacks that would hang, bad buffers, finalizing in the wrong place,
 * calls in forked children, stale handles. */
uint64_t sim_cupti_errors(void);

/* Calls of one function since the start, e.g. "cuptiActivityFlushAll". */
uint64_t sim_cupti_calls(const char *function);

/* Records of a kind that were put into buffers; of all kinds for 0. */
uint64_t sim_cupti_records(uint32_t kind);
uint64_t sim_cupti_dropped(void); /* in all, counted or not; zero timestamps are not among them */
uint64_t sim_cupti_zeroed(void);

/* Buffers that the client gave and has not got back. */
uint64_t sim_cupti_buffers_held(void);

/* 1 while driver calls are traced: from the first use of CUPTI until cuptiFinalize. */
int sim_cupti_attached(void);
/* 1 while somebody (not SIM_CUPTI_FOREIGN) is subscribed. */
int sim_cupti_subscribed(void);
/* 1 while the kind is enabled globally. */
int sim_cupti_enabled(uint32_t kind);

/* A tool that was there first, comes or goes. */
void sim_cupti_foreign(int present);

/* Sets a fault by the name of its variable without SIM_CUPTI_, e.g. ("DROP", 100). 0: no such fault. */
int sim_cupti_fault(const char *name, uint64_t value);

#endif
