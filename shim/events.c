/*
 * events.c - the queue behind events.h: bounded, many tellers, one drainer.
 *
 * A cell has a turn: 2 L while it is free for lap L, 2 L + 1 once that lap's event is in it. A teller takes a
 * position by moving `tail` on, stores its words and makes the turn odd; the drainer takes them and makes it
 * the next lap's.
 *
 * Nobody waits for a teller that has taken its position and was stopped, or left by longjmp() or with its
 * thread: after a second the drainer gives the cell to the next lap. Should that teller go on after all, its
 * words may mix with the next one's. So all words are atomic, and one of them is a sum over the others that
 * is the position's own: an event whose sum is wrong is not delivered.
 */
#include "events.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Some 80000 events a second at the recorder's five drains. 1 MiB, of which a page is used at a time. */
#define CELLS 16384u
#define STUCK_NS 1000000000u

enum word { WORD_START, WORD_DURATION, WORD_VALUE, WORD_WHO, WORD_NUMBER, WORD_NAME, WORD_SUM, WORDS };

struct cell {
	_Atomic uint64_t turn;        /* release with the words of its event, and when they were read */
	_Atomic uint64_t word[WORDS]; /* relaxed */
};
_Static_assert(sizeof(struct cell) == 64, "a cell is a cache line");

_Atomic bool events_on;

/* Mapped by the first events_start(), all 0, and never unmapped: a teller may be late. Release, acquire. */
static struct cell *_Atomic cells;
static _Atomic uint64_t tail
	__attribute__((aligned(64))); /* the next position; relaxed: turns carry the order */
static _Atomic uint64_t lost __attribute__((aligned(64)));

/* The drainer's. */
static uint64_t head;
static uint64_t stuck_at,
	stuck_since; /* a position that was taken and not filled, and since when (0: none) */

/* ---- telling ---- */

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t events_now(void)
{
	return clock_ns(CLOCK_REALTIME);
}

uint32_t events_thread(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

static uint64_t sum(const uint64_t *word, uint64_t position)
{
	uint64_t h = position;

	for (unsigned i = 0; i < WORD_SUM; i++) {
		h = (h ^ word[i]) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
	}
	return h;
}

/* A position and its cell, or NULL: the queue is full. */
static struct cell *take(struct cell *all, uint64_t *position)
{
	uint64_t at = atomic_load_explicit(&tail, memory_order_relaxed);

	for (;;) {
		struct cell *cell = &all[at % CELLS];
		uint64_t free_turn = 2 * (at / CELLS);
		/* Acquire: the words of the lap before have been read. */
		uint64_t turn = atomic_load_explicit(&cell->turn, memory_order_acquire);
		if (turn == free_turn) {
			if (atomic_compare_exchange_weak_explicit(&tail, &at, at + 1, memory_order_relaxed,
													  memory_order_relaxed)) {
				*position = at;
				return cell;
			}
		} else if (turn < free_turn) {
			return NULL;
		} else {
			at = atomic_load_explicit(&tail, memory_order_relaxed);
		}
	}
}

void events_tell(const struct event *e)
{
	struct cell *all = atomic_load_explicit(&cells, memory_order_acquire), *cell;
	uint64_t at;

	if (!all || !events_wanted())
		return;
	cell = take(all, &at);
	if (!cell) {
		atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed);
		return;
	}
	uint64_t word[WORDS] = {
		[WORD_START] = e->start,
		[WORD_DURATION] = e->duration,
		[WORD_VALUE] = e->value,
		[WORD_WHO] = (uint64_t)e->thread << 32 | (e->type & 0xffff) << 16 | e->id << 1 | e->failed,
		[WORD_NUMBER] = (uint64_t)e->detail << 32 | e->sequence,
		[WORD_NAME] = (uintptr_t)e->name,
	};
	word[WORD_SUM] = sum(word, at);
	for (unsigned i = 0; i < WORDS; i++)
		atomic_store_explicit(&cell->word[i], word[i], memory_order_relaxed);
	/* Fails when the drainer has given the cell away. */
	uint64_t turn = 2 * (at / CELLS);
	atomic_compare_exchange_strong_explicit(&cell->turn, &turn, turn + 1, memory_order_release,
											memory_order_relaxed);
}

