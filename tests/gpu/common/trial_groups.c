/*
 * trial_groups.c - groups, sends and receives of programs.
 */
#include "rank_data.h"
#include "trial_make.h"

struct grouped {
	struct trial_step step;
	int r;
	uint32_t sends, receives;
};

struct group {
	int n;
	struct grouped one[6 * TRIAL_RANKS];
};

static void add_one(struct make *m, struct group *g, struct trial_step s, int r, int rank)
{
	struct data_op op = {.func = (enum data_func)s.func,
						 .ranks = m->t->comm[s.comm].n,
						 .rank = rank,
						 .root = s.peer,
						 .count = s.count};
	uint32_t size = s.bytes / s.count, not [4 * 8];
	struct grouped *one = &g->one[g->n++];
	int n = 0;

	*one = (struct grouped){.step = s, .r = r};
	one->sends = s.func == DATA_BCAST ? 0 : (uint32_t)data_sends(&op) * size;
	one->receives = (uint32_t)data_receives(&op) * size;
	for (int i = 0; i + 1 < g->n; i++) {
		const struct grouped *b = &g->one[i];
		if (b->r != r)
			continue;
		not [n++] = b->step.from;
		not [n++] = b->sends;
		not [n++] = b->step.to;
		not [n++] = b->receives;
	}
	one->step.to = make_pick(m, r, one->receives ? one->receives : 1, not, n / 2);
	not [n++] = one->step.to;
	not [n++] = one->receives;
	one->step.from = make_pick(m, r, one->sends ? one->sends : 1, not, n / 2);
}

static void add_collective(struct make *m, struct group *g, int comm, int stream)
{
	static const uint8_t any[] = {DATA_ALLGATHER, DATA_ALLGATHER, DATA_ALLREDUCE, DATA_BROADCAST,
								  DATA_REDUCESCATTER};
	struct trial_step s = make_call(m, comm, any[make_below(m, 5)], 1 + make_below(m, 300));

	s.stream = (int8_t)stream;
	for (int i = 0; i < m->t->comm[comm].n; i++)
		add_one(m, g, s, m->t->comm[comm].rank[i], i);
}

static void add_pair(struct make *m, struct group *g, int comm, int from, int to, int stream)
{
	struct trial_step s = make_call(m, comm, MAKE_SEND, 1 + make_below(m, 2000));
	const struct trial_comm *c = &m->t->comm[comm];

	s.stream = (int8_t)stream;
	s.peer = (int8_t)to;
	add_one(m, g, s, c->rank[from], from);
	s.func = MAKE_RECV;
	s.peer = (int8_t)from;
	add_one(m, g, s, c->rank[to], to);
}

static void issue_group(struct make *m, const struct group *g, bool brackets)
{
	for (int r = 0; r < m->t->n; r++) {
		struct make_rank *k = &m->r[r];
		for (int i = 0; i < g->n; i++) {
			const struct grouped *b = &g->one[i];
			if (b->r != r)
				continue;
			make_needs_comm(m, r, b->step.stream, b->step.comm, false);
			if (b->sends)
				make_needs(m, r, b->step.stream, b->step.from, b->sends, false);
			if (b->receives)
				make_needs(m, r, b->step.stream, b->step.to, b->receives, true);
		}
		if (brackets)
			make_emit(m, r, (struct trial_step){.what = TRIAL_GROUP});
		k->grouped = brackets;
		for (int i = 0; i < g->n; i++) {
			const struct grouped *b = &g->one[i];
			if (b->r != r)
				continue;
			make_emit(m, r, b->step);
			make_issue(m, r, b->step.stream);
			make_uses_comm(m, r, b->step.stream, b->step.comm, false);
			if (b->sends)
				make_uses(m, r, b->step.stream, b->step.from, b->sends, false);
			if (b->receives)
				make_uses(m, r, b->step.stream, b->step.to, b->receives, true);
		}
		if (brackets)
			make_emit(m, r, (struct trial_step){.what = TRIAL_END});
		k->grouped = false;
	}
	m->t->places++;
}

/* Collectives of one or two communicators that block alike, and a ring. */
void make_group(struct make *m)
{
	int a = make_comm_to_spoil(m), b = make_chance(m, 40) ? make_comm_to_spoil(m) : a, n;
	int stream = (int)make_below(m, TRIAL_STREAMS), shift = 1 + (int)make_below(m, 2);
	static __thread struct group g;

	if (a < 0) {
		make_split(m);
		return;
	}
	b = b < 0 ? a : b;
	n = m->t->comm[a].n;
	g.n = 0;
	if (m->t->comm[a].nonblocking != m->t->comm[b].nonblocking)
		b = a;
	for (unsigned k = 1 + make_below(m, 3); k; k--)
		add_collective(m, &g, make_chance(m, 60) ? a : b, stream);
	for (int i = 0; i < n && shift < n && make_chance(m, 95); i++)
		add_pair(m, &g, a, i, (i + shift) % n, stream);
	issue_group(m, &g, true);
}

void make_pair(struct make *m)
{
	static __thread struct group g;
	int comm, n, from;

	if (m->t->n < 2)
		return;
	comm = make_comm(m, 2);
	n = m->t->comm[comm].n;
	from = (int)make_below(m, (unsigned)n);
	g.n = 0;
	add_pair(m, &g, comm, from, (from + 1 + (int)make_below(m, (unsigned)n - 1)) % n,
			 (int)make_below(m, TRIAL_STREAMS));
	issue_group(m, &g, false);
}
