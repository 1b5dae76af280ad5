/*
 * metrics.h - the pass over a trace: what its files share. report.h has the results.
 *
 * When there is no memory, the command ends with a line and exit 1: nothing could be reported anyway.
 */
#ifndef TURBO_METRICS_H
#define TURBO_METRICS_H

#include "report.h"

/* ---- metrics_alloc.c ---- */

void *metrics_alloc(size_t n, size_t size); /* zeroed */
void *metrics_grow(void *old, size_t n, size_t size);
char *metrics_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- hist.c: lengths of time, percentiles to 3 % ---- */

/* 32 buckets an octave, up to 2^43 ns (2 hours); what is longer is in the last. */
#define HIST_BITS 5
#define HIST_BUCKETS (1u << HIST_BITS)
#define HIST_OCTAVES 39
struct hist {
	uint64_t count, sum, min, max;
	uint32_t *octave[HIST_OCTAVES]; /* HIST_BUCKETS each, or NULL; they saturate */
};
void hist_add(struct hist *h, uint64_t v);
void hist_merge(struct hist *to, const struct hist *from);
/* The smallest value that at least the share `q` of all do not exceed; 0 when there is none. */
uint64_t hist_quantile(const struct hist *h, double q);
void hist_free(struct hist *h);

/* ---- kernel_names.c ---- */

enum kernel_trait {
	KERNEL_GEMM = 1,
	KERNEL_FP32 = 2, /* a matrix product or convolution without tensor cores */
	KERNEL_CONV = 4,
	KERNEL_LAYOUT = 8, /* NCHW to NHWC or back */
	KERNEL_SLOW_CONV = 16
};
enum report_category kernel_category(const char *name);
unsigned kernel_traits(const char *name);
char *kernel_short_name(const char *name);

/* ---- kernels.c: kernels by name ---- */

struct kernel_slot {
	char *name;
	uint32_t hash;
	enum report_category category;
	unsigned traits;
	struct hist hist;
};
struct kernel_table {
	struct kernel_slot *slot;
	uint32_t count, room;
	uint32_t *index; /* open addressing, slot + 1; of index_size, a power of two */
	uint32_t index_size;
};
/* The number of the slot of `name`; a new one when there is none. Stays as others are added. */
uint32_t kernels_slot(struct kernel_table *t, const char *name);
/* The `top` names with most time. */
void kernels_report(const struct kernel_table *t, unsigned top, struct report_kernels *out);
void kernels_merge(struct kernel_table *to, const struct kernel_table *from);
void kernels_free(struct kernel_table *t);

/* ---- sweep.c: unions and intersections of intervals that come in order of their start ---- */

enum { SWEEP_UNSEEN = REPORT_CATEGORIES, SWEEP_KINDS, SWEEP_MASKS = 1 << SWEEP_KINDS };
struct sweep {
	bool begun;
	uint64_t now;                /* everything before it is accounted for */
	uint64_t end[SWEEP_KINDS];   /* until when each kind is active, as known so far */
	uint64_t total[SWEEP_MASKS]; /* ns, by the set of what was active */
	uint64_t origin, bin_ns;     /* bins are those of the finest series there is */
	unsigned bin, bins;
	uint64_t bin_end, in_bin[SWEEP_MASKS];
	uint64_t marked_at, marked[SWEEP_MASKS]; /* total, as of then */
	struct report_series *series, *fine;     /* fine: NULL where there is none */
};
/* Of a bin of the series where `split` bins of the fine series make one. */
static inline uint64_t sweep_bin_ns(uint64_t start, uint64_t end, unsigned split)
{
	return ((end - start) / REPORT_BINS / split + 1) * split;
}
/* Allocates the series of `g`; its bins divide [start, end). With `split` > 1 the fine one, too. */
void sweep_init(struct sweep *s, struct report_gpu *g, uint64_t start, uint64_t end, unsigned split);
/* The window begins; nothing before it counts. */
void sweep_begin(struct sweep *s, uint64_t start);
void sweep_to(struct sweep *s, uint64_t time);
static inline void sweep_add(struct sweep *s, unsigned kind, uint64_t start, uint64_t end)
{
	if (s->begun)
		sweep_to(s, start);
	if (end > s->end[kind])
		s->end[kind] = end;
}
/* Time so far in which nothing was active. */
uint64_t sweep_idle(const struct sweep *s);
/* The window may end at `time`, although the sweep goes on; `time` is not behind it. */
void sweep_mark(struct sweep *s, uint64_t time);
/* The window ends: at a time that the sweep has not passed, or at the last mark. */
void sweep_end(struct sweep *s, uint64_t end, struct report_time *out);

