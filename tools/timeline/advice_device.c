/*
 * advice_device.c - kernels that could be faster, communication, ranks that differ, memory.
 */
#include "advice.h"

#include <string.h>

static double share(const struct advice_case *c, uint64_t ns)
{
	return (double)ns / c->seen;
}

/* ---- fp32 on the ordinary cores ---- */

static double fp32_cost(const struct advice_case *c)
{
	return share(c, c->gpu->fp32_ns);
}

static void fp32_say(const struct advice_case *c, struct report_finding *f)
{
	const struct report_kernel *worst = NULL;
	for (unsigned i = 0; i < c->rank->kernels.count && !worst; i++)
		if (kernel_traits(c->rank->kernels.item[i].name) & KERNEL_FP32)
			worst = &c->rank->kernels.item[i];
	f->title = metrics_text("fp32 matrix products without tensor cores");
	f->evidence =
		metrics_text("%s kernels, %s; most time: %.80s.", units_count(c->gpu->fp32_count).s,
					 units_time((double)c->gpu->fp32_ns).s, worst ? worst->short_name : "(not in the top)");
	f->fix = metrics_text(
		"torch.set_float32_matmul_precision(\"high\") and torch.backends.cudnn.allow_tf32 = True use "
		"TF32; torch.autocast(\"cuda\", dtype=torch.bfloat16) is faster still.");
}

/* ---- convolutions ---- */

static double layout_cost(const struct advice_case *c)
{
	return share(c, c->gpu->layout_ns);
}

static void layout_say(const struct advice_case *c, struct report_finding *f)
{
	f->title = metrics_text("Convolutions convert their layout");
	f->evidence = metrics_text("%s conversions between NCHW and NHWC take %s, beside %s of convolutions.",
							   units_count(c->gpu->layout_count).s, units_time((double)c->gpu->layout_ns).s,
							   units_time((double)c->gpu->conv_ns).s);
	f->fix = metrics_text("model.to(memory_format=torch.channels_last), and the same for the input batch.");
}

static double slow_conv_cost(const struct advice_case *c)
{
	return share(c, c->gpu->slow_conv_ns);
}

static void slow_conv_say(const struct advice_case *c, struct report_finding *f)
{
	f->title = metrics_text("Convolutions run a slow algorithm");
	f->evidence = metrics_text(
		"%s kernels of direct or explicit convolution take %s of %s.", units_count(c->gpu->slow_conv_count).s,
		units_time((double)c->gpu->slow_conv_ns).s, units_time((double)c->gpu->conv_ns).s);
	f->fix = metrics_text(
		"torch.backends.cudnn.benchmark = True (input shapes must be fixed), with channels_last and "
		"autocast.");
}

/* ---- communication ---- */

/* Where there is a straggler, the others' communication is waiting; its own is not. */
static double exposed_cost(const struct advice_case *c)
{
	int straggler = c->report->straggler;
	if (straggler >= 0 && c->rank != &c->report->rank[straggler])
		return 0;
	return share(c, c->gpu->time.exposed_ns[REPORT_COMMUNICATION]);
}

static void exposed_say(const struct advice_case *c, struct report_finding *f)
{
	const struct report_time *t = &c->gpu->time;
	f->title = metrics_text("Communication is not hidden behind compute");
	f->evidence = metrics_text(
		"%s of communication, %s of it alone; overlap %s.",
		units_time((double)t->category_ns[REPORT_COMMUNICATION]).s,
		units_time((double)t->exposed_ns[REPORT_COMMUNICATION]).s,
		units_share(units_ratio((double)t->overlap_ns, (double)t->category_ns[REPORT_COMMUNICATION])).s);
	f->fix = metrics_text(
		"DDP(bucket_cap_mb=25 to 100, gradient_as_bucket_view=True), static_graph=True; FSDP with "
		"backward prefetch and forward_prefetch=True; no_sync() while accumulating gradients.");
}

#define SMALL_LEAST 100

static double small_cost(const struct advice_case *c)
{
	uint64_t count = 0, small = 0;
	for (unsigned i = 0; i < c->rank->collectives; i++) {
		count += c->rank->collective[i].count;
		small += c->rank->collective[i].small_count;
	}
	if (small < SMALL_LEAST || 2 * small < count)
		return 0;
	return share(c, c->gpu->time.exposed_ns[REPORT_COMMUNICATION]) * (double)small / (double)count;
}

static void small_say(const struct advice_case *c, struct report_finding *f)
{
	const struct report_collective *most = &c->rank->collective[0];
	for (unsigned i = 1; i < c->rank->collectives; i++)
		if (c->rank->collective[i].small_count > most->small_count)
			most = &c->rank->collective[i];
	f->title = metrics_text("Many small collectives");
	f->evidence = metrics_text("%s of %s calls of %.40s are smaller than 64 KiB, %s on average.",
							   units_count(most->small_count).s, units_count(most->count).s, most->function,
							   units_bytes(units_ratio((double)most->bytes, (double)most->count)).s);
	f->fix = metrics_text("Put them together: one flat tensor for all metrics, DDP buckets (bucket_cap_mb), "
						  "torch.distributed's coalesced calls (all_gather_into_tensor on a flat buffer, "
						  "batch_isend_irecv).");
}

/* ---- ranks that differ ---- */

static double straggler_cost(const struct advice_case *c)
{
	const struct report *r = c->report;
	bool it = r->straggler >= 0 && c->rank == &r->rank[r->straggler] && c->gpu == c->rank->gpu;
	return it ? r->straggler_excess / (1 + r->straggler_excess) : 0;
}

