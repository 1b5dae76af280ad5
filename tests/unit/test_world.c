/* test_world.c - files of other ranks: found, checked, joined, copied; what is not one is left alone. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/world_files.h"
#include "policy/nccl/world.h"

#define S 1000000000ull
#define NOBODY 4000000 /* processes that there are not, from here on */

static pid_t child[4];

/* Processes that live, to be ranks. */
static int setup(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		child[i] = fork();
		if (child[i] == 0) {
			for (;;)
				pause();
		}
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		kill(child[i], SIGKILL);
		waitpid(child[i], NULL, 0);
	}
	files_remove();
	return 0;
}

static struct world *world_here(const struct flight_page *own)
{
	struct world *w = world_new(own);

	assert_non_null(w);
	if (own)
		world_read(w, S, true);
	while (world_find(w, files_dir(), 0, true) > 0) {
	}
	return w;
}

/* Rank `i` of two in a communicator with one operation begun. */
static struct flight_page *rank_page(int i, uint64_t key, int rank)
{
	struct flight_page *page = files_page(child[i], 2);
	struct flight_comm *comm = files_add(page, key, rank, 2);
	struct flight_op *op = files_issue(comm, FLIGHT_ALL_REDUCE, 64, 5 * S);

	op->started = comm->started = 6 * S;
	comm->started = 1;
	page->sampled = 100 * S;
	return page;
}

static void test_a_look(void **state)
{
	struct flight_page *page = rank_page(0, 7, 1);
	const struct judge_world *j;
	struct world *w;
	(void)state;

	files_write(page, child[0], FILES_BYTES(1));
	w = world_here(NULL);
	world_read(w, 10 * S, true);
	assert_int_equal(w->stuck, 0); /* for a poll not yet */
	world_read(w, 11 * S, true);
	assert_int_equal(w->stuck, 1);
	assert_int_equal(w->stuck_old, 10 * S);
	j = world_look(w, 12 * S);
	assert_int_equal(j->processes, 1);
	assert_int_equal(j->process[0].life, LIFE_RUNS);
	assert_string_equal(j->process[0].page->host, "here");
	assert_int_equal(j->members, 1);
	assert_int_equal(j->member[0].rank, 1);
	assert_int_equal(j->member[0].ranks, 2);
	assert_int_equal(j->member[0].op[1].bytes, 64);
	assert_true(w->file[0].fd < 0 || w->file[0].fd >= 512);
	world_free(w);
	free(page);
}

static void test_stuck_or_not(void **state)
{
	struct flight_page *page = rank_page(0, 7, 1);
	struct flight_comm *comm = files_comm(page, 0);
	struct world *w;
	(void)state;

	files_write(page, child[0], FILES_BYTES(1));
	w = world_here(NULL);
	for (uint64_t t = 10; t < 20; t++) { /* always something under way, never the same */
		files_issue(comm, FLIGHT_ALL_REDUCE, 64, t * S);
		comm->done++;
		files_write(page, child[0], FILES_BYTES(1));
		world_read(w, t * S, true);
		assert_int_equal(w->stuck, 0);
	}
	world_read(w, 20 * S, true);
	assert_int_equal(w->stuck, 1);
	comm->state = FLIGHT_ENDING;
	files_write(page, child[0], FILES_BYTES(1));
	world_read(w, 21 * S, true);
	assert_int_equal(w->stuck, 0);
	world_free(w);
	free(page);
}

/* This process, one that shares a communicator with it, one that does with that, and one of another job. */
static void test_joined(void **state)
{
	struct flight_page *own = files_page(getpid(), FLIGHT_COMMS), *page[3];
	struct world *w;
	(void)state;

	files_add(own, 1, 0, 2);
	for (int i = 0; i < 3; i++) {
		page[i] = files_page(child[i], 2);
		files_add(page[i], i == 2 ? 99 : (uint64_t)i + 1, 1, 2);
	}
	files_add(page[0], 2, 0, 2);
	assert_true(world_dir(0) != NULL);
	for (int i = 0; i < 3; i++)
		files_write(page[i], child[i], FILES_BYTES(2));
	w = world_here(own);
	assert_int_equal(w->files, 3);
	world_read(w, 10 * S, true);
	assert_int_equal(world_look(w, 10 * S)->processes, 3);
	assert_false(world_lacks(w, 0));
	/* One leaves, and with it goes the one behind. */
	files_comm(own, 0)->state = FLIGHT_GONE;
	world_read(w, 11 * S, true);
	assert_int_equal(world_look(w, 11 * S)->processes, 1);
	files_add(own, 5, 0, 3);
	files_comm(own, 1)->made = 12 * S;
	world_read(w, 12 * S, true);
	assert_true(world_lacks(w, 11 * S));
	assert_false(world_lacks(w, 13 * S));
	world_free(w);
	for (int i = 0; i < 3; i++)
		free(page[i]);
	free(own);
	files_remove();
}

