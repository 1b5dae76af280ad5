/*
 * test_nccl_random_expect.c - what is to be found where a program hangs: what its ranks have called is compared, and whom
 * they wait for.
 */
#include <string.h>

#include "test_nccl_random_model.h"

/* ---- unlike calls ---- */

static unsigned party(const struct program_comm *c, int comm, int place, uint64_t number)
{
	unsigned ranks = 0;

	for (int i = 0; i < c->n; i++) {
		const struct model_rank *r = &model.rank[c->rank[i]];
		if (r->calls[comm] > place && r->call[comm][place] == number)
			ranks |= 1u << i;
	}
	return ranks;
}

/* The first place where two ranks have called different things; -1: none. */
static int first_difference(const struct program_comm *c, int comm)
{
	int first = -1;

	for (int i = 0; i < c->n; i++)
		for (int k = 0; k < i; k++) {
			const struct model_rank *a = &model.rank[c->rank[i]], *b = &model.rank[c->rank[k]];
			for (int n = 0; n < a->calls[comm] && n < b->calls[comm] && (first < 0 || n < first); n++)
				if (a->call[comm][n] != b->call[comm][n] && a->call[comm][n] && b->call[comm][n])
					first = n;
		}
	return first;
}

/* Nobody can tell whether a graph's calls are those that another rank has made one by one. */
static bool is_unclear(const struct program_comm *c, int comm)
{
	for (int i = 0; i < c->n; i++)
		for (int k = 0; k < i; k++) {
			const struct model_rank *a = &model.rank[c->rank[i]], *b = &model.rank[c->rank[k]];
			for (int n = 0; n < a->calls[comm] && n < b->calls[comm]; n++)
				if (!a->call[comm][n] != !b->call[comm][n])
					return true;
		}
	return false;
}

/* All ranks but those of the largest party; of two of one size, of the one with the lowest rank. */
static uint32_t odd_ones(const struct program_comm *c, int comm, int place)
{
	unsigned most = 0, all = 0;
	uint32_t odd = 0;

	for (int i = 0; i < c->n; i++) {
		const struct model_rank *r = &model.rank[c->rank[i]];
		unsigned ranks = r->calls[comm] > place ? party(c, comm, place, r->call[comm][place]) : 0;
		all |= ranks;
		if (__builtin_popcount(ranks) > __builtin_popcount(most))
			most = ranks;
	}
	for (int i = 0; i < c->n; i++)
		if ((all & ~most) >> i & 1)
			odd |= 1u << c->rank[i];
	return odd;
}

/* The nth send of a rank to another, as it was called; NULL: there was none. */
static const struct step *nth_move(int rank, int comm, unsigned func, int peer, int n)
{
	const struct model_rank *r = &model.rank[rank];

	for (int i = 0; i < r->at; i++) {
		const struct step *s = &r->script->step[i];
		if (s->what == DO_CALL && s->comm == comm && s->func == func && s->peer == peer && n-- == 0)
			return s;
	}
	return NULL;
}

static uint32_t unlike_moves(const struct program_comm *c, int comm)
{
	uint32_t receivers = 0;

	for (int a = 0; a < c->n; a++)
		for (int b = 0; b < c->n; b++)
			for (int n = 0; a != b; n++) {
				const struct step *s = nth_move(c->rank[a], comm, F_SEND, b, n);
				const struct step *t = nth_move(c->rank[b], comm, F_RECV, a, n);
				if (!s || !t)
					break;
				if (model_bytes(s) != model_bytes(t))
					receivers |= 1u << c->rank[b];
			}
	return receivers;
}

static uint32_t find_unlike(const struct program *p)
{
	uint32_t culprits = 0;

	for (int i = 0; i < p->comms; i++) {
		int place = first_difference(&p->comm[i], i);
		if (place >= 0)
			culprits |= odd_ones(&p->comm[i], i, place);
		culprits |= unlike_moves(&p->comm[i], i);
	}
	return culprits;
}

/* ---- circles ---- */

/* Kernels that are not done, and the ranks' programs: node 0 of each rank. */
#define NODES (MODEL_KERNELS + 1)
static uint8_t state[PROGRAM_RANKS][NODES]; /* 1: on the path, 2: leads nowhere */
static bool leads_back(int rank, int node);

