/* report_made.h - worlds that a report is made of: one for each verdict, with names, sites and stacks. */
#ifndef TURBO_TESTS_REPORT_MADE_H
#define TURBO_TESTS_REPORT_MADE_H

#include "policy/nccl/report_parts.h"
#include "policy/nccl/report_stacks.h"
#include "policy/nccl/report_table.h"

struct made_case {
	const char *name; /* the verdict's */
	const char *world;
	const char *line; /* the whole of it */
	int exit_signal;
	bool dumps; /* all ranks have said where they are */
};
/* Ends with a NULL world. */
extern const struct made_case made_cases[];

/* The judge's own finding about it; of the last one made only. */
void made_report(struct report *r, const struct made_case *c);
struct judge_finding *made_finding(void);

#endif
