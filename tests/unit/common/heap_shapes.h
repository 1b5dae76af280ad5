/* heap_shapes.h - programs' allocations, made up from what training and serving do. */
#ifndef TEST_HEAP_SHAPES_H
#define TEST_HEAP_SHAPES_H

#include <stddef.h>
#include <stdint.h>

#define SHAPE_STREAMS 4096

enum shape_what { SHAPE_ALLOC, SHAPE_FREE, SHAPE_CLOSE, SHAPE_RUN, SHAPE_PERIOD };

struct shape_op {
	enum shape_what what;
	unsigned stream;
	uint32_t id;
	size_t bytes; /* a multiple of 512; of SHAPE_RUN: work that the device does */
};

struct shape {
	const char *name;
	struct shape_op *op;
	size_t count, room;
	uint32_t ids, ids_room;
	size_t *size; /* by id; 0: freed */
	uint64_t random;
};

typedef void shape_maker(struct shape *s, uint64_t seed);
shape_maker shape_variable_length, shape_growing, shape_experts, shape_checkpoints, shape_many_streams,
	shape_one_shot_streams, shape_mixed_lifetimes, shape_small_and_large, shape_training,
	shape_training_streams, shape_training_checkpoint, shape_splinters;

size_t shape_peak(const struct shape *s); /* most bytes that live at once */
/* What segments that only grow at their end would reserve: one for each stream and for blocks below and from
 * 1 MiB, best fit, by 2 MiB. */
size_t shape_expandable(const struct shape *s);
void shape_free(struct shape *s);

#endif
