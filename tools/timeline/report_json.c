/*
 * report_json.c - a report for programs; README.md has the keys.
 */
#include "report_json.h"
#include "text.h"

const char *const report_category_name[REPORT_CATEGORIES] = {"compute", "communication", "memory", "other"};

void json_put_time(struct json *j, const struct report_time *t)
{
	uint64_t seen = t->window_ns - t->unseen_ns, communication = t->category_ns[REPORT_COMMUNICATION];
	json_key(j, "time");
	json_open(j, '{');
	json_uint(j, "window_ns", t->window_ns);
	json_uint(j, "busy_ns", t->busy_ns);
	json_uint(j, "idle_ns", t->idle_ns);
	json_uint(j, "unseen_ns", t->unseen_ns);
	json_uint(j, "compute_ns", t->category_ns[REPORT_COMPUTE]);
	json_uint(j, "communication_ns", communication);
	json_uint(j, "memory_ns", t->category_ns[REPORT_MEMORY]);
	json_uint(j, "other_ns", t->category_ns[REPORT_OTHER]);
	json_uint(j, "exposed_communication_ns", t->exposed_ns[REPORT_COMMUNICATION]);
	json_uint(j, "exposed_memory_ns", t->exposed_ns[REPORT_MEMORY]);
	json_uint(j, "exposed_other_ns", t->exposed_ns[REPORT_OTHER]);
	json_uint(j, "overlap_ns", t->overlap_ns);
	json_double(j, "busy", json_share(t->busy_ns, seen));
	json_double(j, "idle", json_share(t->idle_ns, seen));
	json_double(j, "overlap", communication ? json_share(t->overlap_ns, communication) : NAN);
	json_close(j, '}');
}

void json_put_label(struct json *j, const char *key, const char *short_name)
{
	char label[JSON_LABEL * 4 + 1];
	text_kernel(short_name, JSON_LABEL, label, sizeof(label));
	json_string(j, key, label);
}

static void put_kernel(struct json *j, const struct report_kernel *k, uint64_t busy)
{
	json_open(j, '{');
	json_string(j, "name", k->name);
	json_string(j, "short_name", k->short_name);
	json_put_label(j, "label", k->short_name);
	json_string(j, "category", report_category_name[k->category]);
	json_uint(j, "count", k->count);
	json_uint(j, "sum_ns", k->sum_ns);
	json_double(j, "mean_ns", json_share(k->sum_ns, k->count));
	json_uint(j, "min_ns", k->min_ns);
	json_uint(j, "max_ns", k->max_ns);
	json_uint(j, "p50_ns", k->p50_ns);
	json_uint(j, "p99_ns", k->p99_ns);
	json_double(j, "share", json_share(k->sum_ns, busy));
	json_close(j, '}');
}

static void put_kernels(struct json *j, const struct report_kernels *k, uint64_t busy)
{
	json_key(j, "kernels");
	json_open(j, '{');
	json_uint(j, "names", k->names);
	json_key(j, "top");
	json_open(j, '[');
	for (unsigned i = 0; i < k->count; i++)
		put_kernel(j, &k->item[i], busy);
	json_close(j, ']');
	json_key(j, "rest");
	json_open(j, '{');
	json_uint(j, "count", k->rest.count);
	json_uint(j, "sum_ns", k->rest.sum_ns);
	json_close(j, '}');
	json_close(j, '}');
}

