/*
 * report.h - what timelines say: the results behind `turbo report`, for text, JSON and the page.
 *
 * report_make() reads each trace once, in order of time, and keeps sums, not records. Everything here
 * is then plain data: no pointer leads back into a trace. All times are nanoseconds; points in time are relative
 * to report.origin_ns, which is one clock for all ranks. The JSON document has the same names (README.md).
 *
 * Definitions are those of Holistic Trace Analysis, so that figures can be compared: an operation is a kernel,
 * copy, memset or graph; the window runs from the first start to the last end of an operation; busy is
 * the union of their intervals; communication is kernels whose name matches ^nccl.*Kernel; memory is copies
 * and memsets; other is kernels with Memcpy or Sync in their name; compute is the rest. What was not recorded
 * (gaps, the pauses of TURBO_TIMELINE=sampled) is neither busy nor idle but unseen.
 */
#ifndef TURBO_REPORT_H
#define TURBO_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "trace.h"

enum report_category { REPORT_COMPUTE, REPORT_COMMUNICATION, REPORT_MEMORY, REPORT_OTHER, REPORT_CATEGORIES };

/* Where the time of a window went. compute + exposed[1..3] + idle + unseen = window. */
struct report_time {
	uint64_t window_ns, busy_ns, idle_ns, unseen_ns;
	uint64_t category_ns[REPORT_CATEGORIES]; /* union of each; they may overlap */
	/* Only this: communication without compute; memory without either; other without all three. */
	uint64_t exposed_ns[REPORT_CATEGORIES]; /* [REPORT_COMPUTE] is category_ns[REPORT_COMPUTE] */
	uint64_t overlap_ns;                    /* communication and compute at once; HTA divides it by
											   category_ns[REPORT_COMMUNICATION] */
};

/* For drawing: the share (0 to 1) of each of `bins` equal parts of the report's window. The fine series has up to
 * REPORT_FINE_SPLIT times as many, and those of all GPUs together have REPORT_FINE_BINS, which bounds the page: 6 bytes
 * for a share, 6 shares for a bin. */
#define REPORT_BINS 1000
#define REPORT_FINE_SPLIT 16
#define REPORT_FINE_BINS (128 * REPORT_BINS)
struct report_series {
	unsigned bins;
	uint64_t start, bin_ns;
	float *exposed[REPORT_CATEGORIES]; /* [REPORT_COMPUTE] is all compute; stacked, their sum is busy */
	float *overlap;                    /* communication hidden behind compute; part of exposed[COMPUTE] */
	float *unseen;
};

/* Why the device was idle: what its gap lay between. Each gap is in one class, the first that fits. */
enum report_idle {
	REPORT_IDLE_PAUSE, /* a second and more, a few times only: start-up, a checkpoint, an idle server */
	REPORT_IDLE_INPUT, /* the next operation copies from the host, and the gap is not short */
	REPORT_IDLE_SYNC,  /* the host had waited for the device, or read a result from it, just before */
	REPORT_IDLE_ALLOC, /* the driver was allocating or freeing memory */
	REPORT_IDLE_SHORT, /* less than 30 us: the next launch was late */
	REPORT_IDLE_HOST,  /* longer; the host had launched nothing */
	REPORT_IDLE_CLASSES
};
extern const char *const report_idle_name[REPORT_IDLE_CLASSES]; /* "pause", "input", ... */

/* Lengths of the device's gaps: below 10 us, 100 us, 1 ms, 10 ms, 100 ms, and the rest. */
#define REPORT_GAP_BUCKETS 6
struct report_bucket {
	uint64_t count, ns;
};

struct report_kernel {
	char *name;       /* demangled, whole; mangled when it could not be read */
	char *short_name; /* for people: no parameters, fewer namespaces and template arguments */
	enum report_category category;
	uint64_t count, sum_ns, min_ns, max_ns, p50_ns, p99_ns; /* percentiles to 3 % */
};

struct report_kernels {
	struct report_kernel *item; /* most time first */
	unsigned count;
	struct report_kernel rest; /* all others together; its percentiles are 0 */
	uint64_t names;            /* how many there are in all */
};

