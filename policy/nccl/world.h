/*
 * world.h - what the processes of one job on this machine have recorded: found, checked, copied, put before the judge.
 *
 * Of other processes' files nothing is believed: whatever is in them, the worst that comes of it is a wrong verdict
 * about those who share a communicator's key with it. Files of other users are not opened.
 *
 * One thread at a time. The watch keeps a world for the life of its process and reads counters only while all goes
 * on; `turbo nccl` makes one for a look.
 */
#ifndef TURBO_WORLD_H
#define TURBO_WORLD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "judge.h"
#include "proc.h"

/* A communicator in a process: the counters as they were at the last read. */
struct world_place {
	uint32_t life, state;
	uint64_t key[2];
	int32_t rank, ranks, device;
	uint32_t number, parent, nonblocking, verdict;
	char name[48]; /* of another process: not to be trusted but for its end */
	uint64_t made, issued, sequence, started, done, changed, best_rate;
	uint64_t stuck; /* since when an operation has been open while `done` stands still; 0: none is */
};

struct world_file {
	const struct flight_page *memory; /* this process's own record; NULL: a file */
	char path[160];
	int fd;
	dev_t dev;
	ino_t ino;
	pid_t pid;
	uint64_t pid_ns;
	uint32_t places;
	bool read;   /* its page is there */
	bool joined; /* shares communicators, be it through others, with this process */
	bool near;   /* in this pid namespace: the system can be asked about it */
	struct proc proc;
	uint32_t asks; /* of its requests for stacks, the last that the watch has answered */
};

/* A file that is none of ours. */
struct world_skipped {
	ino_t ino;
	struct timespec written;
};
#define WORLD_SKIPPED 256
#define WORLD_UNLIKE 64

struct world {
	const struct flight_page *own;
	uint64_t pid_ns;
	uint64_t watched; /* see judge.h */
	uint64_t last;    /* time of the last world_read() */
	unsigned files;
	bool changed;                     /* communicators have come or gone since `joined` was told */
	bool all;                         /* every file counts, not only those that are joined */
	bool dead;                        /* files of a job that has ended */
	bool whole;                       /* for tables: also communicators in which nothing is stuck */
	unsigned stuck;                   /* communicators in which something is stuck, of those that count */
	uint64_t stuck_new, stuck_old;    /* when the last and the first of these became so */
	uint64_t stuck_own;               /* since when one of this process's is; 0: none */
	uint64_t unlike[WORLD_UNLIKE][2]; /* keys that world_unlike() has told, */
	unsigned unlikes;                 /* so many so far */
	struct judge_world judge;
	struct world_file file[JUDGE_PROCESSES];
	struct world_place place[JUDGE_PROCESSES][FLIGHT_COMMS];
	struct world_skipped skipped[WORLD_SKIPPED];
	struct judge_process process[JUDGE_PROCESSES];
	uint32_t file_of[JUDGE_PROCESSES]; /* of a process of `judge` */
	struct judge_member member[JUDGE_MEMBERS];
	struct flight_page page[JUDGE_PROCESSES];
	struct flight_op op[JUDGE_MEMBERS][FLIGHT_OPS];
};

/* Its process counts: it belongs to the job. */
static inline bool world_counts(const struct world *w, unsigned i)
{
	return w->file[i].read && (w->all || w->file[i].joined || w->file[i].memory);
}

/* `own`: the record of this process, as it is in memory; NULL: it is no rank. NULL when there is no memory. Not
 * inherited by children. */
struct world *world_new(const struct flight_page *own);
void world_free(struct world *w);

/*
 * Opens the files that are not open yet: of `pid`, 0: of all, in `dir`, NULL: wherever libturbo puts them. With
 * `quick` only where they are first looked for. With an own record only those that share a communicator with a process
 * that is known already: again, until there are no more. Returns how many are new.
 */
unsigned world_find(struct world *w, const char *dir, pid_t pid, bool quick);
/* The usual places, one by one, NULL at the end. */
const char *world_dir(unsigned i);

/*
 * The record of this process, and of each other that counts the head; all counters where one of them says that
 * something is stuck, has more communicators than before, or is lacked. `others`, now and then: all counters whatever,
 * whether the files are the same still, and who is to be forgotten.
 */
void world_read(struct world *w, uint64_t now, bool others);

/* The ranks that are known by number but have told nothing: is somebody missing in a communicator that was made
 * after `since`? */
bool world_lacks(const struct world *w, uint64_t since);

/* All that count, and of the communicators where something is stuck the operations. `now` 0: of a job that has ended,
 * as it was at its last sign of life. */
const struct judge_world *world_look(struct world *w, uint64_t now);

/* The texts of the pages in `judge`: stacks of issuers and dumps. Before that they are empty. */
void world_texts(struct world *w);

/*
 * A communicator whose rank 0 this process is and in which ranks have called unlike things, by the signatures of the
 * newest call that all have made: a look at one operation a rank. Not those of which that was said before. Counters are
 * of the last world_read() of all.
 */
bool world_unlike(struct world *w);
/* Changes when there is something new to compare. */
uint64_t world_calls(const struct world *w);

/* ---- world_read.c ---- */

/* The page without texts; false: it is none, or not one that can be understood. */
bool world_read_page(struct world_file *f, struct flight_page *page);
bool world_read_place(struct world_file *f, unsigned place, struct world_place *to);
/* The ring of a place; false: it is another communicator's now. Operations that change are left out. */
bool world_read_ops(struct world_file *f, unsigned place, uint32_t life, struct flight_op *op);
/* Of the ring the one operation with that index; false: it is not there. */
bool world_read_op(struct world_file *f, unsigned place, uint64_t index, struct flight_op *op);
void world_read_texts(struct world_file *f, struct flight_page *page);
/* Opens it and keeps the descriptor. */
bool world_open(struct world_file *f, const char *dir, pid_t pid);
/* The file is the one that was opened, and there still; false: it has to be opened again. */
bool world_is_open(const struct world_file *f);
void world_close(struct world_file *f);

#endif
