/* heap_shapes_size.c - how much lives at once, and what segments that only grow would take for it. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "heap_shapes.h"

#define MIB ((size_t)1 << 20)

size_t shape_peak(const struct shape *s)
{
	size_t live = 0, peak = 0;
	for (size_t i = 0; i < s->count; i++) {
		if (s->op[i].what == SHAPE_ALLOC)
			live += s->op[i].bytes;
		else if (s->op[i].what == SHAPE_FREE)
			live -= s->op[i].bytes;
		peak = live > peak ? live : peak;
	}
	return peak;
}

struct range {
	size_t at, bytes;
};

/* Free ranges by address; the segment ends at `end`. */
struct segment {
	struct range *free;
	size_t count, room, end;
};

static size_t segment_get(struct segment *g, size_t bytes)
{
	size_t best = SIZE_MAX;
	for (size_t i = 0; i < g->count; i++)
		if (g->free[i].bytes >= bytes && (best == SIZE_MAX || g->free[i].bytes < g->free[best].bytes))
			best = i;
	if (best == SIZE_MAX) {
		bool tail = g->count && g->free[g->count - 1].at + g->free[g->count - 1].bytes == g->end;
		size_t have = tail ? g->free[g->count - 1].bytes : 0;
		size_t more = (bytes - have + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
		if (!tail) {
			if (g->count == g->room)
				g->free = realloc(g->free, (g->room = g->room * 2 + 64) * sizeof(*g->free));
			g->free[g->count++] = (struct range){g->end, 0};
		}
		best = g->count - 1;
		g->free[best].bytes += more;
		g->end += more;
	}
	struct range *r = &g->free[best];
	size_t at = r->at;
	r->at += bytes;
	r->bytes -= bytes;
	if (!r->bytes)
		memmove(r, r + 1, (--g->count - best) * sizeof(*r));
	return at;
}

static void segment_put(struct segment *g, size_t at, size_t bytes)
{
	size_t i = 0;
	while (i < g->count && g->free[i].at < at)
		i++;
	if (i && g->free[i - 1].at + g->free[i - 1].bytes == at) {
		g->free[--i].bytes += bytes;
	} else {
		if (g->count == g->room)
			g->free = realloc(g->free, (g->room = g->room * 2 + 64) * sizeof(*g->free));
		memmove(&g->free[i + 1], &g->free[i], (g->count++ - i) * sizeof(*g->free));
		g->free[i] = (struct range){at, bytes};
	}
	if (i + 1 < g->count && g->free[i].at + g->free[i].bytes == g->free[i + 1].at) {
		g->free[i].bytes += g->free[i + 1].bytes;
		memmove(&g->free[i + 1], &g->free[i + 2], (--g->count - i - 1) * sizeof(*g->free));
	}
}

size_t shape_expandable(const struct shape *s)
{
	struct segment *segments = calloc((size_t)SHAPE_STREAMS * 2, sizeof(*segments));
	struct {
		struct segment *in;
		size_t at;
	} *where = calloc(s->ids, sizeof(*where));
	size_t reserved = 0;
	for (size_t i = 0; i < s->count; i++) {
		const struct shape_op *op = &s->op[i];
		if (op->what == SHAPE_ALLOC) {
			struct segment *g = &segments[op->stream * 2 + (op->bytes < MIB)];
			reserved -= g->end;
			where[op->id].in = g;
			where[op->id].at = segment_get(g, op->bytes);
			reserved += g->end;
		} else if (op->what == SHAPE_FREE) {
			segment_put(where[op->id].in, where[op->id].at, op->bytes);
		}
	}
	for (size_t i = 0; i < (size_t)SHAPE_STREAMS * 2; i++)
		free(segments[i].free);
	free(segments);
	free(where);
	return reserved;
}
