/*
 * shared.c - the memory that a communicator's ranks share, and how they wait for each other.
 *
 * It is a memfd, which the unique id names by process and descriptor, so that nothing is left behind
 * however processes end, and nobody else's processes can open it. As with the real library, who made the id must live
 * until all ranks have joined. Nobody spins: all sleep on futexes in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define MAGIC 0x6c63636e6d6973ull
#define HIGH_FD 512
#define PAGE 4096ul

static size_t head_bytes(void)
{
	return (sizeof(struct shared) + PAGE - 1) / PAGE * PAGE;
}
static size_t pair_bytes(void)
{
	return (sizeof(struct pair) + PAGE - 1) / PAGE * PAGE + 2 * P2P_CHUNK;
}
static size_t all_bytes(int ranks)
{
	size_t n = (size_t)ranks;
	return head_bytes() + n * 2 * CHUNK + n * n * pair_bytes();
}

unsigned char *shared_room(struct shared *s, int rank, unsigned half)
{
	return (unsigned char *)s + head_bytes() + ((size_t)rank * 2 + half) * CHUNK;
}

struct pair *shared_pair(struct shared *s, int from, int to)
{
	size_t n = s->ranks;
	return (struct pair *)((unsigned char *)s + head_bytes() + n * 2 * CHUNK +
						   ((size_t)from * n + (size_t)to) * pair_bytes());
}

unsigned char *shared_pair_room(struct shared *s, int from, int to, unsigned half)
{
	return (unsigned char *)shared_pair(s, from, to) + pair_bytes() - (2 - half) * P2P_CHUNK;
}

int shared_make(struct place *place)
{
	int fd = memfd_create("sim_nccl_comm", MFD_CLOEXEC);
	int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
	if (high >= 0) {
		close(fd);
		fd = high;
	}
	struct shared *s = MAP_FAILED;
	if (fd >= 0 && !ftruncate(fd, (off_t)head_bytes()))
		s = mmap(NULL, head_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (s == MAP_FAILED) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	*place = (struct place){MAGIC, 0, getpid(), fd};
	if (getrandom(&place->nonce, sizeof(place->nonce), 0) < 0)
		place->nonce = now_ns();
	s->nonce = place->nonce;
	s->magic = MAGIC;
	munmap(s, head_bytes());
	return fd;
}

/* All ranks of a communicator say the same number, or they never meet. */
static void agree_on_ranks(struct shared *s, int ranks)
{
	uint32_t none = 0;
	if (!__atomic_compare_exchange_n(&s->ranks, &none, (uint32_t)ranks, false, __ATOMIC_ACQ_REL,
									 __ATOMIC_ACQUIRE) &&
		none != (uint32_t)ranks) {
		complain("ranks disagree about how many they are: %u and %d", none, ranks);
		hang_forever();
	}
}

struct shared *shared_open(const struct place *place, int ranks)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)place->pid, (int)place->fd);
	if (place->magic != MAGIC || stat(path, &st) || !S_ISREG(st.st_mode))
		return NULL;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	/* The size is the same for all, and nobody has mapped more. */
	struct shared *s = MAP_FAILED;
	if ((size_t)st.st_size >= head_bytes())
		s = mmap(NULL, all_bytes(ranks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	bool ok = s != MAP_FAILED && s->magic == MAGIC && s->nonce == place->nonce;
	if (ok) {
		agree_on_ranks(s, ranks);
		ok = !ftruncate(fd, (off_t)all_bytes(ranks));
	}
	close(fd);
	if (ok)
		return s;
	if (s != MAP_FAILED)
		shared_close(s, ranks);
	return NULL;
}

void shared_close(struct shared *s, int ranks)
{
	munmap(s, all_bytes(ranks));
}

/* ---- waiting ---- */

static long futex(uint32_t *at, int what, uint32_t value, const struct timespec *time)
{
	return syscall(SYS_futex, at, what, value, time, NULL, 0);
}

void bell_ring(uint32_t *bell)
{
	__atomic_add_fetch(bell, 1, __ATOMIC_SEQ_CST);
	futex(bell, FUTEX_WAKE, INT_MAX, NULL);
}

void bell_wait(uint32_t *bell, uint32_t seen, long ns)
{
	struct timespec t = {ns / 1000000000, ns % 1000000000};
	futex(bell, FUTEX_WAIT, seen, &t);
}

bool process_dead(uint32_t pid)
{
	if ((pid_t)pid == getpid())
		return false;
	int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	if (fd < 0)
		return errno == ESRCH;
	struct pollfd ended = {.fd = fd, .events = POLLIN};
	bool dead = poll(&ended, 1, 0) == 1;
	close(fd);
	return dead;
}
