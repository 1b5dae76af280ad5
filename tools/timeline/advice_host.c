/*
 * advice_host.c - what the program's host side makes the device wait for.
 */
#include "advice.h"

static double share(const struct advice_case *c, uint64_t ns)
{
	return (double)ns / c->seen;
}

/* ---- copies from and to pageable memory ---- */

#define PAGEABLE_LEAST_BYTES 1000000

static uint64_t pageable_ns(const struct advice_case *c)
{
	return c->gpu->copy[REPORT_H2D].pageable_ns + c->gpu->copy[REPORT_D2H].pageable_ns;
}

static double pageable_cost(const struct advice_case *c)
{
	uint64_t bytes = c->gpu->copy[REPORT_H2D].pageable_bytes + c->gpu->copy[REPORT_D2H].pageable_bytes;
	return bytes >= PAGEABLE_LEAST_BYTES ? share(c, pageable_ns(c)) : 0;
}

static void pageable_say(const struct advice_case *c, struct report_finding *f)
{
	bool up = c->gpu->copy[REPORT_H2D].pageable_ns >= c->gpu->copy[REPORT_D2H].pageable_ns;
	const struct report_copy *k = &c->gpu->copy[up ? REPORT_H2D : REPORT_D2H];
	uint64_t pinned_bytes = k->bytes - k->pageable_bytes, pinned_ns = k->ns - k->pageable_ns;
	char pinned[96] = "";
	if (pinned_bytes >= PAGEABLE_LEAST_BYTES && pinned_ns)
		snprintf(pinned, sizeof(pinned), "; pinned ones ran at %s",
				 units_rate((double)pinned_bytes / (double)pinned_ns).s);
	f->title = metrics_text("Copies %s pageable memory", up ? "from" : "to");
	f->evidence = metrics_text("%s of %s copies %s (%s of %s) use pageable memory, at %s: %s%s.",
							   units_count(k->pageable_count).s, units_count(k->count).s,
							   report_direction_name[up ? REPORT_H2D : REPORT_D2H],
							   units_bytes((double)k->pageable_bytes).s, units_bytes((double)k->bytes).s,
							   units_rate(units_ratio((double)k->pageable_bytes, (double)k->pageable_ns)).s,
							   units_time((double)k->pageable_ns).s, pinned);
	f->fix = metrics_text("%s", up ? "DataLoader(..., pin_memory=True) and x.to(device, non_blocking=True)."
								   : "Copy into a pinned tensor: out = torch.empty(shape, pin_memory=True); "
									 "out.copy_(x, non_blocking=True).");
}

static char *pageable_offer(const struct advice_case *c)
{
	if (advice_in_force(c, "TURBO_COPY", "on") || advice_in_force(c, "TURBO_COPY", "early"))
		return metrics_text("%s", "TURBO_COPY was on; `turbo stats PID` says why it passed these through.");
	return metrics_text("%s",
						"TURBO_COPY=on stages them through pinned memory without a change to the program.");
}

/* ---- input ---- */

#define INPUT_LEAST 5 /* waits after the start-up, beside the longest: one is no rule */

/* Without steps, what is copied is a batch only if more is computed: weights are not. */
static bool computes(const struct report_gpu *g)
{
	return g->steps.count || g->time.category_ns[REPORT_COMPUTE] >= g->copy[REPORT_H2D].ns;
}

static double input_cost(const struct advice_case *c)
{
	const struct report_steady *s = &c->gpu->steady;
	bool often = s->input.count > INPUT_LEAST && computes(c->gpu);
	return often ? units_ratio((double)(s->input.ns - s->input_max_ns), (double)s->ns) : 0;
}

/* "After step 12", or "In the second half of its work". */
static struct units_text when(const struct report_gpu *g)
{
	struct units_text t = {"In the second half of its work"};
	unsigned first = 0;
	while (first < g->steps.count && g->steps.start[first] < g->steady.start)
		first++;
	if (g->steps.count)
		snprintf(t.s, sizeof(t.s), "After step %u", first);
	return t;
}

