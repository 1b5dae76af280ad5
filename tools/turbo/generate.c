/* generate.c - random numbers, blocks, and `turbo replay --generate`. */
#include "generate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"
#include "turbo.h"

static const struct {
	const char *name;
	void (*run)(struct gen *g);
	const char *text;
} shapes[] = {
	{"varlen", shape_varlen, "training with a random sequence length each step and bursts of evaluation"},
	{"growing", shape_growing, "text generation: every token's key-value cache is a little larger"},
	{"moe", shape_moe, "training of a mixture of experts: every expert gets a random number of tokens"},
	{"checkpoint", shape_checkpoint, "activation checkpointing, and a copy of the whole state now and then"},
	{"streams", shape_streams, "sharded training: gather, compute, reduce and load on streams of their own"},
	{"oneshot", shape_oneshot, "requests that each bring a stream, which is destroyed while results live on"},
};

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(struct gen *g)
{
	uint64_t z = g->random += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint64_t gen_below(struct gen *g, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)next_random(g) * n) >> 64);
}

uint64_t gen_length(struct gen *g, uint64_t lo, uint64_t hi)
{
	uint64_t span = hi - lo + 1, a = gen_below(g, span), b = gen_below(g, span);
	/* The product of two uniform numbers: mean 1/4 of the span, long tail. */
	return lo + (uint64_t)((unsigned __int128)a * b / span);
}

bool gen_wants_more(const struct gen *g)
{
	return g->out->ops < g->ops && !g->out->failed && !g->no_memory;
}

uint64_t gen_alloc(struct gen *g, uint64_t bytes, uint64_t stream)
{
	trace_alloc(g->out, ++g->next_id, bytes, stream, 0);
	return g->next_id;
}

void gen_free(struct gen *g, uint64_t id, uint64_t stream)
{
	trace_free(g->out, id, stream, 0);
}

void gen_keep(struct gen *g, struct gen_list *list, uint64_t bytes, uint64_t stream)
{
	if (list->count == list->room) {
		size_t room = list->room ? list->room * 2 : 64;
		uint64_t *id = realloc(list->id, room * sizeof(*id));
		if (!id) {
			g->no_memory = true;
			return;
		}
		list->id = id;
		list->room = room;
	}
	list->id[list->count++] = gen_alloc(g, bytes, stream);
}

void gen_free_last(struct gen *g, struct gen_list *list, uint64_t stream)
{
	if (list->count)
		gen_free(g, list->id[--list->count], stream);
}

void gen_free_all(struct gen *g, struct gen_list *list, uint64_t stream)
{
	for (size_t i = 0; i < list->count; i++)
		gen_free(g, list->id[i], stream);
	free(list->id);
	*list = (struct gen_list){0};
}

static int unknown_shape(const char *name)
{
	char names[128] = "";
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i ? ", " : "", shapes[i].name);
	return usage_error("replay", "no shape '%s'; there are %s", name, names);
}

int replay_generate(const struct replay_make *m)
{
	struct trace_writer out;
	size_t i = 0, n = sizeof(shapes) / sizeof(shapes[0]);
	while (i < n && strcmp(shapes[i].name, m->shape))
		i++;
	if (i == n)
		return unknown_shape(m->shape);
	if (!trace_create(&out, m->output))
		return failure("replay", "%s: %s", m->output ? m->output : "standard output", strerror(errno));
	struct gen g = {.out = &out, .random = m->seed, .ops = m->ops};
	trace_comment(&out, "%s: %s", shapes[i].name, shapes[i].text);
	trace_comment(&out, "turbo replay --generate %s --seed %" PRIu64 " --ops %" PRIu64, shapes[i].name,
				  m->seed, m->ops);
	shapes[i].run(&g);
	if (g.no_memory)
		trace_fail(&out, ENOMEM);
	bool written = trace_finish(&out);
	if (g.no_memory)
		return failure("replay", "no memory for the blocks of the trace");
	if (!written)
		return failure("replay", "%s: %s", m->output ? m->output : "standard output", strerror(out.error));
	return EXIT_OK;
}
