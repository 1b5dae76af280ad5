/* bound.c - see bound.h. */
#define _GNU_SOURCE
#include "bound.h"

#include <stdatomic.h>
#include <stdint.h>

#include "bound_file.h"
#include "cache_space.h"
#include "devmem.h"
#include "options.h"
#include "stats.h"

/* Enough for the blocks that a program takes and gives back all the time, little enough that
 * another process does not miss it. */
#define CACHE_PERCENT 2
#define DEFERRED_PERCENT 25

static struct bound {
	_Atomic int state; /* 0 not opened, 1 being opened, 2 open; release when open */
	_Atomic size_t kept;
	size_t most;             /* constant while open */
	struct bound_file *file; /* NULL: not shared */
} bounds[SPACE_DEVICES];

static int64_t fixed_mb = OPTION_AUTO; /* constant after bound_start() */

void bound_start(void)
{
	fixed_mb = option_get(OPT_DEVMEM_CACHE_MB);
}

void bound_device(int device, size_t bytes, const CUuuid *uuid)
{
	struct bound *b = &bounds[device];
	int none = 0;
	if (!atomic_compare_exchange_strong(&b->state, &none, 1))
		return;
	bool deferred = devmem_mode_now() == DEVMEM_DEFERRED;
	if (fixed_mb != OPTION_AUTO)
		b->most = (size_t)fixed_mb << 20;
	else
		b->most = bytes / 100 * (deferred ? DEFERRED_PERCENT : CACHE_PERCENT);
	b->file = uuid ? bound_file_open(uuid->bytes, sizeof(uuid->bytes)) : NULL;
	atomic_store_explicit(&b->state, 2, memory_order_release);
}

static struct bound *open_bound(int device)
{
	struct bound *b = &bounds[device];
	return atomic_load_explicit(&b->state, memory_order_acquire) == 2 ? b : NULL;
}

void bound_add(int device, size_t bytes)
{
	struct bound *b = open_bound(device);
	if (!b)
		return;
	size_t kept = atomic_fetch_add_explicit(&b->kept, bytes, memory_order_relaxed) + bytes;
	stats_add(STATS_DEVMEM_CACHE_BYTES, bytes);
	if (b->file)
		bound_file_set(b->file, kept);
}

void bound_sub(int device, size_t bytes)
{
	struct bound *b = open_bound(device);
	if (!b)
		return;
	size_t kept = atomic_fetch_sub_explicit(&b->kept, bytes, memory_order_relaxed) - bytes;
	stats_add(STATS_DEVMEM_CACHE_BYTES, -(uint64_t)bytes);
	if (b->file)
		bound_file_set(b->file, kept);
}

size_t bound_kept(int device)
{
	return atomic_load_explicit(&bounds[device].kept, memory_order_relaxed);
}

size_t bound_room(int device)
{
	struct bound *b = open_bound(device);
	if (!b)
		return 0;
	size_t others = b->file && fixed_mb == OPTION_AUTO && devmem_mode_now() != DEVMEM_DEFERRED
						? bound_file_others(b->file)
						: 0;
	return others < b->most ? b->most - others : 0;
}

void bound_stop(void)
{
	for (unsigned i = 0; i < SPACE_DEVICES; i++)
		if (open_bound((int)i) && bounds[i].file)
			bound_file_leave(bounds[i].file);
}

/* The slots are the parent's. */
void bound_fork_child(void)
{
	for (unsigned i = 0; i < SPACE_DEVICES; i++) {
		atomic_store(&bounds[i].state, 0);
		atomic_store(&bounds[i].kept, 0);
		bounds[i].file = NULL;
	}
	bound_file_fork_child();
}
