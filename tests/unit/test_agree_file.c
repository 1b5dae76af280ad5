/* test_agree_file.c - ranks find each other's memory whatever comes between them, and leave no name behind. */
#define _GNU_SOURCE
#include "agree_file_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static void one_rank_needs_no_file(void **state)
{
	(void)state;
	struct agree_file f;
	struct agree a;

	new_key();
	assert_true(agree_file_open(&f, key, 0, 1));
	assert_int_equal(names_of_key(), 0);
	assert_true(agree_init(&a, f.area, 0, 1) && agree_complete(&a));
	agree_file_ready(&f);
	agree_file_close(&f);
	assert_null(f.area);
}

static void all_have_the_same_memory(void **state)
{
	(void)state;
	struct agree_file f[4];
	struct agree a[4];
	struct stat st;
	int descriptors = open_descriptors();

	new_key();
	for (unsigned r = 0; r < 4; r++) {
		errno = 77;
		assert_true(agree_file_open(&f[r], key, r, 4));
		assert_int_equal(errno, 77);
		assert_int_equal(names_of_key(), 1);
		assert_true(agree_init(&a[r], f[r].area, r, 4));
		assert_true(agree_complete(&a[0]) == (r == 3));
		assert_int_equal((uintptr_t)f[r].area % 128, 0);
	}
	assert_int_equal(open_descriptors(), descriptors);
	assert_int_equal(lstat(path_of_key(), &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	assert_int_equal(st.st_size, sizeof(struct agree_file_head) + agree_bytes(4));
	assert_true((uint64_t)st.st_blocks * 512 >= (uint64_t)st.st_size); /* nothing is left to be found later */
	agree_file_ready(&f[2]);
	assert_int_equal(names_of_key(), 0);
	atomic_store(&f[0].area->slot[AGREE_SLOTS - 1], 5);
	for (unsigned r = 0; r < 4; r++) {
		agree_file_ready(&f[r]);
		assert_int_equal(atomic_load(&f[r].area->slot[AGREE_SLOTS - 1]), 5);
		agree_file_close(&f[r]);
		assert_null(f[r].area);
		agree_file_close(&f[r]);
	}
	assert_int_equal(names_of_key(), 0);
}

static void another_key_is_another_memory(void **state)
{
	(void)state;
	struct agree_file f, other;

	new_key();
	assert_true(agree_file_open(&f, key, 0, 2));
	atomic_store(&f.area->slot[0], 5);
	new_key();
	assert_true(agree_file_open(&other, key, 0, 2));
	assert_int_equal(atomic_load(&other.area->slot[0]), 0);
	agree_file_close(&f);
	agree_file_close(&other);
}

static void a_name_goes_with_its_first_rank(void **state)
{
	(void)state;
	struct agree_file f, other, late;
	struct agree a, b, c;

	new_key();
	assert_true(agree_file_open(&f, key, 0, 3) && agree_init(&a, f.area, 0, 3));
	agree_file_close(&f);
	assert_int_equal(names_of_key(), 0);
	assert_true(agree_file_open(&f, key, 0, 3) && agree_init(&a, f.area, 0, 3));
	assert_true(agree_file_open(&other, key, 1, 3) && agree_init(&b, other.area, 1, 3));
	agree_file_close(&f);
	assert_int_equal(names_of_key(), 0);
	/* Who comes now is alone, and so is who has stayed. */
	assert_true(agree_file_open(&late, key, 2, 3) && agree_init(&c, late.area, 2, 3));
	assert_false(agree_complete(&b) || agree_complete(&c));
	agree_file_close(&other);
	assert_int_equal(names_of_key(), 1);
	agree_file_close(&late);
	assert_int_equal(names_of_key(), 0);
}

static void anothers_file_keeps_its_name(void **state)
{
	(void)state;
	struct agree_file f, other;

	new_key();
	assert_true(agree_file_open(&f, key, 0, 2));
	assert_int_equal(unlink(path_of_key()), 0);
	assert_true(agree_file_open(&other, key, 1, 2));
	agree_file_ready(&f);
	assert_int_equal(names_of_key(), 1);
	agree_file_close(&f);
	agree_file_close(&other);
	assert_int_equal(names_of_key(), 0);
}

static void a_forked_child_does_not_have_it(void **state)
{
	(void)state;
	struct agree_file f[2];
	int status;

	new_key();
	for (unsigned ranks = 1; ranks <= 2; ranks++)
		assert_true(agree_file_open(&f[ranks - 1], key, 0, ranks));
	pid_t pid = fork();
	if (pid == 0)
		_exit(msync(f[0].map, 4096, MS_ASYNC) == 0 || msync(f[1].map, 4096, MS_ASYNC) == 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(msync(f[i].map, 4096, MS_ASYNC), 0);
		agree_file_close(&f[i]);
	}
}

static void what_is_no_communicator_is_refused(void **state)
{
	(void)state;
	static const unsigned wrong[][2] = {{0, 0}, {1, 1}, {2, 2}, {0, AGREE_RANKS + 1}, {UINT32_MAX, 8}};
	struct agree_file f;

	new_key();
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(agree_file_open(&f, key, wrong[i][0], wrong[i][1]));
	agree_file_ready(&f);
	agree_file_close(&f);
	assert_int_equal(names_of_key(), 0);
	assert_true(agree_file_open(&f, key, AGREE_RANKS - 1, AGREE_RANKS));
	agree_file_close(&f);
}

/* ---- others in its place ---- */

enum place { LINK, FIFO, FOLDER, EMPTY, LARGER, READABLE, OWNED, ZEROS, OTHER_RANKS, OTHER_SPACE, PLACES };

static char link_target[64];

static void put_in_place(enum place what)
{
	struct agree_file_head head;

	if (what == LINK) { /* to what would be right */
		put_file(link_target, 2);
		assert_int_equal(symlink(link_target, path_of_key()), 0);
	} else if (what == FIFO) {
		assert_int_equal(mkfifo(path_of_key(), 0600), 0);
	} else if (what == FOLDER) {
		assert_int_equal(mkdir(path_of_key(), 0700), 0);
	} else {
		put_file(path_of_key(), 2);
		read_head(path_of_key(), &head);
		head.pid_ns += what == OTHER_SPACE;
		head.ranks += what == OTHER_RANKS;
		head.magic[0] = what == ZEROS ? 0 : head.magic[0];
		write_head(path_of_key(), &head);
	}
	if (what == EMPTY || what == LARGER)
		assert_int_equal(truncate(path_of_key(), what == EMPTY ? 0 : 1 << 20), 0);
	if (what == READABLE)
		assert_int_equal(chmod(path_of_key(), 0644), 0);
	if (what == OWNED)
		assert_int_equal(chown(path_of_key(), 12345, 12345), 0);
}

static void what_is_not_ours_is_left_alone(void **state)
{
	(void)state;
	struct agree_file f;
	struct stat before, after;

	snprintf(link_target, sizeof(link_target), "/tmp/test_agree_file.%d", (int)getpid());
	for (enum place what = 0; what < PLACES; what++) {
		if (what == OWNED && geteuid() != 0)
			continue;
		new_key();
		put_in_place(what);
		assert_int_equal(lstat(path_of_key(), &before), 0);
		assert_false(agree_file_open(&f, key, 1, 2));
		agree_file_ready(&f);
		agree_file_close(&f);
		assert_int_equal(lstat(path_of_key(), &after), 0);
		assert_true(before.st_ino == after.st_ino && before.st_size == after.st_size);
		assert_int_equal(names_of_key(), 1);
		assert_int_equal(remove(path_of_key()), 0);
	}
	assert_int_equal(unlink(link_target), 0);
}

/* Of a job that had the same key: its ranks would be counted as ours. */
static void a_dead_ones_places_are_not_ours(void **state)
{
	(void)state;
	struct agree_file f, other;
	struct agree a, b;
	int status;

	new_key();
	pid_t pid = fork();
	if (pid == 0) {
		if (!agree_file_open(&f, key, 0, 2) || !agree_init(&a, f.area, 0, 2))
			_exit(1);
		agree_queue(&a);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(names_of_key(), 1);
	assert_true(agree_file_open(&f, key, 1, 2) && agree_init(&a, f.area, 1, 2));
	assert_false(agree_complete(&a));
	assert_int_equal(atomic_load(&f.area->place[0].safe), 0);
	assert_true(agree_file_open(&other, key, 0, 2) && agree_init(&b, other.area, 0, 2));
	assert_true(agree_complete(&a) && agree_complete(&b));
	agree_file_ready(&f);
	assert_int_equal(names_of_key(), 0);
	agree_file_close(&f);
	agree_file_close(&other);
}

/* ---- leftovers ---- */

static void leftovers_are_swept(void **state)
{
	(void)state;
	static const struct {
		const char *name; /* behind turbo-UID- */
		unsigned age;
		bool dead, other_space, no_magic, stays;
	} file[] = {
		{"0123456789abcdef0123456789abcdef.agree", 700, true, false, false, false},
		{"0123456789abcdef0123456789abcde0.agree", 500, true, false, false, true},
		{"0123456789abcdef0123456789abcde1.agree", 80000, false, false, false, true},
		{"0123456789abcdef0123456789abcde2.agree", 90000, false, false, false, false},
		{"0123456789abcdef0123456789abcde3.agree", 80000, true, true, false, true},
		{"0123456789abcdef0123456789abcde4.agree", 90000, true, true, false, false},
		{"0123456789abcdef0123456789abcde5.agree", 700, false, false, true, false},
		{"0123456789abcdef0123456789abcde6-77-8.agree", 700, true, false, false, false},
		{"0123456789abcdef0123456789abcde6-77-9.agree", 700, false, false, true, false},
		{"0123456789abcdef0123456789abcde7-77.agree", 700, true, false, false, true},
		{"0123456789abcdef0123456789abcde.agree", 700, true, false, false, true},
		{"0123456789abcdef0123456789abcdeg.agree", 700, true, false, false, true},
		{"0123456789abcdef0123456789abcdef.agree2", 700, true, false, false, true},
		{"0123456789abcdef0123456789abcdef.kept", 700, true, false, false, true},
	};
	char dir[] = "/tmp/test_agree_file.XXXXXX", path[256];
	unsigned n = sizeof(file) / sizeof(file[0]);

	new_key();
	assert_non_null(mkdtemp(dir));
	for (unsigned i = 0; i < n; i++) {
		struct agree_file_head head;
		snprintf(path, sizeof(path), "%s/turbo-%u-%s", dir, (unsigned)geteuid(), file[i].name);
		put_file(path, 2);
		read_head(path, &head);
		head.start_ticks -= file[i].dead; /* its number is another's now */
		head.pid_ns += file[i].other_space;
		head.magic[0] = file[i].no_magic ? 0 : head.magic[0];
		write_head(path, &head);
		make_old(path, file[i].age);
	}
	agree_file_sweep(dir);
	for (unsigned i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/turbo-%u-%s", dir, (unsigned)geteuid(), file[i].name);
		if ((access(path, F_OK) == 0) != file[i].stays)
			fail_msg("%s %s", file[i].name, file[i].stays ? "is gone" : "stays");
		unlink(path);
	}
	assert_int_equal(rmdir(dir), 0);
	agree_file_sweep(dir);
}

static void what_is_no_leftover_stays(void **state)
{
	(void)state;
	char dir[] = "/tmp/test_agree_file.XXXXXX", path[3][256];

	new_key();
	assert_non_null(mkdtemp(dir));
	for (unsigned i = 0; i < 3; i++)
		snprintf(path[i], sizeof(path[i]), "%s/turbo-%u-0123456789abcdef0123456789abcde%u.agree", dir,
				 (unsigned)geteuid() + (i == 2), i);
	assert_int_equal(mkfifo(path[0], 0600), 0);
	assert_int_equal(symlink("/dev/null", path[1]), 0);
	put_file(path[2], 2); /* by its name another user's */
	make_old(path[0], 90000);
	make_old(path[2], 90000);
	agree_file_sweep(dir);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(unlink(path[i]), 0);
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_rank_needs_no_file),
		cmocka_unit_test(all_have_the_same_memory),
		cmocka_unit_test(another_key_is_another_memory),
		cmocka_unit_test(a_name_goes_with_its_first_rank),
		cmocka_unit_test(anothers_file_keeps_its_name),
		cmocka_unit_test(a_forked_child_does_not_have_it),
		cmocka_unit_test(what_is_no_communicator_is_refused),
		cmocka_unit_test(what_is_not_ours_is_left_alone),
		cmocka_unit_test(a_dead_ones_places_are_not_ours),
		cmocka_unit_test(leftovers_are_swept),
		cmocka_unit_test(what_is_no_leftover_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