/* ---- steps.c ---- */

/* Starts of the operations of each entry, while these are few: what comes once a step is not frequent. */
struct steps_entry {
	uint32_t count, room; /* room 0 with count > 0: given up */
	uint32_t last;        /* number of its latest operation on the device, from 1 */
	uint32_t *start;      /* in units; of the first of a burst */
};
struct steps {
	struct steps_entry *entry;
	uint32_t entries;
	uint32_t operations, works; /* works: those that are no copies and memsets */
	uint64_t unit;              /* ns */
};
void steps_init(struct steps *s, uint32_t entries, uint64_t span);
/* `works`: it is no copy or memset. */
void steps_add(struct steps *s, uint32_t entry, uint64_t start, bool works);
/* Gaps of the recording: disjoint, in order. */
struct spans {
	struct span {
		uint64_t start, end;
	} * item;
	uint32_t count, room;
};
/* Joins [start, end) to those before it; `start` is not before the last one's. */
void spans_add(struct spans *s, uint64_t start, uint64_t end);
/* How much of them lies behind `from` and before `to`. */
uint64_t spans_within(const struct spans *s, uint64_t from, uint64_t to);
/*
 * Which entry begins each step, or -1; then the steps themselves, of a GPU whose window is [first, last]. `ns` of
 * it are without pauses and gaps of the recording.
 */
int64_t steps_find(const struct steps *s, uint64_t first, uint64_t last, uint64_t ns,
				   const struct spans *unseen);
void steps_report(const struct steps *s, uint32_t anchor, uint64_t ns, const struct spans *unseen,
				  struct report_steps *out);
void steps_free(struct steps *s);

/* ---- steady.c: what comes after the start-up, from sums a bin of the report's window ---- */

struct steady_bin {
	uint64_t operations;
	struct report_bucket input, pause, pause_input; /* gaps by their end; pause: a second and more */
	uint64_t input_max, pause_input_max;
};
struct steady_calls {
	struct report_bucket alloc, released;
	uint64_t alloc_bytes;
};
/* Of a GPU whose steps are known; `pauses`: its long gaps were taken for pauses. */
void steady_report(const struct steady_bin *bin, const struct steady_calls *calls, const struct spans *unseen,
				   bool pauses, struct report_gpu *g);

/* ---- pass*.c: one rank ---- */

#define LAUNCH_SLOTS (1u << 18) /* launches that may be ahead of the device; CUDA lets about 1024 a stream */
struct launch {
	uint32_t correlation;
	bool used;
	uint64_t start, end;
};

#define PASS_GPUS 64
struct pass_gpu {
	struct report_gpu out;
	struct sweep sweep;
	struct steps steps;
	struct hist kernels;
	struct steady_bin *bin; /* REPORT_BINS, as the series has them */
	uint64_t stretch;       /* since when there was no pause and no gap of the recording */
	uint64_t busy_until;    /* the latest end so far */
	uint64_t idle_seen;     /* sweep's idle time when the last operation began */
	struct report_bucket
		pause[REPORT_IDLE_CLASSES]; /* gaps of PAUSE_NS and more, by what they would be else */
	uint64_t alloc_ns;              /* time in the driver's allocations since busy_until */
	bool after_d2h;                 /* what ended last was a copy to the host that is waited for */
};

