/*
 * advice.c - from figures to findings: runs the rules, sorts what they find.
 */
#include "advice.h"

#include <stdlib.h>
#include <string.h>

#define BAD_SHARE 0.10
#define WARN_SHARE 0.03

static bool option_exists(const char *name)
{
	static const char *const names[] = {
#define OPTION(id, name, ...) name,
#include "shim/options.def"
#undef OPTION
	};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

bool advice_in_force(const struct advice_case *c, const char *option, const char *value)
{
	char pair[128];
	int n = snprintf(pair, sizeof(pair), "%s=%s", option, value);
	const char *at = strstr(c->rank->options, pair);
	return at && (at == c->rank->options || at[-1] == ' ') && (at[n] == ' ' || !at[n]);
}

static void found(struct report *r, const struct advice_rule *rule, const struct advice_case *c, double cost)
{
	r->finding = metrics_grow(r->finding, r->findings + 1, sizeof(*r->finding));
	struct report_finding *f = &r->finding[r->findings++];
	*f = (struct report_finding){
		.id = rule->id,
		.severity = cost >= BAD_SHARE    ? REPORT_BAD
					: cost >= WARN_SHARE ? REPORT_WARN
										 : REPORT_NOTE,
		.cost = cost <= 2 * ADVICE_NO_COST ? 0
				: cost < 1                 ? cost
										   : 1,
		.rank = r->ranks > 1 ? (int)(c->rank - r->rank) : -1,
	};
	if (f->severity < rule->severity)
		f->severity = rule->severity;
	rule->say(c, f);
	if (rule->option && option_exists(rule->option))
		f->option = rule->offer ? rule->offer(c) : metrics_text("%s%s", rule->option, rule->option_text);
	if (!f->option)
		f->option = metrics_text("%s", "");
}

static void apply(struct report *r, const struct advice_rule *rule)
{
	struct advice_case worst = {0};
	double most = 0;
	for (unsigned i = 0; i < r->ranks; i++)
		for (unsigned k = 0; k < r->rank[i].gpus; k++) {
			const struct report_gpu *g = &r->rank[i].gpu[k];
			struct advice_case c = {r, &r->rank[i], g, (double)(g->time.window_ns - g->time.unseen_ns)};
			double cost = c.seen > 0 ? rule->cost(&c) : 0;
			if (cost > most) {
				most = cost;
				worst = c;
			}
		}
	if (most > 0 && most >= rule->least)
		found(r, rule, &worst, most);
}

/* The costliest first; by name where costs are the same to a tenth of a percent. */
static int by_cost(const void *a, const void *b)
{
	const struct report_finding *x = a, *y = b;
	int xs = (int)(x->cost * 1000), ys = (int)(y->cost * 1000);
	if (xs != ys)
		return xs < ys ? 1 : -1;
	if (x->severity != y->severity)
		return x->severity < y->severity ? 1 : -1;
	return strcmp(x->id, y->id);
}

void advice_give(struct report *r)
{
	static const struct advice_rule *const all[] = {advice_host_rules, advice_device_rules,
													advice_recording_rules};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (const struct advice_rule *rule = all[i]; rule->id; rule++)
			apply(r, rule);
	if (r->findings)
		qsort(r->finding, r->findings, sizeof(*r->finding), by_cost);
}
