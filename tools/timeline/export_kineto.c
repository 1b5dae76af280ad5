/*
 * export_kineto.c - the JSON of torch.profiler.
 *
 * One event a line. What is the same for all events of an entry, a lane or a row is written once into a piece of
 * text, and an event is pieces and numbers. HTA finds the rank by a pattern that wants the blank in `"rank": 0`,
 * and reads lines until it is found: it comes before the events.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/timeline/export_kineto.h"

/* Times count from the last multiple of this, as Kineto's do, so that files of different ranks have the same base
 * and each time fits a double. */
#define BASE_UNIT_NS (7889238ull * 1000000000ull)
/* Numbers of rows that have none of their own: above every thread's and stream's. */
#define TID_MADE_UP 100000000u
/* Small process ids (in containers) would be taken for devices. */
#define PID_MOVED 10000000u

static uint32_t host_pid(const struct kineto *k)
{
	uint32_t pid = trace_header(k->trace)->pid;
	return pid < 1024 ? pid + PID_MOVED : pid;
}

/* ---- the header ---- */

static void put_devices(struct kineto *k)
{
	const struct timeline_header *h = trace_header(k->trace);
	output_text(k->out, "\"deviceProperties\": [");
	for (uint32_t i = 0; i < h->device_count; i++) {
		const struct timeline_device *d = &h->device[i];
		output_format(k->out, "%s\n{\"id\": %u, \"name\": ", i ? "," : "", i);
		output_json(k->out, d->name);
		output_format(k->out,
					  ", \"totalGlobalMem\": %" PRIu64 ", \"computeMajor\": %u, \"computeMinor\": %u, "
					  "\"maxThreadsPerBlock\": %u, \"maxThreadsPerMultiprocessor\": %u, "
					  "\"regsPerMultiprocessor\": %u, \"warpSize\": %u, \"sharedMemPerBlock\": %u, "
					  "\"numSms\": %u, \"sharedMemPerMultiprocessor\": %u}",
					  d->memory_bytes, d->major, d->minor, d->threads_a_block, d->threads_a_multiprocessor,
					  d->registers_a_multiprocessor, d->warp, d->shared_a_block, d->multiprocessors,
					  d->shared_a_multiprocessor);
	}
	output_text(k->out, "],\n");
}

/* The process groups are NCCL's communicators that have been seen. */
static void put_distributed(struct kineto *k)
{
	const struct timeline_header *h = trace_header(k->trace);
	uint32_t last = 0, groups = 0;
	output_format(k->out, "\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %d, \"world_size\": %d, ",
				  h->rank >= 0 ? h->rank : (int)k->request->index,
				  h->ranks > 0 ? h->ranks : (int)k->request->count);
	output_text(k->out, "\"pg_config\": [");
	/* Communicators are numbered in their order, so are the entries of their calls, nearly. */
	for (uint32_t i = 0; i < trace_entries(k->trace) && groups < 64; i++) {
		const struct timeline_entry *e = trace_entry(k->trace, i);
		if (e->kind != TIMELINE_COLLECTIVE || e->collective.communicator <= last)
			continue;
		last = e->collective.communicator;
		output_format(k->out,
					  "%s{\"pg_name\": \"%u\", \"pg_desc\": \"\", \"backend_config\": \"cuda:nccl\", "
					  "\"pg_size\": %u}",
					  groups++ ? ", " : "", last, e->collective.ranks);
	}
	output_format(k->out, "], \"pg_count\": %u},\n", groups);
}

static void put_lost(struct kineto *k)
{
	static const char *const mode[] = {"off", "sampled", "kernel", "launch"};
	const struct timeline_header *h = trace_header(k->trace);
	output_text(k->out, "\"libturbo\": {\"version\": ");
	output_json(k->out, h->version_text);
	output_text(k->out, ", \"host\": ");
	output_json(k->out, h->host);
	output_text(k->out, ", \"command\": ");
	output_json(k->out, h->command);
	output_format(k->out,
				  ", \"mode\": \"%s\", \"on_demand\": %s, \"overwritten\": %" PRIu64
				  ", \"cupti_lost\": %" PRIu64 ", \"zero_time\": %" PRIu64 ", \"events_lost\": %" PRIu64
				  ", \"damaged\": %" PRIu64 "},\n",
				  mode[h->mode], h->on_demand == 1 ? "true" : "false", h->count[TIMELINE_COUNT_OVERWRITTEN],
				  h->count[TIMELINE_COUNT_CUPTI_LOST], h->count[TIMELINE_COUNT_ZERO_TIME],
				  h->count[TIMELINE_COUNT_EVENTS_LOST], trace_damaged(k->trace));
}

