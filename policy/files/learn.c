/* learn.c - see learn.h: what is recorded, when it is written. */
#include "learn.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "learn_file.h"
#include "learn_list.h"
#include "learn_objects.h"
#include "learn_replay.h"
#include "../sys.h"
#include "track.h"
#include "where.h"

#define SET 8192u /* of hashes; a power of two, twice LEARN_FILES */
#define DATA_OF_A_DIR \
	32u /* files of a directory that are no code: more are data, which may come in another order */
#define LEAST_FILES 64u /* shorter starts gain nothing */

_Atomic bool learn_on;

/* What was opened: entries of a length (16 bits, 0 while it is being written) and a path, at even places. A writer takes its place by
 * adding to `used`; release of the length by the writer, acquire by who writes the list. */
static char entry[LEARN_BYTES] __attribute__((aligned(8)));
static _Atomic uint32_t used;
static uint64_t began; /* constant after the constructor, like all below */
static pid_t owner;    /* 0: nothing is recorded */
static char cwd[PATH_MAX];
/* Hashes of the paths in the list that was read; 0 is free. */
static uint64_t known[SET];
static unsigned known_count;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* True: it was not in the set, and is now. Of a full set everything is a part. */
static bool add(uint64_t set[SET], uint64_t hash)
{
	for (unsigned i = 0; i < 64; i++) {
		uint64_t *place = &set[(hash + i) % SET];
		if (*place == hash)
			return false;
		if (*place == 0) {
			*place = hash;
			return true;
		}
	}
	return false;
}

static uint64_t hash_of(const char *path)
{
	return track_hash(path, strlen(path), 11);
}

/* ---- recording ---- */

void learn_note(const char *path, size_t length, int dir)
{
	uint32_t bytes = (uint32_t)(2 + length + 2) & ~1u, at;

	if ((path[0] != '/' && dir != AT_FDCWD) || length >= PATH_MAX || !where_may_be_file(path, length))
		return;
	if (now_ns() - began > LEARN_NS ||
		(at = atomic_fetch_add_explicit(&used, bytes, memory_order_relaxed)) > LEARN_BYTES ||
		bytes > LEARN_BYTES - at) {
		atomic_store_explicit(&learn_on, false, memory_order_relaxed);
		return;
	}
	memcpy(entry + at + 2, path, length + 1);
	__atomic_store_n((uint16_t *)(void *)(entry + at), (uint16_t)(length + 1), __ATOMIC_RELEASE);
}

/* ---- the list ---- */

struct writing {
	struct learn_writer list;
	uint64_t seen[SET], dirs[SET];
	uint16_t in_dir[SET];
	unsigned fresh; /* not in the list that was read */
};

static void put_record(const struct learn_record *r, void *arg)
{
	struct writing *w = arg;
	uint64_t hash = hash_of(r->path);

	if (add(w->seen, hash) && learn_list_put(&w->list, r))
		w->fresh += add(known, hash);
}

static bool is_code(const char *path, size_t length)
{
	return !where_may_be_data(path, length);
}

/* Files of a directory of which many were opened are data. */
static bool too_many(struct writing *w, const char *path, size_t length)
{
	uint64_t hash;
	unsigned i;

	if (is_code(path, length))
		return false;
	while (length > 0 && path[length - 1] != '/')
		length--;
	hash = track_hash(path, length, 13);
	add(w->dirs, hash);
	for (i = 0; i < 64 && w->dirs[(hash + i) % SET] != hash; i++)
		;
	return i == 64 || ++w->in_dir[(hash + i) % SET] > DATA_OF_A_DIR;
}

static void put_file(struct writing *w, const char *path)
{
	static char whole[PATH_MAX];
	struct learn_record r = {.path = path};
	size_t length = strlen(path), n = strlen(cwd);

	if (*path != '/') {
		if (n == 0 || n + 1 + length >= sizeof(whole))
			return;
		memcpy(whole, cwd, n);
		whole[n] = '/';
		memcpy(whole + n + 1, path, length + 1);
		r.path = whole;
		length += n + 1;
	}
	if (!too_many(w, r.path, length))
		put_record(&r, w);
}

static void fill(struct writing *w)
{
	uint32_t end = atomic_load_explicit(&used, memory_order_relaxed);

	learn_objects(put_record, w);
	for (uint32_t at = 0; at + 2 < end && at + 2 < LEARN_BYTES;) {
		uint16_t length = __atomic_load_n((uint16_t *)(void *)(entry + at), __ATOMIC_ACQUIRE);
		if (length == 0)
			break;
		put_file(w, entry + at + 2);
		at += (2u + length + 1) & ~1u;
	}
}

void learn_stop(void)
{
	struct writing *w;
	char *text;

	learn_replay_stop();
	atomic_store_explicit(&learn_on, false, memory_order_relaxed);
	if (owner != getpid())
		return;
	owner = 0;
	w = mmap(NULL, sizeof(*w) + LEARN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (w == MAP_FAILED)
		return;
	text = (char *)(w + 1);
	learn_list_open(&w->list, text);
	fill(w);
	if (w->list.files >= LEAST_FILES && (known_count == 0 || w->fresh > known_count / 16))
		learn_file_write(text, w->list.used);
	munmap(w, sizeof(*w) + LEARN_BYTES);
}

/* ---- life ---- */

static void take_list(bool network)
{
	size_t size, room, at;
	struct learn_record r;
	char *text = learn_file_read(&size, &room);

	if (!text)
		return;
	at = learn_list_begin(text, size);
	while (at && known_count < LEARN_FILES && learn_list_next(text, size, &at, &r))
		known_count += add(known, hash_of(r.path));
	if (known_count)
		learn_replay(text, size, room, learn_file_command(), network);
	else
		munmap(text, room);
}

void learn_start(bool network)
{
	if (!learn_file_start())
		return;
	if (!getcwd(cwd, sizeof(cwd)))
		cwd[0] = '\0';
	began = now_ns();
	owner = getpid();
	take_list(network);
	atomic_store_explicit(&learn_on, true, memory_order_relaxed);
}

void learn_fork_child(void)
{
	atomic_store_explicit(&learn_on, false, memory_order_relaxed);
	owner = 0;
}
