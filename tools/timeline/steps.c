/*
 * steps.c - the steps of a training or inference loop, inferred from what repeats.
 *
 * An operation (a kernel with its grid, a kind of copy: an entry) that runs once a step comes back at regular
 * intervals, and none that is regular comes back after longer ones. Several in a row, as an optimizer has them, are
 * one burst, and that comes once a step too. So: of the entries whose intervals are regular and that are seen over
 * most of the window, those of nearly the same count make a group; of the groups that fill the
 * window and are not outliers (what runs in every hundredth step, say) the one with the longest interval gives the
 * step, and of its entries the one that came first begins it. Something computes in a step: copies alone are none.
 */
#include <stdlib.h>

#include "metrics.h"

#define STEPS_LEAST 5            /* steps that make a rule */
#define STEPS_MOST 32768         /* starts that are kept of an entry */
#define STEP_LEAST_NS 100000     /* what is shorter is a loop around one kernel */
#define STEPS_REGULAR 4          /* the longest tenth of the intervals against the shortest */
#define STEPS_LOOK_AT (2u << 20) /* intervals looked at in all: bounds the time */
#define STEPS_COVER 0.5          /* of the window, from the first to the last start */
/* … and of the window without pauses and gaps, by intervals that are no outliers: a loop takes most of the time in
 * which the program runs, a few bursts of uploads (weights, then a batch or two) are short against what lies
 * between them. Half leaves room for a start-up and for evaluation. */
#define STEPS_FILL 0.5
#define BURST 4       /* operations from one to the next of the same burst */
#define GROUP_LEAST 3 /* entries */
#define GROUP_SHARE 4 /* … and at least this part of the largest group's */

void steps_init(struct steps *s, uint32_t entries, uint64_t span)
{
	s->entries = entries;
	s->entry = metrics_alloc(entries, sizeof(*s->entry));
	s->unit = span / UINT32_MAX + 1;
}

void steps_add(struct steps *s, uint32_t entry, uint64_t start, bool works)
{
	struct steps_entry *e = &s->entry[entry];
	uint32_t number = ++s->operations, last = e->last;
	e->last = number;
	s->works += works;
	if (last && number - last <= BURST)
		return;
	if (e->count == e->room) {
		if (e->count >= STEPS_MOST) {
			free(e->start);
			e->start = NULL;
			e->room = 0;
			e->count = UINT32_MAX;
			return;
		}
		e->room = e->room ? 2 * e->room : 8;
		e->start = metrics_grow(e->start, e->room, sizeof(*e->start));
	}
	if (e->count < e->room)
		e->start[e->count++] = (uint32_t)(start / s->unit);
}

struct candidate {
	uint32_t entry, count, first;
};

static int by_count(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	if (x->count != y->count)
		return x->count < y->count ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

static int by_length(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* Lengths of the intervals that were recorded throughout, sorted; the numbers of the others go to `out`. */
static unsigned lengths(const struct steps *s, const struct steps_entry *e, const struct spans *unseen,
						uint64_t *length, struct report_steps *out)
{
	unsigned n = 0, k = 0;
	for (unsigned i = 0; i + 1 < e->count; i++) {
		uint64_t from = e->start[i] * s->unit, to = e->start[i + 1] * s->unit;
		while (k < unseen->count && unseen->item[k].end <= from)
			k++;
		if (k == unseen->count || unseen->item[k].start >= to)
			length[n++] = to - from;
		else if (out)
			out->unseen_at[out->unseen++] = i;
	}
	qsort(length, n, sizeof(*length), by_length);
	return n;
}

static bool regular(const struct steps *s, const struct steps_entry *e, const struct spans *unseen,
					uint64_t *length)
{
	unsigned n = lengths(s, e, unseen, length, NULL);
	if (n < STEPS_LEAST)
		return false;
	uint64_t low = length[n / 10], high = length[n - 1 - n / 10];
	return high >= STEP_LEAST_NS && high <= low * STEPS_REGULAR;
}

static uint32_t candidates(const struct steps *s, uint64_t window, struct candidate *out)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < s->entries; i++) {
		const struct steps_entry *e = &s->entry[i];
		if (!e->room || e->count < STEPS_LEAST + 1)
			continue;
		if ((double)(e->start[e->count - 1] - e->start[0]) * (double)s->unit >= STEPS_COVER * (double)window)
			out[n++] = (struct candidate){i, e->count, e->start[0]};
	}
	qsort(out, n, sizeof(*out), by_count);
	return n;
}