static bool program_leads_back(int rank)
{
	const struct model_rank *r = &model.rank[rank];
	const struct step *s = &r->script->step[r->at];

	if (r->at == r->script->n)
		return false;
	if (s->what == DO_SPLIT)
		for (int i = 0; i < model.p->comm[s->comm].n; i++) {
			int q = model.p->comm[s->comm].rank[i];
			if (model.rank[q].met[s->comm] < r->met[s->comm] && leads_back(q, 0))
				return true;
		}
	for (int i = 0; i < r->kernels; i++) {
		const struct kernel *k = &r->kernel[i];
		bool waits = s->what == DO_SYNC ? s->stream < 0 || k->stream == s->stream : k->comm == s->comm;
		if (!k->done && (s->what == DO_SYNC || s->what == DO_DESTROY) && waits && leads_back(rank, i + 1))
			return true;
	}
	return false;
}

/* What `rank` would start next of the communicator: a kernel that is not yet, or its program has not come to it. */
static bool next_leads_back(int rank, int comm)
{
	const struct model_rank *r = &model.rank[rank];

	for (int i = 0; i < r->kernels; i++)
		if (!r->kernel[i].started && r->kernel[i].comm == comm && !r->kernel[i].pairwise)
			return leads_back(rank, i + 1);
	return leads_back(rank, 0);
}

static bool move_leads_back(int rank, const struct move *v)
{
	const struct step *s = &model.rank[rank].script->step[v->step];
	const struct program_comm *c = &model.p->comm[s->comm];
	int q = c->rank[s->peer], me = program_rank_in(c, rank);
	const struct model_rank *r = &model.rank[q];

	if (!v->posted || v->done || model_other_side(rank, v))
		return false;
	for (int i = 0; i < r->moves; i++) {
		const struct step *t = &r->script->step[r->move[i].step];
		if (!r->move[i].posted && t->comm == s->comm && t->func != s->func && t->peer == me)
			return leads_back(q, r->move[i].kernel + 1);
	}
	return leads_back(q, 0);
}

static bool kernel_leads_back(int rank, int kernel)
{
	const struct model_rank *r = &model.rank[rank];
	const struct kernel *k = &r->kernel[kernel];
	const struct program_comm *c = &model.p->comm[k->comm >= 0 ? k->comm : 0];

	for (int i = 0; i < kernel && !k->started; i++) {
		const struct kernel *o = &r->kernel[i];
		if (!o->done && (o->stream == k->stream || (o->comm == k->comm && k->comm >= 0)) &&
			leads_back(rank, i + 1))
			return true;
	}
	if (!k->started)
		return false;
	for (int i = 0; i < r->moves && k->pairwise; i++)
		if (r->move[i].kernel == kernel && move_leads_back(rank, &r->move[i]))
			return true;
	for (int i = 0; i < c->n && !k->pairwise; i++)
		if (!model_started_as(c->rank[i], k->comm, k->number) && next_leads_back(c->rank[i], k->comm))
			return true;
	return false;
}

static bool leads_back(int rank, int node)
{
	uint8_t *is = &state[rank][node];

	if (*is)
		return *is == 1;
	*is = 1;
	if (node ? kernel_leads_back(rank, node - 1) : program_leads_back(rank))
		return true;
	*is = 2;
	return false;
}

/* Of a group only the beginning and the end are seen: in which of its kernels a rank is stuck, nobody knows. */
static bool is_hidden(const struct program *p)
{
	for (int r = 0; r < p->n; r++)
		for (int i = 0; i < model.rank[r].kernels; i++) {
			const struct kernel *k = &model.rank[r].kernel[i];
			for (int n = k->from; n < k->to && !k->done && k->comm >= 0; n++) {
				const struct step *s = &p->rank[r].step[n];
				if (s->what == DO_CALL && (s->comm != k->comm || model_pairwise(s) != k->pairwise))
					return true;
			}
		}
	return false;
}

static bool find_circle(const struct program *p)
{
	memset(state, 0, sizeof(state));
	for (int r = 0; r < p->n; r++)
		if (leads_back(r, 0))
			return true;
	return false;
}

/* ---- */

void program_expect(const struct program *p, struct expected *e)
{
	bool ends = true;

	*e = (struct expected){ENDS_WELL, p->culprit < 0 ? 0 : 1u << p->culprit};
	model_run(p);
	for (int r = 0; r < p->n; r++)
		ends &= model.rank[r].at == p->rank[r].n && model_is_idle(&model.rank[r], -1, -1);
	if (ends)
		return;
	uint32_t unlike = find_unlike(p);
	for (int i = 0; i < p->comms; i++)
		if (is_unclear(&p->comm[i], i)) {
			e->outcome = ENDS_UNCLEAR;
			return;
		}
	if (unlike) {
		e->outcome = ENDS_MISMATCH;
		e->culprits = unlike;
	} else {
		e->outcome = find_circle(p) ? ENDS_CYCLE : ENDS_WAITING;
		if (!p->one_culprit)
			e->culprits = UINT32_MAX;
		if (is_hidden(p))
			e->outcome = ENDS_UNCLEAR;
	}
}
