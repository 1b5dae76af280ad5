/*
 * test_nccl_random_fault.c - what goes wrong in a program.
 */
#include <string.h>

#include "test_nccl_random.h"

const char *const fault_name[FAULTS] = {
	[FAULT_NONE] = "no fault",       [FAULT_KILLED] = "death",        [FAULT_EXITS] = "exit",
	[FAULT_OTHER] = "another call",  [FAULT_SKIPS] = "skipped call",  [FAULT_CROSSED] = "crossed calls",
	[FAULT_NO_RECV] = "no receive",  [FAULT_SIZE] = "other receive",  [FAULT_STOPPED] = "stop",
	[FAULT_STUCK] = "stuck network", [FAULT_HELD] = "endless kernel", [FAULT_SLEEPS] = "sleep",
};

/* ---- places in a script ---- */

static bool inside(const struct script *t, int at, enum what opens, enum what closes)
{
	bool in = false;

	for (int i = 0; i < at; i++)
		in = t->step[i].what == opens ? true : t->step[i].what == closes ? false : in;
	return in;
}

static bool captured(const struct script *t, int at)
{
	return inside(t, at, DO_CAPTURE, DO_CAPTURED);
}

static bool grouped(const struct script *t, int at)
{
	return inside(t, at, DO_GROUP, DO_END);
}

static bool is_collective(const struct program *p, const struct script *t, int at)
{
	const struct step *s = &t->step[at];

	return s->what == DO_CALL && s->func < F_COLLECTIVES && s->times == 1 && p->comm[s->comm].n > 1 &&
		   !captured(t, at);
}

static void insert(struct script *t, int at, struct step s)
{
	memmove(&t->step[at + 1], &t->step[at], (size_t)(t->n - at) * sizeof(s));
	t->step[at] = s;
	t->n++;
}

static void take_out(struct script *t, int at)
{
	memmove(&t->step[at], &t->step[at + 1], (size_t)(t->n - at - 1) * sizeof(t->step[0]));
	t->n--;
}

/* One of the steps of the culprit that are `wanted`, -1: there is none. */
static int any(struct program *p, bool (*wanted)(const struct program *, const struct script *, int))
{
	const struct script *t = &p->rank[p->culprit];
	int n = 0, take;

	for (int i = 0; i < t->n; i++)
		n += wanted(p, t, i);
	if (n == 0)
		return -1;
	take = (int)program_below(p, (unsigned)n);
	for (int i = 0;; i++)
		if (wanted(p, t, i) && take-- == 0)
			return i;
}

/* ---- something in between ---- */

static bool early(const struct program *p, const struct script *t, int at)
{
	return t->step[at].place <= p->tail && !captured(t, at);
}

static bool put_in(struct program *p, struct step s)
{
	int at = any(p, early);

	if (at < 0)
		return false;
	insert(&p->rank[p->culprit], at, s);
	return true;
}

/* What held it up for a while before does not open this one. */
static bool hold(struct program *p)
{
	struct script *t = &p->rank[p->culprit];

	for (int i = 0; i < t->n; i++)
		if (t->step[i].what == DO_GATE || t->step[i].what == DO_OPEN)
			t->step[i].what = DO_QUERY;
	return put_in(p, (struct step){.what = DO_GATE});
}

static bool get_stuck(struct program *p)
{
	struct step s = {.what = DO_STUCK, .count = 1 + program_below(p, 2)};

	p->culprit = -1;
	for (int r = 0; r < p->n; r++)
		insert(&p->rank[r], 0, s);
	return true;
}

/* ---- other calls ---- */

static void call_another(struct program *p, struct step *s)
{
	bool reduces = s->func == F_ALLREDUCE || s->func == F_REDUCESCATTER || s->func == F_REDUCE;
	bool rooted =
		s->func == F_REDUCE || s->func == F_BROADCAST || s->func == F_GATHER || s->func == F_SCATTER;
	bool large = s->type == 3 || s->type == 6; /* 8 bytes */

	switch (program_below(p, 4)) {
	case 0:
		s->func = s->func == F_ALLGATHER ? F_ALLREDUCE : F_ALLGATHER;
		s->peer = 0;
		s->op = 0;
		break;
	case 1: s->type = large ? 2 : 6; break;
	case 2:
		if (rooted) {
			s->peer = (int8_t)((s->peer + 1) % p->comm[s->comm].n);
			break;
		}
		if (reduces) {
			s->op = (uint8_t)((s->op + 1) % 5);
			break;
		}
		/* fall through */
	default: s->count += 1 + program_below(p, 5);
	}
}

