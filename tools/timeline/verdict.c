/*
 * verdict.c - the report in one line.
 */
#include <stdlib.h>
#include <string.h>

#include "metrics.h"
#include "units.h"

#define REASONS 3
#define REASON_LEAST 0.02
#define UNSEEN_SAID 0.5 /* share of the window */

struct reason {
	const char *text;
	double share;
};

static int by_share(const void *a, const void *b)
{
	const struct reason *x = a, *y = b;
	return x->share < y->share ? 1 : x->share > y->share ? -1 : strcmp(x->text, y->text);
}

static uint64_t idle_of_all(const struct report *r, enum report_idle class)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < r->ranks; i++)
		for (unsigned k = 0; k < r->rank[i].gpus; k++)
			sum += r->rank[i].gpu[k].idle[class].ns;
	return sum;
}

void verdict_give(struct report *r)
{
	const struct report_time *t = &r->time;
	double seen = (double)(t->window_ns - t->unseen_ns);
	unsigned gpus = 0;
	for (unsigned i = 0; i < r->ranks; i++)
		gpus += r->rank[i].gpus;
	if (!gpus || seen <= 0) {
		r->verdict = metrics_text("%s", t->unseen_ns ? "Nothing was recorded in this part of the time."
													 : "Nothing ran on a GPU while this was recorded.");
		return;
	}
	struct reason reason[] = {
		{"paused for seconds", (double)idle_of_all(r, REPORT_IDLE_PAUSE) / seen},
		{"idle before copies from the host", (double)idle_of_all(r, REPORT_IDLE_INPUT) / seen},
		{"idle after synchronisations", (double)idle_of_all(r, REPORT_IDLE_SYNC) / seen},
		{"waiting for allocations", (double)idle_of_all(r, REPORT_IDLE_ALLOC) / seen},
		{"gaps between kernels", (double)idle_of_all(r, REPORT_IDLE_SHORT) / seen},
		{"waiting for the host", (double)idle_of_all(r, REPORT_IDLE_HOST) / seen},
		{"communication alone", (double)t->exposed_ns[REPORT_COMMUNICATION] / seen},
		{"copies alone", (double)t->exposed_ns[REPORT_MEMORY] / seen},
	};
	size_t n = sizeof(reason) / sizeof(reason[0]), used = 0;
	char text[256] = "";
	qsort(reason, n, sizeof(reason[0]), by_share);
	for (size_t i = 0; i < REASONS && reason[i].share >= REASON_LEAST; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %s", used ? ", " : "",
								 reason[i].text, units_share(reason[i].share).s);
	double busy = (double)t->busy_ns / seen, compute = (double)t->exposed_ns[REPORT_COMPUTE] / seen;
	char who[40] = "GPU";
	if (gpus > 1)
		snprintf(who, sizeof(who), "%u GPUs, on average", gpus);
	char recorded[80] = "";
	if ((double)t->unseen_ns >= UNSEEN_SAID * (double)t->window_ns)
		snprintf(recorded, sizeof(recorded), "Only %s of the time was recorded. ",
				 units_share(seen / (double)t->window_ns).s);
	r->verdict = metrics_text("%s%s: busy %s, computing %s%s%s.", recorded, who, units_share(busy).s,
							  units_share(compute).s, used ? "; " : "", text);
}
