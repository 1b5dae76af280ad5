/*
 * fill.c - asking the client for buffers, on the thread that needs room, and putting records into them.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buffer.h"

#define UNKNOWN_KIND 63
#define UNKNOWN_BYTES 16
#define NULL_BUFFER_SINCE 27 /* before, a client that has no buffer brings the library down */
#define ALIGNMENT 8

/* ---- asking for buffers ---- */

static bool in_list(const struct buffer *b, const uint8_t *at)
{
	while (b && b->at != at)
		b = b->next;
	return b != NULL;
}

/* The client gave it before, and has not got it back. Lock held. */
static bool is_held(const uint8_t *at)
{
	for (const struct slot *s = cu.slots; s; s = s->next)
		if (s->buffer && s->buffer->at == at)
			return true;
	return (cu.common.buffer && cu.common.buffer->at == at) || in_list(cu.full, at) || in_list(cu.ready, at);
}

static const char *buffer_fault(const uint8_t *at, size_t size, bool zeroed)
{
	if ((uintptr_t)at % ALIGNMENT)
		return "is not aligned to 8 bytes";
	if (size < RECORD_MAX)
		return "is too small";
	for (size_t i = 0; zeroed && i < size; i++)
		if (at[i])
			return "is not zeroed, as CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER promises";
	return NULL;
}

/* Only cu.control held. NULL: the client has none. */
static struct buffer *ask(CUpti_BuffersCallbackRequestFunc request, bool zeroed)
{
	struct buffer *b = calloc(1, sizeof *b);
	enum inside before = me.inside;
	if (!b)
		abort();
	me.inside = INSIDE_REQUEST;
	request(&b->at, &b->size, &b->max);
	me.inside = before;
	if (!b->at || !b->size) {
		free(b);
		if (conf.version >= NULL_BUFFER_SINCE)
			return NULL;
		complain("no buffer was given: this version does not survive that");
		abort();
	}
	size_t size = b->size;
	const char *why = buffer_fault(b->at, b->size, zeroed);
	pthread_mutex_lock(&cu.lock);
	if (is_held(b->at)) {
		pthread_mutex_unlock(&cu.lock);
		complain("the buffer at %p was given twice", (void *)b->at);
		free(b);
		return NULL;
	}
	cu.held++;
	cu.ever_asked = true;
	worker_start();
	if (why && b->size < RECORD_MAX) {
		buffer_queue(b);
		b = NULL;
	}
	pthread_mutex_unlock(&cu.lock);
	if (why)
		complain("a buffer of %zu bytes %s", size, why);
	if (b && !zeroed)
		memset(b->at, 0, b->size);
	return b;
}

/* ---- filling them ---- */

static bool fits(const struct buffer *b, size_t size)
{
	return b && b->used + size <= b->size && (!b->max || b->count < b->max);
}

/* Lock held. */
static uint8_t *append(struct buffer *b, const void *record, size_t size)
{
	uint8_t *to = b->at + b->used;
	memcpy(to, record, size);
	b->used += size;
	b->count++;
	return to;
}

static void append_overhead(struct buffer *b, uint64_t start)
{
	if (!kind_on(CUPTI_ACTIVITY_KIND_OVERHEAD, 0))
		return;
	union {
		CUpti_ActivityOverhead3 r;
		uint8_t bytes[RECORD_MAX];
	} o = {.r = {
			   .kind = CUPTI_ACTIVITY_KIND_OVERHEAD,
			   .overheadKind = CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST,
			   .objectKind = CUPTI_ACTIVITY_OBJECT_THREAD,
			   .objectId.pt = {.processId = (uint32_t)getpid(), .threadId = thread_number()},
			   .start = start,
			   .end = now_ns(),
		   }};
	append(b, &o, record_size(CUPTI_ACTIVITY_KIND_OVERHEAD));
	cu.records[CUPTI_ACTIVITY_KIND_OVERHEAD]++;
}

