/*
 * make_trace.h - a training job on several GPUs, simulated as far as a timeline shows it.
 */
#ifndef TURBO_TEST_MAKE_TRACE_H
#define TURBO_TEST_MAKE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

struct job {
	unsigned ranks;
	uint64_t records; /* of each rank, at least; the last step is finished */
	uint64_t seed;
	int straggler;   /* rank whose kernels take 1.3 times as long; -1: none */
	unsigned layers; /* of the model: about 15 kernels a layer and step */
	bool launches;   /* API records too, as TURBO_TIMELINE=launch has them */
	bool killed;     /* the recording has no end */
	uint32_t chunks; /* of the ring; 0: room for all */
	const char *dir;
};

/* Writes DIR/turbo-node-PID-1.timeline for each rank; returns the number of steps. */
unsigned job_run(const struct job *job);

#endif
