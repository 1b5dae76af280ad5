/*
 * test_world_join.c - whose files belong together, and what becomes of them: closed behind our back, removed, made anew,
 * of the dead.
 */
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

#define S FILES_S

/* This process, one that shares a communicator with it, one that does with that, and one of another job. */
static void test_joined(void **state)
{
	struct flight_page *own = files_page(getpid(), FLIGHT_COMMS), *page[3];
	struct world *w;
	(void)state;

	files_add(own, 1, 0, 2);
	for (int i = 0; i < 3; i++) {
		page[i] = files_page(files_child[i], 2);
		files_add(page[i], i == 2 ? 99 : (uint64_t)i + 1, 1, 2);
	}
	files_add(page[0], 2, 0, 2);
	assert_true(world_dir(0) != NULL);
	for (int i = 0; i < 3; i++)
		files_write(page[i], files_child[i], FILES_BYTES(2));
	w = files_world(own);
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
	struct flight_page *own = files_page(getpid(), FLIGHT_COMMS), *page = files_rank(0, 7, 1);
	struct flight_page *left = files_page(FILES_NOBODY, 1);
	struct world *w;
	(void)state;

	files_add(left, 1000, 0, 2);
	for (int i = 0; i < 150; i++) {
		left->pid = (uint32_t)(FILES_NOBODY + i);
		files_write(left, FILES_NOBODY + i, FILES_BYTES(1));
	}
	w = files_world(own);
	assert_int_equal(w->files, 1);
	assert_int_equal(world_find(w, files_dir(), 0, true), 0);
	files_write(page, files_child[0], FILES_BYTES(1));
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

/* The program closes what it does not know, and opens something else under the number. */
static void test_closed_behind_our_back(void **state)
{
	struct flight_page *page = files_rank(0, 7, 1);
	struct world *w;
	char path[256];
	int fd;
	(void)state;

	files_write(page, files_child[0], FILES_BYTES(1));
	w = files_world(NULL);
	world_read(w, S, true);
	fd = w->file[0].fd;
	close(fd);
	assert_int_equal(dup2(open("/dev/null", O_RDONLY), fd), fd);
	page->heartbeat = 42;
	files_write(page, files_child[0], FILES_BYTES(1));
	world_read(w, 2 * S, false);
	assert_int_equal(world_look(w, 2 * S)->process[0].page->heartbeat, 42);
	assert_int_equal(fcntl(fd, F_GETFD), 0); /* the program's is open still */
	/* Removed: what was open is read on. Made anew: the new one is. */
	files_path(path, files_child[0]);
	unlink(path);
	world_read(w, 3 * S, true);
	assert_int_equal(world_look(w, 3 * S)->processes, 1);
	page->heartbeat = 43;
	files_write(page, files_child[0], FILES_BYTES(1));
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
	struct flight_page *page = files_rank(3, 7, 1), *other = files_page(FILES_NOBODY, 1);
	const struct judge_world *j;
	struct world *w;
	(void)state;

	files_write(page, files_child[3], FILES_BYTES(1));
	w = files_world(NULL);
	world_read(w, S, true);
	kill(files_child[3], SIGKILL);
	waitpid(files_child[3], NULL, 0);
	world_read(w, 2 * S, true);
	j = world_look(w, 3 * S);
	assert_int_equal(j->process[0].life, LIFE_DEAD);
	assert_int_equal(j->process[0].life_since, 3 * S);
	assert_int_equal(j->members, 1);
	/* As it was when it ended: this one went on for 60 s, the other did not. */
	page->heartbeat = 10 * S;
	files_write(page, files_child[3], FILES_BYTES(1));
	files_add(other, 7, 0, 2);
	other->heartbeat = 70 * S;
	files_write(other, FILES_NOBODY, FILES_BYTES(1));
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
	struct flight_page *page = files_rank(0, 7, 1);
	struct world *w;
	(void)state;

	page->pid_ns++;
	page->pid = FILES_NOBODY;
	page->heartbeat = 10 * S;
	files_write(page, FILES_NOBODY, FILES_BYTES(1));
	w = files_world(NULL);
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
		cmocka_unit_test(test_joined),
		cmocka_unit_test(test_many_leftovers),
		cmocka_unit_test(test_closed_behind_our_back),
		cmocka_unit_test(test_another_namespace),
		cmocka_unit_test(test_dead),
	};

	return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
