/*
 * export_tracks.c - see export.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tools/timeline/export.h"

#define NONE UINT32_MAX
#define ROWS_MAX 256 /* of a lane and class; what still overlaps then is drawn over each other */
#define DEPTH_MAX (sizeof(((struct track *)0)->end) / sizeof(uint64_t))

/* ---- lanes that a viewer would take for one ---- */

static const struct trace *sorting;

/* What a viewer tells lanes apart by. */
static uint64_t shown_as(uint32_t index)
{
	const struct timeline_lane *l = trace_lane(sorting, index);
	uint64_t place = l->kind == TIMELINE_LANE_STREAM ? (uint64_t)l->device << 32 | l->stream : l->thread;
	return place * 2 + (l->kind == TIMELINE_LANE_STREAM);
}

static int by_place(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint64_t p = shown_as(x), q = shown_as(y);
	if (p != q)
		return p < q ? -1 : 1;
	return x < y ? -1 : x > y;
}

static bool find_shadowed(struct tracks *x)
{
	uint32_t n = trace_lanes(x->trace);
	uint32_t *order = malloc(n * sizeof(*order));
	if (!order)
		return false;
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	sorting = x->trace;
	qsort(order, n, sizeof(*order), by_place);
	for (uint32_t i = 1; i < n; i++)
		x->shadowed[order[i]] = shown_as(order[i]) == shown_as(order[i - 1]);
	free(order);
	return true;
}

/* ---- */

bool tracks_open(struct tracks *x, const struct trace *t)
{
	size_t lanes = trace_lanes(t);
	*x = (struct tracks){.trace = t};
	x->first = malloc(lanes * TRACK_CLASSES * sizeof(*x->first));
	x->shadowed = calloc(lanes, sizeof(*x->shadowed));
	if (!x->first || !x->shadowed || !find_shadowed(x)) {
		tracks_close(x);
		return false;
	}
	for (size_t i = 0; i < lanes * TRACK_CLASSES; i++)
		x->first[i] = NONE;
	return true;
}

void tracks_close(struct tracks *x)
{
	free(x->track);
	free(x->first);
	free(x->shadowed);
	*x = (struct tracks){.trace = NULL};
}

static enum track_class class_of(enum timeline_kind kind)
{
	switch (kind) {
	case TIMELINE_SYNC: return TRACK_SYNC;
	case TIMELINE_EVENT: return TRACK_EVENT;
	case TIMELINE_COLLECTIVE: return TRACK_COLLECTIVE;
	case TIMELINE_OVERHEAD: return TRACK_OVERHEAD;
	case TIMELINE_GAP: return TRACK_GAP;
	default: return TRACK_MAIN;
	}
}

/* A span fits on a row when all before it have ended, or, on a thread, when it ends within the innermost. */
static bool fits(struct track *k, uint64_t start, uint64_t end, bool nests)
{
	while (k->depth && k->end[k->depth - 1] <= start)
		k->depth--;
	return !k->depth || (nests && k->depth < DEPTH_MAX && end <= k->end[k->depth - 1]);
}

static struct track *add_row(struct tracks *x, uint32_t lane, enum track_class class, uint32_t row)
{
	if (x->count == x->room) {
		uint32_t room = x->room ? 2 * x->room : 64;
		struct track *more = realloc(x->track, room * sizeof(*more));
		if (!more)
			return NULL;
		x->track = more;
		x->room = room;
	}
	x->track[x->count] = (struct track){
		.id = x->count,
		.lane = lane,
		.class = class,
		.row = row,
		.first_row = row == 0 && class == TRACK_MAIN && !x->shadowed[lane],
		.next = NONE,
	};
	return &x->track[x->count++];
}

const struct track *tracks_place(struct tracks *x, const struct trace_event *e, uint64_t start, uint64_t end,
								 bool *fresh)
{
	enum track_class class = class_of(e->kind);
	uint32_t *first = &x->first[(size_t)e->lane_index * TRACK_CLASSES + class];
	bool nests = !export_on_gpu(e);
	struct track *k = NULL;
	uint32_t row = 0;
	*fresh = false;
	for (uint32_t id = *first; id != NONE; id = k->next, row++) {
		k = &x->track[id];
		if (fits(k, start, end, nests)) {
			k->end[k->depth++] = end;
			return k;
		}
		if (row + 1 == ROWS_MAX)
			return k;
	}
	uint32_t last = k ? k->id : NONE;
	k = add_row(x, e->lane_index, class, row);
	if (!k)
		return NULL;
	if (last == NONE)
		*first = k->id;
	else
		x->track[last].next = k->id;
	k->end[k->depth++] = end;
	*fresh = true;
	return k;
}

bool track_on_gpu(const struct tracks *x, const struct track *k)
{
	return k->class == TRACK_MAIN && trace_lane(x->trace, k->lane)->kind == TIMELINE_LANE_STREAM;
}

const char *track_name(const struct tracks *x, const struct track *k, char *buf, size_t size)
{
	static const char *const class_name[TRACK_CLASSES] = {
		[TRACK_MAIN] = "calls",      [TRACK_SYNC] = "waits",        [TRACK_EVENT] = "libturbo",
		[TRACK_COLLECTIVE] = "NCCL", [TRACK_OVERHEAD] = "profiler", [TRACK_GAP] = "not recorded",
	};
	const struct timeline_lane *l = trace_lane(x->trace, k->lane);
	const char *name = trace_name(x->trace, l->name);
	char row[24] = "", context[32] = "", where[64] = "";
	if (k->row)
		snprintf(row, sizeof(row), " +%u", k->row);
	if (l->kind == TIMELINE_LANE_STREAM) {
		if (x->shadowed[k->lane])
			snprintf(context, sizeof(context), " of context %u", l->context);
		snprintf(where, sizeof(where), "stream %u%s", l->stream, context);
	} else if (l->kind == TIMELINE_LANE_THREAD) {
		snprintf(where, sizeof(where), "thread %u", l->thread);
	} else if (l->kind == TIMELINE_LANE_DEVICE) {
		snprintf(where, sizeof(where), "GPU %u", l->device);
	}
	if (k->class == TRACK_MAIN && *where)
		snprintf(buf, size, "%s%s%.100s%s", where, *name ? " " : "", name, row);
	else
		snprintf(buf, size, "%s%s%s%s%s", class_name[k->class], *where ? " (" : "", where, *where ? ")" : "",
				 row);
	return buf;
}
