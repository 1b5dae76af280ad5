/* shard.c - see shard.h: which files are watched, and what is read of them. */
#include "shard.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "log.h"
#include "../memory.h"
#include "read.h"
#include "shard_at.h"
#include "shard_name.h"
#include "stats.h"
#include "../sys.h"
#include "track.h"
#include "tune.h"
#include "where.h"

#define NAMES 64u                  /* shards that are remembered, to know which comes after another */
#define GONE_NS (30000 * FILES_MS) /* nothing has moved for so long */
#define STEADY 3u                  /* moves forward that make a stream */
#define AHEAD_NS 300.0e6           /* what the program reads in this time is read before */
#define LAZY_NS (40 * FILES_MS)
#define TICK_BYTES (32 * FILES_MIB)
#define NEXT_BYTES (32 * FILES_MIB) /* of the next shard */

struct shard {
	struct read_file file; /* fd -1: free */
	struct shard_at at;
	char path[PATH_MAX];
	uint64_t position, ahead; /* where the program was seen; up to where was read */
	uint64_t moved;           /* when it moved last */
	uint64_t next;            /* when it is looked at again */
	uint64_t bytes;           /* read ahead */
	double rate;              /* bytes a nanosecond */
	unsigned steady;
	bool kernel_reads; /* streams are read ahead far enough without us */
	bool next_read;
};

/* The helper's. */
static struct shard shard[SHARD_FILES];
static unsigned count;
static bool begun;
static uint64_t name[NAMES];
static unsigned names;
static uint64_t next_look;
static bool tight;

static struct read_where anywhere = {READ_NO_DEVICE, false, INT64_MAX};

static void begin(bool network)
{
	anywhere.network = network;
	for (unsigned i = 0; i < SHARD_FILES && !begun; i++)
		shard[i].file.fd = -1;
	begun = true;
}

static void drop(struct shard *s)
{
	log_debug("files: of %.200s %llu MiB were read ahead", s->path,
			  (unsigned long long)(s->bytes / FILES_MIB));
	read_close(&s->file);
	count--;
}

static uint64_t hash_of(const char *path)
{
	return track_hash(path, strlen(path), 19);
}

static bool was_opened(const char *path)
{
	uint64_t hash = hash_of(path);

	for (unsigned i = 0; i < NAMES; i++)
		if (name[i] == hash)
			return true;
	return false;
}

/* KiB that the kernel reads ahead on a device. */
static unsigned kernel_window(dev_t device)
{
	static const char *const places[] = {"queue", "../queue"};
	char path[128], text[32];
	unsigned kib = 128;

	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s/read_ahead_kb", major(device), minor(device),
				 places[i]);
		if (sys_slurp(path, text, sizeof(text)) > 0 && sscanf(text, "%u", &kib) == 1)
			break;
	}
	return kib;
}

void shard_opened(const char *path, int fd, bool network)
{
	size_t length = strlen(path);
	struct shard *s = NULL;
	struct read_file f;
	struct stat st;

	if (!where_is_shard_extension(where_extension(path, length)) || !where_may_be_tree(path, length, false) ||
		sys_stat(AT_FDCWD, path, &st, 0) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size < SHARD_BYTES)
		return;
	begin(network);
	for (unsigned i = 0; i < SHARD_FILES; i++) {
		if (shard[i].file.fd >= 0 && shard[i].file.inode == st.st_ino && shard[i].file.device == st.st_dev &&
			shard[i].at.fd == fd)
			drop(&shard[i]);
		if (!s && shard[i].file.fd < 0)
			s = &shard[i];
	}
	if (!s || !read_open(AT_FDCWD, path, &anywhere, &f))
		return;
	memset(s, 0, sizeof(*s));
	s->file = f;
	s->kernel_reads = kernel_window(f.device) >= SHARD_KERNEL_KIB;
	shard_at_begin(&s->at, fd, f.device, f.inode);
	memcpy(s->path, path, length + 1);
	count++;
	name[names++ % NAMES] = hash_of(path);
}

