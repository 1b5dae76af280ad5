/* proc.c - see proc.h. */
#include "proc.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define S 1000000000ull

/* Less than 1 % of a core, and less than 16 KiB, in that time is what threads that merely look around use. */
#define WINDOW_MS 10000
#define CPU_SHARE 100
#define IO_LEAST (16 << 10)
#define CPU_LEAST 2 /* ticks: parts are read one after the other */

static void live(struct proc *p, enum judge_life life, uint64_t now)
{
	if (p->life != life) {
		p->life = life;
		p->life_since = now;
	}
}

void proc_start(struct proc *p, pid_t pid, uint64_t start_ticks, uint64_t now)
{
	*p = (struct proc){.pid = pid, .start_ticks = start_ticks, .life_since = now, .exit_signal = -1};
}

void proc_resume(struct proc *p, uint64_t now)
{
	p->life_since = now;
	p->cpu_changed = p->io_changed = 0;
	p->used = 0;
}

/* ---- does it live? ---- */

/* 1: it has ended, a zombie too; 0: it has not; -1: the kernel does not say. A process whose main thread has ended
 * lives as long as another thread does. */
static int ended(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd ask = {.fd = fd, .events = POLLIN};
	int n;

	if (fd < 0)
		return errno == ESRCH ? 1 : -1;
	n = poll(&ask, 1, 0);
	close(fd);
	return n > 0 && (ask.revents & POLLIN) ? 1 : 0;
}

static bool is_gone(struct proc *p)
{
	struct proc_stat stat;
	char dir[32];
	int end = ended(p->pid);

	if (end == 0)
		return false;
	snprintf(dir, sizeof(dir), "/proc/%d", (int)p->pid);
	if (!proc_stat_read_in(dir, &stat))
		return end == 1 || (kill(p->pid, 0) != 0 && errno == ESRCH);
	if (p->start_ticks && stat.start_ticks != p->start_ticks)
		return true;
	if (stat.state != 'Z' && stat.state != 'X')
		return end == 1;
	if (stat.exit_code > 0)
		p->exit_signal = (stat.exit_code & 0xff) == 0 ? 0 : stat.exit_code & 0x7f;
	return true;
}

bool proc_lives(struct proc *p, uint64_t now)
{
	if (p->life == LIFE_DEAD)
		return false;
	if (!is_gone(p))
		return true;
	live(p, LIFE_DEAD, now);
	return false;
}

/* ---- what does it do? ---- */

static enum judge_life life_of(const struct proc *p, const struct proc_stat *stat, bool disk)
{
	if (p->start_ticks && stat->start_ticks != p->start_ticks)
		return LIFE_DEAD;
	if (stat->state == 't' || proc_is_traced(p->pid))
		return LIFE_TRACED;
	if (stat->state == 'T')
		return LIFE_STOPPED;
	return stat->state == 'D' || disk ? LIFE_DISK : LIFE_RUNS;
}

static void compare(struct proc *p, const struct proc_use *use, uint64_t now)
{
	int64_t ticks = sysconf(_SC_CLK_TCK), since = (int64_t)(now - p->used) / 1000000;
	bool first = p->used == 0 || p->cpu_changed == 0;
	int64_t used = (int64_t)(use->cpu - p->use.cpu), moved = (int64_t)(use->io - p->use.io);
	/* What has ended is not counted any more: less is a change, too. */
	bool cpu = use->turns != p->use.turns || used < -CPU_LEAST ||
			   used > since * ticks / 1000 / CPU_SHARE + CPU_LEAST;
	bool io = moved <= -IO_LEAST || moved >= IO_LEAST;

	if (first || cpu)
		p->cpu_changed = now;
	if (first || io)
		p->io_changed = now;
	if (first || cpu || io || since >= WINDOW_MS) {
		p->use = *use;
		p->used = now;
	}
}

void proc_see(struct proc *p, uint64_t now)
{
	struct proc_stat stat;
	char dir[32];

	snprintf(dir, sizeof(dir), "/proc/%d", (int)p->pid);
	if (proc_lives(p, now) && proc_stat_read_in(dir, &stat))
		live(p, life_of(p, &stat, false), now);
}

void proc_measure(struct proc *p, const uint32_t *thread, unsigned threads, uint64_t now)
{
	struct proc_stat stat;
	struct proc_use use;
	char dir[32];

	snprintf(dir, sizeof(dir), "/proc/%d", (int)p->pid);
	if (!proc_lives(p, now) || !proc_stat_read_in(dir, &stat))
		return;
	proc_read_use(p->pid, thread, threads, &use);
	live(p, life_of(p, &stat, use.disk), now);
	p->children = use.children;
	p->locked = use.locked;
	compare(p, &use, now);
}
