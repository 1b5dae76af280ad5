/* world_files.c - see world_files.h. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "stats_leftovers.h"
#include "world_files.h"

static char dir[64];

const char *files_dir(void)
{
	if (!dir[0]) {
		snprintf(dir, sizeof(dir), "/tmp/turbo-test-world-XXXXXX");
		assert_non_null(mkdtemp(dir));
	}
	return dir;
}

void files_remove(void)
{
	DIR *d = dir[0] ? opendir(dir) : NULL;
	struct dirent *entry;
	char path[512];

	while (d && (entry = readdir(d)))
		if (entry->d_name[0] != '.') {
			snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
			if (unlink(path) != 0)
				rmdir(path);
		}
	if (d)
		closedir(d);
	rmdir(dir);
	dir[0] = '\0';
}

struct flight_page *files_page(pid_t pid, unsigned comms)
{
	struct flight_page *page = aligned_alloc(4096, (FILES_BYTES(comms) + 4095) / 4096 * 4096);

	assert_non_null(page);
	memset((void *)page, 0, FILES_BYTES(comms));
	memcpy(page->magic, FLIGHT_MAGIC, sizeof(page->magic));
	page->version = FLIGHT_VERSION;
	page->pid = (uint32_t)pid;
	page->start_ticks = stats_start_ticks(pid);
	page->pid_ns = stats_pid_namespace();
	page->comms = FLIGHT_COMMS;
	page->ops = FLIGHT_OPS;
	page->comm_off = FILES_COMM_OFF;
	page->comm_bytes = sizeof(struct flight_comm);
	page->rank = page->local_rank = page->world = -1;
	snprintf(page->host, sizeof(page->host), "here");
	return page;
}

struct flight_comm *files_comm(struct flight_page *page, unsigned place)
{
	return (struct flight_comm *)(void *)((char *)page + FILES_COMM_OFF) + place;
}

struct flight_comm *files_add(struct flight_page *page, uint64_t key, int rank, int ranks)
{
	struct flight_comm *comm = files_comm(page, page->comm_high++);

	comm->life++;
	comm->key[0] = comm->key[1] = key;
	comm->rank = rank;
	comm->ranks = ranks;
	comm->number = page->comm_high;
	comm->made = 1;
	comm->state = FLIGHT_LIVE;
	return comm;
}

struct flight_op *files_issue(struct flight_comm *comm, unsigned function, uint64_t bytes, uint64_t now)
{
	struct flight_op *op = &comm->op[++comm->issued % FLIGHT_OPS];

	*op = (struct flight_op){
		.version = op->version + 2,
		.sequence = (uint32_t)++comm->sequence,
		.function = (uint16_t)function,
		.index = comm->issued,
		.bytes = bytes,
		.count = bytes,
		.peer = -1,
		.reduction = 0xffff,
		.thread = 1,
		.issued = now,
		.returned = now,
		.signature = comm->sequence * 31 + function * 7 + bytes,
	};
	comm->changed = now;
	return op;
}

void files_path(char path[256], pid_t pid)
{
	snprintf(path, 256, "%s/" FLIGHT_FILE_FORMAT, files_dir(), (unsigned)geteuid(), (int)pid);
}

void files_write(const struct flight_page *page, pid_t pid, size_t bytes)
{
	char path[256];
	int fd;

	files_path(path, pid);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, page, bytes, 0), (ssize_t)bytes);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	close(fd);
}

/* ---- worlds ---- */

pid_t files_child[4];

int files_setup(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		files_child[i] = fork();
		if (files_child[i] == 0)
			for (;;)
				pause();
	}
	return 0;
}

int files_teardown(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		kill(files_child[i], SIGKILL);
		waitpid(files_child[i], NULL, 0);
	}
	files_remove();
	return 0;
}

struct flight_page *files_rank(int i, uint64_t key, int rank)
{
	struct flight_page *page = files_page(files_child[i], 2);
	struct flight_comm *comm = files_add(page, key, rank, 2);
	struct flight_op *op = files_issue(comm, FLIGHT_ALL_REDUCE, 64, 5 * FILES_S);

	op->started = 6 * FILES_S;
	comm->started = 1;
	page->sampled = 100 * FILES_S;
	return page;
}

struct world *files_world(const struct flight_page *own)
{
	struct world *w = world_new(own);

	assert_non_null(w);
	if (own)
		world_read(w, FILES_S, true);
	while (world_find(w, files_dir(), 0, true) > 0) {
	}
	return w;
}
