/* judge_mismatch.c - ranks called different things at the same place. */
#include "judge_view.h"

#define NO_REDUCTION 0xffff
#define DECIDES (2 * JUDGE_S) /* for ranks that have not called yet */

static bool reduces(unsigned function)
{
	return function == FLIGHT_ALL_REDUCE || function == FLIGHT_REDUCE || function == FLIGHT_REDUCE_SCATTER;
}

/* Calls that two ranks may not make at the same place. A graph's are not known one by one; what NCCL refused and
 * what was captured does not run. */
static bool differ(const struct flight_op *a, const struct flight_op *b)
{
	if (a->function == FLIGHT_GRAPH || b->function == FLIGHT_GRAPH ||
		((a->flags | b->flags) & (FLIGHT_FAILED | FLIGHT_CAPTURED)))
		return false;
	if (a->function != b->function)
		return true;
	if (!judge_moves_data(a->function))
		return false;
	if (a->peer != b->peer || (a->bytes && b->bytes && a->bytes != b->bytes))
		return true;
	if (!reduces(a->function))
		return false;
	return a->count != b->count || a->type != b->type ||
		   (a->reduction != b->reduction && a->reduction != NO_REDUCTION && b->reduction != NO_REDUCTION);
}

/* ---- groups: the order inside is the caller's affair ---- */

struct run {
	uint64_t first, last; /* indices */
	bool closed;          /* nothing more is issued into it */
};

static struct run run_of(const struct judge_view *v, const struct flight_op *op)
{
	struct run r = {op->index, op->index, true};
	const struct flight_op *o;

	if (!(op->flags & FLIGHT_GROUPED))
		return r;
	while ((o = judge_op(v, r.first - 1)) && o->group == op->group)
		r.first--;
	while ((o = judge_op(v, r.last + 1)) && o->group == op->group)
		r.last++;
	r.closed = r.last < v->m->issued || op->index <= v->begun;
	return r;
}

static unsigned equals_in(const struct judge_view *v, struct run r, const struct flight_op *op)
{
	unsigned n = 0;

	for (uint64_t i = r.first; i <= r.last; i++) {
		const struct flight_op *o = judge_op(v, i);
		n += o && o->sequence && !differ(o, op);
	}
	return n;
}

static unsigned collectives_in(const struct judge_view *v, struct run r)
{
	unsigned n = 0;

	for (uint64_t i = r.first; i <= r.last; i++) {
		const struct flight_op *o = judge_op(v, i);
		n += o && o->sequence;
	}
	return n;
}

/* Of two differing operations, each in a group: do the groups hold the same? Unknown as long as one may grow. */
static bool groups_agree(const struct judge_view *v, const struct flight_op *a, const struct judge_view *w,
						 const struct flight_op *b)
{
	struct run r = run_of(v, a), t = run_of(w, b);

	if (!(a->flags & FLIGHT_GROUPED) || !(b->flags & FLIGHT_GROUPED))
		return false;
	if (!r.closed || !t.closed)
		return true;
	if (collectives_in(v, r) != collectives_in(w, t))
		return false;
	for (uint64_t i = r.first; i <= r.last; i++) {
		const struct flight_op *o = judge_op(v, i);
		if (o && o->sequence && equals_in(v, r, o) != equals_in(w, t, o))
			return false;
	}
	return true;
}

/* ---- collective calls ---- */

static bool counts(const struct judge_view *v)
{
	return v->m->state != FLIGHT_FREE && v->m->state != FLIGHT_ABORTED;
}

static uint64_t oldest_sequence(const struct judge_view *v)
{
	for (uint64_t i = judge_oldest(v); i <= v->m->issued; i++) {
		const struct flight_op *op = judge_op(v, i);
		if (op && op->sequence)
			return judge_op_from(op);
	}
	return UINT64_MAX;
}

/* The first place where the two called different things, 0: none that is kept. */
static uint64_t first_difference(const struct judge_view *v, const struct judge_view *w)
{
	uint64_t hi = v->m->sequence < w->m->sequence ? v->m->sequence : w->m->sequence;
	uint64_t lo = judge_max(oldest_sequence(v), oldest_sequence(w));
	const struct flight_op *a = judge_op_at(v, hi), *b = judge_op_at(w, hi);

	if (a && b && a->signature == b->signature && !differ(a, b))
		return 0; /* and so are all before */
	for (uint64_t i = judge_oldest(v); i <= v->m->issued; i++) {
		a = judge_op(v, i);
		if (!a || a->sequence < lo || a->sequence > hi)
			continue;
		/* What NCCL refused has given its number back; where not, the ranks count differently from here on. */
		if ((a->flags & FLIGHT_FAILED) && judge_op_at(v, a->sequence) != a)
			continue;
		b = judge_op_at(w, a->sequence);
		if ((a->flags & FLIGHT_FAILED) || (b && (b->flags & FLIGHT_FAILED)))
			return 0;
		if (b && differ(a, b) && !groups_agree(v, a, w, b))
			return a->sequence;
	}
	return 0;
}

