/* judge_sim.c - see judge_sim.h. */
#include <string.h>

#include "judge_sim_state.h"

struct sim_state sim;

uint64_t sim_time(uint32_t ms)
{
	return (1000000 + (uint64_t)ms) * SIM_MS;
}

int sim_rank(int comm, int process)
{
	for (int r = 0; r < sim.program->size[comm]; r++)
		if (sim.program->member[comm][r] == process)
			return r;
	return -1;
}

int sim_member(int comm, int process)
{
	return sim_rank(comm, process) < 0 ? -1 : process * SIM_COMMS + comm;
}

void sim_soil(struct sim_member *m, uint64_t index)
{
	m->changed = sim_time(sim.now_ms);
	sim.moved_ms = sim.now_ms;
	if (m->dirties < SIM_OPS)
		m->dirty[m->dirties++] = index;
}

/* ---- issuing ---- */

static struct flight_op *issue(int process, int comm, unsigned function, uint64_t bytes, int peer, int stream)
{
	struct sim_member *m = &sim.member[sim_member(comm, process)];
	struct flight_op *op = &m->op[++m->issued % SIM_OPS];

	*op = (struct flight_op){
		.version = 2,
		.function = (uint16_t)function,
		.index = m->issued,
		.bytes = bytes,
		.count = bytes,
		.type = 7,
		.reduction = function == FLIGHT_ALL_REDUCE || function == FLIGHT_REDUCE_SCATTER ? 0 : 0xffff,
		.peer = peer,
		.thread = 1,
		.stream = (uint64_t)stream + 1,
		.issued = sim_time(sim.now_ms) + ++sim.issues,
		.returned = sim_time(sim.now_ms),
		.flags = comm == sim.program->blind ? FLIGHT_BLIND : 0,
	};
	if (function == FLIGHT_SEND || function == FLIGHT_RECV) {
		op->pair = ++m->pair[function == FLIGHT_RECV][peer];
	} else {
		op->sequence = (uint32_t)++m->sequence;
		m->signature = (m->signature * 31 + function) * 1000003 + bytes;
		op->signature = m->signature;
	}
	sim_soil(m, m->issued);
	return op;
}

static void launch(int process, int comm, int stream, uint64_t first)
{
	struct sim_rank *r = &sim.rank[process];
	int n = sim_member(comm, process);

	r->item[stream][r->items[stream]++] =
		(struct sim_item){.kind = ITEM_CALLS, .member = n, .first = first, .last = sim.member[n].issued};
}

static void exchange(int process, const struct sim_step *s)
{
	int n = sim_member(s->comm, process), me = sim_rank(s->comm, process);
	uint64_t first = sim.member[n].issued + 1;

	sim.groups++;
	for (int r = 0; r < sim.program->size[s->comm]; r++)
		for (int i = 0; i < 2 && r != me; i++) {
			struct flight_op *op =
				issue(process, s->comm, i ? FLIGHT_RECV : FLIGHT_SEND, s->bytes, r, s->stream);
			op->flags |= FLIGHT_GROUPED;
			op->group = sim.groups;
		}
	launch(process, s->comm, s->stream, first);
}

static void call(int process, const struct sim_step *s, bool differs)
{
	int n = sim_member(s->comm, process), me = sim_rank(s->comm, process);
	uint64_t bytes = differs && sim_random(sim.random) % 2 ? s->bytes * 2 : s->bytes;
	unsigned function = differs && bytes == s->bytes ? FLIGHT_ALL_TO_ALL : s->function;

	if (n < 0)
		return;
	if (s->kind == SIM_EXCHANGE) {
		exchange(process, s);
		return;
	}
	if (s->kind == SIM_PAIR && me != s->a && me != s->b)
		return;
	if (s->kind == SIM_PAIR)
		issue(process, s->comm, me == s->a ? FLIGHT_SEND : FLIGHT_RECV, s->bytes, me == s->a ? s->b : s->a,
			  s->stream);
	else
		issue(process, s->comm, function, bytes, s->function == FLIGHT_BROADCAST ? 0 : -1, s->stream);
	launch(process, s->comm, s->stream, sim.member[n].issued);
}

static void pause_for(struct sim_rank *r, enum sim_how how, uint32_t ms)
{
	r->how = how;
	r->busy_until = ms == SIM_NEVER ? SIM_NEVER : sim.now_ms + ms;
	sim.moved_ms = sim.now_ms;
}

static void do_step(int process, const struct sim_step *s, bool differs)
{
	struct sim_rank *r = &sim.rank[process];

	if (s->kind <= SIM_EXCHANGE) {
		call(process, s, differs);
		return;
	}
	if (s->a != process)
		return;
	switch (s->kind) {
	case SIM_CPU: pause_for(r, s->how, s->ms); break;
	case SIM_GPU:
		r->item[s->stream][r->items[s->stream]++] = (struct sim_item){.kind = ITEM_WORK, .ms = s->ms};
		break;
	case SIM_ORDER:
		if (s->b != s->stream)
			r->item[s->stream][r->items[s->stream]++] =
				(struct sim_item){.kind = ITEM_ORDER, .stream = s->b, .after = r->items[s->b]};
		break;
	default:
		r->wait_since = sim.now_ms + 1;
		r->wait_stream = s->stream;
		r->wait_item = r->items[s->stream];
	}
}

