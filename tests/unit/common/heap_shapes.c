/* heap_shapes.c - see heap_shapes.h */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "heap_shapes.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* ---- making ---- */

static uint64_t below(struct shape *s, uint64_t n)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	return (s->random * 2685821657736338717ull >> 20) % n;
}

static void begin(struct shape *s, const char *name, uint64_t seed)
{
	s->name = name;
	s->random = seed * 88172645463325252u + 1;
}

static void add(struct shape *s, struct shape_op op)
{
	if (s->count == s->room) {
		s->room = s->room ? s->room * 2 : 4096;
		s->op = realloc(s->op, s->room * sizeof(*s->op));
	}
	s->op[s->count++] = op;
}

static uint32_t get(struct shape *s, unsigned stream, size_t bytes)
{
	if (s->ids == s->ids_room) {
		s->ids_room = s->ids_room ? s->ids_room * 2 : 4096;
		s->size = realloc(s->size, s->ids_room * sizeof(*s->size));
	}
	bytes = (bytes + 511) / 512 * 512;
	s->size[s->ids] = bytes;
	add(s, (struct shape_op){SHAPE_ALLOC, stream, s->ids, bytes});
	return s->ids++;
}

static void put(struct shape *s, unsigned stream, uint32_t id)
{
	add(s, (struct shape_op){SHAPE_FREE, stream, id, s->size[id]});
	s->size[id] = 0;
}

static void temp(struct shape *s, unsigned stream, size_t bytes)
{
	put(s, stream, get(s, stream, bytes));
}

static void run(struct shape *s, unsigned stream, size_t work)
{
	add(s, (struct shape_op){SHAPE_RUN, stream, 0, work});
}

static void period(struct shape *s)
{
	add(s, (struct shape_op){SHAPE_PERIOD, 0, 0, 0});
}

/* ---- a transformer ---- */

#define LAYERS 24
#define KEPT 9 /* tensors of a layer's forward that its backward needs */

/* Parameters, gradients and two optimizer states of a layer of `width`. */
static void weights(struct shape *s, size_t width)
{
	for (int layer = 0; layer < LAYERS; layer++) {
		size_t size[] = {3 * width * width, width * width, 4 * width * width,
						 4 * width * width, width,         width};
		for (int i = 0; i < 6; i++)
			for (int copy = 0; copy < 4; copy++)
				get(s, 0, size[i] * (copy ? 4 : 2));
	}
}

struct kept {
	uint32_t id[LAYERS][KEPT];
};

static void forward(struct shape *s, struct kept *k, size_t tokens, size_t width)
{
	size_t t = tokens * width * 2;
	for (int layer = 0; layer < LAYERS; layer++) {
		size_t size[KEPT] = {t, tokens * 8, 3 * t, t, t, t, 4 * t, 4 * t, tokens * 32};
		for (int i = 0; i < KEPT; i++) {
			k->id[layer][i] = get(s, 0, size[i]);
			if (i % 3 == 0)
				temp(s, 0, size[i] + tokens * 64);
		}
	}
}

static void backward(struct shape *s, struct kept *k, size_t tokens, size_t width)
{
	size_t t = tokens * width * 2;
	uint32_t grad = get(s, 0, t);
	for (int layer = LAYERS; layer-- > 0;) {
		for (int i = KEPT; i-- > 0;) {
			uint32_t g = get(s, 0, i == 6 || i == 7 ? 4 * t : t);
			temp(s, 0, 32 * MIB);
			put(s, 0, k->id[layer][i]);
			put(s, 0, grad);
			grad = g;
		}
	}
	put(s, 0, grad);
}

static void train_step(struct shape *s, size_t tokens, size_t width)
{
	struct kept k;
	uint32_t in = get(s, 0, tokens * 8);
	forward(s, &k, tokens, width);
	uint32_t logits = get(s, 0, tokens * 32000 * 2), loss = get(s, 0, tokens * 32000 * 4);
	put(s, 0, logits);
	temp(s, 0, 4);
	put(s, 0, loss);
	backward(s, &k, tokens, width);
	put(s, 0, in);
	run(s, 0, 100);
}

