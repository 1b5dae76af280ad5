/*
 * report_text_time.c - who took part, and where the time went.
 */
#include <string.h>

#include "text.h"

#define ROWS 64     /* ranks that are listed */
#define PICTURES 16 /* … and drawn */
#define BAR 24
#define PICTURE 80
#define ANCHOR_AT 73   /* the column of what a step begins with */
#define STEPS_SAID 100 /* operations of which it is said that they have no steps */

static struct units_text share(double part, double whole)
{
	struct units_text none = {"-"};
	return part > 0 ? units_share(units_ratio(part, whole)) : none;
}

static void rank_row(const struct text *t, const struct report_rank *r, const struct report_gpu *g)
{
	const struct report_time *m = &g->time;
	double seen = (double)(m->window_ns - m->unseen_ns);
	char who[16] = "-", gpu[40], device[96], host[20];
	if (r->rank >= 0)
		snprintf(who, sizeof(who), "%d", r->rank);
	snprintf(device, sizeof(device), "%u %s", g->device, g->name);
	text_fit(device, 20, gpu, sizeof(gpu));
	text_fit(r->host, 12, host, sizeof(host));
	fprintf(t->to, "%5s %8u  %-12s %-20s %6s %8s %6s %6s %6s %9s\n", who, r->pid, host, gpu,
			share((double)m->busy_ns, seen).s, share((double)m->exposed_ns[REPORT_COMPUTE], seen).s,
			share((double)m->exposed_ns[REPORT_COMMUNICATION], seen).s,
			share((double)m->exposed_ns[REPORT_MEMORY], seen).s, share((double)m->idle_ns, seen).s,
			g->memory_peak ? units_gib((double)g->memory_peak).s : "-");
}

void text_ranks(const struct text *t)
{
	unsigned rows = 0, left = 0;
	fprintf(t->to, "\n%s%5s %8s  %-12s %-20s %6s %8s %6s %6s %6s %9s%s\n", text_on(t, TEXT_BOLD), "RANK",
			"PID", "HOST", "GPU", "BUSY", "COMPUTE", "COMM", "COPY", "IDLE", "MEMORY", text_off(t));
	for (unsigned i = 0; i < t->r->ranks; i++) {
		const struct report_rank *r = &t->r->rank[i];
		char rank[16] = "-";
		if (r->rank >= 0)
			snprintf(rank, sizeof(rank), "%d", r->rank);
		if (!r->gpus && rows++ < ROWS)
			fprintf(t->to, "%5s %8u  %-12.12s nothing ran on a GPU\n", rank, r->pid, r->host);
		for (unsigned k = 0; k < r->gpus; k++) {
			if (rows++ < ROWS)
				rank_row(t, r, &r->gpu[k]);
			else
				left++;
		}
	}
	if (left)
		fprintf(t->to, "      and %u more: --json has them all\n", left);
}

/* ---- a picture of busy and idle ---- */

static const char *level(const struct text *t, double busy)
{
	static const char *const block[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const ascii[] = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};
	int i = busy <= 0.005 ? 0 : 1 + (int)(busy * 7.99);
	return (t->style & REPORT_UTF8 ? block : ascii)[i < 0 ? 0 : i > 8 ? 8 : i];
}

static void picture(const struct text *t, const struct report_series *s, unsigned used)
{
	for (unsigned c = 0; c < PICTURE; c++) {
		double busy = 0, unseen = 0;
		unsigned from = c * used / PICTURE, to = (c + 1) * used / PICTURE;
		if (to == from)
			to = from + 1;
		for (unsigned b = from; b < to && b < s->bins; b++) {
			for (unsigned k = 0; k < REPORT_CATEGORIES; k++)
				busy += (double)s->exposed[k][b];
			unseen += (double)s->unseen[b];
		}
		busy /= to - from;
		unseen /= to - from;
		if (unseen > 0.5)
			fputs(t->style & REPORT_UTF8 ? "·" : "?", t->to);
		else
			fputs(level(t, busy), t->to);
	}
}

