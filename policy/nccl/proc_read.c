/* proc_read.c - see proc.h: what the files below /proc say. */
#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "entries.h"
#include "proc.h"

#define TREE 64    /* processes of one tree */
#define TASKS 1024 /* threads of one process */

int proc_read(const char *path, char *text, unsigned size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	unsigned got = 0;
	ssize_t n;

	if (fd < 0)
		return -1;
	while (got < size - 1 && (n = read(fd, text + got, size - 1 - got)) > 0)
		got += (unsigned)n;
	close(fd);
	text[got] = '\0';
	return (int)got;
}

static int read_in(const char *dir, const char *name, char *text, unsigned size)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return proc_read(path, text, size);
}

/* Bytes that went through read and write, and those that page faults brought in. */
uint64_t proc_read_io(const char *dir)
{
	static const char *const name[] = {"rchar: ", "wchar: ", "read_bytes: "};
	char text[512];
	uint64_t sum = 0;

	if (read_in(dir, "io", text, sizeof(text)) <= 0)
		return 0;
	for (unsigned i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
		const char *at = strstr(text, name[i]);
		if (at)
			sum += strtoull(at + strlen(name[i]), NULL, 10);
	}
	return sum;
}

bool proc_is_traced(pid_t pid)
{
	char path[32], text[2048], *at;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (proc_read(path, text, sizeof(text)) <= 0 || !(at = strstr(text, "\nTracerPid:")))
		return false;
	return strtol(at + strlen("\nTracerPid:"), NULL, 10) != 0;
}

/* ---- threads ---- */

/* They wake up by turns, whatever the program does. */
static bool looks_around(const char *name)
{
	static const char *const begin[] = {"turbo-", "pt_nccl_", "pt_tcpstore", "NCCL ", "cuda-EvtHandlr"};

	for (unsigned i = 0; i < sizeof(begin) / sizeof(begin[0]); i++)
		if (strncmp(name, begin[i], strlen(begin[i])) == 0)
			return true;
	return false;
}

/* Waits for a child, or for a lock that another process may hold. */
static void read_call(const char *dir, struct proc_use *use)
{
	char text[256], *at = text;
	long call;
	unsigned long arg[3] = {0};

	if (read_in(dir, "syscall", text, sizeof(text)) > 0) {
		if (!isdigit((unsigned char)text[0]))
			return; /* running */
		call = strtol(text, &at, 10);
		for (int i = 0; i < 3; i++)
			arg[i] = strtoul(at, &at, 16);
		use->children |= call == SYS_wait4 || call == SYS_waitid;
		use->locked |= call == SYS_flock ||
					   (call == SYS_fcntl && (arg[1] == F_SETLKW || arg[1] == F_OFD_SETLKW)) ||
					   (call == SYS_futex && !(arg[1] & FUTEX_PRIVATE_FLAG));
		return;
	}
	/* Where that is forbidden, the kernel's function tells less: any lock counts. */
	if (read_in(dir, "wchan", text, sizeof(text)) <= 0)
		return;
	use->children |= strstr(text, "do_wait") != NULL;
	use->locked |= strstr(text, "futex") || strstr(text, "lock");
}

static uint64_t turns_of(const char *dir)
{
	char text[96], *at = text;

	if (read_in(dir, "schedstat", text, sizeof(text)) <= 0)
		return 0;
	strtoull(at, &at, 10);
	strtoull(at, &at, 10);
	return strtoull(at, NULL, 10);
}

static bool is_one_of(uint32_t id, const uint32_t *thread, unsigned threads)
{
	for (unsigned i = 0; i < threads; i++)
		if (thread[i] == id)
			return true;
	return false;
}

struct tree {
	pid_t pid[TREE];
	unsigned count;
};

static void add_children(struct tree *tree, const char *dir)
{
	char text[1024], *at = text, *end;

	if (read_in(dir, "children", text, sizeof(text)) <= 0)
		return;
	for (;;) {
		pid_t pid = (pid_t)strtol(at, &end, 10);
		if (end == at || pid <= 0 || tree->count == TREE)
			return;
		tree->pid[tree->count++] = pid;
		at = end;
	}
}

/* The threads of the process itself: `quiet` sums what those use that look around. */
static void read_tasks(pid_t pid, const uint32_t *thread, unsigned threads, struct tree *tree,
					   struct proc_use *use)
{
	char path[32], dir[64];
	struct entries e;
	const char *name;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	if (!entries_open(&e, path))
		return;
	for (int i = 0; i < TASKS && (name = entries_next(&e));) {
		struct proc_stat stat;
		uint32_t id = (uint32_t)strtoul(name, NULL, 10);
		if (id == 0)
			continue;
		i++;
		snprintf(dir, sizeof(dir), "%s/%u", path, id);
		if (!proc_stat_read_in(dir, &stat))
			continue;
		use->tasks++;
		add_children(tree, dir);
		if (looks_around(stat.name)) {
			use->cpu -= stat.cpu;
			use->io -= proc_read_io(dir);
			continue;
		}
		use->disk |= stat.state == 'D';
		if (is_one_of(id, thread, threads) || id == (uint32_t)pid) {
			use->turns += turns_of(dir);
			read_call(dir, use);
		}
	}
	entries_close(&e);
}

/* ---- descendants ---- */

static bool same_program(pid_t a, pid_t b)
{
	char path[32], of_a[PATH_MAX], of_b[PATH_MAX];
	ssize_t n, m;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)a);
	n = readlink(path, of_a, sizeof(of_a));
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)b);
	m = readlink(path, of_b, sizeof(of_b));
	return n > 0 && n == m && memcmp(of_a, of_b, (size_t)n) == 0;
}

static void read_descendant(pid_t pid, pid_t root, struct tree *tree, struct proc_use *use)
{
	char path[32], dir[64];
	struct proc_stat stat;
	struct entries e;
	const char *name;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (!proc_stat_read_in(path, &stat) || stat.state == 'Z')
		return;
	use->tasks++;
	use->cpu += stat.cpu + stat.cpu_children;
	use->io += proc_read_io(path);
	use->disk |= stat.state == 'D';
	use->children |= !same_program(pid, root);
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	if (!entries_open(&e, path))
		return;
	for (int i = 0; i < TASKS && (name = entries_next(&e)); i++)
		if (isdigit((unsigned char)name[0])) {
			snprintf(dir, sizeof(dir), "%s/%.10s", path, name);
			add_children(tree, dir);
		}
	entries_close(&e);
}

void proc_read_use(pid_t pid, const uint32_t *thread, unsigned threads, struct proc_use *use)
{
	struct tree tree = {.count = 0};
	struct proc_stat stat;
	char dir[32];

	memset(use, 0, sizeof(*use));
	snprintf(dir, sizeof(dir), "/proc/%d", (int)pid);
	if (!proc_stat_read_in(dir, &stat))
		return;
	use->cpu = stat.cpu + stat.cpu_children;
	use->io = proc_read_io(dir);
	read_tasks(pid, thread, threads, &tree, use);
	for (unsigned i = 0; i < tree.count; i++)
		read_descendant(tree.pid[i], pid, &tree, use);
}