/* Any number of files of others does not keep it from finding its own. */
static void test_many_leftovers(void **state)
{
	struct flight_page *own = files_page(getpid(), FLIGHT_COMMS), *page = rank_page(0, 7, 1);
	struct flight_page *left = files_page(NOBODY, 1);
	struct world *w;
	(void)state;

	files_add(left, 1000, 0, 2);
	for (int i = 0; i < 150; i++) {
		left->pid = (uint32_t)(NOBODY + i);
		files_write(left, NOBODY + i, FILES_BYTES(1));
	}
	w = world_here(own);
	assert_int_equal(w->files, 1);
	assert_int_equal(world_find(w, files_dir(), 0, true), 0);
	files_write(page, child[0], FILES_BYTES(1));
	assert_int_equal(world_find(w, files_dir(), 0, true), 0);
	files_add(own, 7, 0, 2); /* only now they share one */
	world_read(w, 10 * S, false);
	assert_true(world_lacks(w, 0));
	assert_int_equal(world_find(w, files_dir(), 0, true), 1);
	world_read(w, 11 * S, false);
	assert_false(world_lacks(w, 0));
	/* Of one that was there, and has died before anybody looked, too. */
	files_add(own, 1000, 1, 2);
	world_read(w, 12 * S, false);
	assert_true(world_find(w, files_dir(), 0, true) > 0);
	world_free(w);
	free(own);
	free(page);
	free(left);
	files_remove();
}

static void test_foreign(void **state)
{
	struct flight_page *page = files_page(NOBODY, 1);
	char path[256], other[300];
	struct world *w;
	(void)state;

	files_path(path, NOBODY);
	assert_int_equal(mkfifo(path, 0600), 0);
	files_path(path, NOBODY + 1);
	assert_int_equal(mkdir(path, 0700), 0);
	page->pid = NOBODY + 2;
	files_write(page, NOBODY + 2, FILES_BYTES(1));
	files_path(path, NOBODY + 2);
	snprintf(other, sizeof(other), "%s/elsewhere", files_dir());
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(symlink(other, path), 0);
	files_path(path, NOBODY + 3);
	if (geteuid() == 0) {
		page->pid = NOBODY + 3;
		files_write(page, NOBODY + 3, FILES_BYTES(1));
		assert_int_equal(chown(path, 12345, 12345), 0);
	}
	snprintf(other, sizeof(other), "%sx", path);
	assert_true(creat(other, 0600) >= 0);
	w = world_new(NULL);
	assert_int_equal(world_find(w, files_dir(), 0, true), 0);
	assert_int_equal(world_find(w, files_dir(), NOBODY + 3, true), 0);
	assert_int_equal(world_find(w, "/nowhere", 0, true), 0);
	world_read(w, S, true);
	assert_int_equal(world_look(w, S)->processes, 0);
	world_free(w);
	free(page);
	files_remove();
}

/* Headers of another version, another process, another layout. */
static void test_not_understood(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++) {
		struct flight_page *page = rank_page(0, 7, 1);
		size_t bytes = FILES_BYTES(1);
		struct world *w;

		switch (i) {
		case 0: page->magic[0]++; break;
		case 1: page->version++; break;
		case 2: page->pid++; break;
		case 3: page->comms++; break;
		case 4: page->ops /= 2; break;
		case 5: page->comm_off += 64; break;
		case 6: page->comm_bytes -= 128; break;
		case 7: bytes = 1000; break;
		}
		files_write(page, child[0], bytes);
		w = world_here(NULL);
		world_read(w, S, true);
		world_read(w, 2 * S, true);
		assert_int_equal(world_look(w, 3 * S)->processes, 0);
		world_free(w);
		free(page);
	}
	files_remove();
}

/* What is out of its range in a communicator or an operation. */
static void test_out_of_range(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++) {
		struct flight_page *page = rank_page(0, 7, 1);
		struct flight_comm *c = files_comm(page, 0);
		const struct judge_world *j;
		unsigned members = 0, ops = 0;
		struct world *w;

		switch (i) {
		case 0: c->rank = 2; break;
		case 1: c->rank = -1; break;
		case 2: c->ranks = 1 << 30; break;
		case 3: c->state = 77; break;
		case 4: c->issued = UINT64_MAX; break;
		case 5: c->op[1].version |= 1; break;
		case 6: c->op[1].index = 2; break;
		case 7: c->op[1].function = 999; break;
		case 8: page->comm_high = UINT32_MAX; break;
		case 9: memset(page->host, 'x', sizeof(page->host)); break;
		}
		members = i >= 5;
		ops = i >= 8;
		files_write(page, child[0], FILES_BYTES(1));
		w = world_here(NULL);
		world_read(w, S, true);
		world_read(w, 2 * S, true);
		j = world_look(w, 3 * S);
		assert_int_equal(j->members, members);
		if (members)
			assert_int_equal(j->member[0].op[1].index == 1, ops);
		assert_true(strlen(j->process[0].page->host) < sizeof(page->host));
		world_free(w);
		free(page);
	}
	files_remove();
}

