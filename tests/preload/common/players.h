/*
 * players.h - what the randomised tests share: threads that play at random from one seed, and
 * rounds of them.
 *
 * A test's own player begins with a struct player `me`. Its operations return false when something is wrong, after
 * WRONG() or TRY(); the round then ends with the seed, the thread and the operation.
 */
#ifndef TURBO_TEST_PLAYERS_H
#define TURBO_TEST_PLAYERS_H

#include "copy_fixture.h"

#include <pthread.h>
#include <stdio.h>

struct player {
	pthread_t thread;
	unsigned number, ops, done; /* operations to play, and played */
	uint64_t random;
	char wrong[240];
};

#define WRONG(a, ...) (snprintf((a)->me.wrong, sizeof((a)->me.wrong), __VA_ARGS__), false)
#define TRY(a, call)                                                                \
	do {                                                                            \
		CUresult r_ = (call);                                                       \
		if (r_ != CUDA_SUCCESS)                                                     \
			return WRONG(a, "line %d: %s: %s", __LINE__, #call, cuda_dl_error(r_)); \
	} while (0)
#define STEP(call)        \
	do {                  \
		if (!(call))      \
			return false; \
	} while (0)
#define below(a, limit) random_below(&(a)->me.random, limit)

/* How the test's players play; `size` bytes each, made empty. */
struct game {
	unsigned players;
	size_t size;
	void *first;
	bool (*open)(void *player);
	bool (*op)(void *player);
	bool (*close)(void *player);
};
/* Plays `ops` operations, shared among the players. True: nothing was wrong; else that is printed. */
bool game_round(const struct game *g, uint64_t seed, unsigned ops);

/* A number from the environment. */
unsigned env_number(const char *name, unsigned otherwise);

struct rounds {
	const char *seed; /* variable with the first seed; default: from the clock */
	unsigned ops;     /* in all */
	unsigned most;    /* operations of a round */
	unsigned limit_s; /* no new round after; 0: none */
	double soak;      /* share of SOAK_S, which, when it is set, alone says how long */
};
/* Rounds of new seeds, at least one; the operations played, or 0 when one() was false. */
unsigned rounds_play(const struct rounds *r, bool (*one)(uint64_t seed, unsigned ops));

/* ---- tags: what a block's owner reads back of it ---- */

#define TAG_WORDS 16 /* at each end of a block; of a smaller one all */
#define TAG_READS 64 /* of a player, on their way to the host */

struct tag_reads {
	struct tag_read {
		uint32_t *host; /* 2 * TAG_WORDS words of pinned memory */
		uint32_t tag;
		CUstream stream;
		bool used;
	} at[TAG_READS];
	unsigned checked;
};
bool tags_open(struct player *p, struct tag_reads *t);
/* Queues the reading of both ends. What an earlier one brought is compared first. */
bool tags_read(struct player *p, struct tag_reads *t, CUdeviceptr at, size_t bytes, uint32_t tag,
			   CUstream stream);
/* Waits for all of them. */
bool tags_wait(struct player *p, struct tag_reads *t);
bool tags_close(struct player *p, struct tag_reads *t);

#endif
