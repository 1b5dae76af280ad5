/*
 * test_world_random.c - flight files with anything in them, cut anywhere, changed while they are read: nothing crashes,
 * whatever is made of them, and no process but those with such files is named.
 *
 * SEED     of the first round (default: from the clock; it is printed)
 * SOAK_S   seconds to go on (default: 1)
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/world_files.h"
#include "policy/nccl/report.h"
#include "policy/nccl/world.h"

#define S FILES_S
#define FILES 3
#define COMMS 2
#define FINDINGS 16

static uint64_t random_state;

static uint64_t next(void)
{
	random_state += 0x9e3779b97f4a7c15ull;
	uint64_t z = random_state;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static size_t below(size_t n)
{
	return (size_t)(next() % n);
}

/* Ranks of two communicators, some calls ahead of each other. */
static struct flight_page *make(int i)
{
	struct flight_page *page = files_page(FILES_NOBODY + i, COMMS);

	for (int c = 0; c < COMMS; c++) {
		struct flight_comm *comm = files_add(page, (uint64_t)c + 1, i, FILES);
		for (size_t n = below(300); n > 0; n--) {
			struct flight_op *op =
				files_issue(comm, 1 + (unsigned)below(FLIGHT_FUNCTIONS - 1), below(4), n * S);
			op->peer = (int32_t)below(FILES);
			op->pair = (uint32_t)below(4);
			op->group = (uint32_t)below(3);
			op->flags = (uint8_t)below(16);
			op->started = below(2) * n * S;
			op->done = op->started && below(2) ? n * S : 0;
		}
		comm->done = below(comm->issued + 2);
		comm->started = below(comm->issued + 2);
	}
	page->sampled = page->heartbeat = 400 * S;
	return page;
}

/* A word that is likely to hurt. */
static uint64_t nasty(void)
{
	static const uint64_t values[] = {
		0, 1, 255, 256, 0x7fffffff, 0x80000000, 0xffffffff, 1ull << 60, UINT64_MAX - 1, UINT64_MAX};

	return below(3) ? values[below(sizeof(values) / sizeof(values[0]))] : next();
}

/* Where it hurts: heads rather than texts. */
static size_t somewhere(size_t bytes)
{
	switch (below(4)) {
	case 0: return below(sizeof(((struct flight_page *)0)->bytes));
	case 1: return below(offsetof(struct flight_page, sites));
	case 2: {
		size_t comm = FILES_COMM_OFF + below(COMMS) * sizeof(struct flight_comm);
		return comm + below(below(2) ? offsetof(struct flight_comm, op) : sizeof(struct flight_comm));
	}
	default: return below(bytes);
	}
}

static void damage(int file)
{
	size_t bytes = FILES_BYTES(COMMS);
	char path[256];
	int fd;

	files_path(path, FILES_NOBODY + file);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	for (size_t n = below(30); n > 0; n--) {
		uint64_t word = nasty();
		size_t size = (size_t)1 << below(4);
		size_t at = somewhere(bytes) & ~(size - 1);
		/* The head is what everything else hangs on. */
		if (at < 64 && below(20))
			continue;
		if (pwrite(fd, &word, size, (off_t)at) < 0)
			fail();
	}
	if (below(8) == 0 && ftruncate(fd, (off_t)below(bytes + 100)) != 0)
		fail();
	if (below(30) == 0)
		unlink(path);
	close(fd);
}

static void check(const struct judge_world *j, const struct judge_finding *f)
{
	struct report r = {.world = j, .finding = f, .real = 1};
	char line[REPORT_LINE];

	assert_true(f->verdict < JUDGE_VERDICTS);
	assert_true(f->culprit >= -1 && f->culprit < (int32_t)j->processes);
	assert_true(f->member >= -1 && f->member < (int32_t)j->members);
	assert_true(f->other >= -1 && f->other < (int32_t)j->members);
	assert_true(f->chained <= sizeof(f->chain) / sizeof(f->chain[0]));
	for (uint32_t i = 0; i < f->chained; i++)
		assert_true(f->chain[i] < j->members);
	assert_true(report_line(&r, line) < sizeof(line));
}

static void look(struct world *w, uint64_t now)
{
	struct judge_limits limits = judge_limits_default;
	struct judge_finding found[FINDINGS];
	const struct judge_world *j;
	unsigned n;

	limits.user = below(2) * S;
	world_find(w, files_dir(), 0, true);
	world_read(w, now, below(2));
	j = world_look(w, below(8) ? now : 0);
	assert_true(j->processes <= FILES);
	world_texts(w);
	n = judge_look_all(j, &limits, found, FINDINGS);
	for (unsigned i = 0; i < n; i++)
		check(j, &found[i]);
}

static void a_round(void)
{
	struct flight_page *page[FILES];
	struct world *w = world_new(NULL);

	assert_non_null(w);
	for (int i = 0; i < FILES; i++) {
		page[i] = make(i);
		files_write(page[i], FILES_NOBODY + i, FILES_BYTES(COMMS));
	}
	for (uint64_t i = 0; i < 12; i++) {
		look(w, (401 + i) * S);
		damage((int)below(FILES));
		if (below(6) == 0) {
			int k = (int)below(FILES);
			files_write(page[k], FILES_NOBODY + k, FILES_BYTES(COMMS));
		}
	}
	world_free(w);
	for (int i = 0; i < FILES; i++)
		free(page[i]);
	files_remove();
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void test_random(void **state)
{
	const char *text = getenv("SEED"), *soak = getenv("SOAK_S");
	uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL) * 1000003;
	double end = seconds() + (soak ? strtod(soak, NULL) : 1);
	unsigned n = 0;
	(void)state;

	printf("SEED=%llu\n", (unsigned long long)seed);
	fflush(stdout);
	do {
		random_state = seed + n++;
		a_round();
	} while (seconds() < end && !(text && !soak));
	printf("%u rounds\n", n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
