/*
 * find.h - which libcupti belongs to this process.
 *
 * A CUPTI of another CUDA major than the runtime's loses records without saying so. So the major is settled
 * first: that of the mapped libcudart, else the driver's. Then the first of these that is of this major:
 * a libcupti that is mapped already (the program's own, the one that a framework's profiler uses);
 * beside libcudart; in the wheels of a Python that the process runs; in CONDA_PREFIX; where the
 * loader looks; in CUDA_HOME or CUDA_PATH; in /usr/local/cuda.
 */
#ifndef TURBO_CUPTI_FIND_H
#define TURBO_CUPTI_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cupti_found {
	void *handle;     /* of dlopen, for ever */
	uint32_t version; /* as cuptiGetVersion says */
	char path[1024];
};

/*
 * Opens it. false: `why` says what was looked for, for the log. Loads a library: not under a lock, not on a
 * launch. Needs the driver.
 */
bool cupti_find(struct cupti_found *found, char *why, size_t why_size);

/* CUDA major of a version as cuptiGetVersion gives it: 18 → 11, 28 → 12, 130001 → 13. */
unsigned cupti_major(uint32_t version);

/* For tests: candidates for `major` in order, each tried until one returns true. */
typedef bool cupti_try(void *arg, const char *path);
bool cupti_candidates(const char *cudart, const char *packages, unsigned major, cupti_try *try, void *arg);

#endif