static void put_head(struct kineto *k)
{
	const struct timeline_header *h = trace_header(k->trace);
	output_text(k->out, "{\n\"schemaVersion\": 1,\n");
	put_devices(k);
	output_format(k->out, "\"cupti_version\": %u,\n\"cuda_driver_version\": %u,\n", h->cupti_version,
				  h->driver_version);
	put_distributed(k);
	put_lost(k);
	output_format(k->out, "\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": %" PRIu64 ",\n", k->base);
	output_text(k->out, "\"traceEvents\": [");
}

/* ---- rows ---- */

static void put_time(struct kineto *k, uint64_t ns)
{
	if (k->request->integer_us)
		output_number(k->out, ns / 1000);
	else
		output_microseconds(k->out, ns);
}

static uint64_t relative(const struct kineto *k, uint64_t time)
{
	return time > k->base ? time - k->base : 0;
}

static void begin_line(struct kineto *k)
{
	output_text(k->out, k->events++ ? ",\n" : "\n");
}

static void put_metadata(struct kineto *k, const char *what, uint32_t pid, uint32_t tid, const char *key)
{
	begin_line(k);
	output_format(k->out, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":", what, pid, tid);
	put_time(k, relative(k, k->request->origin));
	output_format(k->out, ",\"args\":{\"%s\":", key);
}

static void name_process(struct kineto *k, uint32_t pid, bool gpu, uint32_t device)
{
	const struct timeline_header *h = trace_header(k->trace);
	char text[512], rank[32] = "";
	if (h->rank >= 0)
		snprintf(rank, sizeof(rank), "rank %d: ", h->rank);
	if (gpu)
		snprintf(text, sizeof(text), "%sGPU %u %s", rank, device,
				 device < h->device_count ? h->device[device].name : "");
	else
		snprintf(text, sizeof(text), "%s%s (%s, pid %u)", rank, h->command, h->host, h->pid);
	put_metadata(k, "process_name", pid, 0, "name");
	output_json(k->out, text);
	output_text(k->out, "}}");
	if (gpu)
		snprintf(text, sizeof(text), "GPU %u", device);
	put_metadata(k, "process_labels", pid, 0, "labels");
	output_json(k->out, gpu ? text : "CPU");
	output_text(k->out, "}}");
	put_metadata(k, "process_sort_index", pid, 0, "sort_index");
	output_format(k->out, "%u}}", gpu ? 5000000 + device % 1024 : 0);
}

/* Each GPU, and the process, is named when something of it is first written. */
static void know_process(struct kineto *k, uint32_t pid, bool gpu, uint32_t device)
{
	for (uint32_t i = 0; i < k->processes; i++)
		if (k->process[i] == pid)
			return;
	if (k->processes == sizeof(k->process) / sizeof(k->process[0]))
		return;
	k->process[k->processes++] = pid;
	name_process(k, pid, gpu, device);
}

static uint32_t pid_of(const struct kineto *k, const struct timeline_lane *l, bool gpu)
{
	return gpu ? l->device : host_pid(k);
}

static void name_row(struct kineto *k, const struct track *track, struct kineto_row *row)
{
	char name[256];
	const struct timeline_lane *l = trace_lane(k->trace, track->lane);
	bool gpu = track_on_gpu(&k->tracks, track);
	bool numbered = l->kind == TIMELINE_LANE_STREAM || l->kind == TIMELINE_LANE_THREAD;
	row->pid = pid_of(k, l, gpu);
	row->tid = !track->first_row || !numbered ? TID_MADE_UP + track->id : gpu ? l->stream : l->thread;
	know_process(k, row->pid, gpu, l->device);
	put_metadata(k, "thread_name", row->pid, row->tid, "name");
	output_json(k->out, track_name(&k->tracks, track, name, sizeof(name)));
	output_text(k->out, "}}");
	put_metadata(k, "thread_sort_index", row->pid, row->tid, "sort_index");
	output_format(k->out, "%" PRIu64 "}}", (uint64_t)track->lane * 16 + track->class);
}

static const struct kineto_row *row_of(struct kineto *k, const struct trace_event *e)
{
	bool fresh;
	uint64_t start = e->start, end = e->start + e->duration;
	if (k->request->integer_us) {
		start /= 1000;
		end /= 1000;
	}
	const struct track *track = tracks_place(&k->tracks, e, start, end, &fresh);
	if (track && track->id >= k->rows) {
		uint32_t rows = 2 * track->id + 64;
		struct kineto_row *more = realloc(k->row, rows * sizeof(*more));
		if (!more)
			return NULL;
		k->row = more;
		k->rows = rows;
	}
	if (!track)
		return NULL;
	if (fresh)
		name_row(k, track, &k->row[track->id]);
	return &k->row[track->id];
}

/* ---- events ---- */

static void put_counter(struct kineto *k, const struct trace_event *e)
{
	bool gpu = e->lane->kind == TIMELINE_LANE_DEVICE || e->lane->kind == TIMELINE_LANE_STREAM;
	uint32_t pid = pid_of(k, e->lane, gpu);
	know_process(k, pid, gpu, e->lane->device);
	begin_line(k);
	output_text(k->out, "{\"ph\":\"C\",\"cat\":\"counter\",\"name\":");
	output_json(k->out, *e->name ? e->name : "counter");
	output_format(k->out, ",\"pid\":%u,\"tid\":0,\"ts\":", pid);
	put_time(k, relative(k, e->start));
	output_format(k->out, ",\"args\":{\"value\":%" PRIu64 "}}", e->value);
}

static void put_flow(struct kineto *k, const struct trace_event *e, const struct kineto_row *row, bool end)
{
	begin_line(k);
	output_format(k->out, "{\"ph\":\"%s\",\"id\":%u,\"pid\":%u,\"tid\":%u,\"ts\":", end ? "f" : "s",
				  e->correlation, row->pid, row->tid);
	put_time(k, relative(k, e->start));
	output_text(k->out, ",\"cat\":\"ac2g\",\"name\":\"ac2g\"");
	output_text(k->out, end ? ",\"bp\":\"e\"}" : "}");
}

/* An arrow from the call to what it started, where both are there; a graph's kernels share a correlation. The
 * call comes first, and numbers grow, so a window of them is kept. */
static void join_flow(struct kineto *k, const struct trace_event *e, const struct kineto_row *row)
{
	uint32_t *slot = &k->called[e->correlation % KINETO_FLOWS];
	if (!e->correlation)
		return;
	if (e->kind == TIMELINE_API && export_starts_work(e->name)) {
		*slot = e->correlation;
		put_flow(k, e, row, false);
	} else if (export_on_gpu(e) && *slot == e->correlation) {
		put_flow(k, e, row, true);
	}
}

static void put_event(void *arg, const struct trace_event *e)
{
	struct kineto *k = arg;
	if (e->kind == TIMELINE_COUNTER) {
		put_counter(k, e);
		k->written++;
		return;
	}
	const struct kineto_row *row = row_of(k, e);
	const struct kineto_text *text = row ? kineto_text_of(k, e) : NULL;
	if (!text) {
		output_fail(k->out, ENOMEM);
		return;
	}
	uint64_t start = relative(k, e->start), end = relative(k, e->start + e->duration);
	output_text(k->out, k->events++ ? ",\n" : "\n");
	output_bytes(k->out, text->head, text->head_length);
	output_number(k->out, row->pid);
	output_bytes(k->out, ",\"tid\":", 7);
	output_number(k->out, row->tid);
	output_bytes(k->out, ",\"ts\":", 6);
	put_time(k, start);
	output_bytes(k->out, ",\"dur\":", 7);
	if (k->request->integer_us)
		output_number(k->out, end / 1000 - start / 1000);
	else
		output_microseconds(k->out, end - start);
	kineto_put_args(k, e, text);
	k->written++;
	join_flow(k, e, row);
}

uint64_t export_kineto(struct trace *t, const struct export_request *q, struct output *o)
{
	struct kineto k = {.trace = t, .request = q, .out = o, .base = q->origin / BASE_UNIT_NS * BASE_UNIT_NS};
	k.text = calloc(trace_entries(t), sizeof(*k.text));
	k.called = calloc(KINETO_FLOWS, sizeof(*k.called));
	bool ready = tracks_open(&k.tracks, t) && k.text && k.called;
	if (ready) {
		put_head(&k);
		export_each(t, q, o, put_event, &k);
		output_text(o, "\n],\n\"traceName\": ");
		output_json(o, q->trace_name ? q->trace_name : "");
		output_text(o, "\n}\n");
	} else {
		output_fail(o, ENOMEM);
	}
	kineto_texts_free(&k);
	tracks_close(&k.tracks);
	free(k.called);
	free(k.row);
	return k.written;
}
