/*
 * export_occupancy.c - blocks and warps a multiprocessor, and the occupancy that can be reached: the limits of
 * CUDA's occupancy calculator (cuda_occupancy.h), as Kineto applies them.
 */
#include "tools/timeline/export.h"

#define WARP 32u
#define REGISTER_UNIT 256u    /* registers are given out to a warp in such units, compute capability 3 on */
#define SUB_PARTITIONS 4u     /* of a multiprocessor; each has a quarter of the registers */
#define SHARED_RESERVED 1024u /* of each block, compute capability 8 on */

static uint64_t divide_up(uint64_t n, uint64_t by)
{
	return (n + by - 1) / by;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* "Maximum number of resident blocks per SM" of the CUDA programming guide. */
static uint64_t blocks_limit(const struct timeline_device *d)
{
	unsigned capability = d->major * 10u + d->minor;
	switch (capability) {
	case 75:
	case 86:
	case 87:
	case 88: return 16;
	case 89:
	case 120:
	case 121: return 24;
	default: return 32;
	}
}

/* Blocks of `warps` warps that fit on a multiprocessor at a time. */
static uint64_t resident_blocks(const struct timeline_entry *k, const struct timeline_device *d,
								uint64_t warps)
{
	uint64_t blocks = least(blocks_limit(d), d->threads_a_multiprocessor / WARP / warps);
	uint64_t a_warp = divide_up((uint64_t)k->kernel.registers * WARP, REGISTER_UNIT) * REGISTER_UNIT;
	if (a_warp)
		blocks =
			least(blocks, d->registers_a_multiprocessor / SUB_PARTITIONS / a_warp * SUB_PARTITIONS / warps);
	uint64_t shared = (uint64_t)k->kernel.static_shared + k->kernel.dynamic_shared;
	uint64_t unit = d->major >= 8 ? 128 : 256;
	if (d->major >= 8)
		shared += SHARED_RESERVED;
	shared = divide_up(shared, unit) * unit;
	if (shared)
		blocks = least(blocks, d->shared_a_multiprocessor / shared);
	return blocks;
}

struct export_occupancy export_occupancy(const struct timeline_entry *k, const struct timeline_device *d)
{
	struct export_occupancy o = {.blocks_per_sm = 0};
	const uint32_t *g = k->kernel.grid, *b = k->kernel.block;
	double threads = (double)b[0] * b[1] * b[2];
	if (!d || !d->multiprocessors || threads < 1)
		return o;
	o.blocks_per_sm = (double)g[0] * g[1] * g[2] / d->multiprocessors;
	o.warps_per_sm = o.blocks_per_sm * (threads / WARP);
	if (!d->threads_a_multiprocessor || threads > 1024)
		return o;
	double blocks = (double)resident_blocks(k, d, divide_up((uint64_t)threads, WARP));
	if (o.blocks_per_sm < blocks)
		blocks = o.blocks_per_sm;
	o.occupancy_percent = (unsigned)(0.5 + 100 * blocks * threads / d->threads_a_multiprocessor);
	return o;
}