void text_timeline(const struct text *t)
{
	unsigned drawn = 0, left = 0;
	uint64_t window = t->r->window_end - t->r->window_start;
	for (unsigned i = 0; i < t->r->ranks; i++) {
		const struct report_rank *r = &t->r->rank[i];
		for (unsigned k = 0; k < r->gpus; k++) {
			const struct report_series *s = &r->gpu[k].series;
			if (drawn == PICTURES) {
				left++;
				continue;
			}
			if (!drawn++)
				text_heading(t, "BUSY OVER TIME, a column is %s", units_time((double)window / PICTURE).s);
			/* The bins are rounded up and may reach beyond the window. */
			unsigned used = (unsigned)(window / s->bin_ns) + 1;
			struct units_text who = text_who(t->r, r, &r->gpu[k]);
			fprintf(t->to, "  %-14.14s |%s", *who.s ? who.s : "GPU", text_on(t, TEXT_GREEN));
			picture(t, s, used < s->bins ? used : s->bins);
			fprintf(t->to, "%s|\n", text_off(t));
		}
	}
	if (left)
		fprintf(t->to, "  and %u more: --html draws them all\n", left);
}

/* ---- shares ---- */

static struct report_bucket idle_of_all(const struct report *r, enum report_idle class)
{
	struct report_bucket sum = {0};
	for (unsigned i = 0; i < r->ranks; i++)
		for (unsigned k = 0; k < r->rank[i].gpus; k++) {
			sum.ns += r->rank[i].gpu[k].idle[class].ns;
			sum.count += r->rank[i].gpu[k].idle[class].count;
		}
	return sum;
}

static void time_row(const struct text *t, enum text_colour colour, const char *name, double ns, double seen,
					 const char *note)
{
	char bar[BAR * 4 + 1] = "";
	double part = units_ratio(ns, seen);
	int n = (int)(part * BAR + 0.5);
	if (ns <= 0)
		return;
	for (int i = 0; i < n && i < BAR; i++)
		strcat(bar, t->style & REPORT_UTF8 ? "█" : "#");
	fprintf(t->to, "  %-36s %7s %9s", name, units_share(part).s, units_time(ns).s);
	if (*bar)
		fprintf(t->to, "  %s%s%s", text_on(t, colour), bar, text_off(t));
	if (*note)
		fprintf(t->to, "%*s%s", *bar ? BAR + 1 - n : BAR + 3, "", note);
	fputc('\n', t->to);
}

static void idle_row(const struct text *t, enum report_idle class, const char *name, double seen)
{
	struct report_bucket b = idle_of_all(t->r, class);
	char note[80];
	snprintf(note, sizeof(note), "%s x %s", units_short((double)b.count).s,
			 units_time(units_ratio((double)b.ns, (double)b.count)).s);
	time_row(t, TEXT_RED, name, (double)b.ns, seen, note);
}

void text_time(const struct text *t)
{
	const struct report_time *m = &t->r->time;
	double seen = (double)(m->window_ns - m->unseen_ns),
		   communication = (double)m->category_ns[REPORT_COMMUNICATION];
	char note[80] = "";
	if (seen <= 0)
		return;
	text_heading(t, "WHERE THE TIME GOES%s", t->r->ranks > 1 ? " (all ranks)" : "");
	if (communication > 0)
		snprintf(note, sizeof(note), "overlap %s",
				 units_share(units_ratio((double)m->overlap_ns, communication)).s);
	time_row(t, TEXT_GREEN, communication > 0 ? "compute alone" : "compute",
			 (double)(m->exposed_ns[REPORT_COMPUTE] - m->overlap_ns), seen, "");
	time_row(t, TEXT_GREEN, "compute and communication", (double)m->overlap_ns, seen, "");
	time_row(t, TEXT_BLUE, "communication alone", (double)m->exposed_ns[REPORT_COMMUNICATION], seen, note);
	time_row(t, TEXT_BLUE, "copies alone", (double)m->exposed_ns[REPORT_MEMORY], seen, "");
	time_row(t, TEXT_BLUE, "kernels that copy or wait, alone", (double)m->exposed_ns[REPORT_OTHER], seen, "");
	idle_row(t, REPORT_IDLE_PAUSE, "paused (1 s and more, now and then)", seen);
	idle_row(t, REPORT_IDLE_INPUT, "idle before a copy from the host", seen);
	idle_row(t, REPORT_IDLE_SYNC, "idle after a synchronisation", seen);
	idle_row(t, REPORT_IDLE_ALLOC, "idle while the driver allocates", seen);
	idle_row(t, REPORT_IDLE_SHORT, "idle between operations (< 30 us)", seen);
	idle_row(t, REPORT_IDLE_HOST, "idle, nothing launched", seen);
	if (m->unseen_ns)
		fprintf(t->to, "  %-36s %7s %9s  shares are of what was recorded\n", "not recorded", "",
				units_time((double)m->unseen_ns).s);
}

