/* judge_dead.c - a rank that others wait for is gone. */
#include "judge_view.h"

/* What was done when it went is known to the others' samplers by then. */
#define SETTLE (180 * JUDGE_MS)
#define SEEN_AFTER (100 * JUDGE_MS)

/* Has the sampler of a waiting rank found it waiting still, well after the other one was gone? */
static bool still_waits(const struct judge_view *v, uint64_t since)
{
	uint64_t sampled = atomic_load_explicit(&v->p->page->sampled, memory_order_relaxed);

	return v->host || (v->solid && sampled >= since + SEEN_AFTER);
}

/* The rank that is gone has not done its part in what `v` waits in. */
static bool owes(const struct judge_scene *s, const struct judge_view *v, const struct judge_view *dead,
				 uint64_t since)
{
	unsigned i = (unsigned)(dead - s->view);

	if (judge_set_has(&v->lacks, i) && !v->host && !v->solid)
		return true; /* nothing is heard of the waiting one's GPU, but it cannot be done */
	/* It may have begun, too: it was torn out of it. */
	return (judge_set_has(&v->lacks, i) || judge_set_has(&v->holds, i) || judge_set_has(&v->with, i) ||
			judge_set_has(&v->unsure, i)) &&
		   still_waits(v, since);
}

void judge_find_dead(const struct judge_scene *s, struct judge_finds *finds)
{
	for (unsigned d = 0; d < s->count; d++) {
		const struct judge_view *dead = &s->view[d];
		if (dead->p->life != LIFE_DEAD || (dead->m->state != FLIGHT_LIVE && dead->m->state != FLIGHT_MAKING))
			continue;
		for (int32_t i = dead->first; i >= 0; i = s->view[i].next) {
			const struct judge_view *v = &s->view[i];
			uint64_t since = judge_max(v->since, dead->p->life_since);
			if (!v->judged || v->stand != STAND_WAITS || judge_age(s, since) < SETTLE)
				continue;
			if (!owes(s, v, dead, since))
				continue;
			struct judge_finding f = judge_about(s, JUDGE_DEAD, (unsigned)i);
			f.since = dead->p->life_since;
			f.culprit = (int32_t)dead->m->process;
			f.member = (int32_t)d;
			f.index = dead->front ? dead->front->index : dead->m->issued;
			judge_found(finds, &f);
		}
	}
}
