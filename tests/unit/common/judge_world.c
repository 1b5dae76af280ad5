/* judge_world.c - see judge_world.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "judge_world.h"

#define S 1e9

static struct flight_page page[JUDGE_PROCESSES];
static struct judge_process process[JUDGE_PROCESSES];
static struct judge_member member[JUDGE_MEMBERS];
static struct flight_op op[JUDGE_MEMBERS][FLIGHT_OPS];
static struct judge_world world;

struct judge_process *world_process(unsigned i)
{
	return &process[i];
}
struct flight_page *world_page(unsigned i)
{
	return &page[i];
}
struct judge_member *world_member(unsigned i)
{
	return &member[i];
}
struct flight_op *world_ops(unsigned i)
{
	return op[i];
}

struct judge_world *world_empty(unsigned processes)
{
	memset(member, 0, sizeof(member));
	memset(op, 0, sizeof(op));
	for (unsigned i = 0; i < processes; i++) {
		memset(&page[i], 0, offsetof(struct flight_page, sites));
		page[i].pid = 1000 + i;
		page[i].rank = (int32_t)i;
		page[i].sampled = page[i].heartbeat = WORLD_NOW;
		process[i] = (struct judge_process){
			.page = &page[i],
			.pid = 1000 + i,
			.cpu_changed = WORLD_NOW,
			.io_changed = WORLD_NOW,
			.exit_signal = -1,
		};
	}
	for (unsigned i = 0; i < JUDGE_MEMBERS; i++)
		member[i].op = op[i];
	world =
		(struct judge_world){.now = WORLD_NOW, .processes = processes, .process = process, .member = member};
	return &world;
}

static uint64_t ago(double seconds)
{
	return WORLD_NOW - (uint64_t)(seconds * S);
}

static void wrong(const char *line)
{
	fail_msg("not a line of a world: %s", line);
}

/* ---- communicators ---- */

static int rank_in(char name, int rank)
{
	for (uint32_t i = 0; i < world.members; i++)
		if (member[i].key[0] == (uint64_t)name && member[i].rank == rank)
			return (int)i;
	return -1;
}

static void add_comm(char *line)
{
	char *word = strtok(line, " "), *name = strtok(NULL, " ");
	uint32_t first = world.members;
	int ranks = 0;

	while ((word = strtok(NULL, " ")) && strcmp(word, "of") != 0) {
		struct judge_member *m = &member[world.members++];
		m->process = (uint32_t)atoi(word);
		m->key[0] = (uint64_t)name[0];
		m->rank = ranks++;
		m->state = FLIGHT_LIVE;
		m->number = (uint32_t)name[0];
		m->made = ago(500);
		m->changed = ago(100);
		m->best_rate = 1000000000;
	}
	if (word)
		ranks = atoi(strtok(NULL, " "));
	for (uint32_t i = first; i < world.members; i++)
		member[i].ranks = ranks;
}

/* ---- operations ---- */

static unsigned function_of(const char *name)
{
	for (unsigned f = 1; f < FLIGHT_FUNCTIONS; f++)
		if (strcmp(judge_function_name(f), name) == 0)
			return f;
	wrong(name);
	return 0;
}

static void option(struct flight_op *what, const char *word)
{
	uint64_t n = strtoull(word + 1, NULL, 10);

	if (strcmp(word, "sum") == 0)
		what->reduction = 0;
	else if (strcmp(word, "max") == 0)
		what->reduction = 2;
	else if (word[0] == 'r')
		what->peer = (int32_t)n;
	else if (word[0] == 't')
		what->thread = (uint32_t)n;
	else if (word[0] == 'S')
		what->stream = n;
	else if (word[0] == 'y')
		what->type = (uint8_t)n;
	else if (word[0] == 'z')
		what->count = n;
	else if (word[0] == 'g')
		what->group = (uint32_t)n, what->flags |= FLIGHT_GROUPED;
	else
		wrong(word);
}

static void another(struct flight_op *what, char *text)
{
	char *slash = strchr(text, '/');

	if (slash)
		*slash = 0;
	what->function = (uint16_t)function_of(text);
	if (slash)
		what->bytes = what->count = strtoull(slash + 1, NULL, 10);
}

static void counters(struct judge_member *m, struct flight_op *o)
{
	struct flight_op *ring = op[m - member];
	uint64_t last = o->done ? o->done : o->started ? o->started : o->issued;

	for (uint64_t i = m->done + 1; i <= m->issued && ring[i % FLIGHT_OPS].done; i++)
		m->done = i;
	for (uint64_t i = m->started + 1; i <= m->issued && ring[i % FLIGHT_OPS].started; i++)
		m->started = i;
	if (last > m->changed)
		m->changed = last;
}

/* The operation as one rank has it. */
static void place(struct judge_member *m, const struct flight_op *what, char *token, bool collective)
{
	struct flight_op *o;
	char *other = strchr(token, '=');
	double made = token[1] ? strtod(token + 1, NULL) : 100;
	char *slash = strchr(token, '/');
	double begun = slash && (!other || slash < other) ? strtod(slash + 1, NULL) : made;

	if (token[0] == '-')
		return;
	o = &op[m - member][++m->issued % FLIGHT_OPS];
	*o = *what;
	if (other)
		another(o, other + 1);
	o->version = 2;
	o->index = m->issued;
	o->issued = ago(made);
	if (token[0] == 'x')
		o->flags |= FLIGHT_CAPTURED, collective = false;
	if (token[0] == 'b')
		o->flags |= FLIGHT_BLIND;
	if (token[0] == 'f')
		o->flags |= FLIGHT_FAILED;
	if (collective) {
		o->sequence = (uint32_t)(m->sequence + (o->function == FLIGHT_GRAPH ? o->count : 1));
		if (token[0] != 'f')
			m->sequence = o->sequence;
		o->signature = m->sequence * 1000003 + o->function * 31 + o->bytes +
					   (m->issued > 1 ? op[m - member][(m->issued - 1) % FLIGHT_OPS].signature * 7 : 0);
	}
	if (token[0] != 'c')
		o->returned = o->issued;
	if (strchr("dfx", token[0]))
		o->started = o->done = o->issued;
	if (token[0] == 's')
		o->started = ago(begun);
	counters(m, o);
}

