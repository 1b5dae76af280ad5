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

#define S FILES_S
static void test_a_look(void **state)
{
	struct flight_page *page = files_rank(0, 7, 1);
	const struct judge_world *j;
	struct world *w;
	(void)state;

	files_write(page, files_child[0], FILES_BYTES(1));
	w = files_world(NULL);
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
	files_remove();
}

static void test_stuck_or_not(void **state)
{
	struct flight_page *page = files_rank(0, 7, 1);
	struct flight_comm *comm = files_comm(page, 0);
	struct world *w;
	(void)state;

	files_write(page, files_child[0], FILES_BYTES(1));
	w = files_world(NULL);
	for (uint64_t t = 10; t < 20; t++) { /* always something under way, never the same */
		files_issue(comm, FLIGHT_ALL_REDUCE, 64, t * S);
		comm->done++;
		files_write(page, files_child[0], FILES_BYTES(1));
		world_read(w, t * S, true);
		assert_int_equal(w->stuck, 0);
	}
	world_read(w, 20 * S, true);
	assert_int_equal(w->stuck, 1);
	comm->state = FLIGHT_ENDING;
	files_write(page, files_child[0], FILES_BYTES(1));
	world_read(w, 21 * S, true);
	assert_int_equal(w->stuck, 0);
	world_free(w);
	free(page);
	files_remove();
}

static void test_foreign(void **state)
{
	struct flight_page *page = files_page(FILES_NOBODY, 1);
	char path[256], other[300];
	struct world *w;
	(void)state;

	files_path(path, FILES_NOBODY);
	assert_int_equal(mkfifo(path, 0600), 0);
	files_path(path, FILES_NOBODY + 1);
	assert_int_equal(mkdir(path, 0700), 0);
	page->pid = FILES_NOBODY + 2;
	files_write(page, FILES_NOBODY + 2, FILES_BYTES(1));
	files_path(path, FILES_NOBODY + 2);
	snprintf(other, sizeof(other), "%s/elsewhere", files_dir());
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(symlink(other, path), 0);
	files_path(path, FILES_NOBODY + 3);
	if (geteuid() == 0) {
		page->pid = FILES_NOBODY + 3;
		files_write(page, FILES_NOBODY + 3, FILES_BYTES(1));
		assert_int_equal(chown(path, 12345, 12345), 0);
	}
	snprintf(other, sizeof(other), "%sx", path);
	assert_true(creat(other, 0600) >= 0);
	w = world_new(NULL);
	assert_int_equal(world_find(w, files_dir(), 0, true), 0);
	assert_int_equal(world_find(w, files_dir(), FILES_NOBODY + 3, true), 0);
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
		struct flight_page *page = files_rank(0, 7, 1);
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
		files_write(page, files_child[0], bytes);
		w = files_world(NULL);
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
		struct flight_page *page = files_rank(0, 7, 1);
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
		files_write(page, files_child[0], FILES_BYTES(1));
		w = files_world(NULL);
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
	struct flight_page *page = files_rank(0, 7, 1);
	struct flight_page *copy;
	struct world *w;
	(void)state;

	memset(page->sites, 'x', sizeof(page->sites));
	memset(page->dump.text, 'y', sizeof(page->dump.text));
	page->dump.bytes = 5;
	page->dump.version = 2;
	files_write(page, files_child[0], FILES_BYTES(1));
	w = files_world(NULL);
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
		files_write(page, files_child[0], FILES_BYTES(1));
		world_texts(w);
		assert_int_equal(copy->dump.bytes, 0);
	}
	world_free(w);
	free(page);
	files_remove();
}

/* More files than there is room for: what killed jobs have left gives way to what is being written. */
static void test_newest(void **state)
{
	struct world *w = world_new(NULL);
	struct timespec written[2] = {{0}, {0}};
	char path[256];
	unsigned live = 0, all = 0;
	(void)state;

	for (int i = 0; i < JUDGE_PROCESSES + 40; i++) {
		struct flight_page *page = files_page(FILES_NOBODY + i, 0);
		files_write(page, FILES_NOBODY + i, sizeof(page->bytes));
		files_path(path, FILES_NOBODY + i);
		written[0].tv_sec = written[1].tv_sec = i % 10 == 3 ? 2000 : 1000 + i;
		all += i % 10 == 3;
		assert_int_equal(utimensat(AT_FDCWD, path, written, 0), 0);
		free(page);
	}
	assert_int_equal(world_find(w, files_dir(), 0, false), JUDGE_PROCESSES);
	for (unsigned i = 0; i < w->files; i++)
		live += w->file[i].pid % 10 == (FILES_NOBODY + 3) % 10;
	assert_int_equal(live, all);
	world_free(w);
	files_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_look),       cmocka_unit_test(test_stuck_or_not),
		cmocka_unit_test(test_foreign),      cmocka_unit_test(test_not_understood),
		cmocka_unit_test(test_out_of_range), cmocka_unit_test(test_texts),
		cmocka_unit_test(test_newest),
	};

	return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
