/*
 * report.h - a verdict in words: one line, a table of the ranks, stacks, the last operations; to the log and to files.
 *
 * Everything is made of a world and a finding alone, so that `turbo nccl` shows the same. What comes out of other
 * processes' files is not trusted: indices are checked, texts cut and freed of control characters. No CUDA call, no
 * lock, no malloc (the program's heap may be what hangs), nothing that asks for the locale.
 */
#ifndef TURBO_NCCL_REPORT_H
#define TURBO_NCCL_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "judge.h"
#include "ras.h"

#define REPORT_LINE 304 /* bytes, with the final 0; what is longer ends in ".." */
#define REPORT_FORMAT 1
/* (host, pid, number of the report), then ".txt" or ".json". */
#define REPORT_FILE_FORMAT "turbo-nccl-%s-%d-%u"

struct report {
	const struct judge_world *world;
	const struct judge_finding *finding;
	uint64_t real;    /* CLOCK_REALTIME at world->now, ns */
	uint64_t asked;   /* dumps made before (CLOCK_MONOTONIC) are of another time; 0: nothing was asked for */
	uint64_t timeout; /* TURBO_NCCL_TIMEOUT_S, ns; 0: auto */
	bool acts;        /* TURBO_NCCL_WATCHDOG=abort */
	const struct ras_answer *ras; /* NULL: it was not asked */
};

/* "nccl: dead: rank 1 (host a, pid 4242) was killed by SIGKILL ...", no end of line. Returns its bytes. */
unsigned report_line(const struct report *r, char line[REPORT_LINE]);

/* What has been given out. Zero before the first use. */
struct report_given {
	char line[REPORT_LINE]; /* for act_verdict(), too */
	unsigned number;        /* of the files, 0: there are none */
	char folder[4096];      /* that they are in, */
	char path[4096];        /* and the whole path of the text; "" */
	bool closed;            /* it failed, or took too long: nothing more is written */
};

/*
 * At once, when the verdict stands: the line, and where it is an alarm the table, go to the log, at warn, and the files
 * are written, without stacks. HELD and LAGGARD: the line alone, at info. Others may be killed, and this process with
 * them, before there are stacks.
 */
void report_begin(const struct report *r, struct report_given *given);
/* When the stacks have come, or will not: the files anew, and a part of the stacks to the log. The world is that of
 * report_begin(), with the pages' dumps read again. */
void report_end(const struct report *r, struct report_given *given);
/* With r->ras, when it has answered, or will not: a line to the log if it lacks processes, and the files anew. */
void report_ras(const struct report *r, struct report_given *given);

#endif