/* ---- a process ---- */

/* Its fault, at the step where it strikes; true: the step is not done as it stands. */
static bool strike(int process, const struct sim_step *s)
{
	struct sim_rank *r = &sim.rank[process];
	const struct sim_step hang = {.kind = SIM_GPU, .a = process, .stream = s->stream, .ms = SIM_NEVER};

	switch (sim.program->fault) {
	case FAULT_KILLED:
	case FAULT_EXITED: r->dead = true; return true;
	case FAULT_SKIPS: return true;
	case FAULT_DIFFERS: do_step(process, s, true); return true;
	case FAULT_SWAPS:
		for (int i = r->pc + 1; i < sim.program->steps; i++) {
			/* None is left out. */
			if (sim.program->step[i].kind == SIM_EXCHANGE &&
				sim_member(sim.program->step[i].comm, process) >= 0)
				return false;
			if (sim.program->step[i].kind <= SIM_PAIR &&
				sim_member(sim.program->step[i].comm, process) >= 0) {
				do_step(process, &sim.program->step[i], false);
				do_step(process, s, false);
				r->pc = i;
				return true;
			}
		}
		return false;
	case FAULT_STOPPED: r->stopped = true; return true;
	case FAULT_FROZEN: pause_for(r, HOW_IDLE, SIM_NEVER); return true;
	case FAULT_SPINS: pause_for(r, HOW_BUSY, SIM_NEVER); return true;
	case FAULT_GPU: do_step(process, &hang, false); return false;
	default: return false;
	}
}

static void run_cpu(int process)
{
	struct sim_rank *r = &sim.rank[process];

	for (int i = 0;
		 i < 8 && !r->dead && !r->stopped && sim.now_ms >= r->busy_until && r->busy_until != SIM_NEVER; i++) {
		if (r->wait_since && r->head[r->wait_stream] < r->wait_item)
			return;
		r->wait_since = 0;
		r->how = HOW_BUSY;
		if (r->pc == sim.program->steps) {
			/* At the end all is waited for. */
			for (int s = 0; s < SIM_STREAMS && !r->over; s++)
				if (r->head[s] < r->items[s]) {
					r->wait_since = sim.now_ms + 1;
					r->wait_stream = s;
					r->wait_item = r->items[s];
					return;
				}
			r->over = true;
			r->dead = r->gone = sim.program->exits;
			return;
		}
		const struct sim_step *s = &sim.program->step[r->pc];
		if (process != sim.program->culprit || r->pc != sim.program->at || !strike(process, s))
			do_step(process, s, false);
		r->pc++;
		if (sim_random(sim.random) % 4 == 0)
			r->busy_until = r->busy_until > sim.now_ms ? r->busy_until
													   : sim.now_ms + (uint32_t)(sim_random(sim.random) % 20);
	}
}

/* ---- */

void sim_start(const struct sim_program *p, uint64_t *random)
{
	memset(&sim, 0, sizeof(sim));
	sim.program = p;
	sim.random = random;
	sim.world = world_empty((unsigned)p->ranks);
	sim.world->members = SIM_MEMBERS;
	sim.world->watched = sim_time(0);
	for (int i = 0; i < SIM_MEMBERS; i++) {
		struct judge_member *m = world_member((unsigned)i);
		int process = i / SIM_COMMS, comm = i % SIM_COMMS;
		bool there = comm < p->comms && process < p->ranks && sim_member(comm, process) >= 0;
		m->process = (uint32_t)(process < p->ranks ? process : 0);
		m->key[0] = there ? (uint64_t)comm + 1 : 1000 + (uint64_t)i;
		m->rank = there ? sim_rank(comm, process) : 0;
		m->ranks = there ? p->size[comm] : 1;
		m->state = there ? FLIGHT_LIVE : FLIGHT_GONE;
		m->best_rate = 1u << 30;
	}
	for (int i = 0; i < p->ranks; i++) {
		world_process((unsigned)i)->cpu_changed = world_process((unsigned)i)->io_changed = sim_time(0);
		world_page((unsigned)i)->sampled = sim_time(0);
	}
}

void sim_tick(void)
{
	sim.now_ms += SIM_TICK_MS;
	for (int i = 0; i < sim.program->ranks; i++)
		run_cpu(i);
	for (int i = 0; i < sim.program->ranks; i++)
		sim_run_gpu(i);
	for (int i = 0; i < sim.program->ranks; i++)
		sim_publish(i);
	if (sim.now_ms % SIM_POLL_MS == 0)
		for (int i = 0; i < sim.program->ranks; i++)
			sim_show(i);
}

const struct judge_world *sim_world(void)
{
	sim.world->now = sim_time(sim.now_ms);
	return sim.world;
}

uint32_t sim_ms(void)
{
	return sim.now_ms;
}

bool sim_over(void)
{
	for (int i = 0; i < sim.program->ranks; i++)
		if (!sim.rank[i].over)
			return false;
	return true;
}

uint32_t sim_still_ms(void)
{
	return sim.now_ms - sim.moved_ms;
}

bool sim_overran(void)
{
	return sim.overrun;
}
