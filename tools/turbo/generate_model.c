/*
 * generate_model.c - the allocations of a transformer in training: bfloat16 activations, float32
 * parameters, gradients and Adam state, flash attention, one default stream.
 *
 * Each function is a piece of a model as an eager framework runs it, in the order in which its
 * tensors come and go. Gradients are allocated anew in every step (set to none in between).
 */
#include "generate.h"

#include <string.h>

#define MAIN 0 /* the stream */
#define HALF 2 /* bytes of a bfloat16 */
#define FULL 4 /* bytes of a float32 */

/* What one forward or backward pass works on. */
struct pass {
	struct gen *g;
	struct model *m;
	uint64_t batch, length, tokens;
	bool train; /* a backward pass will follow */
	bool save;  /* and it will not compute the layer again */
};

static uint64_t hidden(const struct pass *p, uint64_t times)
{
	return p->tokens * p->m->width * times * HALF;
}

/* A tensor that the backward pass needs. Where nothing is saved it goes once two later ones are there. */
static void save(struct pass *p, unsigned layer, uint64_t bytes)
{
	struct gen_list *l = &p->m->saved[layer];
	gen_keep(p->g, l, bytes, MAIN);
	if (p->save || l->count < 4)
		return;
	gen_free(p->g, l->id[0], MAIN);
	memmove(l->id, l->id + 1, --l->count * sizeof(*l->id));
}

static void temporary(struct pass *p, uint64_t bytes)
{
	gen_free(p->g, gen_alloc(p->g, bytes, MAIN), MAIN);
}

/* ---- parameters ---- */

unsigned model_layer_sizes(const struct model *m, uint64_t bytes[16])
{
	uint64_t d = m->width;
	const uint64_t size[] = {d, d, 3 * d * d, 3 * d, d * d, d, d, d, 4 * d * d, 4 * d, 4 * d * d, d};
	unsigned n = sizeof(size) / sizeof(size[0]);
	for (unsigned i = 0; i < n; i++)
		bytes[i] = size[i] * FULL;
	return n;
}

/* All tensors of the model's shape: embedding, layers, experts, final norm. */
static void whole_model(struct gen *g, const struct model *m, struct gen_list *list)
{
	uint64_t bytes[16], d = m->width;
	gen_keep(g, list, (uint64_t)m->vocabulary * d * FULL, MAIN);
	for (unsigned layer = 0; layer < m->layers; layer++) {
		unsigned n = model_layer_sizes(m, bytes);
		for (unsigned i = 0; i < (m->experts ? 8 : n); i++)
			gen_keep(g, list, bytes[i], MAIN);
		for (unsigned e = 0; e < m->experts; e++) {
			gen_keep(g, list, 4 * d * d * FULL, MAIN);
			gen_keep(g, list, 4 * d * d * FULL, MAIN);
		}
	}
	gen_keep(g, list, d * FULL, MAIN);
}

void model_create(struct gen *g, struct model *m)
{
	whole_model(g, m, &m->parameters);
}

/* Adam with `foreach`: state at the first step, and a temporary for every tensor at each. */
static void optimizer_step(struct gen *g, struct model *m)
{
	struct gen_list scratch = {0};
	if (!m->optimizer.count) {
		whole_model(g, m, &m->optimizer);
		whole_model(g, m, &m->optimizer);
	}
	whole_model(g, m, &scratch);
	gen_free_all(g, &scratch, MAIN);
	gen_free_all(g, &m->gradients, MAIN);
}

/* ---- forward ---- */

static void norm(struct pass *p, unsigned layer)
{
	save(p, layer, hidden(p, 1));
	save(p, layer, p->tokens * FULL); /* mean */
	save(p, layer, p->tokens * FULL); /* 1 / deviation */
}

/* Autocast makes a bfloat16 copy of a weight, which the backward pass uses again. */
static void weight(struct pass *p, unsigned layer, uint64_t elements)
{
	save(p, layer, elements * HALF);
}

