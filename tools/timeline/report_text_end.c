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

/* Which ranks something is about: `n` of them, `one` the first. "" where there is only one of all. */
static struct units_text ranks(const struct text *t, unsigned n, const struct report_rank *one)
{
	struct units_text who = {""};
	if (n > 1)
		snprintf(who.s, sizeof(who.s), "%u ranks: ", n);
	else if (t->r->ranks > 1 && one->rank >= 0)
		snprintf(who.s, sizeof(who.s), "rank %d: ", one->rank);
	else if (t->r->ranks > 1)
		snprintf(who.s, sizeof(who.s), "pid %u: ", one->pid);
	return who;
}

static void problem(const struct text *t, const char *who, const char *before, const char *figure,
					const char *after)
{
	char line[320];
	snprintf(line, sizeof(line), "%s%s%s%s", who, before, figure, after);
	fputs(text_on(t, TEXT_YELLOW), t->to);
	text_paragraph(t, "  ", 2, line);
	fputs(text_off(t), t->to);
}

static void losses(const struct text *t)
{
	static const struct {
		const char *before, *after;
	} said[TIMELINE_COUNTS] = {
		[TIMELINE_COUNT_OVERWRITTEN] =
			{"", " older records were overwritten: raise TURBO_TIMELINE_MB to keep more"},
		[TIMELINE_COUNT_CUPTI_LOST] = {"CUPTI lost ", " records"},
		[TIMELINE_COUNT_ZERO_TIME] = {"", " records came without a time and are left out"},
		[TIMELINE_COUNT_BACKWARDS] = {"", " records ended before they started and are left out"},
		[TIMELINE_COUNT_UNKNOWN] = {"", " records were of a kind that libturbo does not know"},
		[TIMELINE_COUNT_EVENTS_LOST] = {"", " of libturbo's own events did not fit their queue"},
		[TIMELINE_COUNT_NO_BUFFER] = {"", " times there was no buffer for CUPTI: records are missing"},
		[TIMELINE_COUNT_BAD_BUFFER] = {"", " of CUPTI's buffers could not be read to their end"},
		[TIMELINE_COUNT_TABLE_FULL] = {"", " records have lost their name or stream: a table was full"},
		[TIMELINE_COUNT_DROPPED] = {"", " records could not be written to the file"},
	};
	for (unsigned c = 0; c <= TIMELINE_COUNTS; c++) {
		const struct report_rank *one = NULL;
		uint64_t sum = 0;
		unsigned n = 0;
		for (unsigned i = 0; i < t->r->ranks && (c == TIMELINE_COUNTS || said[c].after); i++) {
			const struct report_rank *r = &t->r->rank[i];
			uint64_t lost = c < TIMELINE_COUNTS ? r->lost[c] : r->damaged;
			one = lost && !n ? r : one;
			n += lost != 0;
			sum += lost;
		}
		if (n)
			problem(t, ranks(t, n, one).s, c < TIMELINE_COUNTS ? said[c].before : "", units_count(sum).s,
					c < TIMELINE_COUNTS ? said[c].after
										: " records or chunks made no sense and are left out");
	}
}

struct found_gap {
	const struct report_rank *rank;
	const struct report_gap *gap;
};

/* a comes before b: the longer, else the one of the earlier rank, else the earlier. */
static bool before(struct found_gap a, struct found_gap b)
{
	if (a.gap->duration != b.gap->duration)
		return a.gap->duration > b.gap->duration;
	return a.rank != b.rank ? a.rank < b.rank : a.gap < b.gap;
}

/* The first of those that come after `last` (its gap NULL: of all). */
static struct found_gap next_gap(const struct report *r, struct found_gap last)
{
	struct found_gap best = {NULL, NULL};
	for (unsigned i = 0; i < r->ranks; i++)
		for (unsigned k = 0; k < r->rank[i].gaps; k++) {
			struct found_gap g = {&r->rank[i], &r->rank[i].gap[k]};
			if ((!last.gap || before(last, g)) && (!best.gap || before(g, best)))
				best = g;
		}
	return best;
}

