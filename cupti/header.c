/* header.c - see header.h. */
#include "cupti/header.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "options.h"
#include "stats_file.h"
#include "stats_leftovers.h"

/* ---- what the launcher said ---- */

/* Written by header_read_environment(), before the first file as a rule. */
static struct {
	bool read;
	int32_t rank, ranks, local_rank;
	char tmpdir[256];
} launcher;

static int32_t number(const char *name)
{
	const char *text = getenv(name);
	char *end;

	if (!text || *text < '0' || *text > '9')
		return -1;
	errno = 0;
	long value = strtol(text, &end, 10);
	return *end || errno || value > INT32_MAX ? -1 : (int32_t)value;
}

void header_read_environment(void)
{
	const char *tmpdir = getenv("TMPDIR");
	int saved = errno;

	launcher.rank = number("RANK");
	launcher.ranks = number("WORLD_SIZE");
	launcher.local_rank = number("LOCAL_RANK");
	launcher.tmpdir[0] = '\0';
	if (tmpdir && *tmpdir == '/' && strlen(tmpdir) < sizeof(launcher.tmpdir))
		strcpy(launcher.tmpdir, tmpdir);
	launcher.read = true;
	errno = saved;
}

const char *header_tmpdir(void)
{
	if (!launcher.read)
		header_read_environment();
	return launcher.tmpdir;
}

/* ---- layout ---- */

static uint64_t between(uint64_t low, uint64_t value, uint64_t high)
{
	return value < low ? low : value > high ? high : value;
}

static uint64_t place(struct timeline_table *t, uint64_t at, uint64_t capacity, uint64_t size)
{
	t->offset = at;
	t->capacity = capacity;
	return (at + capacity * size + 4095) & ~UINT64_C(4095);
}

/*
 * A job has some thousand kernels with some hundred bytes of name each, and as many grids as it has shapes.
 * With the 256 MiB that a ring has by default there are 8 MiB of names, 131072 entries and clock pairs for 18
 * hours; a 14th in all goes into tables.
 */
void header_layout(struct timeline_header *h, uint64_t ring_bytes)
{
	uint64_t chunks = between(2, (ring_bytes + TIMELINE_CHUNK_BYTES - 1) / TIMELINE_CHUNK_BYTES, UINT32_MAX);
	uint64_t at = TIMELINE_HEADER_BYTES;

	ring_bytes = chunks * TIMELINE_CHUNK_BYTES;
	at = place(&h->names, at, between(256 << 10, ring_bytes / 32, 64 << 20), 1);
	at = place(&h->entries, at, between(4096, ring_bytes / 2048, 1 << 20), sizeof(struct timeline_entry));
	at = place(&h->lanes, at, between(1024, ring_bytes / 16384, UINT16_MAX), sizeof(struct timeline_lane));
	at = place(&h->clocks, at, between(4096, ring_bytes / 4096, 1 << 16), sizeof(struct timeline_clock));
	/* For any page size there is. */
	h->ring_offset = (at + TIMELINE_CHUNK_BYTES - 1) / TIMELINE_CHUNK_BYTES * TIMELINE_CHUNK_BYTES;
	h->chunk_bytes = TIMELINE_CHUNK_BYTES;
	h->chunk_count = (uint32_t)chunks;
	h->header_bytes = TIMELINE_HEADER_BYTES;
	h->version = TIMELINE_VERSION;
	h->file_bytes = h->ring_offset + ring_bytes;
}

/* ---- content ---- */

uint64_t header_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fill_devices(struct timeline_header *h, const struct timeline_device *device, uint32_t count)
{
	if (count > TIMELINE_DEVICES)
		count = TIMELINE_DEVICES;
	if (count)
		memcpy(h->device, device, count * sizeof(*device));
	h->device_count = count;
}

/* A report advises nothing that is in force already. */
static void fill_options(char *to, size_t size)
{
	static const enum option_id told[] = {OPT_COPY, OPT_DEVMEM, OPT_DEVMEM_CACHE_MB};
	size_t used = 0;

	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]) && used < size; i++)
		used += (size_t)snprintf(to + used, size - used, "%s%s=%s", i ? " " : "", option_table[told[i]].name,
								 option_text(told[i]));
}

void header_fill(struct timeline_header *h, const struct recording_setup *setup)
{
	if (!launcher.read)
		header_read_environment();
	memcpy(h->magic, TIMELINE_MAGIC, sizeof(h->magic));
	h->pid = (uint32_t)getpid();
	h->rank = launcher.rank;
	h->ranks = launcher.ranks;
	h->local_rank = launcher.local_rank;
	h->mode = setup->mode;
	h->on_demand = setup->on_demand;
	h->cupti_version = setup->cupti_version;
	h->driver_version = setup->driver_version;
	h->start_ns = header_now();
	h->pid_start_ticks = stats_start_ticks(getpid());
	h->pid_ns = stats_pid_namespace();
	if (gethostname(h->host, sizeof(h->host) - 1) != 0)
		snprintf(h->host, sizeof(h->host), "localhost");
	for (char *c = h->host; *c; c++)
		*c = *c == '/' ? '_' : *c;
	snprintf(h->version_text, sizeof(h->version_text), "%s", TURBO_VERSION);
	stats_read_command(h->command, sizeof(h->command));
	fill_options(h->options, sizeof(h->options));
	fill_devices(h, setup->device, setup->device_count);
}
