/*
 * gathers.h - loops of all-gathers that one program issues bare and with libturbo preloaded, in turns: two jobs of ranks that live
 * side by side. Over the simulated CUDA and NCCL or the real ones.
 */
#ifndef TURBO_TEST_GATHERS_H
#define TURBO_TEST_GATHERS_H

#include "ranks.h"

#define GATHERS_MAX 256

enum gathers_style {
	GATHERS_PLAIN, /* nothing but the calls, on a stream of their own */
	GATHERS_TORCH, /* as PyTorch's async_op: an event and a wait before each, an event after it; then all are waited for */
	GATHERS_GROUPED, /* one group, made by hand */
	GATHERS_STYLES
};
extern const char *const gathers_style_name[GATHERS_STYLES];

/* In a rank. Order: "gathers STYLE COUNT BYTES LOOPS": COUNT all-gathers of BYTES a rank each, LOOPS times; answers
 * "ok US HOST_US OPERATIONS LAUNCHES": the median time from the first call until all are done, and until all are issued; of
 * the simulated NCCL how many operations and launches it has seen. The data is checked. All else: rank_obey(). */
void gathers_obey(struct rank *me, char *order, char *answer);

struct gathers_figures {
	double us, host_us; /* of the slowest rank */
	unsigned long long operations, launches;
};

/* Two jobs, or as many as there are environments (as for ranks_start). False: a line on stderr says why. */
bool gathers_open(struct ranks *jobs, int count, int n, const char *const *const *env);
/* In turns, backwards every other round; the median of `rounds`. False: a rank does not answer within ms. */
bool gathers_turns(struct ranks *jobs, int count, enum gathers_style style, int gathers, size_t bytes,
				   int loops, int rounds, int ms, struct gathers_figures *out);
void gathers_close(struct ranks *jobs, int count);

#endif