/* Drops what is not regular. */
static uint32_t keep_regular(const struct steps *s, struct candidate *c, uint32_t n,
							 const struct spans *unseen)
{
	uint64_t *length = metrics_alloc(STEPS_MOST, sizeof(*length));
	uint32_t kept = 0;
	uint64_t looked = 0;
	for (uint32_t i = 0; i < n && looked < STEPS_LOOK_AT; i++) {
		looked += c[i].count + unseen->count;
		if (regular(s, &s->entry[c[i].entry], unseen, length))
			c[kept++] = c[i];
	}
	free(length);
	return kept;
}

/* Where the group that begins at i ends: counts that differ by one, or by 2 %. */
static uint32_t group_end(const struct candidate *c, uint32_t n, uint32_t i)
{
	uint32_t most = c[i].count + 1 + c[i].count / 50, end = i;
	while (end < n && c[end].count <= most)
		end++;
	return end;
}

static uint64_t median(const uint64_t *length, unsigned n)
{
	return n % 2 ? length[n / 2] : n ? (length[n / 2 - 1] + length[n / 2]) / 2 : 0;
}

/* The share of `ns` that lengths make up which are no outliers. */
static double fills(const uint64_t *length, unsigned n, uint64_t ns)
{
	uint64_t most = median(length, n) * STEPS_REGULAR;
	double sum = 0;
	for (unsigned i = 0; i < n && length[i] <= most; i++)
		sum += (double)length[i];
	return ns ? sum / (double)ns : 0;
}

static bool fill(const struct steps *s, uint32_t entry, uint64_t ns, const struct spans *unseen)
{
	uint64_t *length = metrics_alloc(s->entry[entry].count, sizeof(*length));
	unsigned n = lengths(s, &s->entry[entry], unseen, length, NULL);
	bool enough = fills(length, n, ns) >= STEPS_FILL;
	free(length);
	return enough;
}

int64_t steps_find(const struct steps *s, uint64_t first, uint64_t last, uint64_t ns,
				   const struct spans *unseen)
{
	struct candidate *c = metrics_alloc(s->entries, sizeof(*c));
	uint32_t n = keep_regular(s, c, candidates(s, last - first, c), unseen), largest = 0;
	int64_t found = -1;
	for (uint32_t i = 0, end; i < n; i = end) {
		end = group_end(c, n, i);
		if (end - i > largest)
			largest = end - i;
	}
	for (uint32_t i = 0, end; i < n && found < 0; i = end) {
		end = group_end(c, n, i);
		uint32_t size = end - i, best = i;
		if (largest >= GROUP_LEAST && (size < GROUP_LEAST || size * GROUP_SHARE < largest))
			continue;
		for (uint32_t k = i; k < end; k++)
			if (c[k].first < c[best].first)
				best = k;
		if (c[best].count <= s->works && fill(s, c[best].entry, ns, unseen))
			found = c[best].entry;
	}
	free(c);
	return found;
}

void steps_report(const struct steps *s, uint32_t anchor, uint64_t ns, const struct spans *unseen,
				  struct report_steps *out)
{
	const struct steps_entry *e = &s->entry[anchor];
	uint64_t *length = metrics_alloc(e->count, sizeof(*length));
	out->start = metrics_alloc(e->count, sizeof(*out->start));
	out->unseen_at = metrics_alloc(e->count, sizeof(*out->unseen_at));
	for (unsigned i = 0; i < e->count; i++)
		out->start[i] = e->start[i] * s->unit;
	out->count = e->count - 1;
	unsigned n = lengths(s, e, unseen, length, out);
	if (n) {
		out->min_ns = length[0];
		out->max_ns = length[n - 1];
		out->median_ns = median(length, n);
		out->p99_ns = length[((uint64_t)n * 99 + 99) / 100 - 1];
	}
	out->covered = fills(length, n, ns);
	for (unsigned i = 0; i < n; i++)
		out->slow += length[i] > out->median_ns + out->median_ns / 2;
	free(length);
}

void steps_free(struct steps *s)
{
	for (uint32_t i = 0; i < s->entries; i++)
		free(s->entry[i].start);
	free(s->entry);
	*s = (struct steps){0};
}
