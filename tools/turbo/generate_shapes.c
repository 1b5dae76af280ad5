/* generate_shapes.c - the shapes of `turbo replay --generate`. */
#include "generate.h"

#include <string.h>

#define HALF 2
#define FULL 4

/* ---- training on one stream ---- */

/* Batches are padded to their longest text, so every step has sizes of its own. */
void shape_varlen(struct gen *g)
{
	struct model m = {.layers = 12, .width = 1024, .heads = 16, .vocabulary = 32000};
	model_create(g, &m);
	for (unsigned step = 1; gen_wants_more(g); step++) {
		model_step(g, &m, 8, gen_length(g, 16, 256) * 8);
		for (unsigned burst = 0; step % 8 == 0 && burst < 3; burst++)
			model_evaluate(g, &m, 16, gen_length(g, 16, 192) * 8);
	}
	model_destroy(g, &m);
}

void shape_moe(struct gen *g)
{
	struct model m = {.layers = 6, .width = 768, .heads = 12, .vocabulary = 32000, .experts = 16};
	model_create(g, &m);
	while (gen_wants_more(g))
		model_step(g, &m, 8, 1024);
	model_destroy(g, &m);
}

/* Every step is the same but for the saving: a large spike over a periodic program. */
void shape_checkpoint(struct gen *g)
{
	struct model m = {.layers = 16, .width = 1024, .heads = 16, .vocabulary = 32000, .checkpointing = true};
	model_create(g, &m);
	for (unsigned step = 1; gen_wants_more(g); step++) {
		model_step(g, &m, 8, 2048);
		if (step % 4 == 0)
			model_save(g, &m);
	}
	model_destroy(g, &m);
}

/* ---- generation ---- */

enum { DECODER_LAYERS = 16, DECODER_HEADS = 16, DECODER_HEAD_WIDTH = 128 };

/* One token for all texts of the batch: every layer's caches are put together anew. */
static void decode(struct gen *g, uint64_t cache[][2], uint64_t batch, uint64_t length)
{
	const uint64_t width = DECODER_HEADS * DECODER_HEAD_WIDTH;
	uint64_t state = gen_alloc(g, batch * width * HALF, 0);
	for (unsigned layer = 0; layer < DECODER_LAYERS; layer++) {
		uint64_t qkv = gen_alloc(g, batch * 3 * width * HALF, 0);
		for (unsigned i = 0; i < 2; i++) {
			uint64_t longer = gen_alloc(g, batch * (length + 1) * width * HALF, 0);
			gen_free(g, cache[layer][i], 0);
			cache[layer][i] = longer;
		}
		uint64_t scores = gen_alloc(g, batch * DECODER_HEADS * (length + 1) * HALF, 0);
		uint64_t out = gen_alloc(g, batch * width * HALF, 0);
		gen_free(g, scores, 0);
		gen_free(g, qkv, 0);
		gen_free(g, state, 0);
		state = out;
	}
	uint64_t words = gen_alloc(g, batch * 32000 * FULL, 0);
	gen_free(g, state, 0);
	trace_sync(g->out, 0);
	gen_free(g, words, 0);
}

void shape_growing(struct gen *g)
{
	struct gen_list weights = {0};
	const uint64_t width = DECODER_HEADS * DECODER_HEAD_WIDTH;
	for (unsigned layer = 0; layer < DECODER_LAYERS; layer++)
		for (unsigned i = 0; i < 12; i++)
			gen_keep(g, &weights, width * width * HALF, 0);
	while (gen_wants_more(g)) {
		uint64_t cache[DECODER_LAYERS][2], batch = 4 + gen_below(g, 29), prompt = gen_length(g, 32, 1024);
		uint64_t tokens = gen_length(g, 16, 128);
		for (unsigned layer = 0; layer < DECODER_LAYERS; layer++) {
			uint64_t wide = gen_alloc(g, batch * prompt * 4 * width * HALF, 0);
			for (unsigned i = 0; i < 2; i++)
				cache[layer][i] = gen_alloc(g, batch * prompt * width * HALF, 0);
			gen_free(g, wide, 0);
		}
		for (uint64_t i = 0; i < tokens && gen_wants_more(g); i++)
			decode(g, cache, batch, prompt + i);
		for (unsigned layer = 0; layer < DECODER_LAYERS; layer++)
			for (unsigned i = 0; i < 2; i++)
				gen_free(g, cache[layer][i], 0);
	}
	gen_free_all(g, &weights, 0);
}

/* ---- many streams ---- */

enum { COMPUTE, GATHER, REDUCE, LOAD, LOADERS = 8 };

/* A layer's shards become whole parameters on the gathering stream; the computing stream waits. */
static uint64_t gather(struct gen *g, uint64_t bytes)
{
	uint64_t whole = gen_alloc(g, bytes, GATHER);
	trace_wait(g->out, COMPUTE, GATHER);
	return whole;
}

/* Freed where it was allocated, once the computing stream is through. */
static void release(struct gen *g, uint64_t whole)
{
	trace_wait(g->out, GATHER, COMPUTE);
	gen_free(g, whole, GATHER);
}

