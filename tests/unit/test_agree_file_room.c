/* test_agree_file_room.c - where there is no room for what ranks share, there is none, and nothing breaks. */
#define _GNU_SOURCE
#include "agree_file_rig.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void files_may_not_grow(void **state)
{
	(void)state;
	struct rlimit old, little;
	struct agree_file f;

	new_key();
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	little = old;
	little.rlim_cur = 4096;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	assert_false(agree_file_open(&f, key, 0, 2));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(names_of_key(), 0);
	assert_true(agree_file_open(&f, key, 0, 2));
	agree_file_close(&f);
}

enum room { WELL, SMALL, FULL, CROWDED, READ_ONLY, NOWHERE };

static bool put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	return ok;
}

/* Who is not root is root in a namespace of its own. */
static bool own_mounts(void)
{
	char user[32], group[32];

	if (geteuid() == 0)
		return unshare(CLONE_NEWNS) == 0;
	snprintf(user, sizeof(user), "0 %u 1", (unsigned)geteuid());
	snprintf(group, sizeof(group), "0 %u 1", (unsigned)getegid());
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && put("/proc/self/uid_map", user) &&
		   put("/proc/self/setgroups", "deny") && put("/proc/self/gid_map", group);
}

/* 0: as it must be; 77: such a /dev/shm cannot be made. */
static int in_a_room(enum room room)
{
	static const char *const options[] = {"size=1m",   "size=16k", "size=64k",
										  "size=256k", "size=1m",  "size=1m"};
	static const size_t taken[] = {0, 0, 100000, 200000, 0, 0};
	struct agree_file f;
	char bytes[1000] = "";
	bool opened;

	if (!own_mounts() || mount("none", "/", "", MS_REC | MS_PRIVATE, "") != 0 ||
		mount("none", room == NOWHERE ? "/dev" : "/dev/shm", "tmpfs", room == READ_ONLY ? MS_RDONLY : 0,
			  options[room]) != 0)
		return 77;
	int fd = taken[room] ? open("/dev/shm/others", O_CREAT | O_WRONLY, 0600) : -1;
	for (size_t n = 0; fd >= 0 && n < taken[room] && write(fd, bytes, sizeof(bytes)) > 0; n += sizeof(bytes))
		;
	opened = agree_file_open(&f, key, 0, 2);
	if (opened) /* a page that is not there would be SIGBUS */
		memset(f.area, 0, agree_bytes(2));
	agree_file_close(&f);
	return names_of_key() == 0 && opened == (room == WELL) ? 0 : 1;
}

static void without_room_there_is_none(void **state)
{
	(void)state;

	new_key();
	for (enum room room = WELL; room <= NOWHERE; room++) {
		int status;
		pid_t pid = fork();
		if (pid == 0)
			_exit(in_a_room(room));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (status == 77 << 8) {
			print_message("no mount namespaces for this user\n");
			skip();
		}
		if (status)
			fail_msg("room %d: status %#x", (int)room, (unsigned)status);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(files_may_not_grow),
									   cmocka_unit_test(without_room_there_is_none)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
