/*
 * advice_fixture.h - timelines on which a rule of the advice must speak, and others on which it must not.
 */
#ifndef TURBO_TEST_ADVICE_FIXTURE_H
#define TURBO_TEST_ADVICE_FIXTURE_H

#include "report_fixture.h"

#define COMPUTE "_Z4axpyifPfS_"

/* The finding, or NULL. Every finding of the report is whole. */
static inline const struct report_finding *finding(const struct report *r, const char *id)
{
	const struct report_finding *found = NULL;
	for (unsigned i = 0; i < r->findings; i++) {
		const struct report_finding *f = &r->finding[i];
		assert_true(*f->title && *f->evidence && *f->fix && f->option);
		assert_true(f->cost >= 0 && f->cost <= 1);
		assert_true(f->rank >= -1 && f->rank < (int)r->ranks);
		if (!strcmp(f->id, id))
			found = f;
	}
	return found;
}

/* Makes a scene whose report has the finding when `bad`, and has it not otherwise. */
typedef void scene_of(struct scene *s, bool bad);

/* The report on the bad scene; the good one has been looked at. */
static inline struct report *speaks(const char *id, scene_of *make)
{
	struct scene s = scene();
	make(&s, false);
	struct report *r = report_of(&s);
	if (finding(r, id))
		fail_msg("%s: said of a good timeline: %s", id, finding(r, id)->evidence);
	report_free(r);
	s = scene();
	make(&s, true);
	r = report_of(&s);
	if (!finding(r, id))
		fail_msg("%s: not said", id);
	return r;
}

static inline void check(const char *id, scene_of *make, const char *evidence, double cost)
{
	struct report *r = speaks(id, make);
	const struct report_finding *f = finding(r, id);
	if (!strstr(f->evidence, evidence))
		fail_msg("%s: '%s' is not in '%s'", id, evidence, f->evidence);
	if (f->cost < cost - 0.005 || f->cost > cost + 0.005)
		fail_msg("%s: costs %f, not %f", id, f->cost, cost);
	report_free(r);
}

#endif
