/* judge_sim.c - see judge_sim.h. */
#include <string.h>

#include "judge_sim.h"

#define MS 1000000ull
#define ITEMS (SIM_STEPS + 4)
#define MEMBERS (SIM_RANKS * SIM_COMMS)
#define NEVER UINT32_MAX
#define OPS 1024 /* more than any program makes; the record keeps fewer */

/* What a stream has to do. */
struct item {
	enum { ITEM_CALLS, ITEM_WORK, ITEM_ORDER } kind;
	int member;           /* of the calls, */
	uint64_t first, last; /* which they are */
	uint32_t ms;          /* of work */
	int stream, after;    /* of an order: so many items of that stream are done first */
	uint32_t started;     /* + 1; 0: not yet */
};

struct rank {
	int pc;
	uint32_t busy_until, wait_since; /* + 1 */
	int wait_stream, wait_item;
	bool dead, stopped, over, gone;
	enum sim_how how;
	uint32_t how_since;
	struct item item[SIM_STREAMS][ITEMS];
	int items[SIM_STREAMS], head[SIM_STREAMS];
	uint32_t publish_at;
};

/* As it is; the world's members are as it is seen. */
struct member {
	struct flight_op op[OPS];
	uint64_t issued, sequence, changed, signature;
	uint64_t dirty[OPS];
	unsigned dirties;
	uint32_t pair[2][SIM_RANKS];
	uint64_t over; /* those of one communicator follow each other, on whatever streams they are */
};

static const struct sim_program *prog;
static struct rank rank[SIM_RANKS];
static struct member member[MEMBERS];
static uint32_t now_ms, moved_ms;
static uint32_t group_number, issues; /* one after the other */
static uint64_t *rnd;
static struct judge_world *world;
static bool overrun;

static uint64_t t(uint32_t ms)
{
	return (1000000 + (uint64_t)ms) * MS;
}

static int member_of(int comm, int process)
{
	for (int r = 0; r < prog->size[comm]; r++)
		if (prog->member[comm][r] == process)
			return process * SIM_COMMS + comm;
	return -1;
}

static int rank_of(int comm, int process)
{
	for (int r = 0; r < prog->size[comm]; r++)
		if (prog->member[comm][r] == process)
			return r;
	return -1;
}

static void soil(struct member *m, uint64_t index)
{
	m->changed = t(now_ms);
	moved_ms = now_ms;
	if (m->dirties < OPS)
		m->dirty[m->dirties++] = index;
}

/* ---- issuing ---- */

static struct flight_op *issue(int process, int comm, unsigned function, uint64_t bytes, int peer, int stream)
{
	struct member *m = &member[member_of(comm, process)];
	struct flight_op *op = &m->op[++m->issued % OPS];

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
		.issued = t(now_ms) + ++issues,
		.returned = t(now_ms),
		.flags = comm == prog->blind ? FLIGHT_BLIND : 0,
	};
	if (function == FLIGHT_SEND || function == FLIGHT_RECV) {
		op->pair = ++m->pair[function == FLIGHT_RECV][peer];
	} else {
		op->sequence = (uint32_t)++m->sequence;
		m->signature = (m->signature * 31 + function) * 1000003 + bytes;
		op->signature = m->signature;
	}
	soil(m, m->issued);
	return op;
}

static void launch(int process, int comm, int stream, uint64_t first)
{
	struct rank *r = &rank[process];
	int n = member_of(comm, process);

	r->item[stream][r->items[stream]++] =
		(struct item){.kind = ITEM_CALLS, .member = n, .first = first, .last = member[n].issued};
}

static void exchange(int process, const struct sim_step *s)
{
	int n = member_of(s->comm, process), me = rank_of(s->comm, process);
	uint64_t first = member[n].issued + 1;

	group_number++;
	for (int r = 0; r < prog->size[s->comm]; r++)
		for (int i = 0; i < 2 && r != me; i++) {
			struct flight_op *op =
				issue(process, s->comm, i ? FLIGHT_RECV : FLIGHT_SEND, s->bytes, r, s->stream);
			op->flags |= FLIGHT_GROUPED;
			op->group = group_number;
		}
	launch(process, s->comm, s->stream, first);
}

