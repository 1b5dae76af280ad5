/* judge_sim_make.c - random programs; see judge_sim.h. */
#include <string.h>

#include "judge_sim.h"

uint64_t sim_random(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ull;
	uint64_t z = *state;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static int below(uint64_t *random, int n)
{
	return (int)(sim_random(random) % (uint64_t)n);
}

static void make_comms(struct sim_program *p, uint64_t *random)
{
	for (int c = 0; c < p->comms; c++) {
		for (int r = 0; r < p->ranks; r++)
			if (c == 0 || below(random, 3))
				p->member[c][p->size[c]++] = r;
		while (p->size[c] < 2) {
			p->size[c] = 2;
			p->member[c][0] = 0;
			p->member[c][1] = p->ranks - 1;
		}
	}
}

/* Mostly short; now and then as long as a compilation or a checkpoint. */
static uint32_t some_ms(uint64_t *random)
{
	switch (below(random, 40)) {
	case 0: return (uint32_t)below(random, 50000);
	case 1:
	case 2:
	case 3: return (uint32_t)below(random, 3000);
	default: return (uint32_t)below(random, 60);
	}
}

static void make_step(const struct sim_program *p, struct sim_step *s, uint64_t *random)
{
	static const unsigned functions[] = {FLIGHT_ALL_REDUCE, FLIGHT_ALL_GATHER, FLIGHT_REDUCE_SCATTER,
										 FLIGHT_BROADCAST};

	s->comm = below(random, p->comms);
	s->stream = below(random, SIM_STREAMS);
	s->bytes = 64u << below(random, 16);
	switch (below(random, 16)) {
	case 0:
	case 1:
		s->kind = SIM_CPU;
		s->a = below(random, p->ranks);
		s->ms = some_ms(random);
		s->how = (enum sim_how)below(random, SIM_HOWS);
		break;
	case 2:
	case 3:
		s->kind = SIM_GPU;
		s->a = below(random, p->ranks);
		s->ms = some_ms(random);
		break;
	case 4:
	case 5:
		s->kind = SIM_SYNC;
		s->a = below(random, p->ranks);
		break;
	case 6:
		s->kind = SIM_ORDER;
		s->a = below(random, p->ranks);
		s->b = below(random, SIM_STREAMS);
		break;
	case 7:
		s->kind = SIM_PAIR;
		s->a = below(random, p->size[s->comm]);
		s->b = (s->a + 1 + below(random, p->size[s->comm] - 1)) % p->size[s->comm];
		break;
	case 8: s->kind = SIM_EXCHANGE; break;
	default: s->kind = SIM_COLLECTIVE; s->function = functions[below(random, 4)];
	}
}

static bool is_call(const struct sim_program *p, int at, int process)
{
	const struct sim_step *s = &p->step[at];

	if (s->kind == SIM_PAIR)
		return p->member[s->comm][s->a] == process || p->member[s->comm][s->b] == process;
	for (int r = 0; s->kind == SIM_COLLECTIVE && r < p->size[s->comm]; r++)
		if (p->member[s->comm][r] == process)
			return true;
	return false;
}

void sim_make(struct sim_program *p, uint64_t *random, enum sim_fault fault)
{
	memset(p, 0, sizeof(*p));
	p->ranks = 2 + below(random, SIM_RANKS - 1);
	p->comms = 1 + below(random, SIM_COMMS);
	p->steps = 20 + below(random, below(random, 5) ? 60 : SIM_STEPS - 20);
	p->blind = below(random, 10) ? -1 : below(random, p->comms);
	p->exits = below(random, 2);
	make_comms(p, random);
	for (int i = 0; i < p->steps; i++)
		make_step(p, &p->step[i], random);
	if (below(random, 8) == 0) {
		p->sampler_from = (uint32_t)below(random, 5000);
		p->sampler_ms = (uint32_t)below(random, 30000);
	}
	p->culprit = below(random, p->ranks);
	p->at = below(random, p->steps);
	for (int i = 0; i < p->steps && !is_call(p, p->at, p->culprit); i++)
		p->at = (p->at + 1) % p->steps;
	p->fault = is_call(p, p->at, p->culprit) ? fault : FAULT_NONE;
	if ((fault == FAULT_DIFFERS || fault == FAULT_STUCK) && p->step[p->at].kind != SIM_COLLECTIVE)
		p->fault = FAULT_NONE;
}
