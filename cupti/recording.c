/*
 * recording.c - see recording.h.
 *
 * Only the ring's holder touches `ring` and the image. The file shows what is in the image in the order that
 * record.h gives, so the process may be killed at any moment; a holder whose thread is gone has left, for the
 * next one, nothing worse than a record that is not shown.
 */
#include "cupti/recording.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cupti/header.h"
#include "cupti/hold.h"
#include "cupti/image.h"
#include "cupti/intern.h"

static struct {
	struct image image;
	struct intern intern;
	uint32_t put; /* records in the chunk; TIMELINE_CHUNK_RECORDS: the next one is due */
	char path[PATH_MAX];
} ring;

/* What ended the last recording before its time, as image_save() says it; 0: nothing. Written by the holder;
 * relaxed. */
static _Atomic int trouble;

/* GIVEN_UP: the file can no longer be written. DEAD: a forked child. Written by the holder and by the fork
 * handler; relaxed, because what matters is looked at again as holder. */
enum state { CLOSED, OPEN, GIVEN_UP, DEAD };
static _Atomic int state;

/* What recording_count() was told and the file does not show yet. Relaxed: sums. */
static _Atomic uint64_t pending[TIMELINE_COUNTS];

/* ---- counts ---- */

void recording_count(enum timeline_count which, uint64_t n)
{
	atomic_fetch_add_explicit(&pending[which], n, memory_order_relaxed);
}

static void add(enum timeline_count which, uint64_t n)
{
	ring.image.header->count[which] += n;
}

static void show_counts(void)
{
	for (unsigned i = 0; i < TIMELINE_COUNTS; i++)
		if (atomic_load_explicit(&pending[i], memory_order_relaxed))
			add(i, atomic_exchange_explicit(&pending[i], 0, memory_order_relaxed));
}

/* ---- writers ---- */

bool recording_is_open(void)
{
	return atomic_load_explicit(&state, memory_order_relaxed) == OPEN;
}

bool recording_begin(void)
{
	if (!recording_is_open() || !hold_take())
		return false;
	if (!recording_is_open()) {
		hold_leave();
		return false;
	}
	show_counts();
	return true;
}

void recording_end(void)
{
	hold_leave();
}

uint32_t recording_entry(const struct timeline_entry *what, const char *name)
{
	bool full = false;
	uint32_t index = intern_entry(&ring.intern, what, name, &full);

	if (__builtin_expect(full, 0))
		add(TIMELINE_COUNT_TABLE_FULL, 1);
	return index;
}

uint16_t recording_lane(const struct timeline_lane *where, const char *name)
{
	bool full = false;
	uint16_t index = intern_lane(&ring.intern, where, name, &full);

	if (__builtin_expect(full, 0))
		add(TIMELINE_COUNT_TABLE_FULL, 1);
	return index;
}

/* What is not in the file will not get there. */
static void give_up(int error)
{
	uint64_t unsaved = image_unsaved(&ring.image);
	int open = OPEN;

	atomic_store_explicit(&trouble, error, memory_order_relaxed);
	ring.image.header->count[TIMELINE_COUNT_RECORDS] -= unsaved;
	add(TIMELINE_COUNT_DROPPED, unsaved);
	atomic_compare_exchange_strong_explicit(&state, &open, GIVEN_UP, memory_order_relaxed,
											memory_order_relaxed);
}

static bool save(void)
{
	int saved = errno, error = image_save(&ring.image);

	if (error)
		give_up(error);
	errno = saved;
	return !error;
}

void recording_save(void)
{
	if (!recording_begin())
		return;
	save();
	recording_end();
}

/* The chunk that is full goes into the file; the next one takes the place of the oldest. */
static bool next_chunk(void)
{
	struct timeline_chunk *chunk = ring.image.chunk;

	if (!recording_is_open() || (chunk->sequence && !save()))
		return false;
	if (chunk->sequence >= ring.image.header->chunk_count)
		add(TIMELINE_COUNT_OVERWRITTEN, TIMELINE_CHUNK_RECORDS);
	chunk->magic = TIMELINE_CHUNK_MAGIC;
	chunk->committed = 0;
	chunk->sequence++;
	ring.put = 0;
	return true;
}

void recording_put(const struct timeline_record *record)
{
	if (__builtin_expect(ring.put == TIMELINE_CHUNK_RECORDS, 0) && !next_chunk()) {
		add(TIMELINE_COUNT_DROPPED, 1);
		return;
	}
	ring.image.chunk->record[ring.put] = *record;
	ring.image.chunk->committed = ++ring.put;
	add(TIMELINE_COUNT_RECORDS, 1);
}

void recording_clock(const struct timeline_clock *clock)
{
	struct timeline_table *t = &ring.image.header->clocks;
	/* Beyond the header itself: the image is one block of memory. */
	char *image = (char *)ring.image.header;
	struct timeline_clock *all = (struct timeline_clock *)(void *)(image + t->offset);

	all[t->used++ % t->capacity] = *clock;
}

/* ---- life ---- */

void recording_read_environment(void)
{
	header_read_environment();
}