/* ---- gaps by their length, and HTA's classes ---- */

void text_gaps(const struct text *t)
{
	struct report_bucket sum[REPORT_GAP_BUCKETS] = {{0}};
	uint64_t host = 0, kernel = 0, other = 0, count = 0;
	bool launches = false;
	for (unsigned i = 0; i < t->r->ranks; i++) {
		const struct report_rank *r = &t->r->rank[i];
		launches |= r->launches;
		for (unsigned k = 0; k < r->gpus; k++) {
			for (unsigned b = 0; b < REPORT_GAP_BUCKETS; b++) {
				sum[b].count += r->gpu[k].gap[b].count;
				sum[b].ns += r->gpu[k].gap[b].ns;
				count += r->gpu[k].gap[b].count;
			}
			for (unsigned s = 0; s < r->gpu[k].streams; s++) {
				host += r->gpu[k].stream[s].host_wait_ns;
				kernel += r->gpu[k].stream[s].kernel_wait_ns;
				other += r->gpu[k].stream[s].other_ns;
			}
		}
	}
	if (!count)
		return;
	text_heading(t, "%-36s%10s%10s%10s%10s%10s%10s", "IDLE GAPS by length", "< 10 us", "< 100 us", "< 1 ms",
				 "< 10 ms", "< 100 ms", "longer");
	fprintf(t->to, "  %-34s", "count");
	for (unsigned b = 0; b < REPORT_GAP_BUCKETS; b++)
		fprintf(t->to, "%10s", sum[b].count ? units_short((double)sum[b].count).s : "-");
	fprintf(t->to, "\n  %-34s", "time");
	for (unsigned b = 0; b < REPORT_GAP_BUCKETS; b++)
		fprintf(t->to, "%10s", sum[b].count ? units_time((double)sum[b].ns).s : "-");
	fputc('\n', t->to);
	if (launches)
		fprintf(t->to, "  of streams: %s waiting for a launch, %s between launched kernels, %s other\n",
				units_time((double)host).s, units_time((double)kernel).s, units_time((double)other).s);
}

void text_steps(const struct text *t)
{
	bool titled = false;
	uint64_t operations = 0;
	for (unsigned i = 0; i < t->r->ranks && i < ROWS; i++) {
		const struct report_rank *r = &t->r->rank[i];
		for (unsigned k = 0; k < r->gpus; k++) {
			const struct report_steps *s = &r->gpu[k].steps;
			operations += r->gpu[k].operations;
			char anchor[2048];
			if (!s->count)
				continue;
			if (!titled) {
				text_heading(t, "STEPS, inferred from what comes once in each");
				fprintf(t->to, "  %-14s %6s %9s %9s %9s %9s %5s  %s\n", "", "STEPS", "MEDIAN", "P99", "MIN",
						"MAX", "SLOW", "BEGINS WITH");
			}
			titled = true;
			text_kernel(s->anchor, t->columns - ANCHOR_AT, anchor, sizeof(anchor));
			fprintf(t->to, "  %-14s %6u %9s %9s %9s %9s %5u  %s\n", text_who(t->r, r, &r->gpu[k]).s, s->count,
					units_time((double)s->median_ns).s, units_time((double)s->p99_ns).s,
					units_time((double)s->min_ns).s, units_time((double)s->max_ns).s, s->slow, anchor);
		}
	}
	if (!titled && operations >= STEPS_SAID) {
		text_heading(t, "STEPS");
		text_paragraph(
			t, "  ", 2,
			"No steps were recognised: nothing that computes comes back at regular intervals in most of the "
			"time. A part may have some: --window START..END.");
	}
	if (t->r->straggler >= 0)
		fprintf(t->to,
				"  %srank %d is the straggler: %.1f %% longer than the median without waiting for others%s\n",
				text_on(t, TEXT_YELLOW), t->r->rank[t->r->straggler].rank, 100 * t->r->straggler_excess,
				text_off(t));
}
