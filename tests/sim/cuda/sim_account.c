/*
 * sim_account.c - how much of each device's memory is in use, by this process or, with
 * SIM_SHARED, by all that name the same file.
 *
 * The file holds a slot a process. What a process uses stands in its slot alone, so that a
 * slot whose process has died, however it did, is simply dropped: by whoever asks next.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim_internal.h"

#define MAGIC 0x316472616873u
#define SLOTS 256

/* Guarded by lock, which is robust; read and written whole. */
struct slot {
	uint64_t start; /* of the process, in clock ticks since boot: tells pids apart */
	int32_t pid;    /* 0: free */
	int32_t unused;
	uint64_t used[SIM_MAX_DEVICES];
};

struct shared {
	uint64_t magic;
	pthread_mutex_t lock;
	struct slot slot[SLOTS];
};

static struct shared *shared; /* NULL: this process is alone */
static struct slot *mine;     /* sim.lock; NULL also when the process exits */
static char path[4096];
static pid_t owner; /* of mine; 0: nobody */

#define UNKNOWN UINT64_MAX

/* When the process began; 0: there is none, or it has ended and waits to be reaped. */
static uint64_t start_of(pid_t pid)
{
	char name[64], text[1024];
	snprintf(name, sizeof name, "/proc/%d/stat", (int)pid);
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ESRCH ? 0 : UNKNOWN;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = 0;
	char *p = strrchr(text, ')'); /* the name may hold anything */
	if (!p || p[2] == 'Z' || p[2] == 'X')
		return 0;
	p++;
	for (int field = 3; field < 22 && p; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

static void shared_lock(void)
{
	if (pthread_mutex_lock(&shared->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&shared->lock); /* slots are whole at any time */
}

/* Lock held. True when a slot became free. */
static bool drop_dead(void)
{
	bool dropped = false;
	for (int i = 0; i < SLOTS; i++) {
		struct slot *s = &shared->slot[i];
		if (!s->pid || s == mine)
			continue;
		uint64_t start = start_of(s->pid);
		if (start == s->start || start == UNKNOWN)
			continue;
		memset(s, 0, sizeof *s);
		dropped = true;
	}
	return dropped;
}

/* Of all processes. Lock held. */
static uint64_t in_use(int device)
{
	uint64_t total = 0;
	for (int i = 0; i < SLOTS; i++)
		if (shared->slot[i].pid)
			total += shared->slot[i].used[device];
	return total;
}

/* ---- joining and leaving ---- */

/* Locked, and still the file of that name. -1: cannot be had. */
static int shared_open(int flags)
{
	for (;;) {
		struct stat of_fd, of_path;
		int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
		if (fd < 0 || flock(fd, LOCK_EX)) {
			if (fd >= 0)
				close(fd);
			return -1;
		}
		if (!fstat(fd, &of_fd) && !stat(path, &of_path) && of_fd.st_ino == of_path.st_ino)
			return fd;
		close(fd); /* the last one there has just removed it */
	}
}

/* The mapping keeps the open file, and so its lock, alive. */
static void shared_close(int fd)
{
	flock(fd, LOCK_UN);
	close(fd);
}

static bool shared_map(int fd)
{
	struct stat st;
	bool fresh = !fstat(fd, &st) && (size_t)st.st_size < sizeof *shared;
	if (fresh && ftruncate(fd, sizeof *shared))
		return false;
	void *at = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return false;
	shared = at;
	if (!fresh)
		return shared->magic == MAGIC;
	pthread_mutexattr_t attr;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&shared->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	shared->magic = MAGIC;
	return true;
}

bool sim_account_join(void)
{
	const char *name = getenv("SIM_SHARED");
	if (!name || !*name)
		return true;
	if (strchr(name, '/'))
		snprintf(path, sizeof path, "%s", name);
	else
		snprintf(path, sizeof path, "/dev/shm/sim-%u-%s", (unsigned)getuid(), name);
	int fd = shared_open(O_CREAT);
	bool ok = fd >= 0 && shared_map(fd);
	if (ok) {
		shared_lock();
		drop_dead();
		for (int i = 0; i < SLOTS && !mine; i++)
			if (!shared->slot[i].pid)
				mine = &shared->slot[i];
		if (mine) {
			memset(mine, 0, sizeof *mine);
			owner = getpid();
			mine->start = start_of(owner);
			mine->pid = owner;
		}
		pthread_mutex_unlock(&shared->lock);
	}
	if (fd >= 0)
		shared_close(fd);
	if (!mine)
		sim_complain("SIM_SHARED: %s cannot be used", path);
	return mine != NULL;
}

/* Streams may still run; exit may have come in the middle of anything. */
static bool lock_at_exit(void)
{
	for (int i = 0; i < 1000; i++) {
		if (pthread_mutex_trylock(&sim.lock) == 0)
			return true;
		usleep(1000);
	}
	return false;
}

/* The last to leave removes the file. Who does not get here is dropped by others. */
__attribute__((destructor)) static void leave(void)
{
	if (owner != getpid() || !lock_at_exit())
		return;
	int fd = shared_open(0);
	shared_lock();
	memset(mine, 0, sizeof *mine);
	mine = NULL;
	drop_dead();
	bool empty = true;
	for (int i = 0; i < SLOTS; i++)
		empty = empty && !shared->slot[i].pid;
	pthread_mutex_unlock(&shared->lock);
	if (fd >= 0 && empty)
		unlink(path);
	if (fd >= 0)
		shared_close(fd);
	sim_unlock();
}

/* ---- charging; sim.lock held ---- */

static bool charge_shared(struct sim_device *dev, uint64_t size)
{
	shared_lock();
	bool fits = false;
	for (int tries = 0; !fits; tries++) {
		uint64_t used = in_use(dev->ordinal);
		fits = used <= sim_conf.mem_bytes && size <= sim_conf.mem_bytes - used;
		if (!fits && (tries || !drop_dead()))
			break;
	}
	if (fits)
		mine->used[dev->ordinal] += size;
	pthread_mutex_unlock(&shared->lock);
	return fits;
}

bool sim_charge(struct sim_device *dev, uint64_t size)
{
	if (size > sim_conf.mem_bytes || dev->used > sim_conf.mem_bytes - size)
		return false;
	if (mine && !charge_shared(dev, size))
		return false;
	dev->used += size;
	if (dev->used > dev->peak)
		dev->peak = dev->used;
	return true;
}

void sim_uncharge(struct sim_device *dev, uint64_t size)
{
	dev->used -= size;
	if (!mine)
		return;
	shared_lock();
	mine->used[dev->ordinal] = dev->used;
	pthread_mutex_unlock(&shared->lock);
}

uint64_t sim_free_bytes(struct sim_device *dev)
{
	uint64_t used = dev->used;
	if (mine) {
		shared_lock();
		drop_dead();
		used = in_use(dev->ordinal);
		pthread_mutex_unlock(&shared->lock);
	}
	return used < sim_conf.mem_bytes ? sim_conf.mem_bytes - used : 0;
}
