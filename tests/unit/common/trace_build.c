/*
 * trace_build.c - see trace_build.h. The file is mapped; elements and records are written in place.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/common/trace_build.h"

#define INTERNED 65536 /* slots, a power of two */

struct trace_build {
	unsigned char *file;
	struct timeline_header *header; /* file's beginning */
	uint64_t bytes, start_ns, last_end;
	struct timeline_chunk *chunk; /* that is being filled; NULL: the next record begins one */
	uint64_t sequence;
	uint32_t interned[INTERNED]; /* index + 1 of entries, by hash */
};

#define FAIL_UNLESS(x)                                                            \
	do {                                                                          \
		if (!(x)) {                                                               \
			fprintf(stderr, "%s:%d: %s: %m\n", __FILE__, __LINE__, #x " failed"); \
			abort();                                                              \
		}                                                                         \
	} while (0)

/* ---- the file ---- */

/* The next table begins at a multiple of `align`. */
static uint64_t lay(struct timeline_table *table, uint64_t at, uint64_t capacity, size_t size, uint64_t align)
{
	*table = (struct timeline_table){.offset = at, .capacity = capacity};
	return (at + capacity * size + align - 1) / align * align;
}

static uint32_t or_default(uint32_t n, uint32_t otherwise)
{
	return n ? n : otherwise;
}

static void describe_device(struct timeline_device *d, uint32_t index)
{
	*d = (struct timeline_device){
		.name = "NVIDIA H200",
		.memory_bytes = 150754820096ull,
		.multiprocessors = 132,
		.major = 9,
		.uuid = {0x48, 0x32, 0x30, 0x30, (unsigned char)index},
		.warp = 32,
		.threads_a_block = 1024,
		.threads_a_multiprocessor = 2048,
		.registers_a_multiprocessor = 65536,
		.shared_a_block = 49152,
		.shared_a_multiprocessor = 233472,
	};
}

static void describe(struct timeline_header *h, const struct trace_build_setup *s)
{
	bool ranked = s->rank || s->ranks;
	memcpy(h->magic, TIMELINE_MAGIC, sizeof(h->magic));
	h->version = TIMELINE_VERSION;
	h->header_bytes = TIMELINE_HEADER_BYTES;
	h->pid = 1000 + (ranked ? (uint32_t)s->rank : 0);
	h->rank = h->local_rank = ranked ? s->rank : -1;
	h->ranks = ranked ? s->ranks : -1;
	h->mode = or_default(s->mode, TIMELINE_MODE_KERNEL);
	h->cupti_version = 130001;
	h->driver_version = 13000;
	h->start_ns = s->start_ns ? s->start_ns : TRACE_BUILD_START;
	h->chunk_bytes = TIMELINE_CHUNK_BYTES;
	strcpy(h->host, "node-1");
	strcpy(h->command, "python train.py");
	strcpy(h->version_text, "0.1.0");
	h->device_count = or_default(s->devices, 1);
	for (uint32_t i = 0; i < h->device_count; i++)
		describe_device(&h->device[i], i);
}

struct trace_build *trace_build_open(const char *path, const struct trace_build_setup *s)
{
	struct timeline_header h = {.magic = ""};
	struct trace_build *b = calloc(1, sizeof(*b));
	FAIL_UNLESS(b);
	describe(&h, s);
	h.chunk_count = or_default(s->chunks, 16);
	uint64_t at = TIMELINE_HEADER_BYTES, align = s->packed ? 64 : 4096;
	at = lay(&h.names, at, or_default(s->names, 65536), 1, align);
	at = lay(&h.entries, at, or_default(s->entries, 4096), sizeof(struct timeline_entry), align);
	at = lay(&h.lanes, at, or_default(s->lanes, 256), sizeof(struct timeline_lane), align);
	at = lay(&h.clocks, at, or_default(s->clocks, 64), sizeof(struct timeline_clock), align);
	h.ring_offset = at;
	b->bytes = h.file_bytes = at + (uint64_t)h.chunk_count * TIMELINE_CHUNK_BYTES;
	b->start_ns = b->last_end = h.start_ns;

	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FAIL_UNLESS(fd >= 0);
	FAIL_UNLESS(ftruncate(fd, (off_t)b->bytes) == 0);
	b->file = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	FAIL_UNLESS(b->file != MAP_FAILED);
	close(fd);
	b->header = (struct timeline_header *)(void *)b->file;
	*b->header = h;
	b->header->names.used = 1; /* "" */
	trace_build_entry(b, &(struct timeline_entry){.kind = TIMELINE_NONE}, "unknown");
	trace_build_lane(b, &(struct timeline_lane){.kind = TIMELINE_LANE_PROCESS}, NULL);
	return b;
}

static void finish(struct trace_build *b, uint64_t end_ns)
{
	b->header->end_ns = end_ns;
	FAIL_UNLESS(munmap(b->file, b->bytes) == 0);
	free(b);
}

void trace_build_close(struct trace_build *b)
{
	finish(b, b->last_end);
}

void trace_build_kill(struct trace_build *b)
{
	finish(b, 0);
}

struct timeline_header *trace_build_header(struct trace_build *b)
{
	return b->header;
}

/* ---- tables ---- */

static uint32_t hash_of(const void *bytes, size_t n, uint32_t h)
{
	const unsigned char *p = bytes;
	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 16777619u;
	return h;
}

/* Names are interned through entries and lanes; the same text twice is no harm. */
uint32_t trace_build_name(struct trace_build *b, const char *name)
{
	struct timeline_table *t = &b->header->names;
	size_t n = strlen(name) + 1;
	if (n == 1)
		return 0;
	FAIL_UNLESS(t->used + n <= t->capacity);
	memcpy(b->file + t->offset + t->used, name, n);
	t->used += n;
	return (uint32_t)(t->used - n);
}

static struct timeline_entry *entry_at(struct trace_build *b, uint32_t i)
{
	return (struct timeline_entry *)(void *)(b->file + b->header->entries.offset) + i;
}

static bool same_entry(struct trace_build *b, uint32_t i, const struct timeline_entry *e, const char *name)
{
	const struct timeline_entry *have = entry_at(b, i);
	return have->kind == e->kind && !memcmp(have->words, e->words, sizeof(e->words)) &&
		   !strcmp((char *)b->file + b->header->names.offset + have->name, name);
}

uint32_t trace_build_entry(struct trace_build *b, const struct timeline_entry *e, const char *name)
{
	struct timeline_table *t = &b->header->entries;
	uint32_t slot = hash_of(e->words, sizeof(e->words), hash_of(name, strlen(name), 2166136261u ^ e->kind));
	for (slot %= INTERNED; b->interned[slot]; slot = (slot + 1) % INTERNED)
		if (same_entry(b, b->interned[slot] - 1, e, name))
			return b->interned[slot] - 1;
	FAIL_UNLESS(t->used < t->capacity && t->used < INTERNED / 2);
	struct timeline_entry *to = entry_at(b, (uint32_t)t->used);
	*to = *e;
	to->name = trace_build_name(b, name);
	b->interned[slot] = (uint32_t)++t->used;
	return (uint32_t)t->used - 1;
}

uint16_t trace_build_lane(struct trace_build *b, const struct timeline_lane *l, const char *name)
{
	struct timeline_table *t = &b->header->lanes;
	struct timeline_lane *lane = (struct timeline_lane *)(void *)(b->file + t->offset);
	for (uint32_t i = 0; i < t->used; i++)
		if (lane[i].kind == l->kind && lane[i].device == l->device && lane[i].context == l->context &&
			lane[i].stream == l->stream && lane[i].thread == l->thread)
			return (uint16_t)i;
	FAIL_UNLESS(t->used < t->capacity);
	lane[t->used] = *l;
	lane[t->used].name = name ? trace_build_name(b, name) : 0;
	return (uint16_t)t->used++;
}

void trace_build_clock(struct trace_build *b, uint64_t cupti, uint64_t realtime, uint64_t raw)
{
	struct timeline_table *t = &b->header->clocks;
	struct timeline_clock *clock = (struct timeline_clock *)(void *)(b->file + t->offset);
	clock[t->used++ % t->capacity] =
		(struct timeline_clock){.cupti = cupti, .realtime = realtime, .monotonic_raw = raw};
}

/* ---- records ---- */

void trace_build_next_chunk(struct trace_build *b)
{
	b->chunk = NULL;
}

static void begin_chunk(struct trace_build *b)
{
	uint64_t index = b->sequence++ % b->header->chunk_count;
	b->chunk =
		(struct timeline_chunk *)(void *)(b->file + b->header->ring_offset + index * TIMELINE_CHUNK_BYTES);
	b->header->count[TIMELINE_COUNT_OVERWRITTEN] += b->chunk->committed;
	*b->chunk = (struct timeline_chunk){.magic = TIMELINE_CHUNK_MAGIC, .sequence = b->sequence};
}

void trace_build_put(struct trace_build *b, const struct timeline_record *r)
{
	if (!b->chunk || b->chunk->committed == TIMELINE_CHUNK_RECORDS)
		begin_chunk(b);
	b->chunk->record[b->chunk->committed++] = *r;
	b->header->count[TIMELINE_COUNT_RECORDS]++;
}

void trace_build_add(struct trace_build *b, uint16_t lane, uint32_t entry, uint64_t start, uint64_t duration,
					 uint32_t correlation, uint64_t value)
{
	bool us = duration > UINT32_MAX;
	struct timeline_record r = {
		.start = b->start_ns + start,
		.duration = (uint32_t)(us ? duration / 1000 : duration),
		.correlation = correlation,
		.entry = entry,
		.lane = lane,
		.kind = (uint8_t)entry_at(b, entry)->kind,
		.flags = us ? TIMELINE_FLAG_US : 0,
		.value = value,
	};
	if (r.start + duration > b->last_end)
		b->last_end = r.start + duration;
	trace_build_put(b, &r);
}

/* ---- in a line ---- */

uint16_t trace_build_stream(struct trace_build *b, uint32_t device, uint32_t stream)
{
	return trace_build_lane(
		b,
		&(struct timeline_lane){
			.kind = TIMELINE_LANE_STREAM, .device = device, .context = device + 1, .stream = stream},
		NULL);
}

uint16_t trace_build_thread(struct trace_build *b, uint32_t thread)
{
	return trace_build_lane(b, &(struct timeline_lane){.kind = TIMELINE_LANE_THREAD, .thread = thread}, NULL);
}

uint32_t trace_build_plain(struct trace_build *b, enum timeline_kind kind, const char *name)
{
	return trace_build_entry(b, &(struct timeline_entry){.kind = kind}, name);
}

uint32_t trace_build_kernel_entry(struct trace_build *b, const char *name, uint32_t grid, uint32_t block)
{
	struct timeline_entry e = {.kind = TIMELINE_KERNEL};
	for (int i = 0; i < 3; i++) {
		e.kernel.grid[i] = i ? 1 : grid;
		e.kernel.block[i] = i ? 1 : block;
	}
	e.kernel.registers = 32;
	e.kernel.static_shared = 1024;
	return trace_build_entry(b, &e, name);
}

uint32_t trace_build_copy_entry(struct trace_build *b, uint32_t direction, uint32_t from, uint32_t to)
{
	struct timeline_entry e = {.kind = TIMELINE_COPY};
	e.copy.direction = direction;
	e.copy.from_kind = from;
	e.copy.to_kind = to;
	return trace_build_entry(b, &e, "");
}

uint32_t trace_build_collective_entry(struct trace_build *b, const char *name, uint32_t communicator,
									  uint32_t rank, uint32_t ranks)
{
	struct timeline_entry e = {.kind = TIMELINE_COLLECTIVE};
	e.collective.communicator = communicator;
	e.collective.rank = rank;
	e.collective.ranks = ranks;
	e.collective.type = 7;
	return trace_build_entry(b, &e, name);
}

/* ---- closed files ---- */

void trace_build_poke(const char *path, uint64_t offset, const void *bytes, size_t n)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	FAIL_UNLESS(fd >= 0);
	FAIL_UNLESS(pwrite(fd, bytes, n, (off_t)offset) == (ssize_t)n);
	close(fd);
}

void trace_build_truncate(const char *path, uint64_t size)
{
	FAIL_UNLESS(truncate(path, (off_t)size) == 0);
}