static uint64_t window(const struct shard *s)
{
	double bytes = s->rate * AHEAD_NS;

	return bytes < (double)SHARD_WINDOW_LEAST  ? SHARD_WINDOW_LEAST
		   : bytes > (double)SHARD_WINDOW_MOST ? SHARD_WINDOW_MOST
											   : (uint64_t)bytes;
}

static void read_to(struct shard *s, uint64_t to)
{
	if (s->ahead < s->position)
		s->ahead = s->position;
	if (to > s->file.size)
		to = s->file.size;
	if (to <= s->ahead)
		return;
	if (to - s->ahead > TICK_BYTES)
		to = s->ahead + TICK_BYTES;
	read_ahead(&s->file, s->ahead, to);
	stats_add(STATS_FILES_SHARD_BYTES, to - s->ahead);
	s->bytes += to - s->ahead;
	s->ahead = to;
}

/* The beginning of the one whose number comes next, when this one came after the one before it. */
static void read_next(struct shard *s)
{
	char other[PATH_MAX];
	struct read_file f;

	s->next_read = true;
	if (!shard_name_step(s->path, -1, other, sizeof(other)) || !was_opened(other) ||
		!shard_name_step(s->path, 1, other, sizeof(other)) || was_opened(other) ||
		!read_open(AT_FDCWD, other, &anywhere, &f))
		return;
	uint64_t to = f.size < NEXT_BYTES ? f.size : NEXT_BYTES;
	if (read_is_resident(&f, 0) != 1) {
		read_ahead(&f, 0, to);
		stats_add(STATS_FILES_SHARD_BYTES, to);
	}
	read_close(&f);
}

static void move(struct shard *s, uint64_t position, uint64_t now)
{
	uint64_t bytes = position - s->position;

	if (position < s->position || bytes > 2 * SHARD_WINDOW_MOST) {
		s->steady = 0;
		s->ahead = position;
	} else {
		if (s->steady++)
			s->rate = 0.7 * s->rate + 0.3 * (double)bytes / (double)(now - s->moved + 1);
	}
	s->position = position;
	s->moved = now;
}

static void look(struct shard *s, uint64_t now)
{
	uint64_t position = s->position;

	if (!shard_at_look(&s->at, now, s->file.size, &position) || (s->moved && now - s->moved > GONE_NS)) {
		drop(s);
		return;
	}
	if (s->moved == 0)
		s->moved = now;
	/* The kernel keeps a stream going where it reads far ahead: there only the next shard is ours. */
	s->next = now + (s->kernel_reads && !s->at.mapped ? LAZY_NS : 0);
	if (position != s->position)
		move(s, position, now);
	if (s->steady < STEADY || tight)
		return;
	if (!s->kernel_reads || s->at.mapped)
		read_to(s, s->position + window(s));
	if (!s->next_read && s->position >= s->file.size / 2)
		read_next(s);
}

void shard_tick(uint64_t now)
{
	struct memory memory;

	if (count == 0)
		return;
	if (now >= next_look) {
		next_look = now + MEMORY_CHECK_NS;
		tight = !memory_look("", &memory) || memory_is_tight(&memory);
	}
	for (unsigned i = 0; i < SHARD_FILES; i++)
		if (shard[i].file.fd >= 0 && now >= shard[i].next)
			look(&shard[i], now);
}

uint64_t shard_nap(void)
{
	uint64_t nap = 0;

	for (unsigned i = 0; count && i < SHARD_FILES; i++)
		if (shard[i].file.fd >= 0 && nap != HELPER_POLL_NS)
			nap = shard[i].kernel_reads && !shard[i].at.mapped ? LAZY_NS : HELPER_POLL_NS;
	return nap;
}

void shard_fork_child(void)
{
	begun = false;
	count = names = 0;
	memset(name, 0, sizeof(name));
}