static void test_texts(void **state)
{
	struct flight_page *page = rank_page(0, 7, 1);
	struct flight_page *copy;
	struct world *w;
	(void)state;

	memset(page->sites, 'x', sizeof(page->sites));
	memset(page->dump.text, 'y', sizeof(page->dump.text));
	page->dump.bytes = 5;
	page->dump.version = 2;
	files_write(page, child[0], FILES_BYTES(1));
	w = world_here(NULL);
	world_read(w, S, true);
	copy = &w->page[0];
	assert_int_equal(world_look(w, S)->processes, 1);
	assert_int_equal(copy->dump.bytes, 0);
	world_texts(w);
	assert_int_equal(copy->dump.bytes, 5);
	assert_int_equal(copy->sites[0], 'x');
	assert_int_equal(copy->sites[sizeof(copy->sites) - 1], 0);
	for (int i = 0; i < 2; i++) {
		page->dump.bytes = i ? 5 : UINT32_MAX;
		page->dump.version = i ? 3 : 2;
		files_write(page, child[0], FILES_BYTES(1));
		world_texts(w);
		assert_int_equal(copy->dump.bytes, 0);
	}
	world_free(w);
	free(page);
	files_remove();
}

/* The program closes what it does not know, and opens something else under the number. */
static void test_closed_behind_our_back(void **state)
{
	struct flight_page *page = rank_page(0, 7, 1);
	struct world *w;
	char path[256];
	int fd;
	(void)state;

	files_write(page, child[0], FILES_BYTES(1));
	w = world_here(NULL);
	world_read(w, S, true);
	fd = w->file[0].fd;
	close(fd);
	assert_int_equal(dup2(open("/dev/null", O_RDONLY), fd), fd);
	page->heartbeat = 42;
	files_write(page, child[0], FILES_BYTES(1));
	world_read(w, 2 * S, false);
	assert_int_equal(world_look(w, 2 * S)->process[0].page->heartbeat, 42);
	assert_int_equal(fcntl(fd, F_GETFD), 0); /* the program's is open still */
	/* Removed: what was open is read on. Made anew: the new one is. */
	files_path(path, child[0]);
	unlink(path);
	world_read(w, 3 * S, true);
	assert_int_equal(world_look(w, 3 * S)->processes, 1);
	page->heartbeat = 43;
	files_write(page, child[0], FILES_BYTES(1));
	world_read(w, 4 * S, true);
	assert_int_equal(world_look(w, 4 * S)->process[0].page->heartbeat, 43);
	world_free(w);
	close(fd);
	free(page);
	files_remove();
}

/* A killed process is dead, and what it has recorded is there; so is all of a job that is over. */
static void test_dead(void **state)
{
	struct flight_page *page = rank_page(3, 7, 1), *other = files_page(NOBODY, 1);
	const struct judge_world *j;
	struct world *w;
	(void)state;

	files_write(page, child[3], FILES_BYTES(1));
	w = world_here(NULL);
	world_read(w, S, true);
	kill(child[3], SIGKILL);
	waitpid(child[3], NULL, 0);
	world_read(w, 2 * S, true);
	j = world_look(w, 3 * S);
	assert_int_equal(j->process[0].life, LIFE_DEAD);
	assert_int_equal(j->process[0].life_since, 3 * S);
	assert_int_equal(j->members, 1);
	/* As it was when it ended: this one went on for 60 s, the other did not. */
	page->heartbeat = 10 * S;
	files_write(page, child[3], FILES_BYTES(1));
	files_add(other, 7, 0, 2);
	other->heartbeat = 70 * S;
	files_write(other, NOBODY, FILES_BYTES(1));
	world_find(w, files_dir(), 0, true);
	world_read(w, 100 * S, true);
	j = world_look(w, 0);
	assert_int_equal(j->now, 70 * S);
	assert_int_equal(j->processes, 2);
	assert_int_equal(j->process[0].life, LIFE_DEAD);
	assert_int_equal(j->process[0].life_since, 10 * S);
	assert_int_equal(j->process[1].life, LIFE_RUNS);
	assert_int_equal(j->members, 2);
	world_free(w);
	free(page);
	free(other);
	files_remove();
}

/* In a container of its own its number means nothing here. */
static void test_another_namespace(void **state)
{
	struct flight_page *page = rank_page(0, 7, 1);
	struct world *w;
	(void)state;

	page->pid_ns++;
	page->pid = NOBODY;
	page->heartbeat = 10 * S;
	files_write(page, NOBODY, FILES_BYTES(1));
	w = world_here(NULL);
	world_read(w, 11 * S, true);
	assert_int_equal(world_look(w, 11 * S)->process[0].life, LIFE_RUNS);
	world_read(w, 71 * S, true);
	assert_int_equal(world_look(w, 71 * S)->process[0].life, LIFE_STOPPED);
	assert_int_equal(w->process[0].life_since, 10 * S);
	world_free(w);
	free(page);
	files_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_look),
		cmocka_unit_test(test_stuck_or_not),
		cmocka_unit_test(test_joined),
		cmocka_unit_test(test_many_leftovers),
		cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_not_understood),
		cmocka_unit_test(test_out_of_range),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_closed_behind_our_back),
		cmocka_unit_test(test_another_namespace),
		cmocka_unit_test(test_dead),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
