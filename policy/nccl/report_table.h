/*
 * report_table.h - the ranks of a communicator as a table, a line a rank.
 */
#ifndef TURBO_NCCL_REPORT_TABLE_H
#define TURBO_NCCL_REPORT_TABLE_H

#include "report.h"
#include "report_out.h"

#define REPORT_COLUMNS 98 /* two fewer than a hundred: in the log it stands after two blanks */
#define REPORT_ROWS 16    /* ranks that are shown; the rest are summed up */

/*
 * A title, a head and the ranks that the world has of the communicator `key`. Those that the finding is about are
 * marked, and always among those shown. r->finding may be NULL, or about another communicator.
 */
void report_table(struct out *o, const struct report *r, const uint64_t key[2]);

/* The members of a communicator by rank; returns how many, at most JUDGE_MEMBERS. */
unsigned report_members(const struct judge_world *w, const uint64_t key[2],
						const struct judge_member *member[JUDGE_MEMBERS]);
/* What the main thread of a rank's process does, at most `columns`; perhaps nothing. */
void report_doing(struct out *o, const struct report *r, const struct judge_member *m, unsigned columns);

#endif