static void gaps(const struct text *t)
{
	const struct report_rank *one = NULL;
	struct found_gap g = {NULL, NULL};
	uint64_t count = 0, ns = 0;
	unsigned n = 0;
	for (unsigned i = 0; i < t->r->ranks; i++) {
		const struct report_rank *r = &t->r->rank[i];
		one = r->gap_count && !n ? r : one;
		n += r->gap_count != 0;
		count += r->gap_count;
		ns += r->gap_ns;
	}
	if (!count)
		return;
	char line[120];
	snprintf(line, sizeof(line), "%s gap%s, %s in all, in which nothing was recorded", units_count(count).s,
			 count == 1 ? "" : "s", units_time((double)ns).s);
	problem(t, ranks(t, n, one).s, line, "", count > GAPS ? "; the longest:" : ":");
	for (unsigned i = 0; i < GAPS && (g = next_gap(t->r, g)).gap; i++)
		fprintf(t->to, "    %sat %s for %s: %.50s\n", ranks(t, 1, g.rank).s,
				units_time((double)g.gap->start).s, units_time((double)g.gap->duration).s, g.gap->reason);
}

static void endings(const struct text *t)
{
	const struct report_rank *sampled = NULL, *killed = NULL, *live = NULL, *after = NULL;
	unsigned samples = 0, deaths = 0, lives = 0, ends = 0;
	uint64_t longest = 0;
	double least = 1;
	for (unsigned i = 0; i < t->r->ranks; i++) {
		const struct report_rank *r = &t->r->rank[i];
		if (r->mode == TIMELINE_MODE_SAMPLED) {
			sampled = samples++ ? sampled : r;
			least = r->sampled_share < least ? r->sampled_share : least;
		}
		if (r->gap_after_ns) {
			after = ends++ ? after : r;
			longest = r->gap_after_ns > longest ? r->gap_after_ns : longest;
		}
		if (r->live)
			live = lives++ ? live : r;
		else if (!r->ended)
			killed = deaths++ ? killed : r;
	}
	if (samples)
		problem(t, ranks(t, samples, sampled).s, "sampled: ", units_share(least).s,
				" of the time was recorded; counts and sums are of that part");
	losses(t);
	gaps(t);
	if (ends)
		problem(t, ranks(t, ends, after).s,
				ends > 1 ? "nothing was recorded after the last operation, for up to "
						 : "nothing was recorded after the last operation, for ",
				units_time((double)longest).s, ": no figure above is about it");
	if (deaths)
		problem(t, ranks(t, deaths, killed).s, "", "",
				"the recording has no end: the process was killed, its last second may be missing");
	if (lives)
		fprintf(t->to, "  %sstill recording\n", ranks(t, lives, live).s);
}

void text_recording(const struct text *t)
{
	static const char *const mode[] = {"off", "sampled", "kernel", "launch"};
	uint64_t records = 0;
	char last[200] = "", line[200];
	for (unsigned i = 0; i < t->r->ranks; i++)
		records += t->r->rank[i].records;
	text_heading(t, "RECORDING, %s record%s", units_count(records).s, records == 1 ? "" : "s");
	for (unsigned i = 0; i < t->r->ranks; i++) {
		const struct report_rank *r = &t->r->rank[i];
		char text[120];
		versions(r, text, sizeof(text));
		if (r->on_demand)
			snprintf(line, sizeof(line), "on demand, by turbo record%s; %s",
					 r->mode == TIMELINE_MODE_LAUNCH ? " --launch" : "", text);
		else
			snprintf(line, sizeof(line), "TURBO_TIMELINE=%s, %s",
					 r->mode <= TIMELINE_MODE_LAUNCH ? mode[r->mode] : "?", text);
		if (strcmp(line, last))
			text_paragraph(t, "  ", 2, line);
		memcpy(last, line, sizeof(last));
	}
	endings(t);
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
