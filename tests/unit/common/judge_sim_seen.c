/* judge_sim_seen.c - what is seen of a simulated rank; see judge_sim.h. */
#include "judge_sim_state.h"

static void publish_member(int n, bool sampled)
{
	struct sim_member *m = &sim.member[n];
	struct judge_member *seen = world_member((unsigned)n);
	struct flight_op *op = world_ops((unsigned)n);
	bool blind = n % SIM_COMMS == sim.program->blind;

	for (unsigned i = 0; i < m->dirties; i++) {
		struct flight_op *o = &op[m->dirty[i] % FLIGHT_OPS], was = *o;
		if (was.index > m->dirty[i])
			continue; /* overwritten */
		*o = m->op[m->dirty[i] % SIM_OPS];
		if (blind || !sampled) {
			o->started = was.index == o->index ? was.started : 0;
			o->done = was.index == o->index ? was.done : 0;
		}
	}
	if (sampled && !blind)
		m->dirties = 0;
	seen->issued = m->issued;
	seen->sequence = m->sequence;
	seen->changed = m->changed;
	for (uint64_t i = seen->started + 1; i <= seen->issued && m->op[i % SIM_OPS].started && sampled && !blind;
		 i++)
		seen->started = i;
	for (uint64_t i = seen->done + 1; i <= seen->issued && m->op[i % SIM_OPS].done && sampled && !blind; i++)
		seen->done = i;
	sim.overrun |= m->issued > m->over + FLIGHT_OPS;
}

void sim_publish(int process)
{
	struct sim_rank *r = &sim.rank[process];
	struct flight_page *page = world_page((unsigned)process);
	bool stuck = process == 0 && sim.now_ms >= sim.program->sampler_from &&
				 sim.now_ms - sim.program->sampler_from < sim.program->sampler_ms;

	if (r->stopped || (r->dead && r->publish_at == SIM_NEVER) || sim.now_ms < r->publish_at)
		return;
	r->publish_at = r->dead ? SIM_NEVER : sim.now_ms + 50 + (uint32_t)(sim_random(sim.random) % 40);
	if (r->dead && sim.program->fault == FAULT_KILLED && process == sim.program->culprit)
		return;
	page->heartbeat = sim_time(sim.now_ms);
	page->leaving = r->dead;
	/* Who ends does not ask the driver once more. */
	if (!stuck && !r->dead)
		page->sampled = sim_time(sim.now_ms);
	page->wait[0].thread = 1;
	page->wait[0].kind = r->wait_since ? FLIGHT_WAIT_GPU : FLIGHT_WAIT_NONE;
	page->wait[0].since = r->wait_since ? sim_time(r->wait_since - 1) : 0;
	for (int c = 0; c < sim.program->comms; c++)
		if (sim_member(c, process) >= 0)
			publish_member(sim_member(c, process), !stuck && !r->dead);
}

/* As the operating system shows it. */
void sim_show(int process)
{
	static const enum judge_life life[SIM_HOWS] = {[HOW_TRACED] = LIFE_TRACED, [HOW_DISK] = LIFE_DISK};
	struct sim_rank *r = &sim.rank[process];
	struct judge_process *p = world_process((unsigned)process);
	enum judge_life is = r->dead ? LIFE_DEAD : r->stopped ? LIFE_STOPPED : life[r->how];

	if (is != p->life) {
		p->life = is;
		p->life_since = sim_time(sim.now_ms);
	}
	p->children = r->how == HOW_CHILD;
	p->locked = r->how == HOW_LOCK;
	if (r->stopped || r->wait_since)
		return;
	if (r->how == HOW_BUSY || (r->over && !r->dead && sim.now_ms % 1000 == 0))
		p->cpu_changed = sim_time(sim.now_ms);
	if (r->how == HOW_IO)
		p->io_changed = sim_time(sim.now_ms);
}