static void add_pair(char name, const struct flight_op *what, int from, int to, char *sender, char *receiver)
{
	struct judge_member *a = &member[rank_in(name, from)], *b = &member[rank_in(name, to)];
	struct flight_op send = *what, recv = *what;

	send.function = FLIGHT_SEND, send.peer = to, send.pair = 1;
	recv.function = FLIGHT_RECV, recv.peer = from, recv.pair = 1;
	for (uint64_t i = 1; i <= a->issued; i++)
		send.pair += op[a - member][i % FLIGHT_OPS].function == FLIGHT_SEND &&
					 op[a - member][i % FLIGHT_OPS].peer == to;
	for (uint64_t i = 1; i <= b->issued; i++)
		recv.pair += op[b - member][i % FLIGHT_OPS].function == FLIGHT_RECV &&
					 op[b - member][i % FLIGHT_OPS].peer == from;
	place(a, &send, sender, false);
	place(b, &recv, receiver, false);
}

static void add_op(char *line)
{
	struct flight_op what = {.peer = -1, .thread = 1, .stream = 1, .type = 7, .reduction = 0xffff};
	char name = line[0], *word, *pair = NULL;

	strtok(line, " ");
	word = strtok(NULL, " ");
	if (strcmp(word, "ended") == 0) {
		member[rank_in(name, atoi(strtok(NULL, " ")))].state = FLIGHT_ENDING;
		return;
	}
	what.function = (uint16_t)function_of(word);
	if (what.function == FLIGHT_SEND)
		pair = strtok(NULL, " ");
	if (what.function == FLIGHT_ALL_REDUCE || what.function == FLIGHT_REDUCE)
		what.reduction = 0;
	while ((word = strtok(NULL, " ")) && strcmp(word, ":") != 0) {
		if (word[0] >= '0' && word[0] <= '9')
			what.bytes = what.count = strtoull(word, NULL, 10);
		else
			option(&what, word);
	}
	if (pair) {
		char *sender = strtok(NULL, " "), *receiver = strtok(NULL, " ");
		add_pair(name, &what, atoi(pair), atoi(strchr(pair, '>') + 1), sender, receiver);
		return;
	}
	for (int rank = 0; (word = strtok(NULL, " ")); rank++)
		place(&member[rank_in(name, rank)], &what, word, true);
}

/* ---- processes ---- */

static void add_process(char *line)
{
	unsigned n = (unsigned)strtoul(line + 1, NULL, 10);
	struct judge_process *p = &process[n];
	char *word = (strtok(line, " "), strtok(NULL, " ")), *value = strtok(NULL, " ");
	double t = value ? strtod(value, NULL) : 0;
	static const char *const life[] = {"runs", "stopped", "traced", "disk", "dead"};

	for (unsigned i = 0; i < 5; i++)
		if (strcmp(word, life[i]) == 0) {
			p->life = (enum judge_life)i;
			p->life_since = ago(t);
			return;
		}
	if (strcmp(word, "idle") == 0)
		p->cpu_changed = p->io_changed = ago(t);
	else if (strcmp(word, "sampled") == 0)
		page[n].sampled = ago(t);
	else if (strcmp(word, "child") == 0)
		p->children = true;
	else if (strcmp(word, "locked") == 0)
		p->locked = true;
	else if (strcmp(word, "leaving") == 0)
		page[n].leaving = 1;
	else if (strcmp(word, "wait") == 0) {
		struct flight_wait *w = page[n].wait;
		while (w->thread)
			w++;
		w->kind = strcmp(value, "gpu") == 0 ? FLIGHT_WAIT_GPU : FLIGHT_WAIT_NCCL;
		w->since = ago(strtod(strtok(NULL, " "), NULL));
		value = strtok(NULL, " ");
		w->thread = value ? (uint32_t)atoi(value + 1) : 1;
	} else
		wrong(word);
}

const struct judge_world *world_of(const char *text)
{
	char copy[4096], *line, *rest = copy;

	world_empty(16);
	snprintf(copy, sizeof(copy), "%s", text);
	while ((line = strsep(&rest, "\n;"))) {
		line += strspn(line, " \t");
		if (!*line)
			continue;
		if (strncmp(line, "comm ", 5) == 0)
			add_comm(line);
		else if (strncmp(line, "watched ", 8) == 0)
			world.watched = ago(strtod(line + 8, NULL));
		else if (line[0] == 'P')
			add_process(line);
		else
			add_op(line);
	}
	return &world;
}

const char *world_verdict(const char *text, const struct judge_limits *limits)
{
	static char said[64];
	struct judge_finding f;

	judge_look(world_of(text), limits, &f);
	if (f.verdict == JUDGE_NOTHING)
		return "nothing";
	snprintf(said, sizeof(said), "%s %d at %u", judge_name(f.verdict), f.culprit, f.sequence);
	return said;
}