static bool another(struct program *p)
{
	int at = any(p, is_collective);

	if (at < 0)
		return false;
	call_another(p, &p->rank[p->culprit].step[at]);
	return true;
}

static bool skip(struct program *p)
{
	int at = any(p, is_collective);

	if (at >= 0)
		take_out(&p->rank[p->culprit], at);
	return at >= 0;
}

/* The next call after it is on another communicator. */
static int crosses_with(const struct program *p, const struct script *t, int at)
{
	for (int i = at + 1; i < t->n && t->step[i].place <= p->tail; i++)
		if (t->step[i].what == DO_CALL)
			return is_collective(p, t, i) && !grouped(t, i) && t->step[i].comm != t->step[at].comm ? i : -1;
		else if (t->step[i].what != DO_SYNC && t->step[i].what != DO_SLEEP && t->step[i].what != DO_WORK &&
				 t->step[i].what != DO_QUERY && t->step[i].what != DO_SPIN)
			return -1;
	return -1;
}

static bool can_cross(const struct program *p, const struct script *t, int at)
{
	return is_collective(p, t, at) && !grouped(t, at) && crosses_with(p, t, at) >= 0;
}

/* Of two ranks nobody can tell which is right; nor where some are in one of the two calls only, or let both run at once. */
static bool is_alone(const struct program *p, int place, int with)
{
	for (int r = 0; r < p->n; r++) {
		int stream[2] = {-1, -1};
		for (int i = 0; i < p->rank[r].n; i++) {
			const struct step *s = &p->rank[r].step[i];
			if (s->what == DO_CALL && (s->place == place || s->place == with))
				stream[s->place == with] = s->stream;
		}
		if (stream[0] < 0 || stream[1] < 0 || (stream[0] != stream[1] && r != p->culprit))
			return false;
	}
	return p->n > 2;
}

static bool cross(struct program *p)
{
	struct script *t = &p->rank[p->culprit];
	int at = any(p, can_cross), with = at < 0 ? -1 : crosses_with(p, t, at);
	struct step first;

	if (at < 0)
		return false;
	p->one_culprit = is_alone(p, t->step[at].place, t->step[with].place);
	first = t->step[at];
	t->step[at] = t->step[with];
	t->step[with] = first;
	return true;
}

static bool is_receive(const struct program *p, const struct script *t, int at)
{
	(void)p;
	return t->step[at].what == DO_CALL && t->step[at].func == F_RECV;
}

static bool receive_wrong(struct program *p)
{
	int at = any(p, is_receive);

	if (at < 0)
		return false;
	if (p->fault == FAULT_NO_RECV)
		take_out(&p->rank[p->culprit], at);
	else
		p->rank[p->culprit].step[at].count += 1 + program_below(p, 9);
	return true;
}

bool program_inject(struct program *p)
{
	p->culprit = (int)program_below(p, (unsigned)p->n);
	switch (p->fault) {
	case FAULT_KILLED: return put_in(p, (struct step){.what = DO_DIE});
	case FAULT_EXITS: return put_in(p, (struct step){.what = DO_EXIT});
	case FAULT_STOPPED: return put_in(p, (struct step){.what = DO_STOP});
	case FAULT_SLEEPS: return put_in(p, (struct step){.what = DO_SLEEP, .count = 1000000});
	case FAULT_HELD: return hold(p);
	case FAULT_STUCK: return get_stuck(p);
	case FAULT_OTHER: return another(p);
	case FAULT_SKIPS: return skip(p);
	case FAULT_CROSSED: return cross(p);
	case FAULT_NO_RECV:
	case FAULT_SIZE: return receive_wrong(p);
	default: return true;
	}
}