void shape_variable_length(struct shape *s, uint64_t seed)
{
	begin(s, "variable length", seed);
	weights(s, 1024);
	for (int i = 0; i < 60; i++)
		train_step(s, 8 * (256 + below(s, 1792)), 1024);
}

void shape_training(struct shape *s, uint64_t seed)
{
	begin(s, "periodic", seed);
	weights(s, 1024);
	for (int i = 0; i < 8; i++) {
		train_step(s, 8192, 1024);
		period(s);
	}
}

/* Gathered weights on a second stream, a little ahead, as sharded data parallel does. */
void shape_training_streams(struct shape *s, uint64_t seed)
{
	begin(s, "periodic, 2 streams", seed);
	weights(s, 1024);
	for (int i = 0; i < 8; i++) {
		uint32_t ahead[2] = {get(s, 1, 24 * MIB), get(s, 1, 24 * MIB)}, kept[LAYERS];
		for (int layer = 0; layer < LAYERS; layer++) {
			kept[layer] = get(s, 0, 40 * MIB + (size_t)(layer % 3) * 3 * MIB);
			temp(s, 0, 90 * MIB);
			run(s, 0, 2);
			put(s, 1, ahead[layer % 2]);
			ahead[layer % 2] = get(s, 1, 24 * MIB + (size_t)(layer % 2) * MIB);
			run(s, 1, 1);
		}
		put(s, 1, ahead[0]);
		put(s, 1, ahead[1]);
		for (int layer = LAYERS; layer-- > 0;) {
			temp(s, 0, 60 * MIB);
			uint32_t out = get(s, 1, 24 * MIB);
			put(s, 0, kept[layer]);
			put(s, 1, out);
		}
		run(s, 0, 200);
		run(s, 1, 200);
		period(s);
	}
}

void shape_training_checkpoint(struct shape *s, uint64_t seed)
{
	begin(s, "periodic, checkpoint", seed);
	weights(s, 1024);
	for (int i = 0; i < 8; i++) {
		train_step(s, 8192, 1024);
		train_step(s, 4096, 1024);
		uint32_t all[12];
		for (int k = 0; k < 12; k++)
			all[k] = get(s, 0, (300 + (size_t)k * 50) * MIB);
		for (int k = 0; k < 12; k++)
			put(s, 0, all[k]);
		period(s);
	}
}

void shape_checkpoints(struct shape *s, uint64_t seed)
{
	begin(s, "checkpoint spikes", seed);
	weights(s, 2048);
	for (int i = 0; i < 40; i++) {
		train_step(s, 8 * (700 + below(s, 300)), 2048);
		if (i % 10 != 9)
			continue;
		uint32_t all[12];
		for (int k = 0; k < 12; k++)
			all[k] = get(s, 0, 256 * MIB + below(s, 1024) * MIB);
		for (int k = 0; k < 12; k++)
			put(s, 0, all[k]);
	}
}

/* Caches of many sequences that are copied into larger ones, end, and begin anew. */
void shape_growing(struct shape *s, uint64_t seed)
{
	enum { N = 64 };
	uint32_t id[N];
	size_t bytes[N];
	begin(s, "growing", seed);
	for (int i = 0; i < N; i++) {
		bytes[i] = (4 + below(s, 60)) * MIB;
		id[i] = get(s, 0, bytes[i]);
	}
	for (int i = 0; i < 6000; i++) {
		unsigned k = (unsigned)below(s, N);
		if (bytes[k] > 600 * MIB) {
			put(s, 0, id[k]);
			bytes[k] = (4 + below(s, 60)) * MIB;
			id[k] = get(s, 0, bytes[k]);
			continue;
		}
		bytes[k] += bytes[k] / 20 + below(s, 4 * MIB);
		uint32_t to = get(s, 0, bytes[k]);
		put(s, 0, id[k]);
		id[k] = to;
		temp(s, 0, 64 * KIB + below(s, MIB));
	}
}

