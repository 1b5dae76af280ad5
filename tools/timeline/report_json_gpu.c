/*
 * report_json_gpu.c - the part of the JSON output that is about one GPU.
 */
#include "report_json.h"

static void put_known(struct json *j, const char *key, uint64_t v)
{
	if (v)
		json_uint(j, key, v);
	else
		json_put_null(j, key);
}

static void put_bucket(struct json *j, const char *key, const struct report_bucket *b)
{
	json_key(j, key);
	json_open(j, '{');
	json_uint(j, "count", b->count);
	json_uint(j, "ns", b->ns);
	json_close(j, '}');
}

static void put_shares(struct json *j, const char *key, const float *v, unsigned n)
{
	json_key(j, key);
	json_open(j, '[');
	for (unsigned i = 0; i < n; i++)
		json_value(j, (double)v[i], n == REPORT_BINS ? 4 : 3);
	json_close(j, ']');
}

static void put_series(struct json *j, const char *key, const struct report_series *s)
{
	if (!s->bins) {
		json_put_null(j, key);
		return;
	}
	json_key(j, key);
	json_open(j, '{');
	json_uint(j, "start", s->start);
	json_uint(j, "bin_ns", s->bin_ns);
	for (unsigned c = 0; c < REPORT_CATEGORIES; c++)
		put_shares(j, report_category_name[c], s->exposed[c], s->bins);
	put_shares(j, "overlap", s->overlap, s->bins);
	put_shares(j, "unseen", s->unseen, s->bins);
	json_close(j, '}');
}

