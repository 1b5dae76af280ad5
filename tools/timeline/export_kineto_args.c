/*
 * export_kineto_args.c - the parts of Kineto's events that are not times: names and arguments.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/timeline/export_kineto.h"

#define NAME_MAX_BYTES 65536 /* a longer name is cut */

/* `s` as the inside of a JSON string. */
static char *escape(const char *s)
{
	size_t n = strnlen(s, NAME_MAX_BYTES);
	char *to = malloc(6 * n + 1), *p = to;
	if (!to)
		return NULL;
	/* Not inside a character. */
	while (n && s[n] && ((unsigned char)s[n] & 0xc0) == 0x80)
		n--;
	for (size_t i = 0; i < n; i++) {
		if (s[i] == '"' || s[i] == '\\')
			*p++ = '\\';
		if ((unsigned char)s[i] < 0x20)
			p += sprintf(p, "\\u%04x", (unsigned char)s[i]);
		else
			*p++ = s[i];
	}
	*p = '\0';
	return to;
}

static bool make_head(struct kineto *k, const struct trace_event *e, struct kineto_text *text)
{
	char buf[128];
	char *name = escape(export_name(k->trace, e, buf, sizeof(buf)));
	int n = name ? asprintf(&text->head,
							"{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":", export_category(e), name)
				 : -1;
	free(name);
	if (n < 0) {
		text->head = NULL;
		return false;
	}
	text->head_length = (size_t)n;
	return true;
}

/* Kineto's arguments of a kernel that its entry decides. */
static bool make_tail(struct kineto *k, const struct trace_event *e, struct kineto_text *text)
{
	const struct timeline_header *h = trace_header(k->trace);
	const struct timeline_entry *n = e->entry;
	uint32_t device = e->lane->device;
	struct export_occupancy o = export_occupancy(n, device < h->device_count ? &h->device[device] : NULL);
	char cluster[64] = "";
	if (n->kernel.cluster[0] > 1 || n->kernel.cluster[1] > 1 || n->kernel.cluster[2] > 1)
		snprintf(cluster, sizeof(cluster), ",\"cluster\":[%u,%u,%u]", n->kernel.cluster[0],
				 n->kernel.cluster[1], n->kernel.cluster[2]);
	free(text->tail);
	int length =
		asprintf(&text->tail,
				 ",\"registers per thread\":%u,\"shared memory\":%" PRIu64
				 ",\"blocks per SM\":%.6g,\"warps per SM\":%.6g,\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u]%s,"
				 "\"est. achieved occupancy %%\":%u",
				 n->kernel.registers, (uint64_t)n->kernel.static_shared + n->kernel.dynamic_shared,
				 o.blocks_per_sm, o.warps_per_sm, n->kernel.grid[0], n->kernel.grid[1], n->kernel.grid[2],
				 n->kernel.block[0], n->kernel.block[1], n->kernel.block[2], cluster, o.occupancy_percent);
	if (length < 0) {
		text->tail = NULL;
		return false;
	}
	text->tail_length = (size_t)length;
	text->device = device;
	return true;
}

static void free_text(struct kineto_text *text)
{
	if (!text)
		return;
	free(text->head);
	free(text->tail);
	free(text);
}

void kineto_texts_free(struct kineto *k)
{
	for (uint32_t i = 0; k->text && i < trace_entries(k->trace); i++)
		free_text(k->text[i]);
	free(k->text);
}

const struct kineto_text *kineto_text_of(struct kineto *k, const struct trace_event *e)
{
	struct kineto_text **slot = &k->text[e->entry_index];
	/* A graph's name has its record's number; entry 0 stands for records of several kinds. */
	if (*slot && (e->entry_index == 0 || e->kind == TIMELINE_GRAPH)) {
		free_text(*slot);
		*slot = NULL;
	}
	if (!*slot) {
		*slot = calloc(1, sizeof(**slot));
		if (!*slot || !make_head(k, e, *slot))
			return NULL;
	}
	if (e->kind == TIMELINE_KERNEL && (!(*slot)->tail || (*slot)->device != e->lane->device) &&
		!make_tail(k, e, *slot))
		return NULL;
	return *slot;
}

/* ---- arguments ---- */

static void put_key(struct kineto *k, const char *key, uint64_t value)
{
	output_text(k->out, key);
	output_number(k->out, value);
}

static void put_place(struct kineto *k, const struct trace_event *e)
{
	put_key(k, ",\"device\":", e->lane->device);
	put_key(k, ",\"context\":", e->lane->context);
	put_key(k, ",\"stream\":", e->lane->stream);
	put_key(k, ",\"correlation\":", e->correlation);
}

static void put_graph(struct kineto *k, uint32_t graph, uint64_t node)
{
	if (!graph)
		return;
	put_key(k, ",\"graph id\":", graph);
	if (node)
		put_key(k, ",\"graph node id\":", node);
}

static void put_bytes(struct kineto *k, const struct trace_event *e)
{
	put_key(k, ",\"bytes\":", e->value);
	if (e->duration)
		output_format(k->out, ",\"memory bandwidth (GB/s)\":%.6g", (double)e->value / (double)e->duration);
	else
		output_text(k->out, ",\"memory bandwidth (GB/s)\":\"N/A\"");
}

static void put_gpu_args(struct kineto *k, const struct trace_event *e, const struct kineto_text *text)
{
	const struct timeline_entry *n = e->entry;
	output_text(k->out, e->kind == TIMELINE_KERNEL ? "\"queued\":0" : "\"async\":");
	if (e->kind != TIMELINE_KERNEL)
		output_number(k->out, (e->flags & TIMELINE_FLAG_ASYNC) != 0);
	put_place(k, e);
	switch (e->kind) {
	case TIMELINE_KERNEL:
		output_bytes(k->out, text->tail, text->tail_length);
		put_graph(k, n->kernel.graph, e->value);
		break;
	case TIMELINE_COPY:
		if (n->copy.direction == 10) {
			put_key(k, ",\"fromDevice\":", n->copy.from_device);
			put_key(k, ",\"inDevice\":", e->lane->device);
			put_key(k, ",\"toDevice\":", n->copy.to_device);
		}
		put_bytes(k, e);
		put_graph(k, n->copy.graph, 0);
		break;
	case TIMELINE_MEMSET:
		put_bytes(k, e);
		put_graph(k, n->memset.graph, 0);
		break;
	default: put_key(k, ",\"graph id\":", e->value);
	}
}

/* Of what ran on the host; `"ranks"` has no blank behind it, unlike the rank that HTA looks for. */
static void put_host_args(struct kineto *k, const struct trace_event *e)
{
	const char *unit;
	put_key(k, "\"failed\":", (e->flags & TIMELINE_FLAG_FAILED) != 0);
	switch (e->kind) {
	case TIMELINE_API:
		put_key(k, ",\"cbid\":", e->entry->api.callback);
		put_key(k, ",\"correlation\":", e->correlation);
		break;
	case TIMELINE_SYNC: put_key(k, ",\"correlation\":", e->correlation); break;
	case TIMELINE_EVENT:
		unit = export_event_unit(e->name);
		if (*unit) {
			output_format(k->out, ",\"%s\":", unit);
			output_number(k->out, e->value);
		}
		break;
	case TIMELINE_COLLECTIVE:
		put_key(k, ",\"sequence\":", e->correlation);
		put_key(k, ",\"bytes\":", e->value);
		put_key(k, ",\"communicator\":", e->entry->collective.communicator);
		put_key(k, ",\"communicator rank\":", e->entry->collective.rank);
		put_key(k, ",\"ranks\":", e->entry->collective.ranks);
		put_key(k, ",\"type\":", e->entry->collective.type);
		break;
	default: break;
	}
}

void kineto_put_args(struct kineto *k, const struct trace_event *e, const struct kineto_text *text)
{
	output_bytes(k->out, ",\"args\":{", 9);
	if (export_on_gpu(e))
		put_gpu_args(k, e, text);
	else
		put_host_args(k, e);
	output_bytes(k->out, "}}", 2);
}
