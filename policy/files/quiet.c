/* quiet.c - see quiet.h. */
#include "quiet.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "track.h"
#include "tune.h"
#include "where.h"

#define WAYS 4u /* of one cache line */
#define SETS 256u
#define SMALL 0x80000000u

/*
 * `state` is a time in ms, and in its lower half who may tell nevertheless (process number, 0: nobody) and SMALL. One that is
 * read while its key changes is another directory's: a hint too many or too few.
 */
struct entry {
	_Atomic uint64_t key;
	_Atomic uint64_t state;
};
static struct entry (*table)[WAYS]; /* constant after the constructor */
static uint32_t me;                 /* constant but in fork_child() */

static uint32_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint32_t)((uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000);
}

static bool is_past(uint64_t state)
{
	return (int32_t)((uint32_t)(state >> 32) - now_ms()) <= 0;
}

static uint64_t state_of(uint32_t ms, uint32_t rest)
{
	return (uint64_t)(now_ms() + ms) << 32 | rest;
}

static struct entry *set_of(uint64_t key)
{
	return table[(key >> 24) % SETS];
}

/* The key's state; 0: it is not quiet. */
static uint64_t look(uint64_t key)
{
	struct entry *e = set_of(key);

	for (unsigned i = 0; i < WAYS; i++)
		if (atomic_load_explicit(&e[i].key, memory_order_relaxed) == key) {
			uint64_t state = atomic_load_explicit(&e[i].state, memory_order_relaxed);
			return state && !is_past(state) ? state : 0;
		}
	return 0;
}

static void put(uint64_t key, uint64_t state)
{
	struct entry *e = set_of(key), *place = e;

	for (unsigned i = 0; i < WAYS; i++) {
		if (atomic_load_explicit(&e[i].key, memory_order_relaxed) == key) {
			atomic_store_explicit(&e[i].state, state, memory_order_relaxed);
			return;
		}
		if (atomic_load_explicit(&e[i].state, memory_order_relaxed) <
			atomic_load_explicit(&place->state, memory_order_relaxed))
			place = &e[i];
	}
	atomic_store_explicit(&place->state, 0, memory_order_relaxed);
	atomic_store_explicit(&place->key, key, memory_order_relaxed);
	atomic_store_explicit(&place->state, state, memory_order_relaxed);
}

static uint32_t owner(uint64_t state)
{
	return (uint32_t)state & ~SMALL;
}

/* Another process is at it, or it is nobody's business. */
static bool is_others(uint64_t state)
{
	return state && owner(state) != me;
}

/* The length of the path of the directory that `path`, of `length` bytes, is in; 0: none. */
static size_t above(const char *path, size_t length)
{
	const char *slash = length ? memrchr(path, '/', length) : NULL;

	return slash ? (size_t)(slash - path) : 0;
}

static uint64_t relative_key(int dir, const char *path, size_t length)
{
	return track_hash(path, above(path, length), (uint64_t)me << 32 | (uint32_t)dir);
}

/* The state of the nearest directory that is quiet for us; 0: none is. Keys are track.c's. */
static uint64_t find(int dir, const char *path, size_t length)
{
	uint64_t state;

	if (path[0] != '/') {
		state = look(relative_key(dir, path, length));
		return is_others(state) ? state : 0;
	}
	for (unsigned level = 0; level < TRACK_LEVELS && (length = above(path, length)) > 0; level++)
		if (is_others(state = look(track_hash(path, length, level))))
			return state;
	return 0;
}

bool quiet_is(int dir, const char *path, size_t length)
{
	uint64_t state = table ? find(dir, path, length) : 0;

	/* A file that is streamed is no directory's matter. */
	return state && (state & SMALL || !where_is_shard_extension(where_extension(path, length)));
}

bool quiet_claim(const char *path, size_t length)
{
	uint64_t state;

	if (!table || path[0] != '/')
		return true;
	if (find(-1, path, length))
		return false;
	state = state_of(QUIET_CLAIM_MS, me);
	for (unsigned level = 0; level < TRACK_LEVELS && (length = above(path, length)) > 0; level++)
		put(track_hash(path, length, level), state);
	return true;
}

/* A run's files are in its root and in directories down to its depth. */
static void put_run(const struct track_run *run, uint64_t state)
{
	size_t length = strlen(run->root);

	for (unsigned level = 0; level <= run->depth && level < TRACK_LEVELS; level++)
		put(track_hash(run->root, length, level), state);
}

bool quiet_hold(const struct track_run *run)
{
	if (!table)
		return true;
	if (is_others(look(track_hash(run->root, strlen(run->root), run->depth))))
		return false;
	put_run(run, state_of(QUIET_HOLD_MS, me));
	return true;
}

void quiet_release(const struct track_run *run)
{
	uint64_t state = table ? look(track_hash(run->root, strlen(run->root), run->depth)) : 0;

	if (state && owner(state) == me)
		put_run(run, 0);
}

void quiet_set(const struct track_run *run, uint32_t ms, bool small)
{
	if (table)
		put_run(run, state_of(ms, small ? SMALL : 0));
}

void quiet_relative(int dir, const char *path, const char *absolute)
{
	uint64_t state = table && path[0] != '/' ? find(-1, absolute, strlen(absolute)) : 0;

	if (state)
		put(relative_key(dir, path, strlen(path)), state & ~(uint64_t)~SMALL);
}

void quiet_start(void)
{
	void *shared =
		mmap(NULL, SETS * sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	me = (uint32_t)getpid();
	if (shared != MAP_FAILED)
		table = shared;
}

void quiet_fork_child(void)
{
	me = (uint32_t)getpid();
}
