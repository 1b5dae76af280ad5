/*
 * hist.c - histogram of lengths of time with logarithmic buckets.
 *
 * The lengths of one kernel lie in a few octaves, and a program may have tens of thousands of kernels: an octave
 * has memory once something is in it.
 */
#include <stdlib.h>

#include "metrics.h"

/* Octave 0: 0 to 31, exact. Octave n: from 2^(n+4) up to twice that. */
static unsigned octave_of(uint64_t v, unsigned *bucket)
{
	if (v < HIST_BUCKETS) {
		*bucket = (unsigned)v;
		return 0;
	}
	unsigned bit = 63 - (unsigned)__builtin_clzll(v), octave = bit - (HIST_BITS - 1);
	*bucket = (unsigned)(v >> (bit - HIST_BITS)) % HIST_BUCKETS;
	if (octave < HIST_OCTAVES)
		return octave;
	*bucket = HIST_BUCKETS - 1;
	return HIST_OCTAVES - 1;
}

static uint32_t *octave(struct hist *h, unsigned o)
{
	if (!h->octave[o])
		h->octave[o] = metrics_alloc(HIST_BUCKETS, sizeof(*h->octave[o]));
	return h->octave[o];
}

void hist_add(struct hist *h, uint64_t v)
{
	unsigned b, o = octave_of(v, &b);
	uint32_t *count = &octave(h, o)[b];
	*count += *count < UINT32_MAX;
	if (h->count++ == 0 || v < h->min)
		h->min = v;
	if (v > h->max)
		h->max = v;
	h->sum += v;
}

void hist_merge(struct hist *to, const struct hist *from)
{
	if (!from->count)
		return;
	for (unsigned o = 0; o < HIST_OCTAVES; o++) {
		if (!from->octave[o])
			continue;
		uint32_t *count = octave(to, o);
		for (unsigned b = 0; b < HIST_BUCKETS; b++)
			if (__builtin_add_overflow(count[b], from->octave[o][b], &count[b]))
				count[b] = UINT32_MAX;
	}
	if (to->count == 0 || from->min < to->min)
		to->min = from->min;
	if (from->max > to->max)
		to->max = from->max;
	to->count += from->count;
	to->sum += from->sum;
}

/* `part` of the way through a bucket, as if its values were spread evenly over it. */
static double value_in(unsigned o, unsigned b, double part)
{
	if (!o)
		return b;
	double width = (double)(1ull << (o - 1));
	return (HIST_BUCKETS + b + part) * width;
}

uint64_t hist_quantile(const struct hist *h, double q)
{
	double want = q * (double)h->count; /* so many are at or below the answer */
	uint64_t below = 0;
	for (unsigned o = 0; o < HIST_OCTAVES; o++)
		for (unsigned b = 0; h->octave[o] && b < HIST_BUCKETS; b++) {
			uint32_t count = h->octave[o][b];
			if (!count || (double)(below + count) < want) {
				below += count;
				continue;
			}
			double v = value_in(o, b, (want - (double)below) / count);
			return v < (double)h->min ? h->min : v > (double)h->max ? h->max : (uint64_t)(v + 0.5);
		}
	return h->max;
}

void hist_free(struct hist *h)
{
	for (unsigned o = 0; o < HIST_OCTAVES; o++)
		free(h->octave[o]);
	*h = (struct hist){0};
}