static void call(int process, const struct sim_step *s, bool differs)
{
	int n = member_of(s->comm, process), me = rank_of(s->comm, process);
	uint64_t bytes = differs && sim_random(rnd) % 2 ? s->bytes * 2 : s->bytes;
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
	launch(process, s->comm, s->stream, member[n].issued);
}

static void pause_for(struct rank *r, enum sim_how how, uint32_t ms)
{
	r->how = how;
	r->how_since = now_ms;
	r->busy_until = ms == NEVER ? NEVER : now_ms + ms;
	moved_ms = now_ms;
}

static void do_step(int process, const struct sim_step *s, bool differs)
{
	struct rank *r = &rank[process];

	if (s->kind <= SIM_EXCHANGE) {
		call(process, s, differs);
		return;
	}
	if (s->a != process)
		return;
	switch (s->kind) {
	case SIM_CPU: pause_for(r, s->how, s->ms); break;
	case SIM_GPU:
		r->item[s->stream][r->items[s->stream]++] = (struct item){.kind = ITEM_WORK, .ms = s->ms};
		break;
	case SIM_ORDER:
		if (s->b != s->stream)
			r->item[s->stream][r->items[s->stream]++] =
				(struct item){.kind = ITEM_ORDER, .stream = s->b, .after = r->items[s->b]};
		break;
	default:
		r->wait_since = now_ms + 1;
		r->wait_stream = s->stream;
		r->wait_item = r->items[s->stream];
	}
}

/* ---- a process ---- */

/* Its fault, at the step where it strikes; true: the step is not done as it stands. */
static bool strike(int process, const struct sim_step *s)
{
	struct rank *r = &rank[process];
	const struct sim_step hang = {.kind = SIM_GPU, .a = process, .stream = s->stream, .ms = NEVER};

	switch (prog->fault) {
	case FAULT_KILLED:
	case FAULT_EXITED: r->dead = true; return true;
	case FAULT_SKIPS: return true;
	case FAULT_DIFFERS: do_step(process, s, true); return true;
	case FAULT_SWAPS:
		for (int i = r->pc + 1; i < prog->steps; i++)
			if (prog->step[i].kind <= SIM_PAIR && member_of(prog->step[i].comm, process) >= 0) {
				do_step(process, &prog->step[i], false);
				do_step(process, s, false);
				r->pc = i;
				return true;
			}
		return false;
	case FAULT_STOPPED:
		r->stopped = true;
		r->how_since = now_ms;
		return true;
	case FAULT_FROZEN: pause_for(r, HOW_IDLE, NEVER); return true;
	case FAULT_SPINS: pause_for(r, HOW_BUSY, NEVER); return true;
	case FAULT_GPU: do_step(process, &hang, false); return false;
	default: return false;
	}
}

static void run_cpu(int process)
{
	struct rank *r = &rank[process];

	for (int i = 0; i < 8 && !r->dead && !r->stopped && now_ms >= r->busy_until && r->busy_until != NEVER;
		 i++) {
		if (r->wait_since && r->head[r->wait_stream] < r->wait_item)
			return;
		r->wait_since = 0;
		r->how = HOW_BUSY;
		if (r->pc == prog->steps) {
			/* At the end all is waited for. */
			for (int s = 0; s < SIM_STREAMS && !r->over; s++)
				if (r->head[s] < r->items[s]) {
					r->wait_since = now_ms + 1;
					r->wait_stream = s;
					r->wait_item = r->items[s];
					return;
				}
			r->over = true;
			r->dead = r->gone = prog->exits;
			return;
		}
		const struct sim_step *s = &prog->step[r->pc];
		if (process != prog->culprit || r->pc != prog->at || !strike(process, s))
			do_step(process, s, false);
		r->pc++;
		if (sim_random(rnd) % 4 == 0)
			r->busy_until =
				r->busy_until > now_ms ? r->busy_until : now_ms + (uint32_t)(sim_random(rnd) % 20);
	}
}

/* ---- its GPU ---- */

