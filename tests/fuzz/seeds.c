/*
 * seeds.c - writes the fuzzer's first files: small, valid, and one for each thing that a timeline can hold.
 *
 *     seeds DIR
 */
#include <stdio.h>
#include <string.h>

#include "tests/unit/common/trace_build.h"

static char path[4096];
static uint64_t size;

static struct trace_build *begin(const char *dir, const char *name, uint32_t chunks)
{
	const struct trace_build_setup setup = {.packed = true,
											.chunks = chunks,
											.names = 192,
											.entries = 6,
											.lanes = 4,
											.clocks = 2,
											.rank = 1,
											.ranks = 2};
	snprintf(path, sizeof(path), "%s/seed-%s", dir, name);
	struct trace_build *b = trace_build_open(path, &setup);
	size = trace_build_header(b)->ring_offset;
	return b;
}

/* Cuts what no record is in. */
static void end(struct trace_build *b, uint32_t whole_chunks, uint32_t records)
{
	trace_build_close(b);
	trace_build_truncate(path, size + whole_chunks * TIMELINE_CHUNK_BYTES + sizeof(struct timeline_chunk) +
								   records * sizeof(struct timeline_record));
}

static void one_entry(const char *dir, const char *name, const struct timeline_entry *e, const char *text,
					  const struct timeline_lane *lane)
{
	struct trace_build *b = begin(dir, name, 1);
	uint16_t at = trace_build_lane(b, lane, "a name");
	uint32_t entry = trace_build_entry(b, e, text);
	trace_build_add(b, at, entry, 5000, 900, 17, 4096);
	trace_build_add(b, at, entry, 1000, 5000, 18, 3);
	trace_build_add(b, at, entry, 2000, 8000000000ull, 18, 4);
	trace_build_clock(b, TRACE_BUILD_START, TRACE_BUILD_START + 5, 7);
	end(b, 0, 3);
}

static void kinds(const char *dir)
{
	const struct timeline_lane stream = {.kind = TIMELINE_LANE_STREAM, .context = 1, .stream = 7};
	const struct timeline_lane thread = {.kind = TIMELINE_LANE_THREAD, .thread = 4711};
	const struct timeline_lane device = {.kind = TIMELINE_LANE_DEVICE, .device = 0};
	one_entry(dir, "kernel",
			  &(struct timeline_entry){.kind = TIMELINE_KERNEL,
									   .kernel = {.grid = {64, 2, 1},
												  .block = {256, 1, 1},
												  .cluster = {2, 1, 1},
												  .registers = 40,
												  .dynamic_shared = 8192,
												  .graph = 3}},
			  "_Z4axpyifPfS_", &stream);
	one_entry(
		dir, "copy",
		&(struct timeline_entry){.kind = TIMELINE_COPY,
								 .copy = {.direction = 10, .from_kind = 3, .to_kind = 3, .to_device = 1}},
		"", &stream);
	one_entry(dir, "memset",
			  &(struct timeline_entry){.kind = TIMELINE_MEMSET, .memset = {.memory_kind = 3, .graph = 1}}, "",
			  &stream);
	one_entry(dir, "graph", &(struct timeline_entry){.kind = TIMELINE_GRAPH}, "", &stream);
	one_entry(dir, "api",
			  &(struct timeline_entry){.kind = TIMELINE_API, .api = {.callback = 211, .runtime = 1}},
			  "cudaLaunchKernel", &thread);
	one_entry(dir, "sync", &(struct timeline_entry){.kind = TIMELINE_SYNC}, "cudaStreamSynchronize", &thread);
	one_entry(dir, "overhead", &(struct timeline_entry){.kind = TIMELINE_OVERHEAD}, "buffer flush", &thread);
	one_entry(dir, "event", &(struct timeline_entry){.kind = TIMELINE_EVENT}, "staged copy H2D", &thread);
	one_entry(dir, "collective",
			  &(struct timeline_entry){.kind = TIMELINE_COLLECTIVE,
									   .collective = {.communicator = 1, .rank = 0, .ranks = 2, .type = 9}},
			  "ncclAllReduce", &thread);
	one_entry(dir, "gap", &(struct timeline_entry){.kind = TIMELINE_GAP}, "torch.profiler", &thread);
	one_entry(dir, "counter", &(struct timeline_entry){.kind = TIMELINE_COUNTER}, "device memory used",
			  &device);
}

/* A call, and the kernel it leads to. */
static void flow(const char *dir)
{
	struct trace_build *b = begin(dir, "flow", 1);
	uint16_t thread = trace_build_thread(b, 4711), stream = trace_build_stream(b, 0, 7);
	uint32_t call = trace_build_plain(b, TIMELINE_API, "cuLaunchKernel");
	uint32_t kernel = trace_build_kernel_entry(b, "_Z1fv", 1, 32);
	trace_build_add(b, thread, call, 1000, 400, 5, 0);
	trace_build_add(b, stream, kernel, 1500, 300, 5, 0);
	end(b, 0, 2);
}

/* Two chunks that overlap, the second one partly there. */
static void chunks(const char *dir)
{
	struct trace_build *b = begin(dir, "chunks", 2);
	uint16_t stream = trace_build_stream(b, 0, 7);
	uint32_t kernel = trace_build_kernel_entry(b, "_Z1fv", 1, 32);
	for (uint32_t i = 0; i < 3; i++)
		trace_build_kernel(b, stream, kernel, 1000 * i, 300, i);
	trace_build_next_chunk(b);
	for (uint32_t i = 0; i < 3; i++)
		trace_build_kernel(b, stream, kernel, 1000 * i + 100, 300, i);
	end(b, 1, 2);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	kinds(argv[1]);
	flow(argv[1]);
	chunks(argv[1]);
	struct trace_build *b = begin(argv[1], "empty", 1);
	trace_build_kill(b);
	trace_build_truncate(path, size);
	return 0;
}
