/* LINK: timeline
 * timeline_events.c - does what libturbo tells the timeline of, or looks whether that is in one.
 *
 *   timeline_events work LIBNCCL     copies, allocations, a capture, waits and collectives, with LIBNCCL's
 *   timeline_events check FILE       all of them are in FILE, with their values and times; prints what is not
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/common/cuda_dl.h"
#include "tests/gpu/common/util.h"
#include "tools/timeline/trace.h"

#define COPY_BYTES ((size_t)32 << 20)
#define BLOCK_BYTES ((size_t)48 << 20)
#define CAPTURE_MS 20
#define FLOAT32 7

/* ---- work ---- */

static void check(CUresult r, const char *what)
{
	if (r == CUDA_SUCCESS)
		return;
	fprintf(stderr, "timeline_events: %s: %s\n", what, cuda_dl_error(r));
	exit(1);
}
#define CHECK(call) check(call, #call)

static void open_device(void)
{
	const char *why = cuda_dl_open();
	CUcontext ctx;
	CUdevice dev;

	if (why) {
		fprintf(stderr, "timeline_events: %s\n", why);
		exit(77);
	}
	CHECK(cu.cuDeviceGet(&dev, 0));
	CHECK(cu.cuDevicePrimaryCtxRetain(&ctx, dev));
	CHECK(cu.cuCtxSetCurrent(ctx));
}

static void use_memory(void)
{
	char *host = malloc(COPY_BYTES);
	CUdeviceptr block, none;
	size_t available, total;

	if (!host)
		exit(1);
	memset(host, 1, COPY_BYTES);
	CHECK(cu.cuMemAlloc_v2(&block, BLOCK_BYTES));
	CHECK(cu.cuMemcpyHtoD_v2(block, host, COPY_BYTES));
	CHECK(cu.cuMemcpyDtoH_v2(host, block, COPY_BYTES));
	CHECK(cu.cuMemGetInfo_v2(&available, &total));
	if (cu.cuMemAlloc_v2(&none, total) != CUDA_ERROR_OUT_OF_MEMORY)
		exit(1);
	CHECK(cu.cuMemFree_v2(block));
	free(host);
}

static void use_streams(void)
{
	CUstream stream;
	CUevent event;
	CUgraph graph;

	CHECK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cu.cuEventCreate(&event, 0));
	CHECK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	sleep_ms(CAPTURE_MS);
	CHECK(cu.cuStreamEndCapture(stream, &graph));
	CHECK(cu.cuGraphDestroy(graph));
	CHECK(cu.cuEventRecord(event, stream));
	CHECK(cu.cuEventSynchronize(event));
	CHECK(cu.cuStreamSynchronize(stream));
	CHECK(cu.cuCtxSynchronize());
	CHECK(cu.cuStreamDestroy_v2(stream));
	CHECK(cu.cuEventDestroy_v2(event));
}

typedef int all_reduce_fn(const void *from, void *to, size_t count, int type, int op, void *comm,
						  void *stream);
typedef int one_buffer_fn(void *buffer, size_t count, int type, int root, void *comm, void *stream);

static void use_nccl(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL), *comm = malloc(64), *other = malloc(64);
	all_reduce_fn *all_reduce = library ? (all_reduce_fn *)dlsym(library, "ncclAllReduce") : NULL;
	one_buffer_fn *bcast = library ? (one_buffer_fn *)dlsym(library, "ncclBcast") : NULL;
	one_buffer_fn *send = library ? (one_buffer_fn *)dlsym(library, "ncclSend") : NULL;

	if (!all_reduce || !bcast || !send) {
		fprintf(stderr, "timeline_events: %s\n", dlerror());
		exit(1);
	}
	for (int i = 0; i < 3; i++)
		all_reduce(comm, other, 1000, FLOAT32, 0, comm, NULL);
	send(comm, 5, FLOAT32, 1, comm, NULL);
	bcast(comm, 10, FLOAT32, 0, comm, NULL);
	all_reduce(comm, other, 1000, FLOAT32, 0, other, NULL);
}

/* ---- check ---- */

struct sight {
	enum timeline_kind kind;
	const char *name;
	unsigned n;         /* at least */
	uint64_t value, ms; /* at least */
	uint32_t flags;
	uint64_t value_most; /* 0: as value */
	uint32_t device;     /* + 1: of a staged copy */
	unsigned seen;
};

