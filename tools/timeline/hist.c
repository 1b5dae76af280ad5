/*
 * hist.c - histogram of lengths of time with logarithmic buckets.
 */
#include <stdlib.h>

#include "metrics.h"

static unsigned bucket_of(uint64_t v)
{
	if (v < 16)
		return (unsigned)v;
	unsigned octave = 63 - (unsigned)__builtin_clzll(v);
	unsigned b = (octave - 3) * 16 + (unsigned)((v >> (octave - 4)) & 15);
	return b < HIST_BUCKETS ? b : HIST_BUCKETS - 1;
}

static uint64_t bucket_low(unsigned b)
{
	return b < 16 ? b : (uint64_t)(16 + b % 16) << (b / 16 - 1);
}

void hist_add(struct hist *h, uint64_t v)
{
	if (!h->bucket)
		h->bucket = metrics_alloc(HIST_BUCKETS, sizeof(*h->bucket));
	uint32_t *b = &h->bucket[bucket_of(v)];
	*b += *b < UINT32_MAX;
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
	if (!to->bucket)
		to->bucket = metrics_alloc(HIST_BUCKETS, sizeof(*to->bucket));
	for (unsigned b = 0; b < HIST_BUCKETS; b++)
		if (__builtin_add_overflow(to->bucket[b], from->bucket[b], &to->bucket[b]))
			to->bucket[b] = UINT32_MAX;
	if (to->count == 0 || from->min < to->min)
		to->min = from->min;
	if (from->max > to->max)
		to->max = from->max;
	to->count += from->count;
	to->sum += from->sum;
}

uint64_t hist_quantile(const struct hist *h, double q)
{
	if (!h->count)
		return 0;
	double want = q * (double)h->count; /* so many are at or below the answer */
	uint64_t below = 0;
	unsigned b = 0;
	while (b < HIST_BUCKETS - 1 && (double)(below + h->bucket[b]) < want)
		below += h->bucket[b++];
	/* As if the bucket's values were spread evenly over it. */
	double part = h->bucket[b] ? (want - (double)below) / h->bucket[b] : 0;
	double low = (double)bucket_low(b), width = (double)(bucket_low(b + 1) - bucket_low(b));
	double v = b < 16 ? low : low + part * width;
	if (v < (double)h->min)
		return h->min;
	return v > (double)h->max ? h->max : (uint64_t)(v + 0.5);
}

void hist_free(struct hist *h)
{
	free(h->bucket);
	*h = (struct hist){0};
}
