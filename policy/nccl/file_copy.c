/* file_copy.c - see file_copy.h. */
#define _GNU_SOURCE
#include "file_copy.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comms.h"
#include "flight_ring.h"

#define HEAD_BYTES offsetof(struct flight_page, sites) /* the page's header and the waits */
#define COMM_HEAD offsetof(struct flight_comm, op)
#define DUMP_HEAD offsetof(struct flight_dump, text)
#define TRIES 4
/* Each so often all communicators are compared, also those in which nothing seems to go on. */
#define ALL_EVERY 20

static struct flight_page *page;   /* the record */
static struct flight_page *shadow; /* what the file holds, laid out as it is */
static unsigned round_number;
static unsigned comms_there; /* communicators that the file has room for */
static int file;             /* of the write that goes on */
static bool failed;          /* one of its system calls has */

bool file_copy_start(struct flight_page *record)
{
	page = record;
	shadow =
		mmap(NULL, COMMS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (shadow == MAP_FAILED)
		shadow = NULL;
	return shadow != NULL;
}

void file_copy_renew(void)
{
	madvise(shadow, COMMS_BYTES, MADV_DONTNEED); /* zeros again */
	round_number = 0;
}

/* ---- writing ---- */

static off_t offset_of(const void *in_shadow)
{
	return (const char *)in_shadow - (const char *)shadow;
}

static void put(const void *from, const void *in_shadow, size_t bytes)
{
	off_t at = offset_of(in_shadow);

	for (size_t n = 0; n < bytes && !failed;) {
		ssize_t wrote = pwrite(file, (const char *)from + n, bytes - n, at + (off_t)n);
		if (wrote > 0)
			n += (size_t)wrote;
		else if (wrote == 0 || errno != EINTR)
			failed = true;
	}
}

/* Words that others store into while they are read. */
__attribute__((no_sanitize("thread"))) static void read_words(void *to, const void *from, size_t bytes)
{
	uint64_t *t = to;
	const volatile uint64_t *f = from;

	for (size_t i = 0; i < bytes / sizeof(*t); i++)
		t[i] = f[i];
}

/* ---- operations ---- */

/* A whole copy of a record that begins with its version; false: it keeps changing. */
static bool read_record(void *to, const void *from, size_t bytes)
{
	const _Atomic uint32_t *version = from;

	for (unsigned i = 0; i < TRIES; i++) {
		uint32_t before = atomic_load_explicit(version, memory_order_acquire);
		if (before & 1)
			continue;
		read_words(to, from, bytes);
		atomic_thread_fence(memory_order_acquire); /* the words before the second look */
		if (atomic_load_explicit(version, memory_order_relaxed) == before)
			return true;
	}
	return false;
}

/* The file's versions are its own: also the times, which change under the same version, are to be trusted. */
static bool changed(struct flight_op *now, struct flight_op *was)
{
	size_t skip = sizeof(now->version);

	if (memcmp((char *)now + skip, (char *)was + skip, sizeof(*now) - skip) == 0)
		return false;
	now->version = was->version + 2;
	return true;
}

static void mark(struct flight_op *op, unsigned n, int by)
{
	for (unsigned i = 0; i < n; i++)
		op[i].version += (uint32_t)by;
}

/* Operations next to each other in the ring: odd, new, even. */
static void put_ops(struct flight_op *was, struct flight_op *now, unsigned n)
{
	mark(was, n, 1);
	put(was, was, n * sizeof(*was));
	mark(now, n, -1);
	put(now, was, n * sizeof(*was));
	mark(now, n, 1);
	put(now, was, n * sizeof(*was));
	memcpy(was, now, n * sizeof(*was));
}

/* Slots [from, to) of the ring. */
static void copy_slots(const struct flight_comm *comm, struct flight_comm *was, unsigned from, unsigned to)
{
	static struct flight_op now[FLIGHT_OPS];
	unsigned run = 0; /* changed ones that end at i */

	for (unsigned i = from; i < to; i++) {
		if (read_record(&now[i], &comm->op[i], sizeof(now[i])) && changed(&now[i], &was->op[i])) {
			run++;
			continue;
		}
		if (run)
			put_ops(&was->op[i - run], &now[i - run], run);
		run = 0;
	}
	if (run)
		put_ops(&was->op[to - run], &now[to - run], run);
}

/* ---- communicators ---- */

static void copy_comm(unsigned place, bool all)
{
	struct flight_comm *comm = comms_at(page, place), *was = comms_at(shadow, place);
	struct flight_comm now; /* its beginning is used */
	uint64_t first, issued;

	ring_tidy(comm);
	issued = atomic_load_explicit(&comm->issued, memory_order_acquire);
	read_words(&now, comm, COMM_HEAD);
	now.issued = issued;
	if (now.life != was->life) {
		/* Another one: not with the old one's operations. */
		now.issued = 0;
		put(&now, was, COMM_HEAD);
		now.issued = issued;
		all = true;
	} else if (!all && memcmp(&now, was, COMM_HEAD) == 0 && now.done == issued) {
		return;
	}
	first = was->done < was->issued ? was->done + 1 : was->issued + 1;
	if (all || issued < first || issued - first >= FLIGHT_OPS - 1) {
		copy_slots(comm, was, 0, FLIGHT_OPS);
	} else if (first % FLIGHT_OPS <= issued % FLIGHT_OPS) {
		copy_slots(comm, was, first % FLIGHT_OPS, issued % FLIGHT_OPS + 1);
	} else {
		copy_slots(comm, was, first % FLIGHT_OPS, FLIGHT_OPS);
		copy_slots(comm, was, 0, issued % FLIGHT_OPS + 1);
	}
	if (memcmp(&now, was, COMM_HEAD) != 0) {
		put(&now, was, COMM_HEAD);
		memcpy(was, &now, COMM_HEAD);
	}
}

/* ---- the page ---- */

static void copy_sites(void)
{
	uint32_t used = atomic_load_explicit(&page->site_bytes, memory_order_acquire);
	uint32_t there = shadow->site_bytes;

	if (used > FLIGHT_SITE_BYTES || used <= there)
		return;
	put(page->sites + there, shadow->sites + there, used - there);
}

static void copy_dump(void)
{
	static union {
		struct flight_dump dump;
		uint64_t word[sizeof(struct flight_dump) / 8];
	} now;
	struct flight_dump *was = &shadow->dump;
	uint32_t version = atomic_load_explicit(&page->dump.version, memory_order_relaxed);

	if (version == was->version || !read_record(&now, &page->dump, sizeof(now)) ||
		now.dump.bytes > sizeof(now.dump.text))
		return;
	was->version = now.dump.version - 1;
	put(was, was, DUMP_HEAD);
	now.dump.version--;
	put(&now, was, DUMP_HEAD + now.dump.bytes);
	now.dump.version++;
	put(&now, was, DUMP_HEAD);
	was->version = now.dump.version;
}

/* The magic last: until then nobody takes the file for whole. */
static void copy_head(void)
{
	static union {
		unsigned char bytes[HEAD_BYTES];
		struct flight_page page;
	} now;

	read_words(&now, page, HEAD_BYTES);
	if (now.page.comm_high > comms_there)
		now.page.comm_high = comms_there;
	if (shadow->magic[0] == '\0') {
		memset(now.page.magic, 0, sizeof(now.page.magic));
		put(&now, shadow, HEAD_BYTES);
		memcpy(now.page.magic, page->magic, sizeof(now.page.magic));
		put(&now, shadow, sizeof(now.page.magic));
	} else if (memcmp(&now, shadow, HEAD_BYTES) != 0) {
		put(&now, shadow, HEAD_BYTES);
	}
	memcpy(shadow, &now, HEAD_BYTES);
}

bool file_copy_write(int fd, unsigned comms)
{
	bool all = round_number++ % ALL_EVERY == 0;

	file = fd;
	failed = false;
	comms_there = comms;
	copy_sites();
	copy_dump();
	for (unsigned i = 0; i < comms && !failed; i++)
		copy_comm(i, all);
	copy_head();
	return !failed;
}
