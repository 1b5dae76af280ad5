/*
 * trace_merge.c - all records in order of their start.
 *
 * A chunk is read when its first record is due, and merged with those that are open then. Few are: a
 * chunk spans a moment. Where many overlap, TRACE_LOADED_MAX of them keep their records in memory; of the
 * others, those whose next record is furthest away, they are dropped and read again when they are due.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/timeline/trace_impl.h"

/* ---- the heap ---- */

static bool earlier(const struct trace *t, const struct trace_run *a, const struct trace_run *b)
{
	if (a->next != b->next)
		return a->next < b->next;
	return t->chunk[a->chunk].sequence < t->chunk[b->chunk].sequence;
}

static void sift_up(struct trace *t, uint32_t i)
{
	struct trace_run moving = t->run[i];
	while (i && earlier(t, &moving, &t->run[(i - 1) / 2])) {
		t->run[i] = t->run[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	t->run[i] = moving;
}

static void sift_down(struct trace *t)
{
	struct trace_run moving = t->run[0];
	uint32_t i = 0;
	for (;;) {
		uint32_t child = 2 * i + 1;
		if (child >= t->runs)
			break;
		if (child + 1 < t->runs && earlier(t, &t->run[child + 1], &t->run[child]))
			child++;
		if (!earlier(t, &t->run[child], &moving))
			break;
		t->run[i] = t->run[child];
		i = child;
	}
	t->run[i] = moving;
}

static void unload(struct trace *t, struct trace_run *r)
{
	t->loaded -= r->record != NULL;
	free(r->record);
	r->record = NULL;
}

static void pop(struct trace *t)
{
	unload(t, &t->run[0]);
	t->run[0] = t->run[--t->runs];
	if (t->runs)
		sift_down(t);
}

/* ---- chunks in and out of memory ---- */

static void make_room(struct trace *t)
{
	struct trace_run *far = NULL;
	if (t->loaded < TRACE_LOADED_MAX)
		return;
	for (uint32_t i = 0; i < t->runs; i++)
		if (t->run[i].record && (!far || t->run[i].next > far->next))
			far = &t->run[i];
	if (far)
		unload(t, far);
}

/* Reads the chunk's records; false when there are none any more. */
static bool load(struct trace *t, struct trace_run *r)
{
	const struct trace_chunk_info *c = &t->chunk[r->chunk];
	make_room(t);
	r->record = malloc(c->committed * sizeof(*r->record));
	if (!r->record)
		return false;
	t->loaded++;
	r->count = trace_load_chunk(t, c, r->record);
	return r->at < r->count;
}

static bool heap_room(struct trace *t)
{
	if (t->runs < t->run_room)
		return true;
	uint32_t room = t->run_room ? 2 * t->run_room : 64;
	struct trace_run *more = realloc(t->run, room * sizeof(*more));
	if (!more)
		return false;
	t->run = more;
	t->run_room = room;
	return true;
}

/* Puts every chunk into the heap whose first record is due. */
static void open_due(struct trace *t)
{
	while (t->opened < t->chunks && (!t->runs || t->chunk[t->opened].first <= t->run[0].next)) {
		struct trace_run r = {.chunk = t->opened++};
		if (!heap_room(t) || !load(t, &r)) {
			t->lost++;
			unload(t, &r);
			continue;
		}
		r.next = r.record[0].start;
		t->run[t->runs++] = r;
		sift_up(t, t->runs - 1);
	}
}

/* ---- */

static void resolve(const struct trace *t, const struct timeline_record *r, struct trace_event *e)
{
	const struct timeline_entry *entry = &t->entry[r->entry];
	e->start = r->start;
	e->duration = trace_duration(r);
	e->value = r->value;
	e->correlation = r->correlation;
	e->entry_index = entry->kind == r->kind ? r->entry : 0;
	e->lane_index = r->lane;
	e->entry = &t->entry[e->entry_index];
	e->lane = &t->lane[r->lane];
	e->name = e->entry_index ? trace_name(t, e->entry->name) : "unknown";
	e->kind = (enum timeline_kind)r->kind;
	e->flags = r->flags;
}

bool trace_next(struct trace *t, struct trace_event *e)
{
	for (;;) {
		open_due(t);
		if (!t->runs)
			return false;
		struct trace_run *r = &t->run[0];
		if (!r->record && !load(t, r)) {
			t->lost++;
			pop(t);
			continue;
		}
		resolve(t, &r->record[r->at++], e);
		if (r->at == r->count) {
			pop(t);
		} else {
			r->next = r->record[r->at].start;
			sift_down(t);
		}
		return true;
	}
}

void trace_merge_end(struct trace *t)
{
	while (t->runs)
		unload(t, &t->run[--t->runs]);
	free(t->run);
	t->run = NULL;
	t->run_room = 0;
	t->opened = 0;
}

bool trace_rewind(struct trace *t)
{
	trace_merge_end(t);
	t->lost = 0;
	return true;
}
