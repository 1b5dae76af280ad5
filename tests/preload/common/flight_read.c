/* flight_read.c - see flight_read.h. */
#define _GNU_SOURCE
#include "flight_read.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define AWAIT_MS 10000

void flight_path(char *to, unsigned size, pid_t pid)
{
	snprintf(to, size, "/dev/shm/" FLIGHT_FILE_FORMAT, (unsigned)geteuid(), (int)pid);
}

bool flight_there(pid_t pid)
{
	char path[100];

	flight_path(path, sizeof(path), pid);
	return access(path, F_OK) == 0;
}

static bool read_at(int fd, void *to, size_t bytes, uint64_t at)
{
	return pread(fd, to, bytes, (off_t)at) == (ssize_t)bytes;
}

/* Twice, until both are alike. */
static bool read_comm(int fd, struct flight_comm *to, uint64_t at)
{
	static struct flight_comm again;

	for (unsigned i = 0; i < 200; i++)
		if (read_at(fd, to, sizeof(*to), at) && read_at(fd, &again, sizeof(again), at) &&
			memcmp(to, &again, sizeof(again)) == 0)
			return true;
	return false;
}

bool flight_read(struct flight_copy *to, pid_t pid)
{
	char path[100];
	bool ok;

	flight_path(path, sizeof(path), pid);
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return false;
	ok = read_at(fd, &to->page, sizeof(to->page), 0) && memcmp(to->page.magic, FLIGHT_MAGIC, 8) == 0 &&
		 to->page.version == FLIGHT_VERSION && to->page.comm_bytes == sizeof(struct flight_comm);
	for (unsigned i = 0; ok && i < to->page.comm_high && i < FLIGHT_READ_COMMS; i++)
		ok = read_comm(fd, &to->comm[i], to->page.comm_off + i * to->page.comm_bytes);
	close(fd);
	return ok;
}

void flight_await(struct flight_copy *to, pid_t pid, unsigned place, uint64_t issued)
{
	const struct timespec pause = {0, 5000000};

	for (unsigned ms = 0; ms < AWAIT_MS; ms += 5) {
		if (flight_read(to, pid) && to->page.comm_high > place && to->comm[place].issued >= issued)
			return;
		nanosleep(&pause, NULL);
	}
	fail_msg("no %lu operations of pid %d in place %u", (unsigned long)issued, (int)pid, place);
}

const struct flight_op *flight_op(const struct flight_copy *of, unsigned place, uint64_t index)
{
	const struct flight_op *op = &of->comm[place].op[index % FLIGHT_OPS];

	assert_int_equal(op->index, index);
	return op;
}

const struct flight_op *flight_last(const struct flight_copy *of, unsigned place,
									enum flight_function function)
{
	for (uint64_t i = of->comm[place].issued; i > 0 && of->comm[place].issued - i < FLIGHT_OPS; i--)
		if (flight_op(of, place, i)->function == function)
			return flight_op(of, place, i);
	return NULL;
}