/* A gradient is summed over the ranks on a third stream, and only its shard is kept. */
static void reduce(struct gen *g, struct gen_list *shards, uint64_t bytes)
{
	uint64_t whole = gen_alloc(g, bytes, COMPUTE);
	trace_wait(g->out, REDUCE, COMPUTE);
	gen_keep(g, shards, bytes / 8, REDUCE);
	trace_wait(g->out, COMPUTE, REDUCE);
	gen_free(g, whole, COMPUTE);
}

static void sharded_step(struct gen *g, uint64_t layer_bytes, unsigned layers, uint64_t tokens)
{
	struct gen_list saved = {0}, shards = {0};
	uint64_t ahead = gather(g, layer_bytes);
	for (unsigned i = 0; i < layers; i++) {
		uint64_t whole = ahead;
		ahead = i + 1 < layers ? gather(g, layer_bytes) : 0; /* one layer ahead */
		for (unsigned k = 0; k < 6; k++)
			gen_keep(g, &saved, tokens * 2048 * HALF * (k == 1 || k == 4 ? 3 : 1), COMPUTE);
		gen_free(g, gen_alloc(g, tokens * 2048 * HALF, COMPUTE), COMPUTE);
		release(g, whole);
	}
	for (unsigned i = layers; i-- > 0;) {
		uint64_t whole = gather(g, layer_bytes);
		for (unsigned k = 0; k < 6; k++) {
			uint64_t gradient = gen_alloc(g, tokens * 2048 * HALF, COMPUTE);
			gen_free_last(g, &saved, COMPUTE);
			gen_free(g, gradient, COMPUTE);
		}
		reduce(g, &shards, layer_bytes);
		release(g, whole);
	}
	gen_free_all(g, &saved, COMPUTE);
	trace_wait(g->out, COMPUTE, REDUCE);
	trace_sync(g->out, COMPUTE);
	gen_free_all(g, &shards, REDUCE);
}

void shape_streams(struct gen *g)
{
	struct gen_list model = {0};
	const unsigned layers = 24;
	const uint64_t layer_bytes = 12ull * 2048 * 2048 * HALF;
	uint64_t batch[LOADERS];
	for (unsigned i = 0; i < 3 * layers; i++)
		gen_keep(g, &model, layer_bytes / 8 * 2, COMPUTE);
	for (unsigned i = 0; i < LOADERS; i++)
		batch[i] = gen_alloc(g, (4 << 20) + gen_below(g, 60 << 20), LOAD + i);
	for (unsigned step = 0; gen_wants_more(g); step++) {
		unsigned loader = step % LOADERS;
		trace_wait(g->out, COMPUTE, LOAD + loader);
		sharded_step(g, layer_bytes, layers, 4096 + 512 * gen_below(g, 9));
		trace_wait(g->out, LOAD + loader, COMPUTE);
		gen_free(g, batch[loader], LOAD + loader);
		batch[loader] = gen_alloc(g, (4 << 20) + gen_below(g, 60 << 20), LOAD + loader);
	}
	for (unsigned i = 0; i < LOADERS; i++)
		gen_free(g, batch[i], LOAD + i);
	gen_free_all(g, &model, COMPUTE);
}

/* ---- streams that are used once ---- */

#define REQUESTS 8 /* at a time */
#define RESULTS 32 /* that the program still holds */

struct request {
	uint64_t stream, result;
	struct gen_list blocks;
};

static void request_begin(struct gen *g, struct request *r, uint64_t stream)
{
	uint64_t unit = (64 << 10) << gen_below(g, 9); /* 64 KiB to 16 MiB */
	unsigned n = 3 + (unsigned)gen_below(g, 6);
	*r = (struct request){.stream = stream};
	for (unsigned i = 0; i < n; i++)
		gen_keep(g, &r->blocks, unit * (1 + gen_below(g, 4)) + 512 * gen_below(g, 64), stream);
	r->result = gen_alloc(g, unit, stream);
}

/* The result goes to stream 0, everything else ends with the stream. */
static void request_end(struct gen *g, struct request *r)
{
	gen_free_all(g, &r->blocks, r->stream);
	if (gen_below(g, 4))
		trace_wait(g->out, 0, r->stream);
	else
		trace_sync(g->out, r->stream);
	trace_destroy(g->out, r->stream);
}

void shape_oneshot(struct gen *g)
{
	struct request request[REQUESTS];
	struct gen_list weights = {0};
	uint64_t result[RESULTS] = {0}, stream = 0, ended = 0;
	for (unsigned i = 0; i < 48; i++)
		gen_keep(g, &weights, 32 << 20, 0);
	for (unsigned i = 0; i < REQUESTS; i++)
		request_begin(g, &request[i], ++stream);
	for (; gen_wants_more(g); ended++) {
		struct request *r = &request[gen_below(g, REQUESTS)];
		uint64_t *old = &result[ended % RESULTS];
		request_end(g, r);
		if (*old)
			gen_free(g, *old, 0);
		*old = r->result;
		request_begin(g, r, ++stream);
	}
	for (unsigned i = 0; i < REQUESTS; i++) {
		request_end(g, &request[i]);
		gen_free(g, request[i].result, 0);
	}
	for (unsigned i = 0; i < RESULTS; i++)
		if (result[i])
			gen_free(g, result[i], 0);
	gen_free_all(g, &weights, 0);
}
