/*
 * trace_chunk.c - the chunks of a timeline file: which there are, and the records of one in order.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/timeline/trace_impl.h"

/* One chunk, as it was read, and room to sort one; used within a call. */
static union {
	struct timeline_chunk chunk;
	unsigned char bytes[TIMELINE_CHUNK_BYTES];
} buffer;
static struct timeline_record scratch[TIMELINE_CHUNK_RECORDS];

static uint64_t chunk_offset(const struct trace *t, uint32_t index)
{
	return t->header.ring_offset + (uint64_t)index * TIMELINE_CHUNK_BYTES;
}

/* ---- which there are ---- */

bool trace_scan_headers(struct trace *t, char *why, size_t why_size)
{
	struct timeline_chunk h;
	uint32_t n = t->header.chunk_count, room = 0;
	t->chunks = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (trace_pread(t, &h, sizeof(h), chunk_offset(t, i)) != sizeof(h)) {
			t->damaged += n - i; /* cut off */
			break;
		}
		if (h.sequence == 0)
			continue;
		if (h.magic != TIMELINE_CHUNK_MAGIC || h.committed > TIMELINE_CHUNK_RECORDS) {
			t->damaged++;
			continue;
		}
		if (h.committed == 0)
			continue;
		if (t->chunks == room) {
			room = room ? 2 * room : 64;
			struct trace_chunk_info *more = realloc(t->chunk, room * sizeof(*more));
			if (!more)
				return trace_refuse(why, why_size, "no memory for %u chunks", n);
			t->chunk = more;
		}
		t->chunk[t->chunks++] =
			(struct trace_chunk_info){.sequence = h.sequence, .index = i, .committed = h.committed};
	}
	return true;
}

/* ---- one chunk ---- */

static bool makes_sense(const struct trace *t, const struct timeline_record *r)
{
	return r->kind < TIMELINE_KINDS && r->start && r->start < TRACE_TIME_MAX && r->entry < t->entries &&
		   r->lane < t->lanes;
}

/* Copies what was committed when the headers were scanned into the buffer; how many whole records. 0 when the
 * chunk has been used for others since. */
static uint32_t copy_chunk(struct trace *t, const struct trace_chunk_info *c)
{
	const struct timeline_chunk *head = &buffer.chunk;
	struct timeline_chunk after;
	uint64_t at = chunk_offset(t, c->index);
	size_t size = sizeof(after) + c->committed * sizeof(struct timeline_record);
	size_t have = trace_pread(t, buffer.bytes, size, at);
	if (have < sizeof(after) || head->sequence != c->sequence || head->committed < c->committed)
		return 0;
	/* The writer clears the sequence before it touches a record: unchanged behind the copy, the copy is whole. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (trace_pread(t, &after, sizeof(after), at) != sizeof(after) || after.sequence != c->sequence)
		return 0;
	return (uint32_t)((have - sizeof(after)) / sizeof(struct timeline_record));
}

/* The good ones among the records of the buffer, in their order, into `to`. */
static uint32_t filter(struct trace *t, uint32_t n, struct timeline_record *to, uint64_t *damaged)
{
	const struct timeline_record *r = buffer.chunk.record;
	uint32_t kept = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (r[i].kind == TIMELINE_NONE)
			continue;
		if (makes_sense(t, &r[i]))
			to[kept++] = r[i];
		else
			++*damaged;
	}
	return kept;
}

/* Merges the sorted from[0, middle) and from[middle, n) into `to`; of equals the left one comes first. */
static void merge(const struct timeline_record *from, uint32_t middle, uint32_t n, struct timeline_record *to)
{
	uint32_t a = 0, b = middle;
	while (a < middle && b < n)
		*to++ = from[b].start < from[a].start ? from[b++] : from[a++];
	memcpy(to, from + a, (middle - a) * sizeof(*to));
	memcpy(to + (middle - a), from + b, (n - b) * sizeof(*to));
}

/* Merge sort that starts from the runs that are there: streams are recorded in order. */
static void sort_records(struct timeline_record *r, uint32_t n)
{
	uint16_t start[TIMELINE_CHUNK_RECORDS + 1];
	uint32_t runs = 0;
	struct timeline_record *from = r, *to = scratch;
	for (uint32_t i = 0; i < n; i++)
		if (i == 0 || r[i].start < r[i - 1].start)
			start[runs++] = (uint16_t)i;
	start[runs] = (uint16_t)n;
	while (runs > 1) {
		uint32_t out = 0;
		for (uint32_t i = 0; i < runs; i += 2) {
			uint32_t first = start[i], middle = start[i + 1], end = i + 2 <= runs ? start[i + 2] : middle;
			merge(from + first, middle - first, end - first, to + first);
			start[out++] = (uint16_t)first;
		}
		start[out] = (uint16_t)n;
		runs = out;
		struct timeline_record *swap = from;
		from = to;
		to = swap;
	}
	if (from != r)
		memcpy(r, from, n * sizeof(*r));
}

uint32_t trace_load_chunk(struct trace *t, const struct trace_chunk_info *c, struct timeline_record *to)
{
	uint64_t damaged = 0; /* the scan has counted them */
	uint32_t n = filter(t, copy_chunk(t, c), to, &damaged);
	sort_records(to, n);
	return n;
}

/* ---- all of them, once ---- */

static void take_times(struct trace *t, struct trace_chunk_info *c, const struct timeline_record *r,
					   uint32_t n)
{
	c->first = UINT64_MAX;
	c->last = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t end = r[i].start + trace_duration(&r[i]);
		if (r[i].start < c->first)
			c->first = r[i].start;
		if (r[i].start > c->last)
			c->last = r[i].start;
		if (end > t->last_end)
			t->last_end = end;
	}
	if (n && (t->records == 0 || c->first < t->first_start))
		t->first_start = c->first;
	t->records += n;
}

static int by_first(const void *a, const void *b)
{
	const struct trace_chunk_info *x = a, *y = b;
	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

bool trace_scan_records(struct trace *t, char *why, size_t why_size)
{
	uint32_t kept = 0;
	struct timeline_record *r = malloc(TIMELINE_CHUNK_BYTES);
	if (!r)
		return trace_refuse(why, why_size, "no memory");
	for (uint32_t i = 0; i < t->chunks; i++) {
		struct trace_chunk_info c = t->chunk[i];
		uint32_t whole = copy_chunk(t, &c), n = filter(t, whole, r, &t->damaged);
		if (whole && whole < c.committed)
			t->damaged += c.committed - whole;
		take_times(t, &c, r, n);
		if (n)
			t->chunk[kept++] = c;
	}
	free(r);
	t->chunks = kept;
	if (kept)
		qsort(t->chunk, kept, sizeof(*t->chunk), by_first);
	return true;
}
