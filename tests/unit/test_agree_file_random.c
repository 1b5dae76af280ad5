/*
 * test_agree_file_random.c - processes that race for the file of a communicator, and processes that are killed meanwhile.
 * AGREE_SEED, SOAK_S as for all random tests.
 */
#define _GNU_SOURCE
#include "agree_file_rig.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define MOST 8u
#define MUST_S 60

static struct {
	_Atomic unsigned arrived, wrong, complete;
} * shared;
static unsigned seed;

static void start_seed(void)
{
	const char *given = getenv("AGREE_SEED");

	seed = given ? (unsigned)strtoul(given, NULL, 0) : (unsigned)time(NULL);
	print_message("seed %u\n", seed);
}

/* Rounds a test makes: so many, or as long as is asked for. */
static bool another(unsigned done, unsigned least, time_t since)
{
	const char *soak = getenv("SOAK_S");

	return done < least || (soak && time(NULL) - since < atoi(soak) / 2);
}

static void wait_for(pid_t pid, int wanted)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status != wanted)
		fail_msg("status %#x", (unsigned)status);
}

/* ---- a race ---- */

static void meet(unsigned ranks, unsigned round)
{
	atomic_fetch_add(&shared->arrived, 1);
	while (atomic_load(&shared->arrived) < ranks * (round + 1))
		sched_yield();
}

/* One of the ranks of `rounds` communicators, all at once. */
static int race(unsigned rank, unsigned ranks, unsigned rounds)
{
	time_t until = time(NULL) + MUST_S;

	for (unsigned i = 0; i < rounds; i++, key[1]++) {
		struct agree_file f;
		struct agree a;
		meet(ranks, 2 * i);
		if (!agree_file_open(&f, key, rank, ranks) || !agree_init(&a, f.area, rank, ranks))
			return 2;
		while (!agree_complete(&a) && time(NULL) < until)
			sched_yield();
		if (!agree_complete(&a))
			return 3;
		agree_file_ready(&f);
		if (access(path_of_key(), F_OK) == 0)
			return 4;
		agree_queue(&a);
		meet(ranks, 2 * i + 1);
		for (unsigned r = 0; r < ranks; r++)
			if (atomic_load(&f.area->place[r].safe) != 1)
				return 5;
		agree_file_close(&f);
	}
	return 0;
}

static void all_find_each_other(void **state)
{
	(void)state;
	unsigned rounds = getenv("SOAK_S") ? 2000 : 100;

	for (unsigned ranks = 2; ranks <= MOST; ranks *= 2) {
		pid_t pid[MOST];
		new_key();
		atomic_store(&shared->arrived, 0);
		for (unsigned r = 0; r < ranks; r++) {
			pid[r] = fork();
			assert_true(pid[r] >= 0);
			if (pid[r] == 0)
				_exit(race(r, ranks, rounds));
		}
		for (unsigned r = 0; r < ranks; r++)
			wait_for(pid[r], 0);
	}
}

/* ---- killed ---- */

/* Opens and closes communicators of a few keys until it is killed. */
static void live(unsigned rank, unsigned ranks, unsigned my_seed)
{
	uint64_t own[2] = {key[0], 0};

	for (;;) {
		struct agree_file f;
		struct agree a;
		own[1] = key[1] + (unsigned)rand_r(&my_seed) % 3;
		if (!agree_file_open(&f, own, rank, ranks))
			continue; /* names that come and go */
		/* Whoever was killed may have been this rank. */
		if (agree_init(&a, f.area, rank, ranks) && agree_queue(&a) && agree_step(&a) != 1)
			atomic_fetch_add(&shared->wrong, 1);
		if (rand_r(&my_seed) % 2)
			agree_file_ready(&f);
		agree_file_close(&f);
	}
}

/* Nobody lives: what is left is found to be nobody's, and swept. */
static void nothing_is_in_the_way(unsigned ranks)
{
	uint64_t first = key[1];
	struct agree_file f;
	struct agree a;

	for (key[1] = first; key[1] < first + 3; key[1]++) {
		assert_true(agree_file_open(&f, key, 0, ranks) && agree_init(&a, f.area, 0, ranks));
		for (unsigned r = 1; r < ranks; r++)
			assert_int_equal(atomic_load(&f.area->place[r].joined), 0);
		agree_file_close(&f);
	}
	key[1] = first;
}

static unsigned sweep_all(void)
{
	char begin[80], path[512];
	unsigned found = 0;
	struct dirent *entry;
	DIR *d = opendir(AGREE_FILE_DIR);

	snprintf(begin, sizeof(begin), "turbo-%u-%016llx", (unsigned)geteuid(), (unsigned long long)key[0]);
	while ((entry = readdir(d)))
		if (strncmp(entry->d_name, begin, strlen(begin)) == 0) {
			snprintf(path, sizeof(path), AGREE_FILE_DIR "/%s", entry->d_name);
			make_old(path, AGREE_FILE_KEPT_S + 10);
			found++;
		}
	closedir(d);
	agree_file_sweep(AGREE_FILE_DIR);
	assert_int_equal(names_like(AGREE_FILE_DIR, begin), 0);
	return found;
}

static void killed_ones_are_in_nobodys_way(void **state)
{
	(void)state;
	unsigned left = 0, rounds = 0;
	time_t since = time(NULL);

	start_seed();
	for (; another(rounds, 60, since); rounds++) {
		unsigned ranks = 2 + (unsigned)rand_r(&seed) % (MOST - 1);
		pid_t pid[MOST];
		new_key();
		for (unsigned r = 0; r < ranks; r++) {
			unsigned own = (unsigned)rand_r(&seed);
			pid[r] = fork();
			assert_true(pid[r] >= 0);
			if (pid[r] == 0)
				live(r, ranks, own);
		}
		for (unsigned r = 0; r < ranks; r++) {
			usleep((unsigned)rand_r(&seed) % 3000);
			kill(pid[r], SIGKILL);
		}
		for (unsigned r = 0; r < ranks; r++)
			wait_for(pid[r], SIGKILL);
		assert_int_equal(atomic_load(&shared->wrong), 0);
		if (rounds % 2)
			nothing_is_in_the_way(ranks);
		left += sweep_all();
	}
	print_message("%u rounds, %u names left by killed processes\n", rounds, left);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(all_find_each_other),
									   cmocka_unit_test(killed_ones_are_in_nobodys_way)};
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