static struct sight sights[] = {
	{.kind = TIMELINE_EVENT, .name = "staged copy H2D", .n = 1, .value = COPY_BYTES, .device = 1},
	{.kind = TIMELINE_EVENT, .name = "staged copy D2H", .n = 1, .value = COPY_BYTES, .device = 1},
	{.kind = TIMELINE_EVENT,
	 .name = "device memory from the driver",
	 .n = 1,
	 .value = BLOCK_BYTES,
	 .value_most = 2 * BLOCK_BYTES},
	{.kind = TIMELINE_EVENT,
	 .name = "device memory from the driver",
	 .n = 1,
	 .value = (size_t)512 << 20,
	 .value_most = (size_t)1 << 40,
	 .flags = TIMELINE_FLAG_FAILED},
	{.kind = TIMELINE_EVENT, .name = "device memory to the driver", .n = 1, .value_most = 2 * BLOCK_BYTES},
	{.kind = TIMELINE_EVENT,
	 .name = "out of device memory",
	 .n = 1,
	 .value = (size_t)512 << 20,
	 .value_most = (size_t)1 << 40,
	 .flags = TIMELINE_FLAG_FAILED},
	{.kind = TIMELINE_EVENT, .name = "stream capture", .n = 1, .ms = CAPTURE_MS},
	{.kind = TIMELINE_EVENT, .name = "cuEventSynchronize", .n = 1},
	{.kind = TIMELINE_EVENT, .name = "cuStreamSynchronize", .n = 1},
	{.kind = TIMELINE_EVENT, .name = "cuCtxSynchronize", .n = 1},
	{.kind = TIMELINE_COLLECTIVE, .name = "ncclAllReduce", .n = 4, .value = 4000, .ms = 3},
	{.kind = TIMELINE_COLLECTIVE, .name = "ncclBcast", .n = 1, .value = 40},
	{.kind = TIMELINE_COLLECTIVE, .name = "ncclSend", .n = 1, .value = 20, .flags = TIMELINE_FLAG_FAILED},
};
#define SIGHTS (sizeof(sights) / sizeof(sights[0]))

static void look_at(const struct trace_event *e)
{
	for (unsigned i = 0; i < SIGHTS; i++) {
		struct sight *s = &sights[i];
		uint64_t most = s->value_most ? s->value_most : s->value;
		if (s->kind == e->kind && strcmp(s->name, e->name) == 0 && e->value >= s->value && e->value <= most &&
			e->flags == s->flags && e->duration >= s->ms * 1000000 && e->duration < UINT64_C(60000000000) &&
			e->lane->kind == TIMELINE_LANE_THREAD && (!s->device || e->entry->event.device == s->device))
			s->seen++;
	}
}

/* Numbered in its communicator, the call inside another one not told, the communicator described. */
static bool look_at_collective(const struct trace_event *e, uint32_t *reduces, uint32_t *communicator)
{
	bool reduce = strcmp(e->name, "ncclAllReduce") == 0, same = true;

	if (reduce)
		++*reduces;
	if (reduce && *reduces == 1)
		*communicator = e->entry->collective.communicator;
	if (reduce && *reduces == 4)
		same = e->entry->collective.communicator != *communicator;
	else
		same = e->entry->collective.communicator == *communicator;
	uint32_t number = !reduce ? (strcmp(e->name, "ncclBcast") == 0 ? 4 : 1) : *reduces == 4 ? 1 : *reduces;
	if (same && strcmp(e->name, "ncclBroadcast") != 0 && e->correlation == number &&
		e->entry->collective.type == FLOAT32 && e->entry->collective.rank == 3 &&
		e->entry->collective.ranks == 8)
		return true;
	printf("%s: number %u in communicator %u, rank %u of %u, type %u\n", e->name, e->correlation,
		   e->entry->collective.communicator, e->entry->collective.rank, e->entry->collective.ranks,
		   e->entry->collective.type);
	return false;
}

static int check_file(const char *path)
{
	char why[256];
	struct trace *t = trace_open(path, why, sizeof(why));
	struct trace_event e;
	uint32_t reduces = 0, communicator = 0;
	int bad = 0;

	if (!t) {
		printf("%s: %s\n", path, why);
		return 1;
	}
	trace_rewind(t);
	while (trace_next(t, &e)) {
		look_at(&e);
		if (e.kind == TIMELINE_COLLECTIVE)
			bad += !look_at_collective(&e, &reduces, &communicator);
	}
	for (unsigned i = 0; i < SIGHTS; i++)
		if (sights[i].seen < sights[i].n) {
			printf("%u of %u: %s\n", sights[i].seen, sights[i].n, sights[i].name);
			bad++;
		}
	trace_close(t);
	return bad != 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "check") == 0)
		return check_file(argv[2]);
	if (argc != 3 || strcmp(argv[1], "work") != 0)
		return 2;
	open_device();
	use_memory();
	use_streams();
	use_nccl(argv[2]);
	return 0;
}