/* Ranks that called the same as `v` at that place. */
static unsigned like(const struct judge_scene *s, const struct judge_view *v, uint64_t sequence)
{
	const struct flight_op *a = judge_op_at(v, sequence);
	unsigned n = 0;

	for (int32_t i = v->first; a && i >= 0; i = s->view[i].next) {
		const struct flight_op *b = judge_op_at(&s->view[i], sequence);
		n += b && counts(&s->view[i]) && !differ(a, b);
	}
	return n;
}

/* Two parties of one size, and ranks that have not called yet: they will tell which is right. */
static bool is_open(const struct judge_scene *s, const struct judge_view *v, const struct judge_view *w,
					uint64_t sequence)
{
	int32_t called = 0;

	for (int32_t i = v->first; i >= 0; i = s->view[i].next)
		called += counts(&s->view[i]) && s->view[i].m->sequence >= sequence;
	return like(s, v, sequence) == like(s, w, sequence) && called < v->m->ranks;
}

/* The culprit is of the smaller party; of two of one size, of the one without the lowest rank. */
static void tell_mismatch(const struct judge_scene *s, int32_t first, uint64_t sequence,
						  struct judge_finds *finds)
{
	int32_t most = -1, least = -1;
	const struct flight_op *a, *b;
	struct judge_finding f;

	for (int32_t i = first; i >= 0; i = s->view[i].next) {
		const struct judge_view *v = &s->view[i];
		unsigned n = counts(v) ? like(s, v, sequence) : 0;
		if (n == 0)
			continue;
		unsigned m = most >= 0 ? like(s, &s->view[most], sequence) : 0;
		if (n > m || (n == m && v->m->rank < s->view[most].m->rank))
			most = i;
	}
	if (most < 0)
		return;
	a = judge_op_at(&s->view[most], sequence);
	for (int32_t i = first; i >= 0; i = s->view[i].next) {
		const struct judge_view *v = &s->view[i];
		b = counts(v) ? judge_op_at(v, sequence) : NULL;
		if (b && differ(a, b) && (least < 0 || v->m->rank < s->view[least].m->rank))
			least = i;
	}
	if (least < 0)
		return;
	b = judge_op_at(&s->view[least], sequence);
	f = judge_about(s, JUDGE_MISMATCH, (unsigned)most);
	f.sequence = (uint32_t)sequence;
	f.since = judge_max(a->issued, b->issued);
	if (judge_age(s, f.since) < DECIDES && is_open(s, &s->view[most], &s->view[least], sequence))
		return;
	f.culprit = (int32_t)s->view[least].m->process;
	f.member = least;
	f.index = b->index;
	f.other_index = a->index;
	judge_found(finds, &f);
}

static void look_at_comm(const struct judge_scene *s, int32_t first, struct judge_finds *finds)
{
	uint64_t place = 0;

	for (int32_t i = first; i >= 0; i = s->view[i].next) {
		uint64_t d;
		if (i == first || !counts(&s->view[i]) || !counts(&s->view[first]))
			continue;
		d = first_difference(&s->view[first], &s->view[i]);
		if (d && (place == 0 || d < place))
			place = d;
	}
	if (place)
		tell_mismatch(s, first, place, finds);
}

/* ---- sends and receives ---- */

static void look_at_pairs(const struct judge_scene *s, unsigned view, struct judge_finds *finds)
{
	const struct judge_view *v = &s->view[view];

	for (uint64_t i = judge_max(v->over + 1, judge_oldest(v)); i <= v->m->issued; i++) {
		const struct flight_op *op = judge_op(v, i), *theirs;
		if (!op || op->function != FLIGHT_SEND || op->pair == 0 || op->bytes == 0 ||
			(op->flags & (FLIGHT_FAILED | FLIGHT_CAPTURED)))
			continue;
		for (int32_t q = v->first; q >= 0; q = s->view[q].next) {
			if (s->view[q].m->rank != op->peer || !counts(&s->view[q]))
				continue;
			judge_reach(&s->view[q], v, op, &theirs);
			if (!theirs || theirs->bytes == 0 || theirs->bytes == op->bytes ||
				(theirs->flags & (FLIGHT_FAILED | FLIGHT_CAPTURED)))
				continue;
			struct judge_finding f = judge_about(s, JUDGE_MISMATCH, view);
			f.sequence = 0;
			f.since = judge_max(op->issued, theirs->issued);
			f.culprit = (int32_t)s->view[q].m->process;
			f.member = q;
			f.index = theirs->index;
			f.other_index = op->index;
			judge_found(finds, &f);
			return;
		}
	}
}

void judge_find_mismatch(const struct judge_scene *s, struct judge_finds *finds)
{
	for (unsigned i = 0; i < s->count; i++) {
		if (s->view[i].first == (int32_t)i)
			look_at_comm(s, (int32_t)i, finds);
		if (s->view[i].judged)
			look_at_pairs(s, i, finds);
	}
}
