/* world_read.c - see world.h: one file, read with pread() and checked. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "world.h"

/* Out of the way of programs that count on small numbers, and of select(). */
#define LOWEST_FD 512
#define COMM_HEAD offsetof(struct flight_comm, op)
#define PAGE_HEAD offsetof(struct flight_page, sites)
/* No counter comes near it. */
#define COUNT_MOST (1ull << 60)
#define RANKS_MOST (1 << 20)

/* ---- the file ---- */

static int keep_away(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_FD);

	if (high < 0)
		return fd;
	close(fd);
	return high;
}

bool world_open(struct world_file *f, const char *dir, pid_t pid)
{
	struct stat st;
	int n = snprintf(f->path, sizeof(f->path), "%s/" FLIGHT_FILE_FORMAT, dir, (unsigned)geteuid(), (int)pid);
	int fd;

	if (n < 0 || (size_t)n >= sizeof(f->path))
		return false;
	fd = open(f->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
		close(fd);
		return false;
	}
	f->fd = keep_away(fd);
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	f->pid = pid;
	f->memory = NULL;
	return true;
}

/* Programs close what they do not know, and numbers are given out anew. */
static bool is_ours(const struct world_file *f, struct stat *st)
{
	return f->fd >= 0 && fstat(f->fd, st) == 0 && st->st_dev == f->dev && st->st_ino == f->ino;
}

bool world_is_open(const struct world_file *f)
{
	struct stat st;

	return f->memory || is_ours(f, &st);
}

void world_close(struct world_file *f)
{
	struct stat st;

	if (!f->memory && is_ours(f, &st))
		close(f->fd);
	f->fd = -1;
}

/* Words that threads of this process store into meanwhile. */
__attribute__((no_sanitize("thread"))) static void read_words(void *to, const void *from, size_t bytes)
{
	uint64_t *t = to;
	const volatile uint64_t *f = from;

	for (size_t i = 0; i < bytes / sizeof(*t); i++)
		t[i] = f[i];
}

static bool read_at(const struct world_file *f, uint64_t at, void *to, size_t bytes)
{
	ssize_t n;

	if (f->memory) {
		read_words(to, (const char *)f->memory + at, bytes);
		atomic_thread_fence(memory_order_acquire);
		return true;
	}
	do
		n = pread(f->fd, to, bytes, (off_t)at);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)bytes;
}

/* ---- the page ---- */

static uint64_t comm_at(unsigned place)
{
	uint64_t page = (sizeof(struct flight_page) + 4095) / 4096 * 4096;

	return page + place * (uint64_t)sizeof(struct flight_comm);
}

static bool is_page(const struct world_file *f, const struct flight_page *page)
{
	return memcmp(page->magic, FLIGHT_MAGIC, sizeof(page->magic)) == 0 && page->version == FLIGHT_VERSION &&
		   page->comms == FLIGHT_COMMS && page->ops == FLIGHT_OPS && page->comm_off == comm_at(0) &&
		   page->comm_bytes == sizeof(struct flight_comm) && page->pid == (uint32_t)f->pid;
}

static void printable(char *text, size_t size)
{
	text[size - 1] = '\0';
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
}

bool world_read_page(struct world_file *f, struct flight_page *page)
{
	static struct flight_page head; /* its beginning is used */

	if (!read_at(f, 0, &head, PAGE_HEAD) || !is_page(f, &head))
		return false;
	memcpy((void *)page, &head, PAGE_HEAD);
	printable(page->host, sizeof(page->host));
	printable(page->command, sizeof(page->command));
	f->pid_ns = page->pid_ns;
	f->places = page->comm_high < FLIGHT_COMMS ? page->comm_high : FLIGHT_COMMS;
	return true;
}

void world_read_texts(struct world_file *f, struct flight_page *page)
{
	struct flight_dump *dump = &page->dump;
	uint64_t again = 1; /* the version, and what stands behind it */

	if (!read_at(f, offsetof(struct flight_page, sites), page->sites, sizeof(page->sites)))
		memset(page->sites, 0, sizeof(page->sites));
	page->sites[sizeof(page->sites) - 1] = '\0';
	if (!read_at(f, offsetof(struct flight_page, dump), dump, sizeof(*dump)) ||
		!read_at(f, offsetof(struct flight_page, dump), &again, sizeof(again)) || (dump->version & 1) ||
		memcmp(dump, &again, sizeof(dump->version)) != 0 || dump->bytes > sizeof(dump->text))
		memset((void *)dump, 0, sizeof(*dump));
	dump->text[sizeof(dump->text) - 1] = '\0';
}

/* ---- communicators ---- */

static uint64_t sane(uint64_t count)
{
	return count < COUNT_MOST ? count : 0;
}

bool world_read_place(struct world_file *f, unsigned place, struct world_place *to)
{
	static struct flight_comm head; /* its beginning is used */
	const struct flight_comm *c = &head;
	bool known;

	if (!read_at(f, comm_at(place), &head, COMM_HEAD))
		return false;
	known = c->ranks > 0 && c->ranks <= RANKS_MOST && c->rank >= 0 && c->rank < c->ranks;
	*to = (struct world_place){
		.life = c->life,
		.state = known && c->state <= FLIGHT_ABORTED ? c->state : FLIGHT_FREE,
		.key = {c->key[0], c->key[1]},
		.rank = c->rank,
		.ranks = c->ranks,
		.device = c->device,
		.number = c->number,
		.parent = c->parent,
		.nonblocking = c->nonblocking,
		.verdict = c->verdict,
		.made = c->made,
		.issued = sane(c->issued),
		.sequence = sane(c->sequence),
		.started = sane(c->started),
		.done = sane(c->done),
		.changed = c->changed,
		.best_rate = c->best_rate,
	};
	memcpy(to->name, c->name, sizeof(to->name) - 1);
	return true;
}

bool world_read_op(struct world_file *f, unsigned place, uint64_t index, struct flight_op *op)
{
	uint64_t at = comm_at(place) + COMM_HEAD + index % FLIGHT_OPS * sizeof(*op);
	uint64_t again; /* the version, and what stands behind it */

	return read_at(f, at, op, sizeof(*op)) && read_at(f, at, &again, sizeof(again)) && !(op->version & 1) &&
		   memcmp(op, &again, sizeof(op->version)) == 0 && op->index == index;
}

bool world_read_ops(struct world_file *f, unsigned place, uint32_t life, struct flight_op *op)
{
	struct flight_op again[16];
	uint64_t at = comm_at(place) + COMM_HEAD;
	struct world_place head;

	if (!read_at(f, at, op, FLIGHT_OPS * sizeof(*op)))
		return false;
	for (unsigned i = 0; i < FLIGHT_OPS; i++) {
		if (i % 16 == 0 && !read_at(f, at + i * sizeof(*op), again, sizeof(again)))
			return false;
		if ((op[i].version & 1) || op[i].version != again[i % 16].version || op[i].index % FLIGHT_OPS != i ||
			op[i].function >= FLIGHT_FUNCTIONS)
			op[i].index = op[i].function = 0;
	}
	return world_read_place(f, place, &head) && head.life == life;
}
