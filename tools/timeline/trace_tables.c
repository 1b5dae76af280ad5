/*
 * trace_tables.c - the header and the tables of a timeline file: checked, copied, made safe.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/timeline/trace_impl.h"

typedef unsigned long long ull;

#define REFUSE(...) return trace_refuse(why, why_size, __VA_ARGS__)

/* A table of elements of `size` bytes, of which at most `most` are believed. */
static bool check_table(const struct trace *t, const struct timeline_table *table, const char *name,
						size_t size, uint64_t most, char *why, size_t why_size)
{
	uint64_t room = t->file_bytes > table->offset ? t->file_bytes - table->offset : 0;
	if (table->offset < TIMELINE_HEADER_BYTES || table->capacity == 0 || table->capacity > most)
		REFUSE("it is damaged (table of %s: %llu elements at offset %llu)", name, (ull)table->capacity,
			   (ull)table->offset);
	if (table->capacity > room / size)
		REFUSE("it is damaged or truncated (the table of %s ends behind its %llu bytes)", name,
			   (ull)t->file_bytes);
	return true;
}

static bool check_tables(const struct trace *t, char *why, size_t why_size)
{
	const struct timeline_header *h = &t->header;
	if (!check_table(t, &h->names, "names", 1, TRACE_NAMES_MAX, why, why_size) ||
		!check_table(t, &h->entries, "entries", sizeof(struct timeline_entry), TRACE_ENTRIES_MAX, why,
					 why_size) ||
		!check_table(t, &h->lanes, "lanes", sizeof(struct timeline_lane), TRACE_LANES_MAX, why, why_size) ||
		!check_table(t, &h->clocks, "clocks", sizeof(struct timeline_clock), TRACE_CLOCKS_MAX, why, why_size))
		return false;
	if (h->names.used > h->names.capacity || h->entries.used > h->entries.capacity ||
		h->lanes.used > h->lanes.capacity)
		REFUSE("it is damaged (a table holds more than it has room for)");
	return true;
}

static void take_texts(struct timeline_header *h)
{
#define TEXT(field)                                                    \
	do {                                                               \
		(field)[sizeof(field) - 1] = '\0';                             \
		trace_printable((field), strnlen((field), sizeof(field) - 1)); \
	} while (0)
	TEXT(h->host);
	TEXT(h->command);
	TEXT(h->version_text);
	TEXT(h->options);
	for (uint32_t i = 0; i < h->device_count; i++)
		TEXT(h->device[i].name);
#undef TEXT
}

bool trace_check_header(struct trace *t, char *why, size_t why_size)
{
	struct timeline_header *h = &t->header;
	if (memcmp(h->magic, TIMELINE_MAGIC, sizeof(h->magic)))
		REFUSE("it is not a timeline file");
	if (h->version != TIMELINE_VERSION)
		REFUSE("it has format %u, this command reads format %u; use the `turbo` of that version", h->version,
			   TIMELINE_VERSION);
	if (h->header_bytes != TIMELINE_HEADER_BYTES || h->chunk_bytes != TIMELINE_CHUNK_BYTES)
		REFUSE("it is damaged (header of %u bytes, chunks of %u)", h->header_bytes, h->chunk_bytes);
	if (h->device_count > TIMELINE_DEVICES)
		REFUSE("it is damaged (%u devices)", h->device_count);
	if (h->mode > TIMELINE_MODE_LAUNCH)
		REFUSE("it is damaged (mode %u)", h->mode);
	if (h->start_ns >= TRACE_TIME_MAX || h->end_ns >= TRACE_TIME_MAX)
		REFUSE("it is damaged (recorded from %llu to %llu)", (ull)h->start_ns, (ull)h->end_ns);
	if (h->ring_offset < TIMELINE_HEADER_BYTES || h->chunk_count > TRACE_CHUNKS_MAX ||
		h->ring_offset > TRACE_TIME_MAX)
		REFUSE("it is damaged (%u chunks at offset %llu)", h->chunk_count, (ull)h->ring_offset);
	if (!check_tables(t, why, why_size))
		return false;
	h->rank = h->rank < -1 ? -1 : h->rank;
	h->ranks = h->ranks < -1 ? -1 : h->ranks;
	h->local_rank = h->local_rank < -1 ? -1 : h->local_rank;
	take_texts(h);
	return true;
}

/* ---- the tables ---- */