static void input_say(const struct advice_case *c, struct report_finding *f)
{
	const struct report_steady *s = &c->gpu->steady;
	char steps[64] = "";
	if (s->steps)
		snprintf(steps, sizeof(steps), " (%s steps)", units_count(s->steps).s);
	f->title = metrics_text("The GPU waits for input");
	f->evidence =
		metrics_text("%s it was idle before %s copies to the device%s: %s in all, %s each on average.",
					 when(c->gpu).s, units_count(s->input.count).s, steps, units_time((double)s->input.ns).s,
					 units_time(units_ratio((double)s->input.ns, (double)s->input.count)).s);
	f->fix = metrics_text(
		"DataLoader(num_workers=N, persistent_workers=True, prefetch_factor=4, pin_memory=True) with N "
		"up to the CPU cores of this GPU's share; decode and augment less, or on the GPU; copy the next "
		"batch on a stream of its own.");
}

/* ---- many small kernels ---- */

#define TINY_LEAST_KERNELS 1000
#define TINY_MEDIAN_NS 50000
#define TINY_GAPS 4 /* a gap after every fourth kernel, at least: it is not one long wait */

static double tiny_cost(const struct advice_case *c)
{
	const struct report_gpu *g = c->gpu;
	uint64_t gaps = g->idle[REPORT_IDLE_SHORT].count + g->idle[REPORT_IDLE_HOST].count;
	if (g->kernels < TINY_LEAST_KERNELS || g->kernel_p50_ns > TINY_MEDIAN_NS || gaps * TINY_GAPS < g->kernels)
		return 0;
	return share(c, g->idle[REPORT_IDLE_SHORT].ns + g->idle[REPORT_IDLE_HOST].ns);
}

static void tiny_say(const struct advice_case *c, struct report_finding *f)
{
	const struct report_gpu *g = c->gpu;
	uint64_t idle = g->idle[REPORT_IDLE_SHORT].ns + g->idle[REPORT_IDLE_HOST].ns;
	f->title = metrics_text("Many small kernels: the GPU waits for their launches");
	f->evidence =
		metrics_text("%s kernels, %s a second, half of them shorter than %s; between them the GPU is idle "
					 "for %s.",
					 units_count(g->kernels).s, units_short((double)g->kernels / c->seen * 1e9).s,
					 units_time((double)g->kernel_p50_ns).s, units_time((double)idle).s);
	f->fix = metrics_text(
		"torch.compile(model) fuses them; torch.compile(model, mode=\"reduce-overhead\") or "
		"torch.cuda.graph() launches a whole step at once; AdamW(..., fused=True); a larger batch.");
}

/* ---- synchronisations that drain the queue ---- */

#define SYNC_LEAST 10

static double sync_cost(const struct advice_case *c)
{
	const struct report_bucket *b = &c->gpu->idle[REPORT_IDLE_SYNC];
	return b->count >= SYNC_LEAST ? share(c, b->ns) : 0;
}

static void sync_say(const struct advice_case *c, struct report_finding *f)
{
	const struct report_bucket *b = &c->gpu->idle[REPORT_IDLE_SYNC];
	char calls[160] = "";
	if (c->rank->syncs.count)
		snprintf(calls, sizeof(calls), " Most waits: %.60s, %s times, %s in all.",
				 c->rank->syncs.item[0].name, units_count(c->rank->syncs.item[0].count).s,
				 units_time((double)c->rank->syncs.item[0].ns).s);
	f->title = metrics_text("Synchronisations drain the queue");
	f->evidence =
		metrics_text("%s times the GPU ran out of work because the host had waited for it or for a result: "
					 "%s idle, %s each.%s",
					 units_count(b->count).s, units_time((double)b->ns).s,
					 units_time(units_ratio((double)b->ns, (double)b->count)).s, calls);
	f->fix = metrics_text(
		"Keep losses and metrics on the device and read them every N steps (.item(), .cpu(), print and "
		"`if tensor:` wait); copy with non_blocking=True; torch.cuda.set_sync_debug_mode(\"warn\") "
		"names the lines.");
}

