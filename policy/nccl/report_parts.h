/*
 * report_parts.h - the parts of a report, and what its text and its JSON have in common.
 */
#ifndef TURBO_NCCL_REPORT_PARTS_H
#define TURBO_NCCL_REPORT_PARTS_H

#include "report.h"
#include "report_facts.h"
#include "report_out.h"

#define REPORT_PICKS 5    /* the culprit, and at most four that wait */
#define REPORT_LAST 10    /* operations of each */
#define REPORT_FRAMES 400 /* lines of stacks of each */

/* A rank whose stacks and operations are shown, and the operation that it is about (NULL: none). */
struct report_pick {
	const struct judge_member *m;
	const struct flight_op *op;
};
/* The culprit first, each process once. Returns how many. */
unsigned report_picks(const struct report *r, struct report_pick pick[REPORT_PICKS]);

/* judge.def's sentence about a verdict; what one may look at. */
const char *report_sentence(enum judge_verdict verdict);
const char *report_hint(const struct report *r);
/* "2026-11-30T22:13:44Z". */
void report_time(struct out *o, uint64_t real);
/* The members whose communicators are shown: of the finding, and of a circle. Returns how many. */
unsigned report_comms(const struct report *r, const struct judge_member *member[4]);

/* report_text.c, report_json.c: a whole report. */
void report_as_text(struct out *o, const struct report *r, const char *line);
void report_as_json(struct out *o, const struct report *r, const char *line);
/* For the log: no more than `most` lines of stacks of the first picks. */
void report_stacks_short(struct out *o, const struct report *r, unsigned most);

/* ---- report_json.c: parts, for `turbo nccl --json`, too ---- */
void report_json_comm(struct out_json *j, const char *key, const struct judge_world *w,
					  const struct judge_member *m);
void report_json_ranks(struct out_json *j, const char *key, const struct report *r, const uint64_t comm[2]);
void report_json_call(struct out_json *j, const char *key, const struct flight_op *op);
void report_json_who(struct out_json *j, const char *key, const struct judge_world *w,
					 const struct judge_member *m, bool state);

/* report_file.c: both files, whole or not at all, in TURBO_NCCL_DIR or where else there is room. The first time a number
 * is found for them, later they are replaced. false: none could be written, *error says why. */
bool report_files(struct report_given *given, const char *text, unsigned text_bytes, const char *json,
				  unsigned json_bytes, int *error);

#endif
