/* decode.c - see decode.h. */
#include "decode.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "bind.h"
#include "decode_names.h"
#include "recording.h"
#include "times.h"

#define BATCH 1024
#define MEMO 128 /* entries of a batch that are found again without asking the file's tables; a power of 2 */
#define LANES 16
#define DAY_NS 86400000000000ull
#define CONTEXTS 64
#define KINDS 64
#define OBJECT_THREAD 2

static _Atomic uint64_t records;

uint64_t decode_records(void)
{
	return atomic_load_explicit(&records, memory_order_relaxed);
}

/* Bytes from one record to the next, by kind, as CUPTI has shown; 0: not yet. Relaxed: a constant of the library. */
static _Atomic uint32_t strides[KINDS];
/* Device of a context, + 1; contexts' numbers are small. Relaxed: the same for ever. */
static _Atomic uint32_t devices[CONTEXTS];

/* What a program does repeats itself: of the entries and lanes of a batch most have just been seen. Not for longer than a
 * batch, because strings may change between two callbacks, and the file between two brackets. */
struct memo_entry {
	const char *name; /* where CUPTI keeps it; NULL: empty */
	struct timeline_entry entry;
	uint32_t index;
};
struct memo_lane {
	struct timeline_lane lane; /* kind 0: empty */
	uint16_t index;
};

/* One bracket of the file. */
struct batch {
	struct times_map times;
	uint64_t now;
	uint64_t zero, backwards, unknown, work;
	struct memo_lane lane[LANES];
	struct memo_entry entry[MEMO];
};

/* ---- times, lanes ---- */

/* false, counted: CUPTI has no times for it, or they make no sense. */
static bool set_times(struct batch *b, struct timeline_record *r, uint64_t start, uint64_t end)
{
	if (!start || !end) {
		b->zero++;
		return false;
	}
	uint64_t from = times_to_ns(&b->times, start), to = times_to_ns(&b->times, end);
	uint64_t off = from > b->now ? from - b->now : b->now - from;
	if (to < from || off > DAY_NS) {
		b->backwards++;
		return false;
	}
	r->start = from;
	if (to - from > UINT32_MAX) {
		uint64_t us = (to - from) / 1000;
		r->flags |= TIMELINE_FLAG_US;
		r->duration = us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
	} else {
		r->duration = (uint32_t)(to - from);
	}
	return true;
}

static uint16_t lane_of(struct batch *b, const struct timeline_lane *lane)
{
	struct memo_lane *m = &b->lane[(lane->stream ^ lane->thread ^ lane->device << 2) % LANES];
	if (memcmp(&m->lane, lane, sizeof(*lane)) != 0) {
		m->lane = *lane;
		m->index = recording_lane(lane, NULL);
	}
	return m->index;
}

/* `name` stays where it is until the batch is done. */
static uint32_t entry_of(struct batch *b, const struct timeline_entry *entry, const char *name)
{
	uint64_t key = (uintptr_t)name ^ (uint64_t)entry->kernel.grid[0] << 40 ^
				   (uint64_t)entry->kernel.grid[1] << 48 ^ (uint64_t)entry->kernel.block[0] << 32;
	struct memo_entry *m = &b->entry[key * 0x9e3779b97f4a7c15u >> 57];
	if (m->name != name || memcmp(&m->entry, entry, sizeof(*entry)) != 0) {
		m->name = name;
		m->entry = *entry;
		m->index = recording_entry(entry, name);
	}
	return m->index;
}
_Static_assert(MEMO == 1 << (64 - 57), "a hash's highest bits");

static uint16_t stream_lane(struct batch *b, uint32_t device, uint32_t context, uint32_t stream)
{
	return lane_of(b, &(struct timeline_lane){
						  .kind = TIMELINE_LANE_STREAM,
						  .device = device,
						  .context = context,
						  .stream = stream,
					  });
}

static uint16_t thread_lane(struct batch *b, uint32_t thread)
{
	return lane_of(b, &(struct timeline_lane){.kind = TIMELINE_LANE_THREAD, .thread = thread});
}

static void note_device(uint32_t context, uint32_t device)
{
	if (context < CONTEXTS)
		atomic_store_explicit(&devices[context], device + 1, memory_order_relaxed);
}

static uint32_t device_of(uint32_t context)
{
	uint32_t known = context < CONTEXTS ? atomic_load_explicit(&devices[context], memory_order_relaxed) : 0;
	return known ? known - 1 : 0;
}

/* ---- kinds ---- */