/* The others' mean of a part of their time against this rank's. */
static double others(const struct advice_case *c, uint64_t (*part)(const struct report_gpu *))
{
	double sum = 0;
	unsigned n = 0;
	for (unsigned i = 0; i < c->report->ranks; i++) {
		const struct report_rank *r = &c->report->rank[i];
		if (r == c->rank || !r->gpus)
			continue;
		sum += units_ratio((double)part(r->gpu), (double)(r->gpu->time.window_ns - r->gpu->time.unseen_ns));
		n++;
	}
	return n ? sum / n : 0;
}

static uint64_t compute_part(const struct report_gpu *g)
{
	return g->time.exposed_ns[REPORT_COMPUTE];
}

static uint64_t idle_part(const struct report_gpu *g)
{
	return g->time.idle_ns;
}

static void straggler_say(const struct advice_case *c, struct report_finding *f)
{
	double compute = share(c, compute_part(c->gpu)), idle = share(c, idle_part(c->gpu));
	double other_compute = others(c, compute_part), other_idle = others(c, idle_part);
	bool slow_kernels = compute - other_compute >= idle - other_idle;
	f->title = metrics_text("One rank is slower, and the others wait for it");
	f->evidence = metrics_text(
		"Without waiting for others it needs %.1f %% longer for a step than the median rank: it computes "
		"for %s of the time (others %s) and is idle for %s (others %s).",
		100 * c->report->straggler_excess, units_share(compute).s, units_share(other_compute).s,
		units_share(idle).s, units_share(other_idle).s);
	f->fix = metrics_text(
		"%s",
		slow_kernels
			? "Its kernels take longer: look for lower clocks and another process on that GPU "
			  "(nvidia-smi -q -d PERFORMANCE,CLOCK), or more work in its part of the batch."
			: "Its host is late: compare its input (data loader, storage, NUMA node, CPU load) with the "
			  "other ranks'.");
}

#define IMBALANCE 1.25

static double imbalance_cost(const struct advice_case *c)
{
	const struct report *r = c->report;
	for (unsigned i = 0; i < r->ranks && r->memory_imbalance >= IMBALANCE; i++)
		for (unsigned k = 0; k < r->rank[i].gpus; k++)
			if (report_memory(&r->rank[i].gpu[k]) > report_memory(c->gpu))
				return 0;
	return r->memory_imbalance >= IMBALANCE ? ADVICE_NO_COST : 0;
}

static void imbalance_say(const struct advice_case *c, struct report_finding *f)
{
	f->title = metrics_text("Device memory differs between ranks");
	f->evidence = metrics_text("Rank %d uses %s, %.2f times the mean of all.", c->rank->rank,
							   units_gib((double)report_memory(c->gpu)).s, c->report->memory_imbalance);
	f->fix = metrics_text(
		"torch.cuda.set_device(local_rank) before anything else; torch.load(..., map_location=device); "
		"gather results on the host; give the first and last pipeline stage fewer layers.");
}

#define MEMORY_FULL 0.95

static double full_cost(const struct advice_case *c)
{
	if (c->rank->oom)
		return 2 * ADVICE_NO_COST;
	return c->gpu->memory_bytes && (double)c->gpu->memory_peak >= MEMORY_FULL * (double)c->gpu->memory_bytes
			   ? ADVICE_NO_COST
			   : 0;
}

static void full_say(const struct advice_case *c, struct report_finding *f)
{
	char oom[80] = "";
	if (c->rank->oom)
		snprintf(oom, sizeof(oom), " %s allocations found no memory.", units_count(c->rank->oom).s);
	f->title = metrics_text("Device memory is full");
	f->evidence = metrics_text("At most %s of %s were used.%s", units_gib((double)c->gpu->memory_peak).s,
							   units_gib((double)c->gpu->memory_bytes).s, oom);
	f->fix = metrics_text(
		"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragmentation; a smaller batch with "
		"gradient accumulation; activation checkpointing.");
}

static char *full_offer(const struct advice_case *c)
{
	if (advice_in_force(c, "TURBO_DEVMEM", "stream"))
		return NULL;
	return metrics_text("%s", "TURBO_DEVMEM=stream keeps fragmentation low.");
}

const struct advice_rule advice_device_rules[] = {
	{"fp32-matmul", 0.03, fp32_cost, fp32_say, REPORT_NOTE, "TURBO_MATH", "=tf32 sets both switches.", NULL},
	{"convolution-layout", 0.02, layout_cost, layout_say, REPORT_NOTE, NULL, NULL, NULL},
	{"convolution-algorithm", 0.03, slow_conv_cost, slow_conv_say, REPORT_NOTE, NULL, NULL, NULL},
	{"exposed-communication", 0.10, exposed_cost, exposed_say, REPORT_NOTE, NULL, NULL, NULL},
	{"small-collectives", 0.01, small_cost, small_say, REPORT_NOTE, "TURBO_NCCL_COALESCE",
	 "=on puts small asynchronous all-gathers together.", NULL},
	{"straggler", 0.01, straggler_cost, straggler_say, REPORT_NOTE, NULL, NULL, NULL},
	{"memory-imbalance", 0, imbalance_cost, imbalance_say, REPORT_WARN, NULL, NULL, NULL},
	{"memory-full", 0, full_cost, full_say, REPORT_WARN, "TURBO_DEVMEM", NULL, full_offer},
	{NULL, 0, NULL, NULL, REPORT_NOTE, NULL, NULL, NULL},
};