/* Each layer sends a random share of the tokens to each of 16 experts. */
void shape_experts(struct shape *s, uint64_t seed)
{
	enum { DEPTH = 12, N = 16 };
	begin(s, "mixture of experts", seed);
	weights(s, 1024);
	for (int i = 0; i < 25; i++) {
		uint32_t kept[DEPTH][2 * N + 1];
		for (int layer = 0; layer < DEPTH; layer++) {
			kept[layer][2 * N] = get(s, 0, 64 * MIB);
			for (int e = 0; e < N; e++) {
				size_t tokens = 64 + below(s, 4096);
				kept[layer][2 * e] = get(s, 0, tokens * 2048);
				temp(s, 0, tokens * 8192);
				kept[layer][2 * e + 1] = get(s, 0, tokens * 8192);
			}
			temp(s, 0, 96 * MIB);
		}
		for (int layer = DEPTH; layer-- > 0;)
			for (int e = 2 * N + 1; e-- > 0;) {
				temp(s, 0, 1 * MIB + below(s, 24 * MIB));
				put(s, 0, kept[layer][e]);
			}
	}
}

/* Independent workers, each with blocks of random size and life on its own stream. */
void shape_many_streams(struct shape *s, uint64_t seed)
{
	enum { STREAMS = 16, N = 24 };
	uint32_t id[STREAMS][N];
	begin(s, "many streams", seed);
	memset(id, 0xff, sizeof(id));
	for (int i = 0; i < 20000; i++) {
		unsigned t = (unsigned)below(s, STREAMS), k = (unsigned)below(s, N);
		/* Each has times of much and of little. */
		unsigned busy = (unsigned)(i / 2000 + (int)t) % 4;
		if (id[t][k] != UINT32_MAX) {
			put(s, t, id[t][k]);
			id[t][k] = UINT32_MAX;
		} else if (below(s, 4) >= busy) {
			id[t][k] = get(s, t, MIB + below(s, (size_t)(2 * MIB) << below(s, 7)));
		}
		if (i % 5 == 0)
			run(s, t, 1 + below(s, 12));
	}
}

void shape_one_shot_streams(struct shape *s, uint64_t seed)
{
	begin(s, "one-shot streams", seed);
	for (unsigned i = 0; i < 1500; i++) {
		uint32_t id[8];
		for (int k = 0; k < 8; k++)
			id[k] = get(s, i, MIB + below(s, 100 * MIB));
		for (int k = 0; k < 8; k++)
			put(s, i, id[k]);
		if (below(s, 2))
			run(s, i, 16);
		add(s, (struct shape_op){SHAPE_CLOSE, i, 0, 0});
	}
}

/* The worst for any heap: many blocks of all sizes, freed in no order. */
void shape_mixed_lifetimes(struct shape *s, uint64_t seed)
{
	enum { N = 1200 };
	uint32_t id[N];
	begin(s, "mixed lifetimes", seed);
	memset(id, 0xff, sizeof(id));
	for (int i = 0; i < 20000; i++) {
		unsigned k = (unsigned)below(s, N);
		if (id[k] != UINT32_MAX)
			put(s, 0, id[k]);
		id[k] = get(s, 0, 5 * MIB + below(s, (size_t)(5 * MIB) << below(s, 5)));
	}
}

void shape_small_and_large(struct shape *s, uint64_t seed)
{
	enum { N = 3000 };
	uint32_t id[N];
	begin(s, "small and large", seed);
	memset(id, 0xff, sizeof(id));
	for (int i = 0; i < 30000; i++) {
		unsigned k = (unsigned)below(s, N);
		if (id[k] != UINT32_MAX)
			put(s, 0, id[k]);
		size_t bytes =
			k % 3 ? 512 + below(s, (size_t)512 << below(s, 11)) : MIB + below(s, (size_t)MIB << below(s, 7));
		id[k] = get(s, 0, bytes);
	}
}

void shape_splinters(struct shape *s, uint64_t seed)
{
	uint32_t id[200];
	begin(s, "splinters", seed);
	put(s, 0, get(s, 0, 11 * GIB));
	for (int i = 0; i < 200; i++)
		id[i] = get(s, 0, 16 * MIB);
	for (int i = 0; i < 200; i += 2)
		put(s, 0, id[i]);
	get(s, 0, 11 * GIB);
}

void shape_free(struct shape *s)
{
	free(s->op);
	free(s->size);
	memset(s, 0, sizeof(*s));
}