const char *recording_path(void)
{
	return ring.path;
}

const char *recording_trouble(char *text, size_t size)
{
	int error = atomic_load_explicit(&trouble, memory_order_relaxed), saved = errno;

	if (!error)
		return NULL;
	errno = error;
	if (error == ENOENT)
		snprintf(text, size, "somebody has removed it");
	else if (error == ENODATA)
		snprintf(text, size, "somebody has shortened it");
	else if (error == EBADMSG)
		snprintf(text, size, "somebody has written to it");
	else
		snprintf(text, size, "%m");
	errno = saved;
	return text;
}

static int begin_file(const struct recording_setup *setup)
{
	struct timeline_header *h = ring.image.header;
	int error;

	header_fill(h, setup);
	if (!intern_start(&ring.intern, h))
		return ENOMEM;
	error = image_publish(&ring.image);
	if (error) {
		intern_end(&ring.intern);
		return error;
	}
	ring.put = TIMELINE_CHUNK_RECORDS;
	strcpy(ring.path, ring.image.file.path);
	atomic_store_explicit(&trouble, 0, memory_order_relaxed);
	show_counts();
	return 0;
}

static bool smaller_may_do(int error)
{
	return error == ENOSPC || error == EDQUOT || error == EFBIG || error == ENOMEM;
}

static int make_file(const char *dir, const struct recording_setup *setup, uint64_t bytes)
{
	struct timeline_header layout = {0};
	int error;

	header_layout(&layout, bytes);
	error = image_make(&ring.image, dir, &layout);
	if (error)
		return error;
	error = begin_file(setup);
	if (error)
		image_drop(&ring.image);
	return error;
}

static int open_in(const char *dir, const struct recording_setup *setup)
{
	uint64_t bytes = setup->bytes;
	int error = make_file(dir, setup, bytes);

	if (error == EAGAIN)
		error = make_file(dir, setup, bytes);
	while (smaller_may_do(error) && bytes / 2 >= setup->least_bytes && bytes / 2 >= TIMELINE_CHUNK_BYTES) {
		bytes /= 2;
		error = make_file(dir, setup, bytes);
	}
	return error;
}

static bool open_somewhere(const struct recording_setup *setup, char *why, size_t why_size)
{
	bool named = setup->dir && *setup->dir;
	const char *where = named ? setup->dir : "the working directory, TMPDIR or /tmp";
	const char *dirs[] = {named ? setup->dir : "", header_tmpdir(), "/tmp"};
	int first = 0;

	if (named)
		mkdir(setup->dir, 0700); /* if only its last part is missing */
	for (unsigned i = 0; i < (named ? 1 : sizeof(dirs) / sizeof(dirs[0])); i++) {
		if (i > 0 && !*dirs[i])
			continue;
		int error = open_in(dirs[i], setup);
		if (!error)
			return true;
		first = first ? first : error;
	}
	errno = first;
	if (smaller_may_do(first))
		snprintf(why, why_size, "no file of %u MiB, with as much left free, in %s: %m",
				 (unsigned)(setup->least_bytes >> 20), where);
	else
		snprintf(why, why_size, "no file in %s: %m", where);
	return false;
}

/* The end of the file that is open, as holder. What of the ring was never used is cut off. */
static void end_file(void)
{
	struct timeline_header *h = ring.image.header;
	uint64_t chunks = ring.image.chunk->sequence;

	show_counts();
	if (!atomic_load_explicit(&trouble, memory_order_relaxed))
		save();
	if (chunks < h->chunk_count) {
		h->chunk_count = (uint32_t)chunks;
		h->file_bytes = h->ring_offset + chunks * TIMELINE_CHUNK_BYTES;
	}
	h->end_ns = header_now();
	intern_end(&ring.intern);
	image_end(&ring.image);
}

bool recording_open(const struct recording_setup *setup, char *why, size_t why_size)
{
	int saved = errno;
	bool ok = false;

	if (atomic_load_explicit(&state, memory_order_relaxed) == DEAD) {
		snprintf(why, why_size, "this is a forked child");
	} else if (!hold_take()) {
		snprintf(why, why_size, "the last recording has not ended");
	} else {
		if (ring.image.header)
			end_file();
		ok = open_somewhere(setup, why, why_size);
		atomic_store_explicit(&state, ok ? OPEN : CLOSED, memory_order_relaxed);
		hold_leave();
	}
	errno = saved;
	return ok;
}

void recording_close(void)
{
	int saved = errno, was = atomic_load_explicit(&state, memory_order_relaxed);

	if (was == CLOSED || was == DEAD)
		return;
	atomic_store_explicit(&state, CLOSED, memory_order_relaxed);
	/* In vain: the file stays open under whoever holds it, for the next recording_open() or the process's
	 * end. */
	if (hold_take()) {
		if (ring.image.header)
			end_file();
		hold_leave();
	}
	errno = saved;
}

void recording_fork_child(void)
{
	atomic_store_explicit(&state, DEAD, memory_order_relaxed);
	hold_fork_child();
	file_close(&ring.image.file);
}
