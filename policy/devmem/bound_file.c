/* bound_file.c - see bound_file.h. */
#define _GNU_SOURCE
#include "bound_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "stats_leftovers.h"

#define MAGIC "TURBOKP1"
#define FILE_BYTES 4096
#define SLOTS 64
#define FILES 64
/* A process of another pid namespace, whose death cannot be asked for, has gone when it has said
 * nothing for so long: what is idle is given back after seconds. */
#define SILENT_S 60

/* All fields relaxed but `pid`, which is stored last when a slot is taken. */
struct slot {
	_Atomic uint32_t pid;  /* 0: free */
	_Atomic uint32_t said; /* CLOCK_MONOTONIC, s, of the last change */
	_Atomic uint64_t start_ticks, pid_ns;
	_Atomic uint64_t bytes;
};

struct page {
	char magic[8];
	uint8_t unused[56];
	struct slot slot[SLOTS - 2];
};
_Static_assert(sizeof(struct page) <= FILE_BYTES, "one page");

struct bound_file {
	struct page *page; /* NULL: this entry is free */
	struct slot *mine;
	_Atomic uint32_t looked; /* s: when the dead were last looked for */
	char path[96];
};

/* Entries are taken by the thread that opens a device's bound, and never while another does. */
static struct bound_file files[FILES];
static _Atomic unsigned file_count;

static uint32_t now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint32_t)t.tv_sec;
}

/* ---- slots ---- */

static bool dead(struct slot *slot, uint64_t pid_ns)
{
	pid_t pid = (pid_t)atomic_load(&slot->pid);
	if (slot->pid_ns != pid_ns)
		return now_s() - slot->said > SILENT_S;
	if (kill(pid, 0) != 0 && errno == ESRCH)
		return true;
	uint64_t ticks = stats_start_ticks(pid);
	return ticks && slot->start_ticks && ticks != slot->start_ticks;
}

static void free_slot(struct slot *slot, uint32_t pid)
{
	atomic_store(&slot->bytes, 0);
	atomic_compare_exchange_strong(&slot->pid, &pid, 0);
}

static void bury(struct page *page)
{
	uint64_t pid_ns = stats_pid_namespace();
	int saved = errno;
	for (unsigned i = 0; i < sizeof(page->slot) / sizeof(page->slot[0]); i++) {
		uint32_t pid = atomic_load(&page->slot[i].pid);
		if (pid && pid != (uint32_t)getpid() && dead(&page->slot[i], pid_ns))
			free_slot(&page->slot[i], pid);
	}
	errno = saved;
}

/* One that this very process had before exec() is taken over. */
static struct slot *take_slot(struct page *page)
{
	uint64_t ticks = stats_start_ticks(getpid()), pid_ns = stats_pid_namespace();
	for (unsigned i = 0; i < sizeof(page->slot) / sizeof(page->slot[0]); i++) {
		struct slot *slot = &page->slot[i];
		if (atomic_load(&slot->pid) == (uint32_t)getpid() && slot->pid_ns == pid_ns) {
			slot->start_ticks = ticks;
			slot->bytes = 0;
			return slot;
		}
	}
	for (unsigned i = 0; i < sizeof(page->slot) / sizeof(page->slot[0]); i++) {
		struct slot *slot = &page->slot[i];
		uint32_t none = 0;
		if (!atomic_compare_exchange_strong(&slot->pid, &none, (uint32_t)getpid()))
			continue;
		slot->pid_ns = pid_ns;
		slot->start_ticks = ticks;
		slot->said = now_s();
		slot->bytes = 0;
		return slot;
	}
	return NULL;
}

/* ---- the file ---- */

/* A whole file under a name of our own, then its real name, unless there is one by now. */
static bool create(const char *path)
{
	char mine[128];
	bool ok = false;
	snprintf(mine, sizeof(mine), "%s.%d", path, (int)getpid());
	int fd = open(mine, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EEXIST && unlink(mine) == 0) /* a dead process's with our number */
		fd = open(mine, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	ok = posix_fallocate(fd, 0, FILE_BYTES) == 0 && pwrite(fd, MAGIC, 8, 0) == 8 &&
		 (link(mine, path) == 0 || errno == EEXIST);
	close(fd);
	unlink(mine);
	return ok;
}

static struct page *map(const char *path)
{
	struct stat st;
	struct page *page = MAP_FAILED;
	int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT && create(path))
		fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 077) == 0 &&
		st.st_size == FILE_BYTES)
		page = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (page == MAP_FAILED)
		return NULL;
	if (memcmp(page->magic, MAGIC, 8) == 0)
		return page;
	munmap(page, FILE_BYTES);
	return NULL;
}

struct bound_file *bound_file_open(const char *uuid, size_t length)
{
	unsigned i = atomic_fetch_add(&file_count, 1);
	struct bound_file *f = &files[i < FILES ? i : 0];
	int saved = errno, at;
	if (i >= FILES)
		return NULL;
	at = snprintf(f->path, sizeof(f->path), "/dev/shm/turbo-%u-", (unsigned)geteuid());
	for (size_t b = 0; b < length && at + 8 < (int)sizeof(f->path); b++)
		at += snprintf(f->path + at, sizeof(f->path) - (size_t)at, "%02x", (unsigned char)uuid[b]);
	snprintf(f->path + at, sizeof(f->path) - (size_t)at, ".kept");
	f->page = map(f->path);
	if (f->page) {
		bury(f->page);
		f->mine = take_slot(f->page);
	}
	if (!f->mine)
		log_once(LOG_INFO, "devmem: what is kept is not shared with other processes: no slot in %s", f->path);
	errno = saved;
	return f->mine ? f : NULL;
}

void bound_file_set(struct bound_file *f, size_t bytes)
{
	atomic_store_explicit(&f->mine->bytes, bytes, memory_order_relaxed);
	atomic_store_explicit(&f->mine->said, now_s(), memory_order_relaxed);
}

size_t bound_file_others(struct bound_file *f)
{
	uint64_t sum = 0;
	uint32_t now = now_s();
	for (unsigned i = 0; i < sizeof(f->page->slot) / sizeof(f->page->slot[0]); i++) {
		struct slot *slot = &f->page->slot[i];
		if (slot != f->mine && atomic_load_explicit(&slot->pid, memory_order_relaxed))
			sum += atomic_load_explicit(&slot->bytes, memory_order_relaxed) & (SIZE_MAX >> 8);
	}
	if (sum && atomic_exchange_explicit(&f->looked, now, memory_order_relaxed) != now)
		bury(f->page);
	return sum;
}

void bound_file_leave(struct bound_file *f)
{
	free_slot(f->mine, (uint32_t)getpid());
	for (unsigned i = 0; i < sizeof(f->page->slot) / sizeof(f->page->slot[0]); i++)
		if (atomic_load(&f->page->slot[i].pid))
			return;
	unlink(f->path);
}

void bound_file_fork_child(void)
{
	for (unsigned i = 0; i < FILES; i++)
		files[i].page = NULL, files[i].mine = NULL;
	atomic_store(&file_count, 0);
}