static void put_kernel(struct batch *b, const struct cupti_kernel *k)
{
	struct timeline_entry e = {.kind = TIMELINE_KERNEL};
	struct timeline_record r = {.kind = TIMELINE_KERNEL, .correlation = k->correlation};
	b->work++;
	if (!set_times(b, &r, k->start, k->end))
		return;
	for (int i = 0; i < 3; i++) {
		e.kernel.grid[i] = (uint32_t)k->grid[i];
		e.kernel.block[i] = (uint32_t)k->block[i];
		e.kernel.cluster[i] = k->cluster[i];
	}
	e.kernel.registers = k->registers;
	e.kernel.static_shared = (uint32_t)k->static_shared;
	e.kernel.dynamic_shared = (uint32_t)k->dynamic_shared;
	e.kernel.graph = k->graph;
	note_device(k->context, k->device);
	r.entry = entry_of(b, &e, k->name ? k->name : "unknown");
	r.lane = stream_lane(b, k->device, k->context, k->stream);
	r.value = k->graph_node;
	recording_put(&r);
}

struct copied {
	uint32_t device, context, stream, correlation;
	uint64_t start, end, bytes;
	uint8_t flags;
	uint32_t direction, from_kind, to_kind, from_device, to_device, graph;
};

static void put_copied(struct batch *b, const struct copied *c)
{
	struct timeline_entry e = {.kind = TIMELINE_COPY};
	struct timeline_record r = {.kind = TIMELINE_COPY, .correlation = c->correlation, .value = c->bytes};
	char name[64];
	b->work++;
	if (c->flags & CUPTI_MEMCPY_ASYNC)
		r.flags |= TIMELINE_FLAG_ASYNC;
	if (!set_times(b, &r, c->start, c->end))
		return;
	note_device(c->context, c->device);
	names_copy(name, sizeof(name), c->direction, c->from_kind, c->to_kind);
	e.copy.direction = c->direction;
	e.copy.from_kind = c->from_kind;
	e.copy.to_kind = c->to_kind;
	e.copy.from_device = c->from_device;
	e.copy.to_device = c->to_device;
	e.copy.graph = c->graph;
	r.entry = recording_entry(&e, name);
	r.lane = stream_lane(b, c->device, c->context, c->stream);
	recording_put(&r);
}

static void put_memcpy(struct batch *b, const struct cupti_memcpy *m)
{
	put_copied(b, &(struct copied){
					  .device = m->device,
					  .context = m->context,
					  .stream = m->stream,
					  .correlation = m->correlation,
					  .start = m->start,
					  .end = m->end,
					  .bytes = m->bytes,
					  .flags = m->flags,
					  .direction = m->direction,
					  .from_kind = m->from,
					  .to_kind = m->to,
					  .graph = m->graph,
				  });
}

static void put_memcpy2(struct batch *b, const struct cupti_memcpy2 *m)
{
	put_copied(b, &(struct copied){
					  .device = m->device,
					  .context = m->context,
					  .stream = m->stream,
					  .correlation = m->correlation,
					  .start = m->start,
					  .end = m->end,
					  .bytes = m->bytes,
					  .flags = m->flags,
					  .direction = m->direction,
					  .from_kind = m->from,
					  .to_kind = m->to,
					  .from_device = m->from_device,
					  .to_device = m->to_device,
					  .graph = m->graph,
				  });
}

static void put_memset(struct batch *b, const struct cupti_memset *m)
{
	struct timeline_entry e = {.kind = TIMELINE_MEMSET};
	struct timeline_record r = {.kind = TIMELINE_MEMSET, .correlation = m->correlation, .value = m->bytes};
	char name[64];
	b->work++;
	if (!set_times(b, &r, m->start, m->end))
		return;
	e.memset.memory_kind = m->memory_kind;
	e.memset.graph = m->graph;
	names_memset(name, sizeof(name), m->memory_kind);
	note_device(m->context, m->device);
	r.entry = recording_entry(&e, name);
	r.lane = stream_lane(b, m->device, m->context, m->stream);
	recording_put(&r);
}

static void put_graph(struct batch *b, const struct cupti_graph *g)
{
	struct timeline_entry e = {.kind = TIMELINE_GRAPH};
	struct timeline_record r = {.kind = TIMELINE_GRAPH, .correlation = g->correlation, .value = g->graph};
	char name[32];
	b->work++;
	if (!set_times(b, &r, g->start, g->end))
		return;
	e.words[0] = g->graph;
	snprintf(name, sizeof(name), "Graph %u", g->graph);
	note_device(g->context, g->device);
	r.entry = recording_entry(&e, name);
	r.lane = stream_lane(b, g->device, g->context, g->stream);
	recording_put(&r);
}

static void put_call(struct batch *b, const struct cupti_call *c)
{
	struct timeline_entry e = {.kind = TIMELINE_API};
	struct timeline_record r = {.kind = TIMELINE_API, .correlation = c->correlation};
	if (!set_times(b, &r, c->start, c->end))
		return;
	if (c->returned != 0)
		r.flags |= TIMELINE_FLAG_FAILED;
	e.api.callback = c->callback;
	e.api.runtime = c->kind == CUPTI_RUNTIME;
	r.entry = entry_of(b, &e, names_call(e.api.runtime, c->callback));
	r.lane = thread_lane(b, c->thread);
	recording_put(&r);
}

