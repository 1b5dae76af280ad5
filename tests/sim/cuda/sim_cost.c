/*
 * sim_cost.c - what calls cost on an H200 (driver 580), for SIM_COSTS=1.
 */
#include "sim_cost.h"

struct point {
	double mib, us;
};

/* Measured at these sizes; straight lines between them. */
static const struct point alloc[] = {{1, 54}, {20, 54}, {256, 633}, {2048, 752}};
static const struct point release[] = {{1, 46}, {20, 64}, {256, 310}, {2048, 1607}};
static const struct point create[] = {{2, 67}, {32, 15}};
static const struct point map[] = {{2, 1.5}};
static const struct point access[] = {{2, 37}}; /* each mapping */
static const struct point launch[] = {{0, 4.3}};
static const struct point record[] = {{0, 0.4}};
static const struct point wait[] = {{0, 0.14}};
static const struct point query[] = {{0, 0.21}};

static const struct {
	const struct point *points;
	int count;
} table[] = {
#define T(points)                                     \
	{                                                 \
		points, sizeof(points) / sizeof(struct point) \
	}
	[COST_ALLOC] = T(alloc),   [COST_FREE] = T(release),  [COST_CREATE] = T(create),
	[COST_MAP] = T(map),       [COST_ACCESS] = T(access), [COST_LAUNCH] = T(launch),
	[COST_RECORD] = T(record), [COST_WAIT] = T(wait),     [COST_QUERY] = T(query),
#undef T
};

static double cost_us(enum sim_cost what, uint64_t bytes)
{
	const struct point *p = table[what].points, *last = p + table[what].count - 1;
	double mib = (double)bytes / (1 << 20);
	if (mib <= p->mib)
		return p->us;
	while (p < last && mib > p[1].mib)
		p++;
	if (p == last)
		return last->us;
	return p->us + (p[1].us - p->us) * (mib - p->mib) / (p[1].mib - p->mib);
}

void sim_cost_spin(enum sim_cost what, uint64_t bytes, int times)
{
	uint64_t end = sim_now_ns() + (uint64_t)(cost_us(what, bytes) * 1e3 * times);
	while (sim_now_ns() < end)
		;
}