/* The residual stream: a new sum takes the place of the old one, which was saved as the input. */
static void residual(struct pass *p, unsigned layer)
{
	uint64_t branch = gen_alloc(p->g, hidden(p, 1), MAIN);
	save(p, layer, hidden(p, 1));
	gen_free(p->g, branch, MAIN);
}

static void attention(struct pass *p, unsigned layer)
{
	uint64_t d = p->m->width;
	norm(p, layer);
	weight(p, layer, 3 * d * d);
	save(p, layer, hidden(p, 3));                              /* q, k, v */
	save(p, layer, hidden(p, 1));                              /* the heads' output */
	save(p, layer, p->batch * p->m->heads * p->length * FULL); /* log-sum-exp */
	save(p, layer, 16);                                        /* random state */
	weight(p, layer, d * d);
	residual(p, layer);
}

static void plain_mlp(struct pass *p, unsigned layer)
{
	uint64_t d = p->m->width;
	norm(p, layer);
	weight(p, layer, 4 * d * d);
	save(p, layer, hidden(p, 4));
	save(p, layer, hidden(p, 4)); /* activation */
	weight(p, layer, 4 * d * d);
	residual(p, layer);
}

/* Two experts a token; some experts are liked better, and which changes. */
static void expert_mlp(struct pass *p, unsigned layer)
{
	uint64_t d = p->m->width, left = 2 * p->tokens;
	unsigned experts = p->m->experts;
	norm(p, layer);
	save(p, layer, p->tokens * experts * HALF); /* router */
	save(p, layer, p->tokens * 2 * HALF);       /* weights of the two */
	save(p, layer, p->tokens * 2 * 8);          /* and their numbers */
	uint64_t sum = gen_alloc(p->g, hidden(p, 1), MAIN);
	for (unsigned e = 0; e < experts; e++) {
		uint64_t fair = left / (experts - e);
		uint64_t n = e + 1 == experts ? left : gen_length(p->g, fair / 4, fair * 3 < left ? fair * 3 : left);
		left -= n;
		if (!n)
			continue;
		save(p, layer, n * 2 * 8);    /* which tokens */
		save(p, layer, n * d * HALF); /* gathered */
		save(p, layer, n * 4 * d * HALF);
		save(p, layer, n * 4 * d * HALF);
		save(p, layer, n * d * HALF);
		temporary(p, n * d * HALF); /* weighted, then added */
	}
	save(p, layer, hidden(p, 1));
	gen_free(p->g, sum, MAIN);
}

static void layer_forward(struct pass *p, unsigned layer)
{
	attention(p, layer);
	if (p->m->experts)
		expert_mlp(p, layer);
	else
		plain_mlp(p, layer);
}

/* Of a layer that saved nothing, only the output is left. */
static void keep_output(struct pass *p, unsigned layer)
{
	struct gen_list *l = &p->m->saved[layer];
	for (size_t i = 0; i + 1 < l->count; i++)
		gen_free(p->g, l->id[i], MAIN);
	if (l->count) {
		l->id[0] = l->id[l->count - 1];
		l->count = 1;
	}
}

static void forward(struct pass *p)
{
	struct model *m = p->m;
	temporary(p, p->tokens * 8); /* token numbers come in */
	m->embedded = gen_alloc(p->g, hidden(p, 1), MAIN);
	for (unsigned layer = 0; layer < m->layers; layer++) {
		layer_forward(p, layer);
		if (!p->save)
			keep_output(p, layer);
		if (!p->train && layer)
			gen_free_all(p->g, &m->saved[layer - 1], MAIN);
	}
}

/* ---- backward ---- */

