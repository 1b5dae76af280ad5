/*
 * generate.h - programs that exist only as their allocations.
 *
 * Sizes and order follow PyTorch's eager mode: a tensor is an allocation of its exact size, freed
 * when the last reference goes; activations that the backward pass needs live until it gets to them.
 * Integer arithmetic only, so that a seed gives the same trace everywhere.
 */
#ifndef TURBO_GENERATE_H
#define TURBO_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_file.h"

struct gen {
	struct trace_writer *out;
	uint64_t random; /* state */
	uint64_t next_id;
	uint64_t ops; /* wanted */
	bool no_memory;
};

/* Blocks that are freed together, or one by one from the end. */
struct gen_list {
	uint64_t *id;
	size_t count, room;
};

/* 0 .. n-1; n > 0. */
uint64_t gen_below(struct gen *g, uint64_t n);
/* lo .. hi, with a hump near the low end and a tail, as lengths of texts have. */
uint64_t gen_length(struct gen *g, uint64_t lo, uint64_t hi);
bool gen_wants_more(const struct gen *g);

uint64_t gen_alloc(struct gen *g, uint64_t bytes, uint64_t stream);
void gen_free(struct gen *g, uint64_t id, uint64_t stream);
void gen_keep(struct gen *g, struct gen_list *list, uint64_t bytes, uint64_t stream);
void gen_free_last(struct gen *g, struct gen_list *list, uint64_t stream);
void gen_free_all(struct gen *g, struct gen_list *list, uint64_t stream); /* and the list's own memory */

/* ---- a transformer in training (generate_model.c) ---- */

#define MODEL_LAYERS_MAX 64

struct model {
	unsigned layers, width, heads, vocabulary;
	unsigned experts;   /* 0: a plain MLP */
	bool checkpointing; /* only a layer's input is saved; the rest is computed again */
	/* state */
	struct gen_list parameters, gradients, optimizer, saved[MODEL_LAYERS_MAX];
	uint64_t embedded; /* the first layer's input during a pass */
};

void model_create(struct gen *g, struct model *m);
void model_step(struct gen *g, struct model *m, uint64_t batch, uint64_t length);
/* Forward only, nothing saved. */
void model_evaluate(struct gen *g, struct model *m, uint64_t batch, uint64_t length);
/* A state dictionary is put together: a copy of every parameter and of the optimizer's state. */
void model_save(struct gen *g, struct model *m);
void model_destroy(struct gen *g, struct model *m);
/* Bytes of the parameter tensors of one layer: at most 16 sizes; returns how many. */
unsigned model_layer_sizes(const struct model *m, uint64_t bytes[16]);

/* ---- shapes ---- */

void shape_varlen(struct gen *g);
void shape_moe(struct gen *g);
void shape_checkpoint(struct gen *g);
void shape_growing(struct gen *g);
void shape_streams(struct gen *g);
void shape_oneshot(struct gen *g);

#endif
