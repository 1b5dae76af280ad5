/*
 * make_trace_job.c - the job: every rank does its kernels on one stream and meets the others in all-reduces on
 * a second one; a collective's kernel ends everywhere when the last rank has come.
 *
 * A step: wait for input, copy it, forward, backward with an all-reduce every second layer, optimizer, fetch the
 * loss. Every eighth step waits long for its input, every fourth copies from pageable memory. Ranks are
 * simulated together, one operation at a time.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "make_trace.h"
#include "tests/unit/common/trace_build.h"

#define BATCH 8192 /* records that wait to be put: GPU and host records come in buffers of their own */

enum shape { GEMM, NORM, SOFTMAX, ADD, GELU, COPY_KERNEL, REDUCE, ADAM, SHAPES };

static const struct {
	const char *name;
	uint32_t grid, block, mean_ns;
} shape_of[SHAPES] = {
	[GEMM] =
		{"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_"
		 "kernel__5x_cublas",
		 1024, 384, 60000},
	[NORM] = {"_ZN2at6native12_GLOBAL__N_128vectorized_layer_norm_kernelIffEEviT0_PKT_S5_S5_PS3_S6_", 8192,
			  128, 9000},
	[SOFTMAX] = {"_Z20softmax_warp_forwardIfLi10ELb0EEvPfPKfiii", 4096, 128, 12000},
	[ADD] =
		{"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
		 2048, 128, 5000},
	[GELU] = {"_ZN2at6native18elementwise_kernelILi128ELi4ENS0_11GeluFunctorEEEviT1_", 2048, 128, 6000},
	[COPY_KERNEL] = {"_ZN2at6native27unrolled_elementwise_kernelINS0_13direct_copy_tEEEviT_", 512, 128, 800},
	[REDUCE] = {"_ZN2at6native13reduce_kernelILi512ELi1EfEEvT1_", 256, 512, 7000},
	[ADAM] = {"_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18TensorListMetadataILi4EEEEEvT_",
			  320, 512, 90000},
};

struct worker {
	struct trace_build *file;
	uint64_t now, stream, nccl; /* when the host is done, when the two streams are; ns from the job's start */
	uint64_t records;
	double slowness;
	uint32_t correlation, sequence;
	uint32_t kernel[SHAPES], all_reduce, all_reduce_call, h2d[2], d2h, launch, sync, memory, staged;
	uint16_t compute, communication, host, process;
	struct timeline_record gpu[BATCH], host_side[BATCH];
	uint32_t gpu_count, host_count;
};

static uint64_t random_state;

static double random_unit(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (double)(random_state >> 11) / 9007199254740992.0;
}

/* Most are near the mean, a few much longer. */
static uint64_t around(double mean)
{
	double u = random_unit(), tail = random_unit() < 0.01 ? 3 : 1;
	return (uint64_t)(mean * (0.85 + 0.3 * u) * tail) + 100;
}

/* ---- records ---- */

static void flush(struct worker *w, struct timeline_record *r, uint32_t *n)
{
	for (uint32_t i = 0; i < *n; i++)
		trace_build_put(w->file, &r[i]);
	*n = 0;
}

static void put(struct worker *w, bool gpu, struct timeline_record r)
{
	uint32_t *n = gpu ? &w->gpu_count : &w->host_count;
	struct timeline_record *to = gpu ? w->gpu : w->host_side;
	r.start += TRACE_BUILD_START;
	to[(*n)++] = r;
	w->records++;
	if (*n == BATCH)
		flush(w, to, n);
}

/* A launch on the host, 5 µs; the stream's operation starts when both are ready. Returns its correlation. */
static uint32_t launch(struct worker *w, bool launches)
{
	w->correlation++;
	if (launches)
		put(w, false,
			(struct timeline_record){.start = w->now,
									 .duration = 3500,
									 .correlation = w->correlation,
									 .entry = w->launch,
									 .lane = w->host,
									 .kind = TIMELINE_API});
	w->now += 5000;
	return w->correlation;
}

static void run_kernel(struct worker *w, enum shape shape, bool launches)
{
	uint32_t correlation = launch(w, launches);
	uint64_t duration = around(shape_of[shape].mean_ns * w->slowness);
	uint64_t start = w->stream + 1200 > w->now ? w->stream + 1200 : w->now;
	put(w, true,
		(struct timeline_record){.start = start,
								 .duration = (uint32_t)duration,
								 .correlation = correlation,
								 .entry = w->kernel[shape],
								 .lane = w->compute,
								 .kind = TIMELINE_KERNEL});
	w->stream = start + duration;
}