static void put_wait(struct batch *b, const struct cupti_wait *w)
{
	struct timeline_entry e = {.kind = TIMELINE_SYNC};
	struct timeline_record r = {.kind = TIMELINE_SYNC, .correlation = w->correlation};
	if (!set_times(b, &r, w->start, w->end))
		return;
	e.words[0] = w->type;
	r.entry = recording_entry(&e, names_wait(w->type));
	r.lane = stream_lane(b, device_of(w->context), w->context, w->stream);
	recording_put(&r);
}

static void put_overhead(struct batch *b, const struct cupti_overhead *o)
{
	struct timeline_entry e = {.kind = TIMELINE_OVERHEAD};
	struct timeline_record r = {.kind = TIMELINE_OVERHEAD};
	if (!set_times(b, &r, o->start, o->end))
		return;
	e.words[0] = o->overhead;
	r.entry = recording_entry(&e, names_overhead(o->overhead));
	r.lane = o->object_kind == OBJECT_THREAD ? thread_lane(b, o->object[1]) : 0;
	recording_put(&r);
}

static void put_one(struct batch *b, const struct cupti_record *r)
{
	switch (r->kind) {
	case CUPTI_CONCURRENT_KERNEL: put_kernel(b, (const void *)r); break;
	case CUPTI_MEMCPY: put_memcpy(b, (const void *)r); break;
	case CUPTI_MEMCPY2: put_memcpy2(b, (const void *)r); break;
	case CUPTI_MEMSET: put_memset(b, (const void *)r); break;
	case CUPTI_GRAPH_TRACE: put_graph(b, (const void *)r); break;
	case CUPTI_DRIVER:
	case CUPTI_RUNTIME: put_call(b, (const void *)r); break;
	case CUPTI_SYNCHRONIZATION: put_wait(b, (const void *)r); break;
	case CUPTI_OVERHEAD: put_overhead(b, (const void *)r); break;
	default: b->unknown++; break;
	}
}

/* ---- buffers ---- */

static void count(enum timeline_count which, uint64_t n)
{
	if (n)
		recording_count(which, n);
}

/* CUPTI is not called inside the ring's bracket. */
static void put_batch(struct cupti_record *const *record, unsigned n)
{
	struct batch b;
	memset(&b, 0, sizeof(b));
	b.times = times_map();
	b.now = times_now();
	for (unsigned i = 0; i < n; i++)
		if (record[i]->kind == CUPTI_DRIVER || record[i]->kind == CUPTI_RUNTIME)
			names_learn(record[i]->kind == CUPTI_RUNTIME, ((const struct cupti_call *)record[i])->callback);
	if (!recording_begin()) {
		recording_count(TIMELINE_COUNT_DROPPED, n);
		return;
	}
	for (unsigned i = 0; i < n; i++)
		put_one(&b, record[i]);
	recording_end();
	atomic_fetch_add_explicit(&records, b.work, memory_order_relaxed);
	count(TIMELINE_COUNT_ZERO_TIME, b.zero);
	count(TIMELINE_COUNT_BACKWARDS, b.backwards);
	count(TIMELINE_COUNT_UNKNOWN, b.unknown);
}

/* The walk ends alike at the end and in the middle of a record. Where the last one's size is known, what follows it
 * tells: nothing, or the zeroes that CUPTI fills up with. */
static bool ends_early(const uint8_t *buffer, size_t valid, const struct cupti_record *last)
{
	uint32_t stride =
		last && last->kind < KINDS ? atomic_load_explicit(&strides[last->kind], memory_order_relaxed) : 0;
	size_t at = last ? (size_t)((const uint8_t *)last - buffer) : 0;
	uint32_t kind;
	if (last && (!stride || valid - at < stride))
		return stride != 0;
	at += stride;
	if (valid - at < sizeof(kind))
		return valid != at;
	memcpy(&kind, buffer + at, sizeof(kind));
	return kind != 0;
}

static void learn_stride(const struct cupti_record *last, const struct cupti_record *next)
{
	if (last->kind < KINDS)
		atomic_store_explicit(&strides[last->kind], (uint32_t)((const char *)next - (const char *)last),
							  memory_order_relaxed);
}

void decode_buffer(uint8_t *buffer, size_t valid)
{
	struct cupti_record *batch[BATCH], *record = NULL, *last = NULL;
	unsigned n = 0;
	cupti_result r;
	while ((r = cupti.ActivityGetNextRecord(buffer, valid, &record)) == CUPTI_OK) {
		if (last)
			learn_stride(last, record);
		batch[n++] = last = record;
		if (n == BATCH) {
			put_batch(batch, n);
			n = 0;
		}
	}
	if (n)
		put_batch(batch, n);
	if (r != CUPTI_END_OF_BUFFER || ends_early(buffer, valid, last))
		recording_count(TIMELINE_COUNT_BAD_BUFFER, 1);
}