/* `n` elements at `offset`, in fresh memory with at least one element more, zeroed; NULL: said why. */
static void *read_table(struct trace *t, uint64_t offset, uint64_t n, size_t size, const char *name,
						char *why, size_t why_size)
{
	void *to = calloc((size_t)n + 1, size);
	if (!to) {
		trace_refuse(why, why_size, "no memory for its %llu %s", (ull)n, name);
		return NULL;
	}
	if (trace_pread(t, to, (size_t)n * size, offset) != (size_t)n * size) {
		trace_refuse(why, why_size, "it shrank while it was read (table of %s)", name);
		free(to);
		return NULL;
	}
	return to;
}

/* Every kind, offset and index in range; element 0 is there. */
static void check_elements(struct trace *t)
{
	if (t->entries == 0)
		t->entries = 1;
	if (t->lanes == 0)
		t->lanes = 1;
	t->entry[0] = (struct timeline_entry){.kind = TIMELINE_NONE};
	for (uint32_t i = 0; i < t->entries; i++) {
		struct timeline_entry *e = &t->entry[i];
		if (e->kind >= TIMELINE_KINDS)
			*e = (struct timeline_entry){.kind = TIMELINE_NONE};
		if (e->name >= t->names_bytes)
			e->name = 0;
	}
	for (uint32_t i = 0; i < t->lanes; i++) {
		struct timeline_lane *l = &t->lane[i];
		if (l->kind < TIMELINE_LANE_STREAM || l->kind > TIMELINE_LANE_DEVICE)
			*l = (struct timeline_lane){.kind = TIMELINE_LANE_PROCESS};
		if (l->name >= t->names_bytes)
			l->name = 0;
	}
}

static int by_cupti(const void *a, const void *b)
{
	const struct timeline_clock *x = a, *y = b;
	return x->cupti < y->cupti ? -1 : x->cupti > y->cupti;
}

/* A clock pair may be written over while it is read: only those in range are kept. Not worth an error. */
static bool read_clocks(struct trace *t, char *why, size_t why_size)
{
	const struct timeline_table *c = &t->header.clocks;
	uint64_t n = c->used < c->capacity ? c->used : c->capacity;
	uint32_t kept = 0;
	t->clock = read_table(t, c->offset, n, sizeof(*t->clock), "clocks", why, why_size);
	if (!t->clock)
		return false;
	for (uint64_t i = 0; i < n; i++) {
		const struct timeline_clock *k = &t->clock[i];
		if (k->cupti && k->cupti < TRACE_TIME_MAX && k->realtime && k->realtime < TRACE_TIME_MAX)
			t->clock[kept++] = *k;
	}
	qsort(t->clock, kept, sizeof(*t->clock), by_cupti);
	t->clocks = kept;
	return true;
}

bool trace_read_tables(struct trace *t, char *why, size_t why_size)
{
	const struct timeline_header *h = &t->header;
	t->names = read_table(t, h->names.offset, h->names.used, 1, "names", why, why_size);
	if (!t->names)
		return false;
	t->names_bytes = h->names.used + 1; /* with the terminator that read_table() left behind them */
	trace_printable(t->names, h->names.used);
	t->entry = read_table(t, h->entries.offset, h->entries.used, sizeof(*t->entry), "entries", why, why_size);
	if (!t->entry)
		return false;
	t->entries = (uint32_t)h->entries.used;
	t->lane = read_table(t, h->lanes.offset, h->lanes.used, sizeof(*t->lane), "lanes", why, why_size);
	if (!t->lane)
		return false;
	t->lanes = (uint32_t)h->lanes.used;
	if (!read_clocks(t, why, why_size))
		return false;
	check_elements(t);
	return true;
}

int64_t trace_clock_offset(const struct trace *t, uint64_t time)
{
	uint32_t low = 0, high = t->clocks;
	if (!t->clocks)
		return 0;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (t->clock[middle].cupti <= time)
			low = middle + 1;
		else
			high = middle;
	}
	const struct timeline_clock *b = &t->clock[low < t->clocks ? low : t->clocks - 1];
	const struct timeline_clock *a = &t->clock[low ? low - 1 : 0];
	int64_t from = (int64_t)(a->realtime - a->cupti), to = (int64_t)(b->realtime - b->cupti);
	if (a == b || b->cupti == a->cupti)
		return from;
	double share = (double)(time - a->cupti) / (double)(b->cupti - a->cupti);
	return from + (int64_t)(share * ((double)to - (double)from));
}