/* ---- allocations by the driver ---- */

#define CHURN_LEAST 10 /* allocations after the start-up whose memory was given back */
#define CHURN_STEPS 10 /* … and one in so many steps */

/* Allocations after the start-up that a larger cache would have saved: a heap that grows is no churn. */
static uint64_t churn(const struct advice_case *c)
{
	const struct report_steady *s = &c->gpu->steady;
	if (c->rank->free.count)
		return s->alloc.count < s->released.count ? s->alloc.count : s->released.count;
	/* Frees are not told by every mode; but what is more than all memory was given back. */
	return c->gpu->memory_bytes && c->rank->alloc.value > c->gpu->memory_bytes ? s->alloc.count : 0;
}

static double churn_cost(const struct advice_case *c)
{
	const struct report_steady *s = &c->gpu->steady;
	uint64_t n = churn(c);
	if (n < CHURN_LEAST || n * CHURN_STEPS < s->steps)
		return 0;
	return units_ratio((double)(s->alloc.ns + s->released.ns), (double)s->ns);
}

static void churn_say(const struct advice_case *c, struct report_finding *f)
{
	const struct report_steady *s = &c->gpu->steady;
	char each[80] = "";
	if (s->steps)
		snprintf(each, sizeof(each), ", %.1f allocations a step",
				 units_ratio((double)s->alloc.count, (double)s->steps));
	f->title = metrics_text("Device memory is allocated and freed all the time");
	f->evidence = metrics_text("%s %s allocations (%s) and %s frees reached the driver and took %s%s.",
							   when(c->gpu).s, units_count(s->alloc.count).s,
							   units_bytes((double)s->alloc_bytes).s, units_count(s->released.count).s,
							   units_time((double)(s->alloc.ns + s->released.ns)).s, each);
	f->fix = metrics_text(
		"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; no torch.cuda.empty_cache() in the loop; pad "
		"inputs to few shapes; elsewhere allocate once, or use cudaMallocAsync.");
}

/* What is not in force already; a recording that does not say is taken to be of the default. */
static char *churn_offer(const struct advice_case *c)
{
	const char *text =
		"TURBO_DEVMEM_CACHE_MB=N keeps more of what is freed than the default, 2 % of the device; "
		"TURBO_DEVMEM=deferred keeps 25 % and does not wait for the device.";
	if (advice_in_force(c, "TURBO_DEVMEM", "off"))
		text = "TURBO_DEVMEM=cache keeps freed blocks; TURBO_DEVMEM_CACHE_MB says how much.";
	else if (advice_in_force(c, "TURBO_DEVMEM", "deferred"))
		text =
			"TURBO_DEVMEM_CACHE_MB=N keeps more of what is freed than deferred does by itself, 25 % of the "
			"device; TURBO_DEVMEM=stream also serves cudaMallocAsync.";
	else if (advice_in_force(c, "TURBO_DEVMEM", "stream"))
		text = "TURBO_DEVMEM_CACHE_MB=N keeps more of what is freed.";
	return metrics_text("%s", text);
}

const struct advice_rule advice_host_rules[] = {
	{"pageable-copies", 0.01, pageable_cost, pageable_say, REPORT_NOTE, "TURBO_COPY", NULL, pageable_offer},
	{"input-starvation", 0.03, input_cost, input_say, REPORT_NOTE, "TURBO_FILES",
	 "=prefetch reads the data set ahead.", NULL},
	{"tiny-kernels", 0.10, tiny_cost, tiny_say, REPORT_NOTE, NULL, NULL, NULL},
	{"synchronisation", 0.03, sync_cost, sync_say, REPORT_NOTE, NULL, NULL, NULL},
	{"allocation-churn", 0.005, churn_cost, churn_say, REPORT_NOTE, "TURBO_DEVMEM", NULL, churn_offer},
	{NULL, 0, NULL, NULL, REPORT_NOTE, NULL, NULL, NULL},
};
