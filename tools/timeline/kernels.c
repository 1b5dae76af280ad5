/*
 * kernels.c - kernels by name: a hash table whose slots keep their numbers.
 */
#include <stdlib.h>
#include <string.h>

#include "metrics.h"

static uint32_t hash_of(const char *s)
{
	uint32_t h = 2166136261u; /* FNV-1a */
	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619u;
	return h;
}

static void enlarge(struct kernel_table *t)
{
	t->index_size = t->index_size ? 2 * t->index_size : 256;
	free(t->index);
	t->index = metrics_alloc(t->index_size, sizeof(*t->index));
	for (uint32_t i = 0; i < t->count; i++) {
		uint32_t at = t->slot[i].hash & (t->index_size - 1);
		while (t->index[at])
			at = (at + 1) & (t->index_size - 1);
		t->index[at] = i + 1;
	}
}

uint32_t kernels_slot(struct kernel_table *t, const char *name)
{
	uint32_t hash = hash_of(name);
	if (2 * (t->count + 1) > t->index_size)
		enlarge(t);
	uint32_t at = hash & (t->index_size - 1);
	for (; t->index[at]; at = (at + 1) & (t->index_size - 1)) {
		struct kernel_slot *s = &t->slot[t->index[at] - 1];
		if (s->hash == hash && !strcmp(s->name, name))
			return t->index[at] - 1;
	}
	if (t->count == t->room) {
		t->room = t->room ? 2 * t->room : 64;
		t->slot = metrics_grow(t->slot, t->room, sizeof(*t->slot));
	}
	t->slot[t->count] = (struct kernel_slot){.name = metrics_text("%s", name),
											 .hash = hash,
											 .category = kernel_category(name),
											 .traits = kernel_traits(name)};
	t->index[at] = ++t->count;
	return t->count - 1;
}

static int by_time(const void *a, const void *b)
{
	const struct kernel_slot *x = *(const struct kernel_slot *const *)a,
							 *y = *(const struct kernel_slot *const *)b;
	if (x->hist.sum != y->hist.sum)
		return x->hist.sum < y->hist.sum ? 1 : -1;
	return strcmp(x->name, y->name);
}

static struct report_kernel kernel_of(const struct kernel_slot *s)
{
	return (struct report_kernel){
		.name = metrics_text("%s", s->name),
		.short_name = kernel_short_name(s->name),
		.category = s->category,
		.count = s->hist.count,
		.sum_ns = s->hist.sum,
		.min_ns = s->hist.min,
		.max_ns = s->hist.max,
		.p50_ns = hist_quantile(&s->hist, 0.5),
		.p99_ns = hist_quantile(&s->hist, 0.99),
	};
}

void kernels_report(const struct kernel_table *t, unsigned top, struct report_kernels *out)
{
	const struct kernel_slot **order = metrics_alloc(t->count, sizeof(*order));
	uint32_t n = 0;
	for (uint32_t i = 0; i < t->count; i++)
		if (t->slot[i].hist.count)
			order[n++] = &t->slot[i];
	qsort(order, n, sizeof(*order), by_time);
	out->names = n;
	out->count = n < top ? n : top;
	out->item = metrics_alloc(out->count, sizeof(*out->item));
	for (uint32_t i = 0; i < n; i++) {
		if (i < out->count) {
			out->item[i] = kernel_of(order[i]);
			continue;
		}
		out->rest.count += order[i]->hist.count;
		out->rest.sum_ns += order[i]->hist.sum;
	}
	free(order);
}

void kernels_merge(struct kernel_table *to, const struct kernel_table *from)
{
	for (uint32_t i = 0; i < from->count; i++) {
		if (!from->slot[i].hist.count)
			continue;
		uint32_t at = kernels_slot(to, from->slot[i].name); /* may move the slots */
		hist_merge(&to->slot[at].hist, &from->slot[i].hist);
	}
}

void kernels_free(struct kernel_table *t)
{
	for (uint32_t i = 0; i < t->count; i++) {
		free(t->slot[i].name);
		hist_free(&t->slot[i].hist);
	}
	free(t->slot);
	free(t->index);
	*t = (struct kernel_table){0};
}
