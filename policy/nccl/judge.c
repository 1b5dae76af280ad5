/* judge.c - see judge.h. */
#include "judge.h"

#include <string.h>

#include "judge_view.h"

const struct judge_limits judge_limits_default = {
	.cycle = 3 * JUDGE_S,
	.transport = 15 * JUDGE_S,
	.frozen = 60 * JUDGE_S,
	.said = 30 * JUDGE_S,
};

const char *judge_name(enum judge_verdict verdict)
{
	static const char *const name[] = {
#define JUDGE(id, name, acts, text) name,
#include "judge.def"
#undef JUDGE
	};

	return (unsigned)verdict < JUDGE_VERDICTS ? name[verdict] : "unknown";
}

bool judge_acts(enum judge_verdict verdict)
{
	static const bool does[] = {
#define JUDGE(id, name, acts, text) acts,
#include "judge.def"
#undef JUDGE
	};

	return (unsigned)verdict < JUDGE_VERDICTS && does[verdict];
}

const char *judge_function_name(unsigned function)
{
	static const char *const name[FLIGHT_FUNCTIONS] = {
		[FLIGHT_NONE] = "nothing",
		[FLIGHT_ALL_GATHER] = "all_gather",
		[FLIGHT_ALL_REDUCE] = "all_reduce",
		[FLIGHT_ALL_TO_ALL] = "all_to_all",
		[FLIGHT_BROADCAST] = "broadcast",
		[FLIGHT_GATHER] = "gather",
		[FLIGHT_REDUCE] = "reduce",
		[FLIGHT_REDUCE_SCATTER] = "reduce_scatter",
		[FLIGHT_SCATTER] = "scatter",
		[FLIGHT_SEND] = "send",
		[FLIGHT_RECV] = "recv",
		[FLIGHT_PUT_SIGNAL] = "put_signal",
		[FLIGHT_SIGNAL] = "signal",
		[FLIGHT_WAIT_SIGNAL] = "wait_signal",
		[FLIGHT_INIT] = "init",
		[FLIGHT_SPLIT] = "split",
		[FLIGHT_SHRINK] = "shrink",
		[FLIGHT_GROW] = "grow",
		[FLIGHT_FINALIZE] = "finalize",
		[FLIGHT_DESTROY] = "destroy",
		[FLIGHT_GRAPH] = "graph",
	};

	return function < FLIGHT_FUNCTIONS && name[function] ? name[function] : "unknown";
}

/* ---- findings ---- */

static bool same(const struct judge_finding *a, const struct judge_finding *b)
{
	return a->verdict == b->verdict && a->key[0] == b->key[0] && a->key[1] == b->key[1] &&
		   a->culprit == b->culprit;
}

/* The worse first; of the same, what began first. */
static bool before(const struct judge_finding *a, const struct judge_finding *b)
{
	return a->verdict != b->verdict ? a->verdict < b->verdict : a->since < b->since;
}

void judge_found(struct judge_finds *finds, const struct judge_finding *f)
{
	unsigned at;

	for (unsigned i = 0; i < finds->count; i++)
		if (same(&finds->found[i], f)) {
			if (!before(f, &finds->found[i]))
				return;
			memmove(&finds->found[i], &finds->found[i + 1], (--finds->count - i) * sizeof(*f));
		}
	for (at = 0; at < finds->count && !before(f, &finds->found[at]); at++) {
	}
	if (at == finds->max)
		return;
	if (finds->count == finds->max)
		finds->count--;
	memmove(&finds->found[at + 1], &finds->found[at], (finds->count - at) * sizeof(*f));
	finds->found[at] = *f;
	finds->count++;
}

struct judge_finding judge_about(const struct judge_scene *s, enum judge_verdict verdict, unsigned view)
{
	const struct judge_view *v = &s->view[view];
	struct judge_finding f = {
		.verdict = verdict,
		.key = {v->m->key[0], v->m->key[1]},
		.since = judge_max(v->since, s->world->watched),
		.sequence = v->front ? v->front->sequence : 0,
		.culprit = -1,
		.member = -1,
		.other = (int32_t)view,
		.other_index = v->front ? v->front->index : 0,
	};
	uint32_t here = 0;

	for (int32_t i = v->first; i >= 0; i = s->view[i].next) {
		const struct judge_view *q = &s->view[i];
		here++;
		if (q->judged && q->stand == STAND_WAITS)
			f.waiting++;
	}
	f.missing = v->m->ranks > (int32_t)here ? (uint32_t)v->m->ranks - here : 0;
	return f;
}

unsigned judge_look_all(const struct judge_world *world, const struct judge_limits *limits,
						struct judge_finding *found, unsigned max)
{
	struct judge_scene s;
	struct judge_finds finds = {.found = found, .max = max};

	if (max == 0)
		return 0;
	judge_scene_make(&s, world, limits);
	judge_find_dead(&s, &finds);
	judge_find_mismatch(&s, &finds);
	judge_find_cycle(&s, &finds);
	judge_find_ends(&s, &finds);
	return finds.count;
}

void judge_look(const struct judge_world *world, const struct judge_limits *limits,
				struct judge_finding *found)
{
	memset(found, 0, sizeof(*found));
	found->culprit = found->member = found->other = -1;
	judge_look_all(world, limits, found, 1);
}