/* The calling thread's buffer with room for size bytes, or NULL. Lock held; dropped meanwhile. */
static struct buffer *room(size_t size)
{
	struct slot *slot = slot_mine();
	if (fits(slot->buffer, size))
		return slot->buffer;
	pthread_mutex_unlock(&cu.lock);
	pthread_mutex_lock(&cu.control);
	pthread_mutex_lock(&cu.lock);
	slot = slot_mine();
	if (!fits(slot->buffer, size) && cu.request) { /* nobody else has fetched one */
		CUpti_BuffersCallbackRequestFunc request = cu.request;
		bool zeroed = cu.zeroed;
		slot_retire(slot);
		pthread_mutex_unlock(&cu.lock);
		uint64_t start = now_ns();
		struct buffer *b = ask(request, zeroed);
		pthread_mutex_lock(&cu.lock);
		slot->buffer = b;
		if (b)
			append_overhead(b, start);
	}
	struct buffer *b = fits(slot->buffer, size) ? slot->buffer : NULL;
	pthread_mutex_unlock(&cu.control);
	return b;
}

/* With SIM_CUPTI_STALE a kernel's name goes when its buffer does. */
static void own_name(struct buffer *b, CUpti_ActivityKernel9 *kernel)
{
	struct name *n = malloc(sizeof *n + strlen(kernel->name) + 1);
	if (!n)
		abort();
	strcpy(n->text, kernel->name);
	n->next = b->names;
	b->names = n;
	kernel->name = n->text;
}

static void put_unknown(struct buffer *b)
{
	uint32_t unknown[UNKNOWN_BYTES / 4] = {UNKNOWN_KIND};
	if (fits(b, UNKNOWN_BYTES))
		append(b, unknown, UNKNOWN_BYTES);
}

static bool silent(void)
{
	uint64_t all = 0;
	for (int i = 0; i < KINDS; i++)
		all += cu.records[i];
	return fault(FAULT_SILENT) && all >= fault(FAULT_SILENT);
}

void record_put(const void *record, uint32_t kind, unsigned generation, struct item *item)
{
	pthread_mutex_lock(&cu.lock);
	if (!cu.request || generation != cu.generation || cu.in_exit || silent() || foreign_present()) {
		pthread_mutex_unlock(&cu.lock);
		return;
	}
	size_t size = record_size(kind);
	struct buffer *b = fault_strikes(FAULT_DROP) ? NULL : room(size);
	if (generation != cu.generation) { /* detached meanwhile */
		pthread_mutex_unlock(&cu.lock);
		return;
	}
	if (!b) {
		cu.dropped++;
		cu.dropped_all++;
		pthread_mutex_unlock(&cu.lock);
		return;
	}
	uint8_t *at = append(b, record, size);
	cu.records[kind]++;
	if (fault(FAULT_STALE) &&
		(kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || kind == CUPTI_ACTIVITY_KIND_KERNEL))
		own_name(b, (CUpti_ActivityKernel9 *)at);
	if (item) {
		item->buffer = b;
		item->at = (size_t)(at - b->at);
		item->next = b->items;
		b->items = item;
		b->pending++;
	}
	if (fault_strikes(FAULT_UNKNOWN))
		put_unknown(b);
	pthread_mutex_unlock(&cu.lock);
}

static void write_times(uint8_t *record, uint64_t start, uint64_t end)
{
	switch (((CUpti_Activity *)record)->kind) {
	case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
		((CUpti_ActivityGraphTrace *)record)->start = start;
		((CUpti_ActivityGraphTrace *)record)->end = end;
		break;
	case CUPTI_ACTIVITY_KIND_KERNEL:
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		((CUpti_ActivityKernel9 *)record)->completed = end;
		((CUpti_ActivityKernel9 *)record)->start = start;
		((CUpti_ActivityKernel9 *)record)->end = end;
		break;
	default: /* copies and memsets have them at the same place */
		((CUpti_ActivityMemcpy5 *)record)->start = start;
		((CUpti_ActivityMemcpy5 *)record)->end = end;
	}
}

void item_finish(struct item *item)
{
	struct buffer *b = item->buffer;
	if (!b)
		return;
	struct item **p = &b->items;
	while (*p != item)
		p = &(*p)->next;
	*p = item->next;
	item->buffer = NULL;
	uint64_t start = item->start, end = item->end;
	if (fault_strikes(FAULT_ZERO)) {
		start = end = 0;
		cu.zeroed_all++;
	} else if (fault_strikes(FAULT_BACKWARD)) {
		end = start - 1;
	}
	write_times(b->at + item->at, start, end);
	if (--b->pending == 0 && b->full)
		buffer_ready(b);
}