static void run_copy(struct worker *w, uint32_t entry, uint64_t bytes, double gbps, bool launches)
{
	uint32_t correlation = launch(w, launches);
	uint64_t start = w->stream + 1500 > w->now ? w->stream + 1500 : w->now;
	uint64_t duration = around((double)bytes / gbps) + 1000;
	put(w, true,
		(struct timeline_record){.start = start,
								 .duration = (uint32_t)duration,
								 .correlation = correlation,
								 .entry = entry,
								 .lane = w->compute,
								 .kind = TIMELINE_COPY,
								 .flags = TIMELINE_FLAG_ASYNC,
								 .value = bytes});
	w->stream = start + duration;
}

/* The host waits for `until` in `entry`. */
static void host_waits(struct worker *w, uint64_t until, uint32_t entry, enum timeline_kind kind,
					   uint64_t value)
{
	uint64_t end = until > w->now ? until : w->now + 2000;
	put(w, false,
		(struct timeline_record){.start = w->now,
								 .duration = (uint32_t)(end - w->now),
								 .entry = entry,
								 .lane = w->host,
								 .kind = (uint8_t)kind,
								 .value = value});
	w->now = end;
}

/* ---- all ranks ---- */

static void all_reduce(struct worker *w, const struct job *job, uint64_t bytes)
{
	uint64_t last = 0, transfer = around((double)bytes / 200.0) + 8000;
	uint64_t start[512];
	for (unsigned r = 0; r < job->ranks; r++) {
		launch(&w[r], job->launches);
		put(&w[r], false,
			(struct timeline_record){.start = w[r].now - 5000,
									 .duration = 4500,
									 .correlation = ++w[r].sequence,
									 .entry = w[r].all_reduce_call,
									 .lane = w[r].host,
									 .kind = TIMELINE_COLLECTIVE,
									 .value = bytes});
		start[r] = w[r].stream > w[r].nccl ? w[r].stream : w[r].nccl;
		start[r] = (start[r] > w[r].now ? start[r] : w[r].now) + 2000;
		last = start[r] > last ? start[r] : last;
	}
	for (unsigned r = 0; r < job->ranks; r++) {
		w[r].nccl = last + transfer + (uint64_t)(500 * random_unit());
		put(&w[r], true,
			(struct timeline_record){.start = start[r],
									 .duration = (uint32_t)(w[r].nccl - start[r]),
									 .correlation = w[r].correlation,
									 .entry = w[r].all_reduce,
									 .lane = w[r].communication,
									 .kind = TIMELINE_KERNEL});
	}
}

static void layer(struct worker *w, const struct job *job, bool backward)
{
	static const enum shape forward_of[] = {NORM, GEMM, SOFTMAX, GEMM, ADD, GELU};
	static const enum shape backward_of[] = {GEMM, GEMM, SOFTMAX, ADD, REDUCE, NORM, GELU, COPY_KERNEL, GEMM};
	const enum shape *of = backward ? backward_of : forward_of;
	size_t n = backward ? sizeof(backward_of) / sizeof(*of) : sizeof(forward_of) / sizeof(*of);
	for (unsigned r = 0; r < job->ranks; r++)
		for (size_t i = 0; i < n; i++)
			run_kernel(&w[r], of[i], job->launches);
}

