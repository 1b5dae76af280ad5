/* test_flightfile_rig.c - see flightfile_rig.h. */
#define _GNU_SOURCE
#include "flightfile_rig.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "policy/nccl/progress.h"
#include "policy/nccl/watch.h"
#include "real.h"
#include "thread.h"

int ncclCommInitAll(void **comms, int ranks, const int *list);
int ncclCommDestroy(void *comm);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream);

/* ---- in place of NCCL and of what is not looked at ---- */

static uintptr_t next_handle = 0x7f1200000000;

static int init_all(void **comms, int ranks, const int *list)
{
	(void)list;
	for (int i = 0; i < ranks; i++)
		comms[i] = (void *)(next_handle += 4096);
	return 0;
}

static int nothing(void)
{
	return 0;
}

void *real_resolve_lazy(enum hook_id id, const void *caller)
{
	(void)caller;
	return id == HOOK_ncclCommInitAll ? (void *)init_all : (void *)nothing;
}

bool thread_start(const char *name, void *(*run)(void *), void *arg)
{
	(void)name, (void)run, (void)arg;
	return true;
}

uint32_t progress_before(struct flight_comm *comm, void *stream)
{
	(void)comm, (void)stream;
	return 0;
}

void progress_start(void) {}

void nccl_watch_start(bool acts, uint64_t timeout)
{
	(void)acts, (void)timeout;
}

/* ---- what a reader does ---- */

struct flight_page *page;
char path[PATH_MAX], tmp_dir[] = "/tmp/test_flight.XXXXXX";

void path_in(char *to, const char *dir, int pid)
{
	snprintf(to, PATH_MAX, "%s/" FLIGHT_FILE_FORMAT, dir, (unsigned)geteuid(), pid);
}

bool read_at(int fd, void *to, size_t bytes, off_t at)
{
	return pread(fd, to, bytes, at) == (ssize_t)bytes;
}

off_t place_of(unsigned comm)
{
	return (off_t)(COMMS_OFF + comm * sizeof(struct flight_comm));
}

void assert_whole(const char *name)
{
	static struct flight_page header;
	static struct flight_comm comm;
	struct stat st;
	int fd = open(name, O_RDONLY | O_NOFOLLOW);

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	assert_int_equal(st.st_uid, geteuid());
	assert_int_equal(st.st_size, place_of(page->comm_high));
	assert_true(st.st_blocks * 512 >= st.st_size); /* none of it is missing */
	assert_true(read_at(fd, &header, sizeof(header), 0));
	assert_memory_equal(header.bytes, page->bytes, sizeof(page->bytes));
	assert_memory_equal(header.wait, page->wait, sizeof(page->wait));
	assert_memory_equal(header.sites, page->sites, page->site_bytes);
	assert_int_equal(header.dump.bytes, page->dump.bytes);
	assert_memory_equal(header.dump.text, page->dump.text, page->dump.bytes);
	for (unsigned i = 0; i < page->comm_high; i++) {
		const struct flight_comm *is = comms_at(page, i);
		assert_true(read_at(fd, &comm, sizeof(comm), place_of(i)));
		assert_memory_equal(&comm, is, offsetof(struct flight_comm, op));
		for (unsigned k = 0; k < FLIGHT_OPS; k++)
			assert_memory_equal((char *)&comm.op[k] + 4, (const char *)&is->op[k] + 4,
								sizeof(comm.op[k]) - 4);
	}
	close(fd);
}

void copy(void)
{
	for (unsigned i = 0; i < 3; i++)
		if (flight_file_copy())
			return;
	fail();
}

void *comm_new(void)
{
	void *comm;

	assert_int_equal(ncclCommInitAll(&comm, 1, NULL), 0);
	return comm;
}

static char buffer[8];

void reduce(void *comm, size_t count)
{
	/* Told by what comes last in an operation, too. */
	ncclAllReduce(buffer, buffer, count, 7, 0, comm, (void *)(0x1000 + count));
}

int rig_setup(void **state)
{
	(void)state;
	for (unsigned i = 0; i < page->comm_high; i++) {
		const void *caller;
		void *comm = flight_comm_handle(comms_at(page, i), &caller);
		if (comm)
			ncclCommDestroy(comm);
	}
	copy();
	return access(path, F_OK);
}
