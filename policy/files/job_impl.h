/* job_impl.h - a job from inside: job.c decides, job_order.c knows where the program is, job_read.c reads. */
#ifndef TURBO_FILES_JOB_IMPL_H
#define TURBO_FILES_JOB_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "read.h"
#include "track.h"
#include "tree.h"
#include "tune.h"

#define JOB_LAST 16 /* paths that the program opened last */

struct job {
	/* Constant while the job runs. */
	struct track_run run;
	bool network;
	char last[JOB_LAST][256]; /* below the root; "" none */
	/* The job's thread; readers from when they are started. */
	struct tree tree;
	struct read_where where; /* files may be */
	uint64_t budget;         /* bytes in all */
	bool in_order;           /* not all fits: a window ahead of the program */

	_Atomic uint32_t next;    /* file to be taken; relaxed */
	_Atomic uint64_t opened;  /* files that the program opened below the root; the helper's; relaxed */
	_Atomic uint64_t newest;  /* hash of the last one's path below the root; the helper's; relaxed */
	_Atomic bool following;   /* a reader looks where the program is; acquire, release */
	uint64_t followed;        /* hash of the path that it found last; whoever is following */
	_Atomic uint32_t reached; /* in order: where the program is; relaxed */
	_Atomic uint64_t bytes;   /* asked for; relaxed */
	_Atomic uint32_t streak;  /* looks in a row that found a file in memory; relaxed */
	_Atomic bool stop;        /* relaxed */
	_Atomic bool unknown;     /* it ended for no reason that is the tree's; relaxed */
	_Atomic uint32_t readers; /* threads besides the job's own; release when one ends, acquire */
};

/* Its threads are to end. */
bool job_is_stopped(const struct job *job);

/* Hash of a path below the root. */
uint64_t job_hash(const char *path);

/* The program's order is one that the tree can be put into; it is then, and `reached` is where the program is. */
bool job_find_order(struct job *job);
/* Looks where the program is now. */
void job_follow(struct job *job);

/* Reads until there is nothing left, nothing may be read any more, or the program has gone. Any number of threads. */
void job_read(struct job *job);

#endif