static void put_gaps(struct json *j, const struct report_gpu *g)
{
	uint64_t below = 10000;
	json_key(j, "gaps");
	json_open(j, '[');
	for (unsigned b = 0; b < REPORT_GAP_BUCKETS; b++, below *= 10) {
		json_open(j, '{');
		if (b < REPORT_GAP_BUCKETS - 1)
			json_uint(j, "below_ns", below);
		else
			json_put_null(j, "below_ns");
		json_uint(j, "count", g->gap[b].count);
		json_uint(j, "ns", g->gap[b].ns);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_key(j, "idle");
	json_open(j, '{');
	for (unsigned i = 0; i < REPORT_IDLE_CLASSES; i++)
		put_bucket(j, report_idle_name[i], &g->idle[i]);
	json_close(j, '}');
}

static void put_copies(struct json *j, const struct report_gpu *g)
{
	json_key(j, "copies");
	json_open(j, '{');
	for (unsigned d = 0; d < REPORT_DIRECTIONS; d++) {
		const struct report_copy *c = &g->copy[d];
		json_key(j, report_direction_name[d]);
		json_open(j, '{');
		json_uint(j, "count", c->count);
		json_uint(j, "bytes", c->bytes);
		json_uint(j, "ns", c->ns);
		double rate = report_rate(c->bytes, c->ns, c->count);
		json_double(j, "gbps", rate > 0 ? rate : NAN);
		json_uint(j, "pageable_count", c->pageable_count);
		json_uint(j, "pageable_bytes", c->pageable_bytes);
		json_uint(j, "pageable_ns", c->pageable_ns);
		json_uint(j, "small_count", c->small_count);
		json_uint(j, "staged_count", c->staged_count);
		json_uint(j, "staged_bytes", c->staged_bytes);
		json_uint(j, "staged_ns", c->staged_ns);
		json_uint(j, "staged_unseen_count", c->staged_unseen_count);
		json_uint(j, "staged_unseen_bytes", c->staged_unseen_bytes);
		json_close(j, '}');
	}
	json_close(j, '}');
}

static void put_streams(struct json *j, const struct report_gpu *g)
{
	json_key(j, "streams");
	json_open(j, '[');
	for (unsigned i = 0; i < g->streams; i++) {
		const struct report_stream *s = &g->stream[i];
		json_open(j, '{');
		json_uint(j, "context", s->context);
		json_uint(j, "stream", s->stream);
		json_uint(j, "count", s->count);
		json_uint(j, "busy_ns", s->busy_ns);
		json_uint(j, "host_wait_ns", s->host_wait_ns);
		json_uint(j, "kernel_wait_ns", s->kernel_wait_ns);
		json_uint(j, "other_ns", s->other_ns);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void put_counters(struct json *j, const struct report_gpu *g)
{
	json_key(j, "counters");
	json_open(j, '[');
	for (unsigned i = 0; i < g->counters; i++) {
		const struct report_counter *c = &g->counter[i];
		json_open(j, '{');
		json_string(j, "name", c->name);
		json_double(j, "last", c->last);
		json_double(j, "peak", c->peak);
		json_uint(j, "samples", c->samples);
		json_key(j, "value");
		json_open(j, '[');
		for (unsigned b = 0; b < c->bins; b++)
			json_value(j, c->value[b] < 0 ? NAN : c->value[b], 12);
		json_close(j, ']');
		json_close(j, '}');
	}
	json_close(j, ']');
	put_known(j, "memory_peak", g->memory_peak);
	put_known(j, "memory_process_peak", g->memory_process_peak);
}

static void put_steps(struct json *j, const struct report_steps *s)
{
	if (!s->count) {
		json_put_null(j, "steps");
		return;
	}
	json_key(j, "steps");
	json_open(j, '{');
	json_bool(j, "inferred", true);
	json_uint(j, "count", s->count);
	json_string(j, "anchor", s->anchor);
	json_put_label(j, "anchor_label", s->anchor);
	json_uint(j, "median_ns", s->median_ns);
	json_uint(j, "p99_ns", s->p99_ns);
	json_uint(j, "min_ns", s->min_ns);
	json_uint(j, "max_ns", s->max_ns);
	json_uint(j, "slow", s->slow);
	json_uint(j, "unseen", s->unseen);
	json_double(j, "covered", s->covered);
	json_key(j, "start");
	json_open(j, '[');
	for (unsigned i = 0; i <= s->count; i++) {
		json_separate(j);
		fprintf(j->to, "%" PRIu64, s->start[i]);
	}
	json_close(j, ']');
	json_key(j, "unseen_at");
	json_open(j, '[');
	for (unsigned i = 0; i < s->unseen; i++) {
		json_separate(j);
		fprintf(j->to, "%u", s->unseen_at[i]);
	}
	json_close(j, ']');
	json_close(j, '}');
}

static void put_steady(struct json *j, const struct report_steady *s)
{
	json_key(j, "steady");
	json_open(j, '{');
	json_uint(j, "start", s->start);
	json_uint(j, "ns", s->ns);
	json_uint(j, "steps", s->steps);
	put_bucket(j, "input", &s->input);
	json_uint(j, "input_max_ns", s->input_max_ns);
	put_bucket(j, "allocations", &s->alloc);
	json_uint(j, "allocated_bytes", s->alloc_bytes);
	put_bucket(j, "frees", &s->released);
	json_close(j, '}');
}

void json_put_gpu(struct json *j, const struct report_gpu *g)
{
	json_open(j, '{');
	json_uint(j, "device", g->device);
	json_string(j, "name", g->name);
	json_uint(j, "memory_bytes", g->memory_bytes);
	json_uint(j, "first", g->first);
	json_uint(j, "last", g->last);
	json_key(j, "stretch");
	json_open(j, '{');
	json_uint(j, "start", g->stretch_start);
	json_uint(j, "end", g->stretch_end);
	json_close(j, '}');
	json_uint(j, "operations", g->operations);
	json_uint(j, "graphs", g->graphs);
	json_key(j, "kernels");
	json_open(j, '{');
	json_uint(j, "count", g->kernels);
	json_uint(j, "sum_ns", g->kernel_sum_ns);
	json_uint(j, "p50_ns", g->kernel_p50_ns);
	json_uint(j, "tiny_count", g->tiny_kernels);
	json_uint(j, "tiny_ns", g->tiny_ns);
	json_close(j, '}');
	json_key(j, "memsets");
	json_open(j, '{');
	json_uint(j, "count", g->memsets);
	json_uint(j, "bytes", g->memset_bytes);
	json_uint(j, "ns", g->memset_ns);
	json_close(j, '}');
	json_put_time(j, &g->time);
	put_series(j, "series", &g->series);
	put_series(j, "fine", &g->fine);
	put_gaps(j, g);
	put_copies(j, g);
	put_streams(j, g);
	put_counters(j, g);
	put_steps(j, &g->steps);
	put_steady(j, &g->steady);
	json_close(j, '}');
}