static const struct flight_op *at_sequence(int n, uint32_t sequence)
{
	for (uint64_t i = member[n].issued; i > 0 && i + OPS > member[n].issued; i--)
		if (member[n].op[i % OPS].sequence == sequence)
			return &member[n].op[i % OPS];
	return NULL;
}

static const struct flight_op *partner(int n, const struct flight_op *op)
{
	unsigned want = op->function == FLIGHT_SEND ? FLIGHT_RECV : FLIGHT_SEND;
	int comm = n % SIM_COMMS, me = rank_of(comm, n / SIM_COMMS);
	int q = member_of(comm, prog->member[comm][op->peer]);

	for (uint64_t i = member[q].issued; i > 0 && i + OPS > member[q].issued; i--) {
		const struct flight_op *o = &member[q].op[i % OPS];
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

	for (int r = 0; r < (pairwise ? 1 : prog->size[comm]); r++) {
		const struct flight_op *o =
			pairwise ? partner(n, op) : at_sequence(member_of(comm, prog->member[comm][r]), op->sequence);
		if (!o || !o->started || o->bytes != op->bytes || (!pairwise && o->function != op->function))
			return false;
		last = o->started > last ? o->started : last;
	}
	if (prog->fault == FAULT_STUCK && !pairwise && comm == prog->step[prog->at].comm && op->issued >= t(0) &&
		op->function == prog->step[prog->at].function && op->bytes == prog->step[prog->at].bytes)
		return false;
	return t(now_ms) >= last + 5 * MS;
}

static bool run_calls(struct item *it)
{
	struct member *m = &member[it->member];
	bool all = true;

	if (!it->started) {
		if (it->first != m->over + 1)
			return false;
		it->started = now_ms + 1;
		for (uint64_t i = it->first; i <= it->last; i++) {
			m->op[i % OPS].started = t(now_ms);
			soil(m, i);
		}
	}
	for (uint64_t i = it->first; i <= it->last; i++)
		all = all && is_complete(it->member, &m->op[i % OPS]);
	if (!all)
		return false;
	for (uint64_t i = it->first; i <= it->last; i++) {
		m->op[i % OPS].done = t(now_ms);
		soil(m, i);
	}
	m->over = it->last;
	return true;
}

static void run_gpu(int process)
{
	struct rank *r = &rank[process];

	for (int s = 0; s < SIM_STREAMS; s++)
		while (r->head[s] < r->items[s] && !(r->dead && !r->gone)) {
			struct item *it = &r->item[s][r->head[s]];
			bool done = false;
			if (it->kind == ITEM_CALLS)
				done = run_calls(it);
			else if (it->kind == ITEM_ORDER)
				done = r->head[it->stream] >= it->after;
			else if (!it->started)
				it->started = now_ms + 1;
			else
				done = it->ms != NEVER && now_ms >= it->started - 1 + it->ms;
			if (!done)
				break;
			r->head[s]++;
			moved_ms = now_ms;
		}
}

/* ---- what is seen of it ---- */

static void publish_member(int n, bool sampled)
{
	struct member *m = &member[n];
	struct judge_member *seen = world_member((unsigned)n);
	struct flight_op *op = world_ops((unsigned)n);
	bool blind = n % SIM_COMMS == prog->blind;

	for (unsigned i = 0; i < m->dirties; i++) {
		struct flight_op *o = &op[m->dirty[i] % FLIGHT_OPS], was = *o;
		if (was.index > m->dirty[i])
			continue; /* overwritten */
		*o = m->op[m->dirty[i] % OPS];
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
	for (uint64_t i = seen->started + 1; i <= seen->issued && m->op[i % OPS].started && sampled && !blind;
		 i++)
		seen->started = i;
	for (uint64_t i = seen->done + 1; i <= seen->issued && m->op[i % OPS].done && sampled && !blind; i++)
		seen->done = i;
	overrun |= m->issued > m->over + FLIGHT_OPS;
}

static void publish(int process)
{
	struct rank *r = &rank[process];
	struct flight_page *page = world_page((unsigned)process);
	bool stuck =
		process == 0 && now_ms >= prog->sampler_from && now_ms - prog->sampler_from < prog->sampler_ms;

	if (r->stopped || (r->dead && r->publish_at == NEVER) || now_ms < r->publish_at)
		return;
	r->publish_at = r->dead ? NEVER : now_ms + 50 + (uint32_t)(sim_random(rnd) % 40);
	if (r->dead && prog->fault == FAULT_KILLED && process == prog->culprit)
		return;
	page->heartbeat = t(now_ms);
	page->leaving = r->dead;
	/* Who ends does not ask the driver once more. */
	if (!stuck && !r->dead)
		page->sampled = t(now_ms);
	page->wait[0].thread = 1;
	page->wait[0].kind = r->wait_since ? FLIGHT_WAIT_GPU : FLIGHT_WAIT_NONE;
	page->wait[0].since = r->wait_since ? t(r->wait_since - 1) : 0;
	for (int c = 0; c < prog->comms; c++)
		if (member_of(c, process) >= 0)
			publish_member(member_of(c, process), !stuck && !r->dead);
}

/* As the operating system shows it. */
static void show(int process)
{
	static const enum judge_life life[SIM_HOWS] = {[HOW_TRACED] = LIFE_TRACED, [HOW_DISK] = LIFE_DISK};
	struct rank *r = &rank[process];
	struct judge_process *p = world_process((unsigned)process);
	enum judge_life is = r->dead ? LIFE_DEAD : r->stopped ? LIFE_STOPPED : life[r->how];

	if (is != p->life) {
		p->life = is;
		p->life_since = t(now_ms);
	}
	p->children = r->how == HOW_CHILD;
	p->locked = r->how == HOW_LOCK;
	if (r->stopped || r->wait_since)
		return;
	if (r->how == HOW_BUSY || (r->over && !r->dead && now_ms % 1000 == 0))
		p->cpu_changed = t(now_ms);
	if (r->how == HOW_IO)
		p->io_changed = t(now_ms);
}

/* ---- */

void sim_start(const struct sim_program *p, uint64_t *random)
{
	memset(rank, 0, sizeof(rank));
	memset(member, 0, sizeof(member));
	prog = p;
	rnd = random;
	now_ms = moved_ms = issues = 0;
	overrun = false;
	world = world_empty((unsigned)p->ranks);
	world->members = MEMBERS;
	world->watched = t(0);
	for (int i = 0; i < MEMBERS; i++) {
		struct judge_member *m = world_member((unsigned)i);
		int process = i / SIM_COMMS, comm = i % SIM_COMMS;
		bool there = comm < p->comms && process < p->ranks && member_of(comm, process) >= 0;
		m->process = (uint32_t)(process < p->ranks ? process : 0);
		m->key[0] = there ? (uint64_t)comm + 1 : 1000 + (uint64_t)i;
		m->rank = there ? rank_of(comm, process) : 0;
		m->ranks = there ? p->size[comm] : 1;
		m->state = there ? FLIGHT_LIVE : FLIGHT_GONE;
		m->best_rate = 1u << 30;
	}
	for (int i = 0; i < p->ranks; i++) {
		world_process((unsigned)i)->cpu_changed = world_process((unsigned)i)->io_changed = t(0);
		world_page((unsigned)i)->sampled = t(0);
	}
}

void sim_tick(void)
{
	now_ms += SIM_TICK_MS;
	for (int i = 0; i < prog->ranks; i++)
		run_cpu(i);
	for (int i = 0; i < prog->ranks; i++)
		run_gpu(i);
	for (int i = 0; i < prog->ranks; i++)
		publish(i);
	if (now_ms % SIM_POLL_MS == 0)
		for (int i = 0; i < prog->ranks; i++)
			show(i);
}

const struct judge_world *sim_world(void)
{
	world->now = t(now_ms);
	return world;
}

uint32_t sim_ms(void)
{
	return now_ms;
}

bool sim_over(void)
{
	for (int i = 0; i < prog->ranks; i++)
		if (!rank[i].over)
			return false;
	return true;
}

uint32_t sim_still_ms(void)
{
	return now_ms - moved_ms;
}

bool sim_overran(void)
{
	return overrun;
}
