/*
 * trace_import.c - `turbo replay --import`: a PyTorch memory snapshot as an allocation trace.
 *
 * torch.cuda.memory._dump_snapshot() writes a dictionary: `device_traces` has the recorded events
 * of each device in the order in which they happened, `segments` what is allocated at the end. A
 * block lives from `alloc` to `free_completed`: after `free_requested` other streams may still use
 * it. What was allocated before the recording began shows by a free without an allocation, or by
 * being there at the end without one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "pickle.h"
#include "replay.h"
#include "turbo.h"

struct import_device {
	const pickle_ref *event;
	size_t events, at;
	struct trace_map live; /* address → ID; while looking for what was there at the start: → 0 */
};

struct import {
	struct pickle p;
	struct trace_writer out;
	struct import_device device[TRACE_DEVICES];
	size_t devices;
	struct trace_map streams; /* handle → number */
	uint32_t ids, at_start;
	bool no_memory;
};

enum action { ACTION_OTHER, ACTION_ALLOC, ACTION_FREE };

struct event {
	enum action action;
	uint64_t address, bytes, stream, time;
	const char *why; /* what keeps it from being read; it is ACTION_OTHER then. NULL: nothing does */
};

/* Of the actions that are no operation here (segments, snapshots) nothing more is wanted. */
static enum action action_of(const struct import *m, pickle_ref action)
{
	if (pickle_is(&m->p, action, "alloc"))
		return ACTION_ALLOC;
	if (pickle_is(&m->p, action, "free_completed") || pickle_is(&m->p, action, "free"))
		return ACTION_FREE;
	return ACTION_OTHER;
}

static struct event event_of(const struct import *m, pickle_ref ref)
{
	struct event e = {.action = ACTION_OTHER};
	pickle_ref action;
	if (!pickle_lookup(&m->p, ref, "action", &action) || pickle_value(&m->p, action)->type != PICKLE_TEXT) {
		e.why = "it has no text `action`";
		return e;
	}
	enum action what = action_of(m, action);
	if (what == ACTION_OTHER)
		return e;
	if (!pickle_number(&m->p, ref, "addr", &e.address))
		e.why = "its `addr` is no address";
	else if (!pickle_number(&m->p, ref, "size", &e.bytes) || !e.bytes)
		e.why = "its `size` is no number of bytes";
	else
		e.action = what;
	if (!pickle_number(&m->p, ref, "stream", &e.stream))
		e.stream = 0;
	if (!pickle_number(&m->p, ref, "time_us", &e.time))
		e.time = 0;
	return e;
}

/* Small numbers; the default stream is 0. */
static uint32_t stream_number(struct import *m, uint64_t handle)
{
	uint32_t *known = trace_map_find(&m->streams, handle), number = (uint32_t)m->streams.count + 1;
	if (!handle)
		return 0;
	if (known)
		return *known;
	if (!trace_map_add(&m->streams, handle, number))
		m->no_memory = true;
	return number;
}

/* What was found in the events of all devices. */
struct census {
	uint64_t operations, unread;
	struct event first; /* of those that cannot be read, on `device`, its n-th */
	unsigned device;
	size_t n;
};

static struct census census(const struct import *m)
{
	struct census c = {0};
	for (unsigned dev = 0; dev < m->devices; dev++)
		for (size_t i = 0; i < m->device[dev].events; i++) {
			struct event e = event_of(m, m->device[dev].event[i]);
			c.operations += e.action != ACTION_OTHER;
			if (e.why && !c.unread++) {
				c.first = e;
				c.device = dev;
				c.n = i + 1;
			}
		}
	return c;
}

/* Says what cannot be read. EXIT_OK: something can. */
static int look_through(const struct import *m, const char *path)
{
	struct census c = census(m);
	if (c.unread)
		failure("replay", "%s: %" PRIu64 " event%s could not be read: first event %zu of device %u: %s", path,
				c.unread, PLURAL(c.unread), c.n, c.device, c.first.why);
	if (!c.operations)
		return failure("replay", "%s: it has no event of an allocation or a free that can be read", path);
	return EXIT_OK;
}

/* ---- events as operations ---- */

