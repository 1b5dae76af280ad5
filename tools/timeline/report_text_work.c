/*
 * report_text_work.c - what ran: kernels, copies, collectives; and what the host did.
 */
#include <stdlib.h>
#include <string.h>

#include "text.h"

#define NAME_AT 52 /* the column of a kernel's name */
#define NAME_SIZE 2048
#define CALLS 6 /* rows of each table of the host */

void text_kernels(const struct text *t)
{
	const struct report_kernels *k = &t->r->kernels;
	double busy = (double)t->r->time.busy_ns;
	if (!k->count)
		return;
	text_heading(t, "KERNELS, shares are of busy time%s", t->r->ranks > 1 ? ", all ranks" : "");
	fprintf(t->to, "%7s %8s %6s %8s %8s %8s  %s\n", "SHARE", "TIME", "COUNT", "P50", "P99", "MAX", "KERNEL");
	for (unsigned i = 0; i < k->count; i++) {
		const struct report_kernel *x = &k->item[i];
		char name[NAME_SIZE];
		text_kernel(x->short_name, t->columns - NAME_AT, name, sizeof(name));
		fprintf(t->to, "%7s %8s %6s %8s %8s %8s  %s%s%s\n",
				units_share(units_ratio((double)x->sum_ns, busy)).s, units_time((double)x->sum_ns).s,
				units_short((double)x->count).s, units_time((double)x->p50_ns).s,
				units_time((double)x->p99_ns).s, units_time((double)x->max_ns).s,
				text_on(t, x->category == REPORT_COMMUNICATION ? TEXT_BLUE : TEXT_PLAIN), name,
				x->category == REPORT_COMMUNICATION ? text_off(t) : "");
	}
	if (k->rest.count)
		fprintf(t->to, "%7s %8s %6s %26s  %s more (--top N)\n",
				units_share(units_ratio((double)k->rest.sum_ns, busy)).s,
				units_time((double)k->rest.sum_ns).s, units_short((double)k->rest.count).s, "",
				units_count(k->names - k->count).s);
}

/* ---- copies ---- */

static struct report_copy copies(const struct report *r, unsigned direction)
{
	struct report_copy sum = {0};
	for (unsigned i = 0; i < r->ranks; i++)
		for (unsigned k = 0; k < r->rank[i].gpus; k++) {
			const struct report_copy *c = &r->rank[i].gpu[k].copy[direction];
			sum.count += c->count;
			sum.bytes += c->bytes;
			sum.ns += c->ns;
			sum.pageable_count += c->pageable_count;
			sum.pageable_bytes += c->pageable_bytes;
			sum.pageable_ns += c->pageable_ns;
			sum.small_count += c->small_count;
			sum.staged_count += c->staged_count;
			sum.staged_bytes += c->staged_bytes;
			sum.staged_ns += c->staged_ns;
		}
	return sum;
}

static void copy_row(const struct text *t, const char *name, uint64_t count, uint64_t bytes, uint64_t ns,
					 uint64_t small)
{
	struct units_text rate = {"-"};
	double gbps = report_rate(bytes, ns, count);
	if (gbps > 0)
		rate = units_rate(gbps);
	fprintf(t->to, "  %-30s %7s %9s %9s %11s %8s\n", name, units_short((double)count).s,
			units_bytes((double)bytes).s, units_time((double)ns).s, rate.s,
			small ? units_short((double)small).s : "-");
}

static void copy_rows(const struct text *t, unsigned d)
{
	struct report_copy c = copies(t->r, d);
	if (c.count)
		copy_row(t, report_direction_name[d], c.count, c.bytes, c.ns, c.small_count);
	if (c.pageable_count && c.pageable_count < c.count) {
		copy_row(t, "  of these pinned", c.count - c.pageable_count, c.bytes - c.pageable_bytes,
				 c.ns - c.pageable_ns, 0);
		copy_row(t, "  of these pageable", c.pageable_count, c.pageable_bytes, c.pageable_ns, 0);
	} else if (c.pageable_count) {
		fprintf(t->to, "    all of them pageable\n");
	}
	if (c.staged_count)
		copy_row(t,
				 c.count           ? "  staged by libturbo (calls)"
				 : d == REPORT_H2D ? "H2D staged (calls)"
								   : "D2H staged (calls)",
				 c.staged_count, c.staged_bytes, c.staged_ns, 0);
}

void text_copies(const struct text *t)
{
	uint64_t count = 0, memsets = 0, memset_bytes = 0, memset_ns = 0;
	for (unsigned i = 0; i < t->r->ranks; i++)
		for (unsigned k = 0; k < t->r->rank[i].gpus; k++) {
			const struct report_gpu *g = &t->r->rank[i].gpu[k];
			memsets += g->memsets;
			memset_bytes += g->memset_bytes;
			memset_ns += g->memset_ns;
		}
	for (unsigned d = 0; d < REPORT_DIRECTIONS; d++)
		count += copies(t->r, d).count + copies(t->r, d).staged_count;
	if (!count && !memsets)
		return;
	text_heading(t, "COPIES%s", t->r->ranks > 1 ? ", all ranks" : "");
	fprintf(t->to, "  %-30s %7s %9s %9s %11s %8s\n", "", "COUNT", "BYTES", "TIME", "RATE", "< 64 KiB");
	for (unsigned d = 0; d < REPORT_DIRECTIONS; d++)
		copy_rows(t, d);
	if (memsets)
		copy_row(t, "memset", memsets, memset_bytes, memset_ns, 0);
}