static void put_tallies(struct json *j, const char *key, const struct report_tallies *t)
{
	json_key(j, key);
	json_open(j, '[');
	for (unsigned i = 0; i < t->count; i++) {
		const struct report_tally *x = &t->item[i];
		json_open(j, '{');
		json_string(j, "name", x->name);
		json_uint(j, "count", x->count);
		json_uint(j, "failed", x->failed);
		json_uint(j, "ns", x->ns);
		json_uint(j, "max_ns", x->max_ns);
		json_uint(j, "value", x->value);
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* ---- a rank ---- */

static void put_losses(struct json *j, const struct report_rank *r)
{
	static const struct {
		enum timeline_count count;
		const char *key;
	} loss[] = {
		{TIMELINE_COUNT_OVERWRITTEN, "overwritten"}, {TIMELINE_COUNT_CUPTI_LOST, "cupti_lost"},
		{TIMELINE_COUNT_ZERO_TIME, "zero_time"},     {TIMELINE_COUNT_BACKWARDS, "backwards"},
		{TIMELINE_COUNT_UNKNOWN, "unknown"},         {TIMELINE_COUNT_EVENTS_LOST, "events_lost"},
		{TIMELINE_COUNT_NO_BUFFER, "no_buffer"},     {TIMELINE_COUNT_BAD_BUFFER, "bad_buffer"},
		{TIMELINE_COUNT_TABLE_FULL, "table_full"},   {TIMELINE_COUNT_DROPPED, "dropped"},
	};
	json_key(j, "lost");
	json_open(j, '{');
	for (size_t i = 0; i < sizeof(loss) / sizeof(loss[0]); i++)
		json_uint(j, loss[i].key, r->lost[loss[i].count]);
	json_close(j, '}');
	json_key(j, "gaps");
	json_open(j, '{');
	json_uint(j, "count", r->gap_count);
	json_uint(j, "ns", r->gap_ns);
	json_key(j, "longest");
	json_open(j, '[');
	for (unsigned i = 0; i < r->gaps; i++) {
		json_open(j, '{');
		json_uint(j, "start", r->gap[i].start);
		json_uint(j, "duration", r->gap[i].duration);
		json_string(j, "reason", r->gap[i].reason);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_uint(j, "after_last_ns", r->gap_after_ns);
	json_close(j, '}');
}

static void put_collectives(struct json *j, const struct report_rank *r)
{
	json_key(j, "collectives");
	json_open(j, '[');
	for (unsigned i = 0; i < r->collectives; i++) {
		const struct report_collective *c = &r->collective[i];
		json_open(j, '{');
		json_string(j, "function", c->function);
		json_uint(j, "count", c->count);
		json_uint(j, "failed", c->failed);
		json_uint(j, "bytes", c->bytes);
		json_uint(j, "small_count", c->small_count);
		json_uint(j, "ranks", c->ranks);
		json_uint(j, "kernel_count", c->kernel_count);
		json_uint(j, "kernel_ns", c->kernel_ns);
		json_double(j, "busbw", c->busbw > 0 ? c->busbw : NAN);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void put_header(struct json *j, const struct report_rank *r)
{
	static const char *const mode[] = {
		[TIMELINE_MODE_OFF] = "off",
		[TIMELINE_MODE_SAMPLED] = "sampled",
		[TIMELINE_MODE_KERNEL] = "kernel",
		[TIMELINE_MODE_LAUNCH] = "launch",
	};
	json_string(j, "path", r->path);
	json_string(j, "host", r->host);
	json_uint(j, "pid", r->pid);
	json_string(j, "command", r->command);
	json_int(j, "rank", r->rank);
	json_int(j, "ranks", r->ranks);
	json_int(j, "local_rank", r->local_rank);
	json_string(j, "mode", r->mode <= TIMELINE_MODE_LAUNCH ? mode[r->mode] : "unknown");
	json_bool(j, "on_demand", r->on_demand);
	json_string(j, "libturbo", r->version);
	if (*r->options)
		json_string(j, "options", r->options);
	else
		json_put_null(j, "options");
	json_uint(j, "cupti_version", r->cupti_version);
	json_uint(j, "driver_version", r->driver_version);
	json_int(j, "start", r->start);
	if (r->ended)
		json_int(j, "end", r->end);
	else
		json_put_null(j, "end");
	json_bool(j, "live", r->live);
	json_uint(j, "records", r->records);
	json_uint(j, "damaged", r->damaged);
	json_double(j, "sampled_share", r->sampled_share);
}

static void put_rank(struct json *j, const struct report_rank *r)
{
	uint64_t busy = 0;
	for (unsigned i = 0; i < r->gpus; i++)
		busy += r->gpu[i].time.busy_ns;
	json_open(j, '{');
	put_header(j, r);
	put_losses(j, r);
	json_bool(j, "launches", r->launches);
	json_uint(j, "launch_count", r->launch_count);
	json_uint(j, "launch_delay_p50_ns", r->launch_delay_p50_ns);
	put_tallies(j, "calls", &r->calls);
	put_tallies(j, "syncs", &r->syncs);
	put_tallies(j, "events", &r->events);
	put_tallies(j, "overheads", &r->overheads);
	json_key(j, "allocations");
	json_open(j, '{');
	json_uint(j, "count", r->alloc.count);
	json_uint(j, "ns", r->alloc.ns);
	json_uint(j, "bytes", r->alloc.value);
	json_uint(j, "late_count", r->alloc_late);
	json_uint(j, "free_count", r->free.count);
	json_uint(j, "free_ns", r->free.ns);
	json_uint(j, "out_of_memory", r->oom);
	json_close(j, '}');
	put_collectives(j, r);
	put_kernels(j, &r->kernels, busy);
	json_key(j, "gpus");
	json_open(j, '[');
	for (unsigned i = 0; i < r->gpus; i++)
		json_put_gpu(j, &r->gpu[i]);
	json_close(j, ']');
	json_close(j, '}');
}

/* ---- */

static void put_findings(struct json *j, const struct report *r)
{
	static const char *const severity[] = {"note", "warning", "problem"};
	json_key(j, "findings");
	json_open(j, '[');
	for (unsigned i = 0; i < r->findings; i++) {
		const struct report_finding *f = &r->finding[i];
		json_open(j, '{');
		json_string(j, "id", f->id);
		json_string(j, "severity", severity[f->severity]);
		json_string(j, "title", f->title);
		json_string(j, "evidence", f->evidence);
		json_string(j, "fix", f->fix);
		json_string(j, "option", f->option);
		json_double(j, "cost", f->cost > 0 ? f->cost : NAN);
		if (f->rank >= 0)
			json_int(j, "rank", f->rank);
		else
			json_put_null(j, "rank");
		json_close(j, '}');
	}
	json_close(j, ']');
}

void report_json(const struct report *r, FILE *to)
{
	struct json json = {.to = to}, *j = &json;
	json_open(j, '{');
	json_string(j, "format", "turbo-report");
	json_uint(j, "version", 1);
	json_uint(j, "origin_ns", r->origin_ns);
	json_key(j, "window");
	json_open(j, '{');
	json_uint(j, "start", r->window_start);
	json_uint(j, "end", r->window_end);
	json_bool(j, "asked", r->window_asked);
	json_close(j, '}');
	json_string(j, "verdict", r->verdict);
	json_put_time(j, &r->time);
	put_kernels(j, &r->kernels, r->time.busy_ns);
	if (r->straggler >= 0) {
		json_key(j, "straggler");
		json_open(j, '{');
		json_int(j, "rank", r->straggler);
		json_double(j, "excess", r->straggler_excess);
		json_close(j, '}');
	} else {
		json_put_null(j, "straggler");
	}
	json_double(j, "memory_imbalance", r->memory_imbalance > 0 ? r->memory_imbalance : NAN);
	put_findings(j, r);
	json_key(j, "ranks");
	json_open(j, '[');
	for (unsigned i = 0; i < r->ranks; i++)
		put_rank(j, &r->rank[i]);
	json_close(j, ']');
	json_close(j, '}');
	fputc('\n', to);
}