static void put_free(struct import *m, unsigned dev, const struct event *e)
{
	struct trace_map *live = &m->device[dev].live;
	uint32_t *id = trace_map_find(live, e->address);
	if (!id)
		return;
	trace_free(&m->out, *id, stream_number(m, e->stream), dev);
	trace_map_remove(live, e->address);
}

static void put_alloc(struct import *m, unsigned dev, const struct event *e)
{
	put_free(m, dev, e); /* its free was not recorded */
	if (!trace_map_add(&m->device[dev].live, e->address, ++m->ids))
		m->no_memory = true;
	trace_alloc(&m->out, m->ids, e->bytes, stream_number(m, e->stream), dev);
}

/* ---- what was there when the recording began ---- */

static void was_there(struct import *m, unsigned dev, const struct event *e)
{
	put_alloc(m, dev, e);
	m->at_start++;
}

/* Blocks that are freed without having been allocated. Leaves in `seen` the addresses that the
 * events have allocated and not freed. */
static void freed_only(struct import *m, unsigned dev, struct trace_map *seen)
{
	const struct import_device *d = &m->device[dev];
	for (size_t i = 0; i < d->events; i++) {
		struct event e = event_of(m, d->event[i]);
		bool known = trace_map_find(seen, e.address);
		if (e.action == ACTION_ALLOC && !known && !trace_map_add(seen, e.address, 0))
			m->no_memory = true;
		else if (e.action == ACTION_FREE && known)
			trace_map_remove(seen, e.address);
		else if (e.action == ACTION_FREE)
			was_there(m, dev, &e);
	}
}

/* The blocks of a segment that are in use at the end and that no event has allocated. */
static void segment_blocks(struct import *m, unsigned dev, pickle_ref segment, const struct trace_map *seen)
{
	struct event e = {.action = ACTION_ALLOC};
	uint64_t next = 0, size, requested;
	pickle_ref list, state;
	size_t n = 0;
	const pickle_ref *block =
		pickle_lookup(&m->p, segment, "blocks", &list) ? pickle_items(&m->p, list, &n) : NULL;
	if (!block || !pickle_number(&m->p, segment, "address", &next))
		return;
	if (!pickle_number(&m->p, segment, "stream", &e.stream))
		e.stream = 0;
	for (size_t i = 0; i < n; i++) {
		if (!pickle_number(&m->p, block[i], "size", &size))
			return;
		if (!pickle_number(&m->p, block[i], "address", &e.address))
			e.address = next; /* older snapshots: one behind the other */
		next = e.address + size;
		e.bytes =
			pickle_number(&m->p, block[i], "requested_size", &requested) && requested ? requested : size;
		bool active =
			pickle_lookup(&m->p, block[i], "state", &state) &&
			(pickle_is(&m->p, state, "active_allocated") || pickle_is(&m->p, state, "active_pending_free") ||
			 pickle_is(&m->p, state, "active_awaiting_free"));
		if (active && e.bytes && !trace_map_find(seen, e.address) &&
			!trace_map_find(&m->device[dev].live, e.address))
			was_there(m, dev, &e);
	}
}

static void at_start(struct import *m, const pickle_ref *segment, size_t segments)
{
	for (unsigned dev = 0; dev < m->devices; dev++) {
		struct trace_map seen = {0};
		freed_only(m, dev, &seen);
		for (size_t i = 0; i < segments; i++) {
			uint64_t owner = 0;
			if (pickle_number(&m->p, segment[i], "device", &owner) ? owner == dev : dev == 0)
				segment_blocks(m, dev, segment[i], &seen);
		}
		trace_map_free(&seen);
	}
}

/* ---- all devices in one order ---- */

/* The device whose next event is the oldest; none has one: m->devices. */
static unsigned next_device(const struct import *m)
{
	unsigned best = (unsigned)m->devices;
	uint64_t oldest = 0;
	for (unsigned dev = 0; dev < m->devices; dev++) {
		const struct import_device *d = &m->device[dev];
		if (d->at == d->events)
			continue;
		struct event e = event_of(m, d->event[d->at]);
		if (best == m->devices || e.time < oldest) {
			best = dev;
			oldest = e.time;
		}
	}
	return best;
}