enum report_direction {
	REPORT_H2D,
	REPORT_D2H,
	REPORT_D2D,
	REPORT_P2P,
	REPORT_COPY_OTHER, /* arrays, host to host, unknown */
	REPORT_DIRECTIONS
};
extern const char *const report_direction_name[REPORT_DIRECTIONS]; /* "H2D", ... */

struct report_copy {
	uint64_t count, bytes, ns; /* bytes/ns is GB/s */
	uint64_t pageable_count, pageable_bytes, pageable_ns;
	uint64_t small_count;                              /* less than 64 KiB */
	uint64_t staged_count, staged_bytes, staged_ns;    /* by libturbo, as the host saw them; these are not
													   pageable copies any more */
	uint64_t staged_unseen_count, staged_unseen_bytes; /* more of these, begun in a gap of the recording */
};
/* GB/s; 0 where the copies are too few or too short to tell. */
double report_rate(uint64_t bytes, uint64_t ns, uint64_t count);

/* A stream's gaps as HTA classes them; needs launches, else host_wait is 0 and `other` has it. */
struct report_stream {
	uint32_t context, stream;
	uint64_t count, busy_ns;
	uint64_t host_wait_ns, kernel_wait_ns, other_ns;
};

/* A name, how often, how long. */
struct report_tally {
	char *name;
	uint64_t count, failed, ns, max_ns, value;
};
struct report_tallies {
	struct report_tally *item; /* most time first */
	unsigned count;
};

struct report_collective {
	char *function;                             /* "ncclAllReduce" */
	uint64_t count, failed, bytes, small_count; /* small: less than 64 KiB */
	uint32_t ranks;                             /* of the largest communicator */
	uint64_t kernel_count, kernel_ns;           /* device kernels of that function, waiting included */
	double busbw;                               /* GB/s, as nccl-tests define it; 0 unknown */
};

struct report_steps {
	unsigned count;  /* 0: none found. Steps are always inferred */
	char *anchor;    /* the kernel that begins each: its short name */
	uint64_t *start; /* count + 1 of them: step i is from start[i] to start[i + 1] */
	uint64_t median_ns, p99_ns, min_ns, max_ns;
	unsigned slow;       /* longer than 1.5 times the median */
	unsigned unseen;     /* with a gap of the recording in them; not among the lengths … */
	unsigned *unseen_at; /* … these, in order */
	double covered;      /* share of the time without pauses and gaps that usual steps make up */
};

/*
 * How the program runs once it runs: after a quarter of its steps, or where none were recognised after half of the
 * operations. What start-up costs is no rule.
 */
struct report_steady {
	uint64_t start, ns; /* ns: until the end, without pauses and gaps of the recording */
	unsigned steps;     /* 0: none were recognised */
	struct report_bucket input;
	uint64_t input_max_ns;
	struct report_bucket alloc, released; /* calls of the driver, of the process */
	uint64_t alloc_bytes;
};

/* A counter of a device, over the bins of the series. */
struct report_counter {
	char *name;
	unsigned bins;
	double *value; /* the largest in each bin; < 0: no sample there, the one before holds */
	double last, peak;
	uint64_t samples;
};

struct report_gap {
	uint64_t start, duration;
	char *reason;
};

struct report_gpu {
	uint32_t device; /* CUDA's index in the process */
	char *name;
	uint64_t memory_bytes;
	uint64_t first, last;                /* the window */
	uint64_t stretch_start, stretch_end; /* the longest part of it without pause and gap of the recording */
	uint64_t operations, kernels, memsets, memset_bytes, memset_ns, graphs;
	uint64_t kernel_sum_ns, kernel_p50_ns, tiny_kernels, tiny_ns; /* tiny: less than 10 us */
	struct report_time time;
	struct report_series series, fine; /* fine: only where it was asked for, else without bins */
	struct report_bucket gap[REPORT_GAP_BUCKETS];
	struct report_bucket idle[REPORT_IDLE_CLASSES];
	struct report_copy copy[REPORT_DIRECTIONS]; /* staged_* of an unknown device are in the first GPU */
	struct report_stream *stream;
	unsigned streams;
	struct report_counter *counter;
	unsigned counters;
	uint64_t memory_peak;         /* bytes in use on the device, by anyone; 0: not sampled */
	uint64_t memory_process_peak; /* … by this process; 0: NVML did not say */
	struct report_steps steps;
	struct report_steady steady;
	/* Sums of kernels by what their names say, for advice. */
	uint64_t gemm_ns, conv_ns, fp32_ns, fp32_count; /* fp32: of both, without tensor cores */
	uint64_t layout_ns, layout_count;               /* layout: nchwToNhwc and back */
	uint64_t slow_conv_ns, slow_conv_count;         /* direct and explicit algorithms */
};

