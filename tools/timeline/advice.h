/*
 * advice.h - the rules of `turbo report`. Each looks at one device of one rank; the worst device makes the finding.
 */
#ifndef TURBO_ADVICE_H
#define TURBO_ADVICE_H

#include "metrics.h"
#include "units.h"

/* What a rule looks at. */
struct advice_case {
	const struct report *report;
	const struct report_rank *rank;
	const struct report_gpu *gpu;
	double seen; /* ns of the window that were recorded; > 0 */
};

#define ADVICE_NO_COST 1e-6

struct advice_rule {
	const char *id;
	double least; /* share of the window: below, there is no finding */
	/* Share of the window that it costs, at most; 0: it does not apply; ADVICE_NO_COST where it costs no time. */
	double (*cost)(const struct advice_case *c);
	/* Fills title, evidence, fix. */
	void (*say)(const struct advice_case *c, struct report_finding *f);
	enum report_severity severity; /* at least; 10 % of the window is bad, 3 % a warning */
	const char *option;            /* libturbo's, and … */
	const char *option_text;       /* … what it does; only said by a libturbo that has it */
	/* Or what is said of `option`, which depends: owned by the caller; NULL: nothing. */
	char *(*offer)(const struct advice_case *c);
};

/* Whether libturbo recorded with the option at this value; false where that is not known. */
bool advice_in_force(const struct advice_case *c, const char *option, const char *value);

/* advice_host.c: copies, input, launches, waits, allocations. advice_device.c: kernels, communication, memory.
 * advice_recording.c: what the report is about at all. Ended by a rule without id. */
extern const struct advice_rule advice_host_rules[], advice_device_rules[], advice_recording_rules[];

#endif