/* From the last saved tensor to the first: its gradient is made, both go. */
static void layer_backward(struct pass *p, unsigned layer)
{
	struct gen_list *l = &p->m->saved[layer];
	uint64_t bytes[16], gradient = gen_alloc(p->g, hidden(p, 1), MAIN);
	unsigned n = model_layer_sizes(p->m, bytes), next = n;
	while (l->count) {
		uint64_t wide = gen_alloc(p->g, hidden(p, l->count % 3 ? 1 : 4), MAIN);
		gen_free(p->g, gradient, MAIN);
		gradient = wide;
		gen_free_last(p->g, l, MAIN);
		if (next && l->count % 2)
			gen_keep(p->g, &p->m->gradients, bytes[--next], MAIN);
	}
	while (next)
		gen_keep(p->g, &p->m->gradients, bytes[--next], MAIN);
	for (unsigned e = 0; e < 2 * p->m->experts; e++)
		gen_keep(p->g, &p->m->gradients, 4 * (uint64_t)p->m->width * p->m->width * FULL, MAIN);
	gen_free(p->g, gradient, MAIN);
	gen_free_all(p->g, l, MAIN);
}

/* The largest tensors of the step: scores over the vocabulary, in bfloat16 and in float32. */
static void head(struct pass *p)
{
	uint64_t words = p->tokens * p->m->vocabulary;
	uint64_t normed = gen_alloc(p->g, hidden(p, 1), MAIN);
	uint64_t scores = gen_alloc(p->g, words * HALF, MAIN);
	uint64_t wide = gen_alloc(p->g, words * FULL, MAIN);
	gen_free(p->g, scores, MAIN);
	uint64_t logarithms = gen_alloc(p->g, words * FULL, MAIN);
	gen_free(p->g, wide, MAIN);
	uint64_t loss = gen_alloc(p->g, FULL, MAIN);
	if (p->train) {
		uint64_t gradient = gen_alloc(p->g, words * FULL, MAIN);
		gen_free(p->g, logarithms, MAIN);
		uint64_t narrow = gen_alloc(p->g, words * HALF, MAIN);
		gen_free(p->g, gradient, MAIN);
		gen_keep(p->g, &p->m->gradients, (uint64_t)p->m->vocabulary * p->m->width * FULL, MAIN);
		gen_free(p->g, narrow, MAIN);
	} else {
		gen_free(p->g, logarithms, MAIN);
	}
	gen_free(p->g, normed, MAIN);
	trace_sync(p->g->out, MAIN); /* loss.item() */
	gen_free(p->g, loss, MAIN);
}

void model_step(struct gen *g, struct model *m, uint64_t batch, uint64_t length)
{
	struct pass p = {g, m, batch, length, batch * length, true, !m->checkpointing};
	forward(&p);
	head(&p);
	p.save = true;
	for (unsigned layer = m->layers; layer-- > 0;) {
		if (m->checkpointing)
			layer_forward(&p, layer);
		layer_backward(&p, layer);
	}
	gen_free(g, m->embedded, MAIN);
	optimizer_step(g, m);
}

void model_evaluate(struct gen *g, struct model *m, uint64_t batch, uint64_t length)
{
	struct pass p = {g, m, batch, length, batch * length, false, false};
	forward(&p);
	head(&p);
	gen_free_all(g, &m->saved[m->layers - 1], MAIN);
	gen_free(g, m->embedded, MAIN);
}

void model_save(struct gen *g, struct model *m)
{
	struct gen_list copy = {0};
	whole_model(g, m, &copy);
	whole_model(g, m, &copy);
	whole_model(g, m, &copy);
	trace_sync(g->out, MAIN);
	gen_free_all(g, &copy, MAIN);
}

void model_destroy(struct gen *g, struct model *m)
{
	for (unsigned layer = 0; layer < m->layers; layer++)
		gen_free_all(g, &m->saved[layer], MAIN);
	gen_free_all(g, &m->optimizer, MAIN);
	gen_free_all(g, &m->gradients, MAIN);
	gen_free_all(g, &m->parameters, MAIN);
}
