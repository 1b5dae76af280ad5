/*
 * report_text_end.c - how the recording was made and what it lacks; then the advice.
 */
#include <string.h>

#include "text.h"

#define GAPS 5

/* CUPTI's numbers, as cuptiGetVersion gives them: 18 to 28, then 130001 for 13.0 update 1. */
static void versions(const struct report_rank *r, char *out, size_t size)
{
	char driver[32] = "unknown", cupti[32] = "unknown";
	if (r->driver_version)
		snprintf(driver, sizeof(driver), "%u.%u", r->driver_version / 1000, r->driver_version % 1000 / 10);
	if (r->cupti_version >= 1000)
		snprintf(cupti, sizeof(cupti), "%u.%u", r->cupti_version / 10000, r->cupti_version / 100 % 100);
	else if (r->cupti_version)
		snprintf(cupti, sizeof(cupti), "API %u", r->cupti_version);
	snprintf(out, size, "CUPTI %s, driver's CUDA %s, libturbo %s", cupti, driver,
			 *r->version ? r->version : "unknown");
}

static void problem(const struct text *t, const char *who, const char *fmt, const char *figure)
{
	fprintf(t->to, "  %s%s%s", text_on(t, TEXT_YELLOW), who, *who ? ": " : "");
	/* Each format has one %s. */
	const char *at = strstr(fmt, "%s");
	if (at)
		fprintf(t->to, "%.*s%s%s", (int)(at - fmt), fmt, figure, at + 2);
	else
		fputs(fmt, t->to);
	fprintf(t->to, "%s\n", text_off(t));
}

static void losses(const struct text *t, const struct report_rank *r, const char *who)
{
	static const char *const said[TIMELINE_COUNTS] = {
		[TIMELINE_COUNT_OVERWRITTEN] =
			"%s older records were overwritten: raise TURBO_TIMELINE_MB to keep more",
		[TIMELINE_COUNT_CUPTI_LOST] = "CUPTI lost %s records",
		[TIMELINE_COUNT_ZERO_TIME] = "%s records came without a time and are left out",
		[TIMELINE_COUNT_BACKWARDS] = "%s records ended before they started and are left out",
		[TIMELINE_COUNT_UNKNOWN] = "%s records were of a kind that libturbo does not know",
		[TIMELINE_COUNT_EVENTS_LOST] = "%s of libturbo's own events did not fit their queue",
		[TIMELINE_COUNT_NO_BUFFER] = "%s times there was no buffer for CUPTI: records are missing",
		[TIMELINE_COUNT_BAD_BUFFER] = "%s of CUPTI's buffers could not be read to their end",
		[TIMELINE_COUNT_TABLE_FULL] = "%s records have lost their name or stream: a table was full",
		[TIMELINE_COUNT_DROPPED] = "%s records could not be written to the file",
	};
	for (unsigned i = 0; i < TIMELINE_COUNTS; i++)
		if (said[i] && r->lost[i])
			problem(t, who, said[i], units_count(r->lost[i]).s);
	if (r->damaged)
		problem(t, who, "%s records or chunks made no sense and are left out", units_count(r->damaged).s);
}

static void gaps(const struct text *t, const struct report_rank *r, const char *who)
{
	char line[160];
	if (!r->gap_count)
		return;
	snprintf(line, sizeof(line),
			 "%s gaps, %s in all, in which nothing was recorded:", units_count(r->gap_count).s,
			 units_time((double)r->gap_ns).s);
	problem(t, who, "%s", line);
	for (unsigned i = 0; i < r->gaps && i < GAPS; i++)
		fprintf(t->to, "    at %9s for %9s: %.70s\n", units_time((double)r->gap[i].start).s,
				units_time((double)r->gap[i].duration).s, r->gap[i].reason);
	if (r->gap_count > GAPS)
		fprintf(t->to, "    and %s more\n", units_count(r->gap_count - (r->gaps < GAPS ? r->gaps : GAPS)).s);
}

static void recorded(const struct text *t, const struct report_rank *r, const char *who)
{
	if (r->mode == TIMELINE_MODE_SAMPLED) {
		char line[120];
		snprintf(line, sizeof(line), "sampled: %s of the time was recorded; counts and sums are of that part",
				 units_share(r->sampled_share).s);
		problem(t, who, "%s", line);
	}
	losses(t, r, who);
	gaps(t, r, who);
	if (r->live)
		fprintf(t->to, "  %s%sstill recording\n", who, *who ? ": " : "");
	else if (!r->ended)
		problem(t, who, "the recording has no end: the process was killed; its last second may be missing",
				"");
}

void text_recording(const struct text *t)
{
	static const char *const mode[] = {"off", "sampled", "kernel", "launch"};
	uint64_t records = 0;
	char last[160] = "", line[160];
	for (unsigned i = 0; i < t->r->ranks; i++)
		records += t->r->rank[i].records;
	text_heading(t, "RECORDING, %s records", units_count(records).s);
	for (unsigned i = 0; i < t->r->ranks; i++) {
		const struct report_rank *r = &t->r->rank[i];
		char text[120];
		versions(r, text, sizeof(text));
		snprintf(line, sizeof(line), "TURBO_TIMELINE=%s, %s",
				 r->mode <= TIMELINE_MODE_LAUNCH ? mode[r->mode] : "?", text);
		if (strcmp(line, last))
			fprintf(t->to, "  %.98s\n", line);
		memcpy(last, line, sizeof(last));
	}
	for (unsigned i = 0; i < t->r->ranks; i++) {
		struct units_text who = {""};
		if (t->r->ranks > 1)
			snprintf(who.s, sizeof(who.s), "rank %d (%u)", t->r->rank[i].rank, t->r->rank[i].pid);
		recorded(t, &t->r->rank[i], who.s);
	}
}

/* ---- advice ---- */

static void finding(const struct text *t, const struct report_finding *f, unsigned number)
{
	static const enum text_colour colour[] = {TEXT_BLUE, TEXT_YELLOW, TEXT_RED};
	char where[64] = "", cost[64] = "", label[16];
	if (f->rank >= 0)
		snprintf(where, sizeof(where), ", worst: rank %d", t->r->rank[f->rank].rank);
	if (f->cost > 0)
		snprintf(cost, sizeof(cost), ", up to %s of the time", units_share(f->cost).s);
	snprintf(label, sizeof(label), "%2u. ", number);
	fprintf(t->to, "%s%s%s%s%s%s\n", label, text_on(t, colour[f->severity]), f->title, text_off(t), cost,
			where);
	text_paragraph(t, "    ", 4, f->evidence);
	text_paragraph(t, "    Fix:      ", 14, f->fix);
	if (*f->option)
		text_paragraph(t, "    libturbo: ", 14, f->option);
}

void text_advice(const struct text *t)
{
	if (!t->r->findings)
		return;
	text_heading(t, "ADVICE");
	for (unsigned i = 0; i < t->r->findings; i++)
		finding(t, &t->r->finding[i], i + 1);
}
