/*
 * test_timeline_decode.c - buffers of CUPTI's, walked by the real library and decoded: every kind, and what is odd.
 *
 * CUPTI needs no GPU to walk a buffer. Without a libcupti.so.13 the cases are skipped. test_timeline_layout.c
 * compares the layouts with CUPTI's header.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cupti/bind.h"
#include "cupti/cupti_abi.h"
#include "cupti/decode.h"
#include "cupti/decode_names.h"
#include "cupti/recording.h"
#include "tools/timeline/trace.h"

/* ---- a buffer, as CUPTI fills it ---- */

/* Sizes of the records of CUPTI 13.0. */
enum {
	KERNEL_BYTES = 216,
	COPY_BYTES = 96,
	SET_BYTES = 88,
	CALL_BYTES = 40,
	WAIT_BYTES = 56,
	GRAPH_BYTES = 56,
	OVERHEAD_BYTES = 56
};

static _Alignas(8) uint8_t buffer[1 << 20];
static size_t used;
static uint64_t start; /* of the records of a case */

static void *record(size_t bytes)
{
	void *at = buffer + used;
	assert_true(used + bytes <= sizeof(buffer));
	memset(at, 0, bytes);
	used += bytes;
	return at;
}

static struct cupti_kernel *kernel(const char *name, uint64_t at, uint64_t ns)
{
	struct cupti_kernel *k = record(KERNEL_BYTES);
	k->kind = CUPTI_CONCURRENT_KERNEL;
	k->start = start + at;
	k->end = k->start + ns;
	k->device = 1;
	k->context = 2;
	k->stream = 7;
	k->correlation = 99;
	k->name = name;
	k->grid[0] = 10;
	k->block[0] = 128;
	k->grid[1] = k->grid[2] = k->block[1] = k->block[2] = 1;
	return k;
}

/* ---- what came of it ---- */

static char directory[64];
static struct trace *trace;
static struct trace_event event[64];
static unsigned events;
static char names[64][128];