struct pass_lane {
	struct pass_gpu *gpu;
	uint64_t prev_end;
	struct report_stream out;
};

struct pass_collective {
	struct report_collective out;
	double bus_bytes; /* what crossed the bus, as nccl-tests count */
};

#define PASS_NO_SLOT UINT32_MAX
struct pass {
	struct trace *trace;
	struct report_rank *out;
	uint64_t origin;      /* of the report's times */
	int64_t shift;        /* of CUPTI's clock, until … */
	uint64_t shift_until; /* … this time of the trace */
	uint64_t open_gap;    /* start + 1 of a gap whose end has not come; 0: none */
	const char *open_gap_reason;
	uint64_t window_start, window_end, middle;
	unsigned split; /* as sweep_init() has it */
	bool window_asked;
	/* Of each entry, in the table of its kind; PASS_NO_SLOT: none yet. Records whose entry is of another kind use
	 * odd_slot. */
	uint32_t *slot, odd_slot[TIMELINE_KINDS];
	struct kernel_table kernels;
	struct pass_lane *lane;
	struct pass_gpu *gpu[PASS_GPUS];
	unsigned gpus;
	struct launch *launch; /* LAUNCH_SLOTS, by correlation; NULL: no call yet */
	struct hist launch_delay;
	uint64_t sync_until;   /* the latest end of a synchronisation */
	uint64_t alloc_until;  /* … of an allocation or free by the driver */
	uint64_t unseen_until; /* … of a gap */
	struct spans unseen;
	/* Gaps that began since an operation did: whether one follows is not known. */
	uint64_t tail_start, tail_count, tail_ns;
	bool cut;                          /* the window ends before the records do */
	struct steady_calls *calls;        /* REPORT_BINS, as the series have them */
	struct report_tallies sync_events; /* as libturbo saw them */
	struct pass_collective *collective;
	struct report_copy staged[PASS_GPUS + 1][REPORT_DIRECTIONS]; /* by device; the last: device unknown */
};

/* A record, with times of the report and clipped to its window. */
struct pass_event {
	const struct trace_event *e;
	uint64_t start, end;
};

/* pass.c */
/* The slot of a record's entry. */
uint32_t *pass_slot(struct pass *p, const struct trace_event *e);
struct pass_gpu *pass_gpu(struct pass *p, uint32_t device);
/* One rank, whole; its kernels are added to `all`. */
struct pass_window {
	uint64_t origin, start, end;
	bool asked;
	unsigned split;
};
typedef void pass_progress(void *arg, uint64_t records);
void pass_rank(struct trace *t, const struct pass_window *w, unsigned top, struct report_rank *out,
			   struct kernel_table *all, pass_progress *progress, void *arg);
/* pass_host.c: what host threads did, and what was not recorded. */
void pass_host(struct pass *p, const struct pass_event *e);
void pass_gap(struct pass *p, uint64_t start, uint64_t end, const char *reason);
void pass_host_end(struct pass *p);
/* pass_gpu.c: what devices did. */
void pass_operation(struct pass *p, const struct pass_event *e);
void pass_gpu_end(struct pass *p, struct pass_gpu *g);
/* pass_launch.c: launches and what they led to, and the gaps of streams. */
void pass_launch(struct pass *p, const struct pass_event *e);
void pass_stream(struct pass *p, struct pass_lane *lane, const struct pass_event *e);

/* The bin of the series that a time of the window is in. */
static inline unsigned pass_bin(const struct pass *p, uint64_t time)
{
	uint64_t bin = (time - p->window_start) / sweep_bin_ns(p->window_start, p->window_end, p->split);
	return bin < REPORT_BINS ? (unsigned)bin : REPORT_BINS - 1;
}

/* ---- report.c ---- */

/* The most that the process had, or if that is not known, everyone on the device. */
uint64_t report_memory(const struct report_gpu *g);
void tallies_free(struct report_tallies *t);

/* ---- advice.c, verdict.c ---- */

void advice_give(struct report *r);
void verdict_give(struct report *r);

#endif
