/* judge_sim_gpu.c - the GPU of a simulated rank; see judge_sim.h. */
#include <stddef.h>

#include "judge_sim_state.h"

static const struct flight_op *at_sequence(int n, uint32_t sequence)
{
	for (uint64_t i = sim.member[n].issued; i > 0 && i + SIM_OPS > sim.member[n].issued; i--)
		if (sim.member[n].op[i % SIM_OPS].sequence == sequence)
			return &sim.member[n].op[i % SIM_OPS];
	return NULL;
}

static const struct flight_op *partner(int n, const struct flight_op *op)
{
	unsigned want = op->function == FLIGHT_SEND ? FLIGHT_RECV : FLIGHT_SEND;
	int comm = n % SIM_COMMS, me = sim_rank(comm, n / SIM_COMMS);
	int q = sim_member(comm, sim.program->member[comm][op->peer]);

	for (uint64_t i = sim.member[q].issued; i > 0 && i + SIM_OPS > sim.member[q].issued; i--) {
		const struct flight_op *o = &sim.member[q].op[i % SIM_OPS];
		if (o->function == want && o->peer == me && o->pair == op->pair)
			return o;
	}
	return NULL;
}

/* When it is over: all have begun the same, and some time has passed. */
static bool is_complete(int n, const struct flight_op *op)
{
	int comm = n % SIM_COMMS;
	uint64_t last = op->started;
	bool pairwise = op->function == FLIGHT_SEND || op->function == FLIGHT_RECV;

	for (int r = 0; r < (pairwise ? 1 : sim.program->size[comm]); r++) {
		const struct flight_op *o =
			pairwise ? partner(n, op)
					 : at_sequence(sim_member(comm, sim.program->member[comm][r]), op->sequence);
		if (!o || !o->started || o->bytes != op->bytes || (!pairwise && o->function != op->function))
			return false;
		last = o->started > last ? o->started : last;
	}
	if (sim.program->fault == FAULT_STUCK && !pairwise && comm == sim.program->step[sim.program->at].comm &&
		op->issued >= sim_time(0) && op->function == sim.program->step[sim.program->at].function &&
		op->bytes == sim.program->step[sim.program->at].bytes)
		return false;
	return sim_time(sim.now_ms) >= last + 5 * SIM_MS;
}

static bool run_calls(struct sim_item *it)
{
	struct sim_member *m = &sim.member[it->member];
	bool all = true;

	if (!it->started) {
		if (it->first != m->over + 1)
			return false;
		it->started = sim.now_ms + 1;
		for (uint64_t i = it->first; i <= it->last; i++) {
			m->op[i % SIM_OPS].started = sim_time(sim.now_ms);
			sim_soil(m, i);
		}
	}
	for (uint64_t i = it->first; i <= it->last; i++)
		all = all && is_complete(it->member, &m->op[i % SIM_OPS]);
	if (!all)
		return false;
	for (uint64_t i = it->first; i <= it->last; i++) {
		m->op[i % SIM_OPS].done = sim_time(sim.now_ms);
		sim_soil(m, i);
	}
	m->over = it->last;
	return true;
}

void sim_run_gpu(int process)
{
	struct sim_rank *r = &sim.rank[process];

	for (int s = 0; s < SIM_STREAMS; s++)
		while (r->head[s] < r->items[s] && !(r->dead && !r->gone)) {
			struct sim_item *it = &r->item[s][r->head[s]];
			bool done = false;
			if (it->kind == ITEM_CALLS)
				done = run_calls(it);
			else if (it->kind == ITEM_ORDER)
				done = r->head[it->stream] >= it->after;
			else if (!it->started)
				it->started = sim.now_ms + 1;
			else
				done = it->ms != SIM_NEVER && sim.now_ms >= it->started - 1 + it->ms;
			if (!done)
				break;
			r->head[s]++;
			sim.moved_ms = sim.now_ms;
		}
}
