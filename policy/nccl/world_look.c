/* world_look.c - see world.h: the judge's world, put together. */
#include <string.h>

#include "world.h"

/* A process that cannot be asked about shows that it runs by its watch. */
#define HEARTBEAT_NS 10000000000ull

static bool same_key(const struct world_place *a, const struct world_place *b)
{
	return memcmp(a->key, b->key, sizeof(a->key)) == 0;
}

/* ---- processes ---- */

/* Its last sign of life, for jobs that have ended. */
static uint64_t last_sign(const struct world *w, unsigned i)
{
	uint64_t t = w->page[i].heartbeat;

	for (unsigned k = 0; k < w->file[i].places; k++)
		if (w->place[i][k].changed > t)
			t = w->place[i][k].changed;
	return t;
}

static void tell_life(struct world *w, unsigned i, struct judge_process *p, uint64_t now)
{
	struct world_file *f = &w->file[i];
	uint64_t beat = w->page[i].heartbeat;

	if (w->dead) {
		uint64_t sign = last_sign(w, i);
		p->life = w->page[i].leaving || sign + HEARTBEAT_NS / 5 < now ? LIFE_DEAD : LIFE_RUNS;
		p->life_since = sign;
		return;
	}
	if (!f->near) {
		p->life = beat + HEARTBEAT_NS < now ? LIFE_STOPPED : LIFE_RUNS;
		p->life_since = beat;
		return;
	}
	if (!f->memory)
		proc_lives(&f->proc, now);
	p->life = f->proc.life;
	p->life_since = f->proc.life_since;
	p->cpu_changed = f->proc.cpu_changed;
	p->io_changed = f->proc.io_changed;
	p->children = f->proc.children;
	p->locked = f->proc.locked;
	p->exit_signal = f->proc.exit_signal;
}

static void add_process(struct world *w, unsigned i, uint64_t now)
{
	struct judge_process *p = &w->process[w->judge.processes];

	*p = (struct judge_process){.page = &w->page[i], .pid = (uint32_t)w->file[i].pid, .exit_signal = -1};
	tell_life(w, i, p, now);
	/* Whatever goes on in any of its communicators. */
	for (unsigned k = 0; k < w->file[i].places && p->cpu_changed; k++)
		if (w->place[i][k].changed > p->cpu_changed && w->place[i][k].changed <= now)
			p->cpu_changed = w->place[i][k].changed;
	w->file_of[w->judge.processes++] = i;
}

/* ---- communicators ---- */

static void add_member(struct world *w, uint32_t process, unsigned k)
{
	unsigned i = w->file_of[process];
	const struct world_place *p = &w->place[i][k];
	struct judge_member *m = &w->member[w->judge.members];
	struct flight_op *op = w->op[w->judge.members];

	if (w->judge.members == JUDGE_MEMBERS)
		return;
	if (!world_read_ops(&w->file[i], k, p->life, op))
		memset((void *)op, 0, sizeof(w->op[0]));
	*m = (struct judge_member){
		.process = process,
		.place = k,
		.key = {p->key[0], p->key[1]},
		.rank = p->rank,
		.ranks = p->ranks,
		.issued = p->issued,
		.sequence = p->sequence,
		.started = p->started,
		.done = p->done,
		.changed = p->changed,
		.made = p->made,
		.best_rate = p->best_rate,
		.state = p->state,
		.nonblocking = p->nonblocking,
		.parent = p->parent,
		.number = p->number,
		.device = p->device,
		.name = p->name,
		.op = op,
	};
	w->judge.members++;
}

/* All ranks of a communicator, with their operations. */
static void add_comm(struct world *w, const struct world_place *of)
{
	for (uint32_t n = 0; n < w->judge.processes; n++) {
		unsigned i = w->file_of[n];
		for (unsigned k = 0; k < w->file[i].places; k++)
			if (w->place[i][k].state != FLIGHT_FREE && same_key(of, &w->place[i][k]))
				add_member(w, n, k);
	}
}

static bool is_there(const struct world *w, const struct world_place *of)
{
	for (uint32_t i = 0; i < w->judge.members; i++)
		if (memcmp(w->member[i].key, of->key, sizeof(of->key)) == 0)
			return true;
	return false;
}

static bool wants(const struct world *w, const struct world_place *p, uint64_t now)
{
	if (w->whole)
		return p->state != FLIGHT_FREE;
	if (w->dead)
		return (p->state == FLIGHT_LIVE || p->state == FLIGHT_MAKING) && p->issued > p->done;
	return p->stuck && p->stuck < now;
}

/* Of two that are wanted: the one that is stuck, and for longer. */
static bool rather(const struct world_place *a, const struct world_place *b)
{
	return a->stuck && (!b->stuck || a->stuck < b->stuck);
}

/* Those that are stuck for longest, while there is room. */
static const struct world_place *next_comm(const struct world *w, uint64_t now)
{
	const struct world_place *best = NULL;

	for (uint32_t n = 0; n < w->judge.processes; n++) {
		unsigned i = w->file_of[n];
		for (unsigned k = 0; k < w->file[i].places; k++) {
			const struct world_place *p = &w->place[i][k];
			if (wants(w, p, now) && (!best || rather(p, best)) && !is_there(w, p))
				best = p;
		}
	}
	return best;
}

const struct judge_world *world_look(struct world *w, uint64_t now)
{
	const struct world_place *p;

	w->dead = now == 0;
	if (w->dead)
		for (unsigned i = 0; i < w->files; i++)
			if (world_counts(w, i) && last_sign(w, i) > now)
				now = last_sign(w, i);
	w->judge =
		(struct judge_world){.now = now, .watched = w->watched, .process = w->process, .member = w->member};
	for (unsigned i = 0; i < w->files; i++)
		if (world_counts(w, i))
			add_process(w, i, now);
	while (w->judge.members < JUDGE_MEMBERS && (p = next_comm(w, now)))
		add_comm(w, p);
	return &w->judge;
}

void world_texts(struct world *w)
{
	for (uint32_t n = 0; n < w->judge.processes; n++)
		world_read_texts(&w->file[w->file_of[n]], &w->page[w->file_of[n]]);
}