static void step(struct worker *w, const struct job *job, unsigned number)
{
	bool pageable = number % 4 == 3, starved = number % 8 == 5;
	for (unsigned r = 0; r < job->ranks; r++) {
		w[r].now += around(starved ? 6e6 : 1.5e5);
		if (pageable)
			host_waits(&w[r], w[r].now + 1000000, w[r].staged, TIMELINE_EVENT, 38535168);
		run_copy(&w[r], w[r].h2d[pageable], 38535168, pageable ? 9.0 : 52.0, job->launches);
		run_copy(&w[r], w[r].h2d[0], 2048, 2.0, job->launches);
	}
	for (unsigned i = 0; i < job->layers; i++)
		layer(w, job, false);
	for (unsigned i = 0; i < job->layers; i++) {
		layer(w, job, true);
		if (job->ranks > 1 && i % 2)
			all_reduce(w, job, 28u << 20);
	}
	for (unsigned r = 0; r < job->ranks; r++) {
		if (w[r].nccl > w[r].stream)
			w[r].stream = w[r].nccl;
		for (int i = 0; i < 6; i++)
			run_kernel(&w[r], ADAM, job->launches);
		run_copy(&w[r], w[r].d2h, 4, 0.01, job->launches);
		host_waits(&w[r], w[r].stream + 3000, w[r].sync, TIMELINE_SYNC, 0);
		put(&w[r], false,
			(struct timeline_record){.start = w[r].now,
									 .entry = w[r].memory,
									 .lane = w[r].process,
									 .kind = TIMELINE_COUNTER,
									 .value = (60ull << 30) + (uint64_t)(random_unit() * 1e9)});
		trace_build_clock(w[r].file, TRACE_BUILD_START + w[r].now, TRACE_BUILD_START + w[r].now + 120 + r,
						  4000000000ull + w[r].now);
	}
}

static void begin(struct worker *w, const struct job *job, unsigned rank)
{
	char path[4096];
	uint64_t most = job->records + job->layers * 64 + 256;
	struct trace_build_setup setup = {
		.rank = (int)rank,
		.ranks = (int)job->ranks,
		.devices = rank % 8 + 1,
		.mode = job->launches ? TIMELINE_MODE_LAUNCH : TIMELINE_MODE_KERNEL,
		.chunks = job->chunks ? job->chunks : (uint32_t)(most / TIMELINE_CHUNK_RECORDS + 2),
	};
	uint32_t device = rank % 8;
	snprintf(path, sizeof(path), "%s/turbo-node-%u-1.timeline", job->dir, 1000 + rank);
	w->file = trace_build_open(path, &setup);
	w->slowness = (int)rank == job->straggler ? 1.3 : 1;
	w->compute = trace_build_stream(w->file, device, 7);
	w->communication = trace_build_stream(w->file, device, 20);
	w->host = trace_build_thread(w->file, 1000 + rank);
	w->process = trace_build_lane(
		w->file, &(struct timeline_lane){.kind = TIMELINE_LANE_DEVICE, .device = device}, NULL);
	for (int i = 0; i < SHAPES; i++)
		w->kernel[i] =
			trace_build_kernel_entry(w->file, shape_of[i].name, shape_of[i].grid, shape_of[i].block);
	w->all_reduce = trace_build_kernel_entry(
		w->file, "_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE", 24, 544);
	w->all_reduce_call = trace_build_collective_entry(w->file, "ncclAllReduce", 1, rank, job->ranks);
	w->h2d[0] = trace_build_copy_entry(w->file, 1, 2, 3);
	w->h2d[1] = trace_build_copy_entry(w->file, 1, 1, 3);
	w->d2h = trace_build_copy_entry(w->file, 2, 3, 2);
	w->launch = trace_build_entry(
		w->file, &(struct timeline_entry){.kind = TIMELINE_API, .api = {.callback = 211, .runtime = 1}},
		"cudaLaunchKernel");
	w->sync = trace_build_plain(w->file, TIMELINE_SYNC, "cudaStreamSynchronize");
	w->memory = trace_build_plain(w->file, TIMELINE_COUNTER, "device memory used");
	w->staged = trace_build_plain(w->file, TIMELINE_EVENT, "staged copy H2D");
}

unsigned job_run(const struct job *job)
{
	unsigned steps = 0;
	struct worker *w = calloc(job->ranks, sizeof(*w));
	if (!w)
		abort();
	random_state = job->seed * 2654435769u + 1;
	for (unsigned r = 0; r < job->ranks; r++)
		begin(&w[r], job, r);
	while (w[0].records < job->records)
		step(w, job, steps++);
	for (unsigned r = 0; r < job->ranks; r++) {
		flush(&w[r], w[r].gpu, &w[r].gpu_count);
		flush(&w[r], w[r].host_side, &w[r].host_count);
		trace_build_header(w[r].file)->count[TIMELINE_COUNT_LAUNCHES] = w[r].correlation;
		(job->killed ? trace_build_kill : trace_build_close)(w[r].file);
	}
	free(w);
	return steps;
}
