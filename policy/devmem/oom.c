#define _GNU_SOURCE
#include "oom.h"

#include <cuda.h>
#include <stdio.h>

#include "block.h"
#include "bound.h"
#include "cache.h"
#include "events.h"
#include "log.h"
#include "real.h"
#include "sites.h"
#include "stats.h"
#include "stream.h"
#include "symbol.h"

#define SITES_SHOWN 8
#define FRAMES_SHOWN 6

/* Room for amount(). */
struct text {
	char s[24];
};

/* "900 B", "512.0 MiB", "1.25 GiB" */
static const char *amount(struct text *t, size_t bytes)
{
	if (bytes >= (size_t)1 << 30)
		snprintf(t->s, sizeof(t->s), "%.2f GiB", (double)bytes / (double)((size_t)1 << 30));
	else if (bytes >= (size_t)1 << 20)
		snprintf(t->s, sizeof(t->s), "%.1f MiB", (double)bytes / (double)((size_t)1 << 20));
	else
		snprintf(t->s, sizeof(t->s), "%zu B", bytes);
	return t->s;
}

struct held {
	struct block_census blocks;
	size_t heap, heap_unused;
};

static struct held held_on(int device)
{
	struct held h = {{0}, 0, 0};
	block_census(device, &h.blocks);
	h.heap = stream_held_bytes(device);
	h.heap_unused = stream_free_bytes(device);
	if (h.heap_unused > h.heap) /* they are not read at one moment */
		h.heap_unused = h.heap;
	return h;
}

/* What the driver says is gone and we did not allocate. */
static void report_rest(const struct held *h, size_t bytes, size_t free_bytes, size_t total)
{
	struct text a;
	size_t ours = h->blocks.live_bytes + h->blocks.kept_bytes + h->heap, gone = total - free_bytes;
	if (gone > ours)
		log_warn("  else: %s in other processes, contexts, code, and memory allocated in other ways",
				 amount(&a, gone - ours));
	if (free_bytes > bytes)
		log_warn("  more is free than was asked for: the driver's free memory is in pieces");
}

static void report_memory(int device, size_t bytes)
{
	struct text a, b, c;
	struct held h = held_on(device);
	size_t free_bytes = 0, total = 0;
	bool known = REAL(cuMemGetInfo_v2)(&free_bytes, &total) == CUDA_SUCCESS && free_bytes <= total;
	if (known)
		log_warn("out of device memory: %s asked for on device %d, %s of %s free", amount(&a, bytes), device,
				 amount(&b, free_bytes), amount(&c, total));
	else
		log_warn("out of device memory: %s asked for on device %d", amount(&a, bytes), device);
	if (h.blocks.live)
		log_warn("  cuMemAlloc: %s in %zu block%s, the largest %s", amount(&a, h.blocks.live_bytes),
				 h.blocks.live, PLURAL(h.blocks.live), amount(&b, h.blocks.largest));
	if (h.blocks.kept)
		log_warn("  freed, and still needed by the device: %s in %zu block%s",
				 amount(&a, h.blocks.kept_bytes), h.blocks.kept, PLURAL(h.blocks.kept));
	if (h.heap)
		log_warn("  cuMemAllocAsync: %s, in %s that its heap holds", amount(&a, h.heap - h.heap_unused),
				 amount(&b, h.heap));
	if (known)
		report_rest(&h, bytes, free_bytes, total);
}

static void report_sites(void)
{
	static struct site top[SITES_SHOWN]; /* the one caller's */
	struct text a;
	char name[200];
	unsigned n = sites_top(top, SITES_SHOWN);
	if (n)
		log_warn("  held most, by a sample of one call in %d MiB:", 1 << (SITE_PERIOD_LOG2 - 20));
	for (unsigned i = 0; i < n; i++) {
		log_warn("  %s in about %u block%s, by", amount(&a, top[i].bytes), top[i].blocks,
				 PLURAL(top[i].blocks));
		for (int f = 0; f < top[i].frames && f < FRAMES_SHOWN; f++) {
			/* A return address may be the first of the next function. */
			symbol_name((const char *)top[i].frame[f] - 1, name, sizeof(name));
			log_warn("    %s", name);
		}
	}
}

void oom_report(int device, size_t bytes)
{
	static int said;
	stats_add(STATS_DEVMEM_OOM, 1);
	events_end(EVENT_DEVMEM_OOM, events_begin(), bytes, true);
	/* Relaxed: nothing but the right to speak is handed over. */
	if (log_level < LOG_WARN || __atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		return;
	report_memory(device, bytes);
	report_sites();
}

void oom_watch(int device)
{
	sites_pressure(block_bytes(device) + stream_held_bytes(device), space_device_bytes(device));
}