/* ---- collectives ---- */

static void collective_row(const struct text *t, const char *who, const struct report_collective *c)
{
	struct units_text bus = {"-"}, kernels = {"-"}, small = {"-"};
	if (c->busbw > 0)
		bus = units_rate(c->busbw);
	if (c->kernel_ns)
		kernels = units_time((double)c->kernel_ns);
	if (c->small_count)
		small = units_short((double)c->small_count);
	fprintf(t->to, "  %-8.8s %-20.20s %8s %9s %9s %8s %9s %11s%s\n", who, c->function,
			units_short((double)c->count).s, units_bytes((double)c->bytes).s,
			units_bytes(units_ratio((double)c->bytes, (double)c->count)).s, small.s, kernels.s, bus.s,
			c->failed ? " FAILED" : "");
}

void text_collectives(const struct text *t)
{
	bool titled = false;
	for (unsigned i = 0; i < t->r->ranks && i < 8; i++) {
		const struct report_rank *r = &t->r->rank[i];
		for (unsigned k = 0; k < r->collectives; k++) {
			if (!titled) {
				text_heading(t, "COLLECTIVES; the bus bandwidth counts waiting for other ranks as transfer");
				fprintf(t->to, "  %-8s %-20s %8s %9s %9s %8s %9s %11s\n", "", "FUNCTION", "CALLS", "BYTES",
						"EACH", "< 64 KiB", "ON GPU", "BUS");
			}
			titled = true;
			collective_row(t, text_who(t->r, r, r->gpu).s, &r->collective[k]);
		}
	}
	if (titled && t->r->ranks > 8)
		fprintf(t->to, "  and %u ranks more: --json has them all\n", t->r->ranks - 8);
}

/* ---- the host ---- */

struct merged {
	struct report_tally *item;
	unsigned count;
};

/* Tallies of all ranks by name; the names are the ranks'. */
static void merge(struct merged *m, const struct report_tallies *t)
{
	for (unsigned i = 0; i < t->count; i++) {
		unsigned k = 0;
		while (k < m->count && strcmp(m->item[k].name, t->item[i].name))
			k++;
		if (k == m->count) {
			struct report_tally *more = realloc(m->item, (m->count + 1) * sizeof(*more));
			if (!more)
				return;
			m->item = more;
			m->item[m->count++] = (struct report_tally){.name = t->item[i].name};
		}
		m->item[k].count += t->item[i].count;
		m->item[k].failed += t->item[i].failed;
		m->item[k].ns += t->item[i].ns;
		m->item[k].value += t->item[i].value;
		if (t->item[i].max_ns > m->item[k].max_ns)
			m->item[k].max_ns = t->item[i].max_ns;
	}
}

static int by_time(const void *a, const void *b)
{
	const struct report_tally *x = a, *y = b;
	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	return strcmp(x->name, y->name);
}

static void host_rows(const struct text *t, const char *kind, size_t member, bool *titled)
{
	struct merged m = {0};
	for (unsigned i = 0; i < t->r->ranks; i++)
		merge(&m, (const struct report_tallies *)((const char *)&t->r->rank[i] + member));
	if (m.count && !*titled) {
		text_heading(t, "HOST%s", t->r->ranks > 1 ? ", all ranks" : "");
		fprintf(t->to, "  %-10s %8s %9s %9s %9s  %s\n", "", "COUNT", "TIME", "MEAN", "MAX", "WHAT");
		*titled = true;
	}
	if (m.count)
		qsort(m.item, m.count, sizeof(*m.item), by_time);
	for (unsigned i = 0; i < m.count && i < CALLS; i++) {
		const struct report_tally *x = &m.item[i];
		char name[64];
		text_fit(x->name, 44, name, sizeof(name));
		fprintf(t->to, "  %-10s %8s %9s %9s %9s  %s%s\n", kind, units_short((double)x->count).s,
				units_time((double)x->ns).s, units_time(units_ratio((double)x->ns, (double)x->count)).s,
				units_time((double)x->max_ns).s, name, x->failed ? " (some failed)" : "");
	}
	free(m.item);
}

void text_host(const struct text *t)
{
	bool titled = false;
	host_rows(t, "wait", offsetof(struct report_rank, syncs), &titled);
	host_rows(t, "libturbo", offsetof(struct report_rank, events), &titled);
	host_rows(t, "call", offsetof(struct report_rank, calls), &titled);
	host_rows(t, "CUPTI", offsetof(struct report_rank, overheads), &titled);
}
