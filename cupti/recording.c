/*
 * recording.c - see recording.h.
 *
 * Only the ring's holder touches `ring`, the mapping and the tables. The file shows what it does in the order
 * that record.h gives, so the process may be killed after any store; a holder whose thread is gone has left,
 * for the next one, nothing worse than a record that is not shown.
 */
#include "cupti/recording.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cupti/file.h"
#include "cupti/header.h"
#include "cupti/hold.h"
#include "cupti/intern.h"
#include "log.h"

static struct {
	struct file file;
	struct intern intern;
	struct timeline_header *header; /* start of the mapping; NULL: none */
	struct timeline_chunk *chunk;   /* being filled */
	uint32_t put;                   /* records in it; TIMELINE_CHUNK_RECORDS: the next one is due */
	uint64_t sequence;              /* of it; 0: none yet */
	uint64_t clocks;                /* ever written */
	uint64_t count[TIMELINE_COUNTS];
	uint64_t ring_offset, chunks; /* as in the header, where others could write: it is not read again */
	struct timeline_table clock_table;
	char path[PATH_MAX];
} ring;

/* GIVEN_UP: the file system failed. DEAD: a forked child. Written by the holder and by the fork handler;
 * relaxed, because what matters is looked at again as holder. */
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
	ring.count[which] += n;
	__atomic_store_n(&ring.header->count[which], ring.count[which], __ATOMIC_RELAXED);
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

static bool pages_ready(uint64_t at)
{
	int saved = errno;
	bool ok = file_ready(&ring.file, at, TIMELINE_CHUNK_BYTES);

	if (!ok) {
		atomic_store_explicit(&state, GIVEN_UP, memory_order_relaxed);
		log_warn("the timeline ends here, its file system has no more room: %s", ring.path);
	}
	errno = saved;
	return ok;
}

/* The oldest chunk, or one that was never used, becomes the one to fill. */
static bool next_chunk(void)
{
	uint64_t at = ring.sequence % ring.chunks * TIMELINE_CHUNK_BYTES + ring.ring_offset;
	struct timeline_chunk *chunk = (struct timeline_chunk *)(void *)(ring.file.base + at);

	if (!recording_is_open() || !pages_ready(at))
		return false;
	if (ring.sequence >= ring.chunks)
		add(TIMELINE_COUNT_OVERWRITTEN, TIMELINE_CHUNK_RECORDS);
	__atomic_store_n(&chunk->sequence, 0, __ATOMIC_RELAXED);
	/* Release: a reader that sees any of what follows finds the sequence changed. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	__atomic_store_n(&chunk->committed, 0, __ATOMIC_RELAXED);
	chunk->magic = TIMELINE_CHUNK_MAGIC;
	__atomic_store_n(&chunk->sequence, ++ring.sequence, __ATOMIC_RELEASE);
	ring.chunk = chunk;
	ring.put = 0;
	return true;
}

void recording_put(const struct timeline_record *record)
{
	if (__builtin_expect(ring.put == TIMELINE_CHUNK_RECORDS, 0) && !next_chunk()) {
		add(TIMELINE_COUNT_DROPPED, 1);
		return;
	}
	ring.chunk->record[ring.put] = *record;
	/* Release: the record before the number of records. */
	__atomic_store_n(&ring.chunk->committed, ring.put + 1, __ATOMIC_RELEASE);
	ring.put++;
	add(TIMELINE_COUNT_RECORDS, 1);
}

void recording_clock(const struct timeline_clock *clock)
{
	struct timeline_clock *all = (struct timeline_clock *)(void *)(ring.file.base + ring.clock_table.offset);

	all[ring.clocks % ring.clock_table.capacity] = *clock;
	/* Release: the reading before the number of readings. */
	__atomic_store_n(&ring.header->clocks.used, ++ring.clocks, __ATOMIC_RELEASE);
}

void recording_devices(const struct timeline_device *device, uint32_t count)
{
	header_devices(ring.header, device, count);
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

/* Content of the new file, in an order that makes it one when it has its magic, then its name. */
static int begin_file(const struct timeline_header *layout, const struct recording_setup *setup)
{
	struct timeline_header *h = (struct timeline_header *)(void *)ring.file.base;

	memcpy(h, layout, sizeof(*h));
	header_fill(h, setup);
	if (!intern_start(&ring.intern, h))
		return ENOMEM;
	header_publish(h);
	int error = file_publish(&ring.file);
	if (error) {
		intern_end(&ring.intern);
		return error;
	}
	ring.header = h;
	ring.chunk = NULL;
	ring.put = TIMELINE_CHUNK_RECORDS;
	ring.sequence = ring.clocks = 0;
	memset(ring.count, 0, sizeof(ring.count));
	ring.ring_offset = layout->ring_offset;
	ring.chunks = layout->chunk_count;
	ring.clock_table = layout->clocks;
	strcpy(ring.path, ring.file.path);
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
	error = file_make(&ring.file, dir, layout.file_bytes);
	if (error)
		return error;
	error = begin_file(&layout, setup);
	if (error)
		file_drop(&ring.file);
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
	struct timeline_header *h = ring.header;
	uint64_t bytes = ring.file.bytes;

	show_counts();
	if (ring.sequence < ring.chunks) {
		bytes = ring.ring_offset + ring.sequence * TIMELINE_CHUNK_BYTES;
		h->chunk_count = (uint32_t)ring.sequence;
		h->file_bytes = bytes;
	}
	/* Release: whoever finds the end finds the rest. */
	__atomic_store_n(&h->end_ns, header_now(), __ATOMIC_RELEASE);
	ring.header = NULL;
	intern_end(&ring.intern);
	file_end(&ring.file, bytes);
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
		if (ring.header)
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
	/* In vain: the file stays mapped under whoever holds it, for the next recording_open() or the process's
	 * end. */
	if (hold_take()) {
		if (ring.header)
			end_file();
		hold_leave();
	}
	errno = saved;
}

void recording_fork_child(void)
{
	atomic_store_explicit(&state, DEAD, memory_order_relaxed);
	hold_fork_child();
}
