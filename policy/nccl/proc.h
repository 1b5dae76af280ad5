/*
 * proc.h - a process as the operating system shows it: does it live, and does it, or what it has started, do anything?
 *
 * Of processes of our own user in our own pid namespace. The watch's thread; nothing is kept open between two calls.
 */
#ifndef TURBO_PROC_H
#define TURBO_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "judge.h"
#include "proc_stat.h"

/* What a process and its descendants have used so far. Threads that wait for others by turns, libturbo's own,
 * PyTorch's and NCCL's, are left out. */
struct proc_use {
	uint64_t cpu;   /* clock ticks */
	uint64_t io;    /* bytes read and written, to files and through calls */
	uint64_t turns; /* times that the threads asked about have run */
	uint32_t tasks; /* processes and threads looked at */
	bool disk;      /* a thread is in an uninterruptible wait */
	bool children;  /* as in struct judge_process */
	bool locked;
};

struct proc {
	pid_t pid;
	uint64_t start_ticks;
	enum judge_life life;
	uint64_t life_since;
	int exit_signal;      /* of a dead one, -1: not known */
	uint64_t cpu_changed; /* 0: was never measured */
	uint64_t io_changed;
	bool children, locked;
	struct proc_use use; /* at `used`, from which on less than the least that counts was used */
	uint64_t used;
};

/* `start_ticks`: field 22 of its stat file, when it was known to live. */
void proc_start(struct proc *p, pid_t pid, uint64_t start_ticks, uint64_t now);

/* Is it there still? Some 3 us. `true`: it is. */
bool proc_lives(struct proc *p, uint64_t now);

/* Its state alone. */
void proc_see(struct proc *p, uint64_t now);

/* Its state and what it uses; some 10 us a thread. `thread`: those that are expected to go on, by number. */
void proc_measure(struct proc *p, const uint32_t *thread, unsigned threads, uint64_t now);

/* Nobody looked for a while: what was seen before says nothing. */
void proc_resume(struct proc *p, uint64_t now);

/* ---- proc_read.c ---- */

/* Contents of a file, 0-terminated, -1: it cannot be read. */
int proc_read(const char *path, char *text, unsigned size);
uint64_t proc_read_io(const char *dir);
bool proc_is_traced(pid_t pid);
/* Everything that struct proc_use tells, of the tree below `pid`. */
void proc_read_use(pid_t pid, const uint32_t *thread, unsigned threads, struct proc_use *use);

#endif
