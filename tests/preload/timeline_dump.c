/* LINK: timeline
 * timeline_dump.c - what is in timeline files, as text for scripts: a line for each name, one for each count.
 *
 *   timeline_dump FILE...     "kernel fill32 100", "count zero_time 3", "mode kernel", "ended yes"
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/timeline/trace.h"

#define NAMES 256

static const char *const kinds[TIMELINE_KINDS] = {"none",  "kernel",     "copy", "memset",
												  "graph", "api",        "sync", "overhead",
												  "event", "collective", "gap",  "counter"};
static const char *const counts[] = {"records",  "overwritten", "cupti_lost", "zero_time",  "backwards",
									 "unknown",  "events_lost", "no_buffer",  "bad_buffer", "table_full",
									 "launches", "sampled_on",  "sampled",    "dropped"};
static const char *const modes[] = {"off", "sampled", "kernel", "launch"};

static struct {
	enum timeline_kind kind;
	char name[128];
	uint64_t n, ns, negative;
} sum[NAMES];
static unsigned sums;

static void add(const struct trace_event *e)
{
	unsigned i = 0;
	while (i < sums && (sum[i].kind != e->kind || strcmp(sum[i].name, e->name) != 0))
		i++;
	if (i == NAMES)
		return;
	if (i == sums) {
		sum[sums].kind = e->kind;
		snprintf(sum[sums++].name, sizeof(sum[0].name), "%s", e->name);
	}
	sum[i].n++;
	sum[i].ns += e->duration;
}

static int dump(const char *path)
{
	char why[256];
	struct trace *t = trace_open(path, why, sizeof(why));
	struct trace_event e;
	uint64_t last = 0;
	if (!t) {
		fprintf(stderr, "%s: %s\n", path, why);
		return 1;
	}
	sums = 0;
	memset(sum, 0, sizeof(sum));
	const struct timeline_header *h = trace_header(t);
	printf("mode %s\nended %s\ncupti %u\npid %u\ndevices %u %s\n", modes[h->mode & 3],
		   h->end_ns ? "yes" : "no", h->cupti_version, h->pid, h->device_count, h->device[0].name);
	for (trace_rewind(t); trace_next(t, &e); last = e.start) {
		if (e.start < last)
			printf("order broken\n");
		add(&e);
	}
	for (unsigned i = 0; i < sums; i++)
		printf("%s %s %" PRIu64 " %" PRIu64 "ms\n", kinds[sum[i].kind], sum[i].name, sum[i].n,
			   sum[i].ns / 1000000);
	for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		if (h->count[i])
			printf("count %s %" PRIu64 "\n", counts[i], h->count[i]);
	trace_close(t);
	return 0;
}

int main(int argc, char **argv)
{
	int bad = 0;
	for (int i = 1; i < argc; i++)
		bad |= dump(argv[i]);
	return bad;
}
