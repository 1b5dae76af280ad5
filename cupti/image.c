/* image.c - see image.h. */
#include "cupti/image.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

/* What of the header changes. Before it lies the magic, which is written once; behind it the devices. */
#define CHANGES_FROM offsetof(struct timeline_header, version)
#define CHANGES_TO offsetof(struct timeline_header, device)
#define RECORDS_AT (offsetof(struct timeline_header, count) + TIMELINE_COUNT_RECORDS * sizeof(uint64_t))

/* ---- parts of a save ---- */

/* Elements from `saved` on; of a ring, the newest. */
static int save_table(struct image *m, const struct timeline_table *t, uint64_t saved, uint64_t size)
{
	const char *base = (const char *)m->header + t->offset;
	uint64_t from = t->used - saved > t->capacity ? t->used - t->capacity : saved;
	int error = 0;

	while (!error && from < t->used) {
		uint64_t at = from % t->capacity, n = t->used - from;
		n = n < t->capacity - at ? n : t->capacity - at;
		error = file_store(&m->file, t->offset + at * size, base + at * size, n * size);
		from += n;
	}
	return error;
}

static int save_tables(struct image *m)
{
	const struct timeline_header *h = m->header, *saved = &m->saved;
	int error = save_table(m, &h->names, saved->names.used, 1);

	if (!error)
		error = save_table(m, &h->entries, saved->entries.used, sizeof(struct timeline_entry));
	if (!error)
		error = save_table(m, &h->lanes, saved->lanes.used, sizeof(struct timeline_lane));
	if (!error)
		error = save_table(m, &h->clocks, saved->clocks.used, sizeof(struct timeline_clock));
	return error;
}

/* All but how many records there are: what they refer to comes before them, as does what they take the place of. */
static int save_header(struct image *m)
{
	memcpy(&m->next, m->header, CHANGES_TO);
	m->next.count[TIMELINE_COUNT_RECORDS] = m->saved.count[TIMELINE_COUNT_RECORDS];
	if (memcmp(&m->next, &m->saved, CHANGES_TO) == 0)
		return 0;
	return file_store(&m->file, CHANGES_FROM, m->next.bytes + CHANGES_FROM, CHANGES_TO - CHANGES_FROM);
}

static int save_chunk(struct image *m)
{
	const struct timeline_chunk *c = m->chunk, none = {.magic = TIMELINE_CHUNK_MAGIC};
	uint64_t at = m->header->ring_offset;
	uint32_t from = m->saved_sequence == c->sequence ? m->saved_records : 0;
	int error = 0;

	if (!c->sequence || (m->saved_sequence == c->sequence && from == c->committed))
		return 0;
	at += (c->sequence - 1) % m->header->chunk_count * TIMELINE_CHUNK_BYTES;
	if (m->saved_sequence != c->sequence)
		error = file_store(&m->file, at, &none, sizeof(none));
	if (!error)
		error =
			file_store(&m->file, at + offsetof(struct timeline_chunk, record) + from * sizeof(c->record[0]),
					   &c->record[from], (c->committed - from) * sizeof(c->record[0]));
	if (!error)
		error = file_store(&m->file, at, c, sizeof(*c));
	if (!error) {
		m->saved_sequence = c->sequence;
		m->saved_records = c->committed;
	}
	return error;
}

static int save_count(struct image *m)
{
	const uint64_t *records = &m->header->count[TIMELINE_COUNT_RECORDS];

	if (*records == m->saved.count[TIMELINE_COUNT_RECORDS])
		return 0;
	return file_store(&m->file, RECORDS_AT, records, sizeof(*records));
}

static int save_all(struct image *m)
{
	int error = save_tables(m);

	if (!error)
		error = save_header(m);
	if (!error)
		error = save_chunk(m);
	if (!error)
		error = save_count(m);
	if (!error)
		memcpy(&m->saved, m->header, CHANGES_TO);
	return error;
}

/* The file is what it was, by its magic, too: it may have been cut off and grown again. */
static int enter(struct image *m, sigset_t *mask)
{
	int error = file_enter(&m->file, mask);

	if (!error && !file_holds(&m->file, 0, m->header->magic, sizeof(m->header->magic)))
		error = EBADMSG;
	return error;
}

/* ---- life ---- */

static void free_memory(struct image *m)
{
	if (m->header)
		munmap(m->header, m->bytes);
	m->header = NULL;
	m->chunk = NULL;
}

int image_make(struct image *m, const char *dir, const struct timeline_header *layout)
{
	uint64_t bytes = layout->ring_offset + TIMELINE_CHUNK_BYTES;
	int error = file_make(&m->file, dir, layout->file_bytes);
	char *base;

	if (error)
		return error;
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED) {
		error = errno;
		file_drop(&m->file);
		return error;
	}
	madvise(base, bytes, MADV_DONTFORK);
	m->bytes = bytes;
	m->header = (struct timeline_header *)(void *)base;
	m->chunk = (struct timeline_chunk *)(void *)(base + layout->ring_offset);
	memcpy(m->header, layout, sizeof(*layout));
	memset(&m->saved, 0, sizeof(m->saved));
	m->saved_sequence = 0;
	m->saved_records = 0;
	return 0;
}

int image_publish(struct image *m)
{
	const struct timeline_header *h = m->header;
	/* Not file_enter(): it need not have a name yet. */
	int error = file_store(&m->file, CHANGES_TO, h->bytes + CHANGES_TO, sizeof(*h) - CHANGES_TO);

	if (!error)
		error = save_all(m);
	if (!error)
		error = file_store(&m->file, 0, h->magic, sizeof(h->magic));
	return error ? error : file_publish(&m->file);
}

void image_drop(struct image *m)
{
	free_memory(m);
	file_drop(&m->file);
}

int image_save(struct image *m)
{
	sigset_t mask;
	int error = enter(m, &mask);

	if (!error)
		error = save_all(m);
	file_leave(&m->file, &mask);
	return error;
}

uint64_t image_unsaved(const struct image *m)
{
	return m->header->count[TIMELINE_COUNT_RECORDS] - m->saved.count[TIMELINE_COUNT_RECORDS];
}

void image_end(struct image *m)
{
	sigset_t mask;

	if (enter(m, &mask) == 0) {
		file_store(&m->file, CHANGES_FROM, m->header->bytes + CHANGES_FROM, CHANGES_TO - CHANGES_FROM);
		file_cut(&m->file, m->header->file_bytes);
	}
	file_leave(&m->file, &mask);
	file_close(&m->file);
	free_memory(m);
}
