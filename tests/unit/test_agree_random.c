/* NATIVE: under valgrind one thread runs at a time, and ranks never meet. */
/*
 * test_agree_random.c - ranks as threads or processes make random programs with random delays: each one's launches are the
 * others', one by one. AGREE_SEED, SOAK_S as for all random tests.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "policy/nccl/agree.h"

#define MOST_RANKS 8u
#define MOST_OPS 3000u

/* In memory that all share. */
struct record {
	unsigned launches, ops;
	bool died, wrong;
	uint16_t length[MOST_OPS];
};
struct shared {
	struct record record[MOST_RANKS];
	_Alignas(128) char area[sizeof(struct agree_area) + MOST_RANKS * sizeof(struct agree_place)];
};

struct rank {
	struct agree agree;
	struct record *record;
	unsigned ops, queued, seed, dies_at, leaves_at;
	bool alone;
};
static struct shared *shared;

static unsigned draw(struct rank *r, unsigned n)
{
	return (unsigned)rand_r(&r->seed) % n;
}

static void dawdle(struct rank *r)
{
	switch (draw(r, 40)) {
	case 0: sched_yield(); break;
	case 1:
		for (volatile unsigned i = draw(r, 3000); i; i--)
			;
		break;
	default: break;
	}
}

static void launch(struct rank *r, unsigned n)
{
	r->record->wrong |= n > r->queued - r->record->ops;
	r->record->length[r->record->launches++] = (uint16_t)n;
	r->record->ops += n;
	dawdle(r);
}

/* Some steps, or all. */
static void drain(struct rank *r, bool all)
{
	unsigned n;
	while ((n = agree_step(&r->agree))) {
		launch(r, n);
		if (!all && draw(r, 3) == 0)
			break;
	}
}

static void operation(struct rank *r)
{
	unsigned kind = r->alone ? 99 : draw(r, 30);
	if (kind < 2 || r->queued == r->leaves_at)
		drain(r, true); /* a cut */
	if (r->queued == r->leaves_at)
		agree_leave(&r->agree);
	if (r->alone || !agree_queue(&r->agree)) {
		drain(r, true);
		agree_leave(&r->agree);
		r->alone = true;
		r->queued++;
		launch(r, 1);
		return;
	}
	r->queued++;
	if (kind == 0)
		drain(r, true); /* alone */
}

static void *rank_main(void *arg)
{
	struct rank *r = arg;
	while (r->queued < r->ops && r->queued != r->dies_at) {
		operation(r);
		dawdle(r);
		if (draw(r, 8) == 0)
			drain(r, draw(r, 2));
	}
	if (r->queued == r->dies_at)
		r->record->died = true;
	else
		drain(r, true);
	return NULL;
}

static void start(struct rank *r, unsigned i, unsigned ranks, unsigned ops, unsigned *seed)
{
	memset(r, 0, sizeof(*r));
	assert_true(agree_init(&r->agree, (struct agree_area *)(void *)shared->area, i, ranks));
	r->record = &shared->record[i];
	r->ops = ops;
	r->seed = (unsigned)rand_r(seed);
	r->dies_at = rand_r(seed) % 20 ? UINT32_MAX : (unsigned)rand_r(seed) % ops;
	r->leaves_at = rand_r(seed) % 20 ? UINT32_MAX : (unsigned)rand_r(seed) % ops;
}

static unsigned compare(unsigned ranks, unsigned ops)
{
	unsigned groups = 0;
	for (unsigned i = 0; i < ranks; i++) {
		const struct record *r = &shared->record[i];
		assert_false(r->wrong);
		assert_true(r->died || r->ops == ops);
		for (unsigned n = 0; n < r->launches; n++) {
			groups += r->length[n] > 1;
			for (unsigned other = 0; other < i; other++)
				if (n < shared->record[other].launches)
					assert_int_equal(r->length[n], shared->record[other].length[n]);
		}
	}
	return groups;
}

static unsigned one_program(unsigned seed, bool processes)
{
	static struct rank rank[MOST_RANKS];
	pthread_t thread[MOST_RANKS];
	pid_t pid[MOST_RANKS];
	unsigned ranks = 2 + (unsigned)rand_r(&seed) % (MOST_RANKS - 1), ops = 50 + (unsigned)rand_r(&seed) % 400;

	memset(shared, 0, sizeof(*shared));
	for (unsigned i = 0; i < ranks; i++)
		start(&rank[i], i, ranks, ops, &seed);
	for (unsigned i = 0; i < ranks && !processes; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, rank_main, &rank[i]), 0);
	for (unsigned i = 0; i < ranks && processes; i++) {
		pid[i] = fork();
		assert_true(pid[i] >= 0);
		if (pid[i] == 0) {
			rank_main(&rank[i]);
			_exit(0);
		}
	}
	for (unsigned i = 0; i < ranks; i++)
		processes ? (void)waitpid(pid[i], NULL, 0) : (void)pthread_join(thread[i], NULL);
	return compare(ranks, ops);
}

static void programs(bool processes, unsigned least)
{
	const char *given = getenv("AGREE_SEED"), *soak = getenv("SOAK_S");
	unsigned seed = given ? (unsigned)strtoul(given, NULL, 0) : (unsigned)time(NULL) * 1000, n = 0,
			 groups = 0;
	time_t until = time(NULL) + (soak ? atoi(soak) / 2 : 0);

	print_message("seed %u\n", seed);
	/* On a busy machine ranks run one behind the other, and group nothing, for a while. */
	for (; n < (given ? 1 : least) || (!given && (time(NULL) < until || (!groups && n < 40 * least)));
		 n++, seed++)
		groups += one_program(seed, processes);
	print_message("%u programs, %u groups; the last seed %u\n", n, groups, seed - 1);
	assert_true(given || groups > 0);
}

static void ranks_as_threads(void **state)
{
	(void)state;
	programs(false, 150);
}

static void ranks_as_processes(void **state)
{
	(void)state;
	programs(true, 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_as_threads),
									   cmocka_unit_test(ranks_as_processes)};
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