static bool bind_real(void)
{
	static const char *const where[] = {"libcupti.so.13", "/usr/local/cuda/lib64/libcupti.so.13",
										"/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13"};
	void *handle = NULL;
	for (unsigned i = 0; i < sizeof(where) / sizeof(where[0]) && !handle; i++)
		handle = dlopen(where[i], RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return false;
	*(void **)&cupti.ActivityGetNextRecord = dlsym(handle, "cuptiActivityGetNextRecord");
	*(void **)&cupti.GetCallbackName = dlsym(handle, "cuptiGetCallbackName");
	return cupti.ActivityGetNextRecord && cupti.GetCallbackName;
}

static int begin(void **state)
{
	struct recording_setup setup = {
		.mode = TIMELINE_MODE_LAUNCH, .dir = directory, .bytes = 1 << 20, .least_bytes = 1 << 20};
	struct timespec t;
	char why[256];
	(void)state;
	if (!cupti.ActivityGetNextRecord)
		return 0;
	clock_gettime(CLOCK_REALTIME, &t);
	start = (uint64_t)t.tv_sec * 1000000000u - 1000000000u;
	used = 0;
	memset(buffer, 0, sizeof(buffer));
	if (recording_open(&setup, why, sizeof(why)))
		return 0;
	print_error("%s\n", why);
	return -1;
}

static void need_cupti(void)
{
	if (cupti.ActivityGetNextRecord)
		return;
	printf("no libcupti.so.13\n");
	skip();
}

/* Decodes what is in the buffer, ends the file and reads it. */
static void decode(size_t valid)
{
	char why[256];
	decode_buffer(buffer, valid);
	recording_close();
	trace = trace_open(recording_path(), why, sizeof(why));
	if (!trace)
		fail_msg("%s", why);
	trace_rewind(trace);
	for (events = 0; events < 64 && trace_next(trace, &event[events]); events++)
		snprintf(names[events], sizeof(names[0]), "%s", event[events].name);
}

static int end(void **state)
{
	(void)state;
	if (trace)
		trace_close(trace);
	trace = NULL;
	recording_close();
	unlink(recording_path());
	return 0;
}

static uint64_t count(enum timeline_count which)
{
	return trace_header(trace)->count[which];
}

/* ---- cases ---- */

static void a_kernel_is_whole(void **state)
{
	(void)state;
	need_cupti();
	struct cupti_kernel *k = kernel("_Z6kernelPf", 100, 5000);
	k->registers = 32;
	k->static_shared = 1024;
	k->dynamic_shared = 2048;
	k->cluster[0] = 2;
	k->graph_node = 0x500000007;
	k->graph = 5;
	decode(used);
	assert_int_equal(events, 1);
	assert_int_equal(event[0].kind, TIMELINE_KERNEL);
	assert_string_equal(names[0], "_Z6kernelPf");
	assert_int_equal(event[0].start, start + 100);
	assert_int_equal(event[0].duration, 5000);
	assert_int_equal(event[0].correlation, 99);
	assert_int_equal(event[0].value, 0x500000007);
	assert_int_equal(event[0].lane->kind, TIMELINE_LANE_STREAM);
	assert_int_equal(event[0].lane->device, 1);
	assert_int_equal(event[0].lane->context, 2);
	assert_int_equal(event[0].lane->stream, 7);
	assert_int_equal(event[0].entry->kernel.grid[0], 10);
	assert_int_equal(event[0].entry->kernel.block[0], 128);
	assert_int_equal(event[0].entry->kernel.registers, 32);
	assert_int_equal(event[0].entry->kernel.static_shared, 1024);
	assert_int_equal(event[0].entry->kernel.dynamic_shared, 2048);
	assert_int_equal(event[0].entry->kernel.cluster[0], 2);
	assert_int_equal(event[0].entry->kernel.graph, 5);
	assert_int_equal(count(TIMELINE_COUNT_BAD_BUFFER), 0);
}

static void copies_and_memsets(void **state)
{
	struct cupti_memcpy *c;
	struct cupti_memcpy2 *p;
	struct cupti_memset *m;
	(void)state;
	need_cupti();
	c = record(COPY_BYTES);
	*c = (struct cupti_memcpy){
		.kind = CUPTI_MEMCPY, .direction = 1, .from = 2, .to = 3, .flags = 1, .bytes = 4096};
	c->start = start + 1;
	c->end = start + 11;
	p = record(COPY_BYTES);
	*p = (struct cupti_memcpy2){.kind = CUPTI_MEMCPY2, .direction = 10, .from = 3, .to = 3, .bytes = 77};
	p->start = start + 20;
	p->end = start + 30;
	p->from_device = 1;
	p->to_device = 3;
	m = record(SET_BYTES);
	*m = (struct cupti_memset){.kind = CUPTI_MEMSET, .memory_kind = 3, .bytes = 512};
	m->start = start + 40;
	m->end = start + 41;
	decode(used);
	assert_int_equal(events, 3);
	assert_string_equal(names[0], "Memcpy HtoD (Pinned -> Device)");
	assert_int_equal(event[0].kind, TIMELINE_COPY);
	assert_int_equal(event[0].value, 4096);
	assert_int_equal(event[0].flags & TIMELINE_FLAG_ASYNC, TIMELINE_FLAG_ASYNC);
	assert_string_equal(names[1], "Memcpy PtoP (Device -> Device)");
	assert_int_equal(event[1].entry->copy.from_device, 1);
	assert_int_equal(event[1].entry->copy.to_device, 3);
	assert_string_equal(names[2], "Memset (Device)");
	assert_int_equal(event[2].kind, TIMELINE_MEMSET);
	assert_int_equal(event[2].value, 512);
	assert_int_equal(count(TIMELINE_COUNT_BAD_BUFFER), 0);
}

static void calls_waits_graphs_and_overhead(void **state)
{
	struct cupti_call *a;
	struct cupti_wait *w;
	struct cupti_graph *g;
	struct cupti_overhead *o;
	(void)state;
	need_cupti();
	a = record(CALL_BYTES);
	*a = (struct cupti_call){
		.kind = CUPTI_RUNTIME, .callback = 214, .thread = 1234, .correlation = 5, .returned = 1};
	a->start = start + 1;
	a->end = start + 2;
	a = record(CALL_BYTES);
	*a = (struct cupti_call){.kind = CUPTI_DRIVER, .callback = 277, .thread = 1234, .correlation = 6};
	a->start = start + 3;
	a->end = start + 4;
	w = record(WAIT_BYTES);
	*w = (struct cupti_wait){.kind = CUPTI_SYNCHRONIZATION, .type = 3, .context = 2, .stream = 7};
	w->start = start + 5;
	w->end = start + 6;
	g = record(GRAPH_BYTES);
	*g = (struct cupti_graph){.kind = CUPTI_GRAPH_TRACE, .graph = 8, .device = 1, .context = 2, .stream = 7};
	g->start = start + 7;
	g->end = start + 5000000007u;
	o = record(OVERHEAD_BYTES);
	*o = (struct cupti_overhead){
		.kind = CUPTI_OVERHEAD, .overhead = 1 << 16, .object_kind = 2, .object = {1, 77}};
	o->start = start + 9;
	o->end = start + 10;
	decode(used);
	assert_int_equal(events, 5);
	assert_string_equal(names[0], "cudaLaunchKernel");
	assert_int_equal(event[0].lane->kind, TIMELINE_LANE_THREAD);
	assert_int_equal(event[0].lane->thread, 1234);
	assert_int_equal(event[0].flags & TIMELINE_FLAG_FAILED, TIMELINE_FLAG_FAILED);
	assert_string_equal(names[1], "cuMemcpyHtoDAsync_v2");
	assert_string_equal(names[2], "Stream Sync");
	assert_string_equal(names[3], "Graph 8");
	assert_int_equal(event[3].duration, 5000000000u); /* more than 32 bits of ns: whole microseconds */
	assert_string_equal(names[4], "Buffer Flush");
	assert_int_equal(event[4].lane->thread, 77);
}

static void what_has_no_times_is_counted(void **state)
{
	(void)state;
	need_cupti();
	kernel("good", 0, 10);
	kernel("never started", 0, 10)->start = 0;
	kernel("never ended", 0, 10)->end = 0;
	kernel("backwards", 100, 10)->end = start;
	kernel("of another clock", 0, 10)->start = 123456;
	kernel(NULL, 200, 10);
	decode(used);
	assert_int_equal(events, 2);
	assert_string_equal(names[0], "good");
	assert_string_equal(names[1], "unknown");
	assert_int_equal(count(TIMELINE_COUNT_ZERO_TIME), 2);
	assert_int_equal(count(TIMELINE_COUNT_BACKWARDS), 2);
}

static void a_full_buffer(void **state)
{
	(void)state;
	need_cupti();
	unsigned n = 0;
	while (used + KERNEL_BYTES <= sizeof(buffer)) {
		kernel(n % 2 ? "odd" : "even", n * 100, 50);
		n++;
	}
	decode(used);
	assert_int_equal(count(TIMELINE_COUNT_RECORDS), n);
	assert_int_equal(count(TIMELINE_COUNT_BAD_BUFFER), 0);
}

static void an_unknown_kind_ends_the_buffer(void **state)
{
	(void)state;
	need_cupti();
	kernel("before", 0, 10);
	kernel("unknown", 20, 10)->kind = 12345;
	kernel("behind", 40, 10);
	decode(used);
	assert_int_equal(events, 1);
	assert_int_equal(count(TIMELINE_COUNT_BAD_BUFFER), 1);
}

static void a_buffer_cut_off_is_counted(void **state)
{
	(void)state;
	need_cupti();
	kernel("one", 0, 10);
	kernel("two", 20, 10);
	kernel("three", 40, 10);
	decode(used - KERNEL_BYTES / 2);
	assert_int_equal(events, 2);
	assert_int_equal(count(TIMELINE_COUNT_BAD_BUFFER), 1);
}

static void empty_buffers(void **state)
{
	(void)state;
	need_cupti();
	decode_buffer(buffer, 0);
	memset(buffer, 0, 256);
	decode(0);
	assert_int_equal(events, 0);
	assert_int_equal(count(TIMELINE_COUNT_BAD_BUFFER), 0);
}

static void names_of_enumerations(void **state)
{
	char text[64];
	(void)state;
	names_copy(text, sizeof(text), 200, 200, 200);
	assert_string_equal(text, "Memcpy <unknown> (Unknown -> Unknown)");
	names_memset(text, sizeof(text), 7);
	assert_string_equal(text, "Memset (Managed Static)");
	assert_string_equal(names_overhead(1), "Driver Compiler");
	assert_string_equal(names_overhead(8 << 16), "UVM Activity Init");
	assert_string_equal(names_overhead(UINT32_MAX), "Unknown");
	assert_string_equal(names_wait(9), "Unknown Sync");
	assert_string_equal(names_call(true, 5000), "unknown call");
}

static int group_begin(void **state)
{
	(void)state;
	bind_real();
	snprintf(directory, sizeof(directory), "/tmp/turbo-decode-XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int group_end(void **state)
{
	(void)state;
	return rmdir(directory);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_kernel_is_whole),
		CASE(copies_and_memsets),
		CASE(calls_waits_graphs_and_overhead),
		CASE(what_has_no_times_is_counted),
		CASE(a_full_buffer),
		CASE(an_unknown_kind_ends_the_buffer),
		CASE(a_buffer_cut_off_is_counted),
		CASE(empty_buffers),
		cmocka_unit_test(names_of_enumerations),
	};
	return cmocka_run_group_tests(tests, group_begin, group_end);
}