void events_tell_span(enum event_id id, uint64_t since, uint64_t value, const char *name, bool failed)
{
	uint64_t now = events_now();
	struct event e = {
		.start = since,
		.duration = now > since ? now - since : 0, /* the clock may be set back */
		.value = value,
		.id = id,
		.thread = events_thread(),
		.name = name,
		.failed = failed,
	};

	events_tell(&e);
}

/* ---- draining ---- */

static bool read_cell(struct cell *cell, struct event *e)
{
	uint64_t word[WORDS];

	for (unsigned i = 0; i < WORDS; i++)
		word[i] = atomic_load_explicit(&cell->word[i], memory_order_relaxed);
	uint32_t id = (uint16_t)word[WORD_WHO] >> 1;
	if (word[WORD_SUM] != sum(word, head) || id >= EVENT_COUNT)
		return false;
	*e = (struct event){
		.start = word[WORD_START],
		.duration = word[WORD_DURATION],
		.value = word[WORD_VALUE],
		.id = id,
		.thread = (uint32_t)(word[WORD_WHO] >> 32),
		.sequence = (uint32_t)word[WORD_NUMBER],
		.detail = (uint32_t)(word[WORD_NUMBER] >> 32),
		.type = (uint16_t)(word[WORD_WHO] >> 16),
		.name = (const char *)(uintptr_t)word[WORD_NAME],
		.failed = word[WORD_WHO] & 1,
	};
	return true;
}

/* The cell at the head was taken and is not filled: whether it has been so for too long. */
static bool is_stuck(void)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	if (!stuck_since || stuck_at != head) {
		stuck_at = head;
		stuck_since = now;
	}
	return now - stuck_since >= STUCK_NS;
}

unsigned events_drain(struct event *to, unsigned most)
{
	struct cell *all = atomic_load_explicit(&cells, memory_order_acquire);
	unsigned n = 0;

	while (all && n < most && head != atomic_load_explicit(&tail, memory_order_relaxed)) {
		struct cell *cell = &all[head % CELLS];
		uint64_t next_turn = 2 * (head / CELLS) + 2;
		/* Acquire: the words before the turn. */
		uint64_t turn = atomic_load_explicit(&cell->turn, memory_order_acquire);
		if (turn != next_turn - 1 && !is_stuck())
			break;
		if (turn == next_turn - 1 && read_cell(cell, &to[n]))
			n++;
		else if (turn == next_turn - 1 ||
				 atomic_compare_exchange_strong_explicit(&cell->turn, &turn, next_turn, memory_order_relaxed,
														 memory_order_relaxed))
			atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed);
		else
			continue; /* filled just now */
		/* Release: the next lap's words after these were read. */
		atomic_store_explicit(&cell->turn, next_turn, memory_order_release);
		head++;
	}
	return n;
}

uint64_t events_lost(void)
{
	return atomic_exchange_explicit(&lost, 0, memory_order_relaxed);
}

/* ---- life ---- */

bool events_start(void)
{
	struct event old[64];
	int saved = errno;

	if (!atomic_load_explicit(&cells, memory_order_relaxed)) {
		void *memory = mmap(NULL, CELLS * sizeof(struct cell), PROT_READ | PROT_WRITE,
							MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		errno = saved;
		if (memory == MAP_FAILED)
			return false;
		atomic_store_explicit(&cells, memory, memory_order_release);
	}
	while (events_drain(old, sizeof(old) / sizeof(old[0])))
		;
	events_lost();
	atomic_store_explicit(&events_on, true, memory_order_relaxed);
	return true;
}

void events_stop(void)
{
	atomic_store_explicit(&events_on, false, memory_order_relaxed);
}

void events_fork_child(void)
{
	events_stop();
}