static void put_events(struct import *m)
{
	unsigned dev;
	while ((dev = next_device(m)) < m->devices) {
		struct import_device *d = &m->device[dev];
		struct event e = event_of(m, d->event[d->at++]);
		if (e.action == ACTION_ALLOC)
			put_alloc(m, dev, &e);
		else if (e.action == ACTION_FREE)
			put_free(m, dev, &e);
	}
}

/* ---- the file ---- */

static char *read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rbe");
	char *data = NULL;
	size_t have = 0, room = 0;
	while (f) {
		if (have == room) {
			room = room ? room * 2 : 1 << 20;
			char *bigger = realloc(data, room);
			if (!bigger)
				break;
			data = bigger;
		}
		size_t n = fread(data + have, 1, room - have, f);
		have += n;
		if (!n && !ferror(f)) {
			fclose(f);
			*size = have;
			return data;
		}
		if (!n)
			break;
	}
	int error = errno;
	if (f)
		fclose(f);
	free(data);
	errno = error;
	return NULL;
}

/* Finds the parts of the snapshot. NULL, or what it lacks. */
static const char *find_parts(struct import *m, pickle_ref root, const pickle_ref **segment, size_t *segments)
{
	pickle_ref ref;
	const pickle_ref *trace =
		pickle_lookup(&m->p, root, "device_traces", &ref) ? pickle_items(&m->p, ref, &m->devices) : NULL;
	if (!trace)
		return "no list `device_traces`: not a PyTorch memory snapshot";
	*segment = pickle_lookup(&m->p, root, "segments", &ref) ? pickle_items(&m->p, ref, segments) : NULL;
	if (!*segment)
		return "no list `segments`: not a PyTorch memory snapshot";
	if (m->devices > TRACE_DEVICES)
		return "it has more than 64 devices";
	bool any = false;
	for (size_t i = 0; i < m->devices; i++) {
		m->device[i].event = pickle_items(&m->p, trace[i], &m->device[i].events);
		if (!m->device[i].event)
			return "an entry of `device_traces` is no list";
		any |= m->device[i].events > 0;
	}
	return any ? NULL
			   : "it has no events: call torch.cuda.memory._record_memory_history() before the part of "
				 "interest";
}

static int import(struct import *m, const struct replay_make *make)
{
	pickle_ref root;
	const pickle_ref *segment = NULL;
	size_t size, segments = 0;
	char *data = read_file(make->snapshot, &size);
	if (!data)
		return failure("replay", "%s: %s", make->snapshot, strerror(errno));
	const char *why =
		pickle_load(&m->p, data, size, &root) ? find_parts(m, root, &segment, &segments) : m->p.why;
	int code = why ? failure("replay", "%s: %s", make->snapshot, why) : EXIT_OK;
	if (!why)
		code = look_through(m, make->snapshot);
	if (code == EXIT_OK && !trace_create(&m->out, make->output))
		code = failure("replay", "%s: %s", make->output ? make->output : "standard output", strerror(errno));
	if (code == EXIT_OK) {
		trace_comment(&m->out, "from a PyTorch memory snapshot");
		at_start(m, segment, segments);
		trace_comment(&m->out, "%u block%s %s there when the recording began", m->at_start,
					  PLURAL(m->at_start), m->at_start == 1 ? "was" : "were");
		put_events(m);
		if (m->no_memory)
			trace_fail(&m->out, ENOMEM);
		bool written = trace_finish(&m->out);
		if (m->no_memory)
			code = failure("replay", "no memory for %u block%s", m->ids, PLURAL(m->ids));
		else if (!written)
			code = failure("replay", "%s: %s", make->output ? make->output : "standard output",
						   strerror(m->out.error));
	}
	pickle_free(&m->p);
	free(data);
	return code;
}

int replay_import(const struct replay_make *make)
{
	static struct import m;
	int code = import(&m, make);
	for (unsigned dev = 0; dev < TRACE_DEVICES; dev++)
		trace_map_free(&m.device[dev].live);
	trace_map_free(&m.streams);
	return code;
}