/* One file: one process. */
struct report_rank {
	char *path, *host, *command, *version;
	char *options; /* of libturbo, those that advice depends on: "TURBO_COPY=on ..."; "": unknown */
	uint32_t pid;
	int rank, ranks, local_rank; /* -1 unknown */
	enum timeline_mode mode;
	bool on_demand; /* by turbo record, not by TURBO_TIMELINE */
	uint32_t cupti_version, driver_version;
	int64_t start, end; /* of the recording; it may begin before the first record */
	bool ended;         /* in good order; else end means nothing */
	bool live;
	uint64_t records, damaged;
	uint64_t lost[TIMELINE_COUNTS]; /* the header's counts */
	double sampled_share;           /* of the time; 1 unless mode is sampled */

	struct report_gpu *gpu; /* those that did something; usually one */
	unsigned gpus;

	struct report_kernels kernels;              /* of all its GPUs */
	bool launches;                              /* API calls were recorded */
	uint64_t launch_count, launch_delay_p50_ns; /* from call to start on the device */
	struct report_tallies calls, syncs, events, overheads;
	struct report_tally alloc, free; /* by the driver; alloc.value: bytes */
	uint64_t alloc_late, oom;        /* allocations in the second half of the window */
	struct report_collective *collective;
	unsigned collectives;
	/* Of the recording, those after the last operation apart. */
	struct report_gap *gap; /* at most REPORT_GAPS, the longest */
	unsigned gaps;
	uint64_t gap_count, gap_ns; /* all of them */
	uint64_t gap_after_ns;
};
#define REPORT_GAPS 64

enum report_severity { REPORT_NOTE, REPORT_WARN, REPORT_BAD };

struct report_finding {
	const char *id; /* stable: "pageable-copies" */
	enum report_severity severity;
	char *title;    /* one line */
	char *evidence; /* figures */
	char *fix;      /* what to do, exactly */
	char *option;   /* libturbo's, "" where there is none */
	double cost;    /* share of the window that it costs, at most; 0 unknown */
	int rank;       /* index in report.rank of the worst; -1: all */
};

struct report {
	uint64_t origin_ns; /* CLOCK_REALTIME of the first record of all */
	uint64_t window_start, window_end;
	bool window_asked;
	unsigned top;
	struct report_rank *rank;
	unsigned ranks;
	/* Over all ranks. */
	struct report_time time; /* sums; shares of time.window_ns are means weighted by time */
	struct report_kernels kernels;
	int straggler;                  /* index in rank; -1: none */
	double straggler_excess;        /* how much longer it needs for a step without waiting, than the median */
	double memory_imbalance;        /* largest peak / mean peak; 0 unknown */
	struct report_finding *finding; /* the costliest first */
	unsigned findings;
	char *verdict; /* one line: where the time goes */
};

struct report_options {
	uint64_t window_start, window_end; /* ns after the first record of all; end 0: everything */
	unsigned top;                      /* kernels to keep by name; 0: 20 */
	bool fine;                         /* with the fine series */
	/* NULL, or called now and then; `done` and `total` are records. */
	void (*progress)(void *arg, uint64_t done, uint64_t total);
	void *progress_arg;
};

/* NULL: no memory. The traces are read from their beginning, and may be closed afterwards. */
struct report *report_make(struct trace **traces, unsigned count, const struct report_options *o);
void report_free(struct report *r);

/* At most so many columns, of which names of kernels take what is beyond 100. */
#define REPORT_COLUMNS 100
enum report_style { REPORT_COLOUR = 1 /* ANSI */, REPORT_UTF8 = 2 };
void report_text(const struct report *r, FILE *to, unsigned style, unsigned columns);
void report_json(const struct report *r, FILE *to);
/* One page that needs nothing else. false: it could not be written (errno). */
bool report_html(const struct report *r, FILE *to);

#endif
