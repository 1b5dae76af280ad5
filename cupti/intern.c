/* intern.c - see intern.h. */
#include "cupti/intern.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#define SEEN 4096
#define NAME_BYTES 65535
/* How long names are at the least, on average: there are slots for so many. */
#define NAME_AVERAGE 32
#define TABLE_FULL "(table full)"

/* ---- hashing ---- */

static uint64_t mix(uint64_t h, uint64_t word)
{
	h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 32;
}

static uint32_t hash_bytes(const void *p, size_t n)
{
	const unsigned char *at = p;
	uint64_t h = n, word;

	for (; n >= sizeof(word); n -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		h = mix(h, word);
	}
	word = 0;
	memcpy(&word, at, n);
	return (uint32_t)mix(h, word);
}

/* ---- tables ---- */

/* The element that `same` accepts, its index + 1, or 0 and the slot where it would be. */
typedef bool same_fn(const struct intern *in, uint32_t index, const void *what, size_t size);

static uint32_t find(const struct intern *in, const struct intern_table *t, uint32_t hash, same_fn *same,
					 const void *what, size_t size, struct intern_slot **empty)
{
	uint32_t i = hash & t->mask;

	/* Ends: `most` leaves slots empty. */
	for (; t->slot[i].index; i = (i + 1) & t->mask)
		if (t->slot[i].hash == hash && same(in, t->slot[i].index - 1, what, size))
			return t->slot[i].index;
	*empty = &t->slot[i];
	return 0;
}

/* The element of `size` at the end is complete: counted, and found from here on. */
static void publish(struct intern_table *t, struct intern_slot *slot, uint32_t hash, uint64_t size)
{
	uint64_t at = t->end;

	t->end = at + size;
	t->shown->used = t->end;
	slot->hash = hash;
	slot->index = (uint32_t)at + 1;
	t->used++;
}

/* ---- names ---- */

static bool same_name(const struct intern *in, uint32_t offset, const void *what, size_t size)
{
	return in->name.end - offset > size && memcmp(in->names + offset, what, size) == 0 &&
		   in->names[offset + size] == '\0';
}

static uint32_t name_slow(struct intern *in, const char *name, bool *full)
{
	struct intern_table *t = &in->name;
	struct intern_slot *slot;
	size_t size = strnlen(name, NAME_BYTES);
	uint32_t hash = hash_bytes(name, size);
	uint32_t found = find(in, t, hash, same_name, name, size, &slot);

	if (found)
		return found - 1;
	uint64_t at = t->end;
	if (t->used >= t->most || t->capacity - at <= size) {
		*full = true;
		return in->full_name;
	}
	memcpy(in->names + at, name, size);
	in->names[at + size] = '\0';
	publish(t, slot, hash, size + 1);
	return (uint32_t)at;
}

/* A kernel's name stays where it is while its module is loaded, and then something else may be there. */
static uint32_t name_offset(struct intern *in, const char *name, bool *full)
{
	struct intern_seen *seen = &in->seen[mix(0, (uintptr_t)name) >> 16 & (SEEN - 1)];

	if (seen->where == name && strcmp(in->names + seen->name, name) == 0)
		return seen->name;
	bool no_room = false;
	uint32_t offset = name_slow(in, name, &no_room);
	if (no_room)
		*full = true;
	else
		*seen = (struct intern_seen){name, offset};
	return offset;
}

/* ---- entries ---- */

static bool same_entry(const struct intern *in, uint32_t index, const void *what, size_t size)
{
	return memcmp(&in->entries[index], what, size) == 0;
}

/* Its index + 1; 0: there is no room below `limit`. */
static uint32_t entry_put(struct intern *in, const struct timeline_entry *e, uint64_t limit)
{
	struct intern_table *t = &in->entry;
	uint32_t hash = hash_bytes(e, sizeof(*e));
	struct intern_slot *slot;
	uint32_t found = find(in, t, hash, same_entry, e, sizeof(*e), &slot);

	if (found || t->end >= limit)
		return found;
	uint32_t index = (uint32_t)t->end;
	in->entries[index] = *e;
	publish(t, slot, hash, 1);
	return index + 1;
}

uint32_t intern_entry(struct intern *in, const struct timeline_entry *what, const char *name, bool *full)
{
	struct timeline_entry e = *what;

	if (e.kind >= TIMELINE_KINDS) {
		*full = true;
		return 0;
	}
	e.name = name_offset(in, name ? name : "", full);
	uint32_t found = entry_put(in, &e, in->plain_from);
	if (found)
		return found - 1;
	*full = true;
	memset(e.words, 0, sizeof(e.words));
	found = entry_put(in, &e, in->entry.capacity);
	return found ? found - 1 : in->substitute[e.kind];
}

/* ---- lanes ---- */

/* What tells lanes apart. */
#define LANE_KEY offsetof(struct timeline_lane, name)

static bool same_lane(const struct intern *in, uint32_t index, const void *what, size_t size)
{
	return memcmp(&in->lanes[index], what, size) == 0;
}

uint16_t intern_lane(struct intern *in, const struct timeline_lane *where, const char *name, bool *full)
{
	struct intern_table *t = &in->lane;
	uint32_t hash = hash_bytes(where, LANE_KEY);
	struct intern_slot *slot;
	uint32_t found = find(in, t, hash, same_lane, where, LANE_KEY, &slot);

	if (found)
		return (uint16_t)(found - 1);
	if (t->end >= t->capacity) {
		*full = true;
		return 0;
	}
	uint32_t index = (uint32_t)t->end;
	bool no_name = false;
	in->lanes[index] = *where;
	in->lanes[index].name = name ? name_slow(in, name, &no_name) : 0;
	memset(in->lanes[index].reserved, 0, sizeof(in->lanes[index].reserved));
	publish(t, slot, hash, 1);
	return (uint16_t)index;
}

/* ---- life ---- */

/* For `most` elements, at most half full. */
static uint32_t slots_for(uint64_t most)
{
	uint32_t n = 16;

	while (n < 2 * most)
		n *= 2;
	return n;
}

static void place(struct intern_table *t, char **at, uint64_t most, struct timeline_table *shown)
{
	uint32_t slots = slots_for(most);

	*t = (struct intern_table){.slot = (struct intern_slot *)(void *)*at,
							   .mask = slots - 1,
							   .most = (uint32_t)most,
							   .capacity = shown->capacity,
							   .shown = shown};
	*at += slots * sizeof(struct intern_slot);
}

static bool allocate(struct intern *in, struct timeline_header *h)
{
	uint64_t names = h->names.capacity / NAME_AVERAGE, entries = h->entries.capacity,
			 lanes = h->lanes.capacity;
	uint64_t slots = (uint64_t)slots_for(names) + slots_for(entries) + slots_for(lanes);

	in->bytes = slots * sizeof(struct intern_slot) + SEEN * sizeof(struct intern_seen);
	in->memory =
		mmap(NULL, in->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (in->memory == MAP_FAILED) {
		in->memory = NULL;
		return false;
	}
	madvise(in->memory, in->bytes, MADV_DONTFORK);
	char *at = in->memory;
	place(&in->name, &at, names, &h->names);
	place(&in->entry, &at, entries, &h->entries);
	place(&in->lane, &at, lanes, &h->lanes);
	in->seen = (struct intern_seen *)(void *)at;
	return true;
}

/* What record.h promises of every file, and the substitutes. */
static void put_first(struct intern *in)
{
	bool full = false;
	struct timeline_lane process = {.kind = TIMELINE_LANE_PROCESS};

	in->plain_from = (uint32_t)in->entry.capacity;
	name_slow(in, "", &full);
	in->full_name = name_slow(in, TABLE_FULL, &full);
	for (uint32_t kind = 0; kind < TIMELINE_KINDS; kind++) {
		struct timeline_entry e = {.kind = kind};
		in->substitute[kind] = intern_entry(in, &e, kind == TIMELINE_NONE ? "unknown" : TABLE_FULL, &full);
	}
	in->plain_from -= in->plain_from / 8;
	intern_lane(in, &process, NULL, &full);
}

bool intern_start(struct intern *in, struct timeline_header *h)
{
	char *base = (char *)h;

	*in = (struct intern){.names = base + h->names.offset,
						  .entries = (struct timeline_entry *)(void *)(base + h->entries.offset),
						  .lanes = (struct timeline_lane *)(void *)(base + h->lanes.offset)};
	if (!allocate(in, h))
		return false;
	put_first(in);
	return true;
}

void intern_end(struct intern *in)
{
	if (in->memory)
		munmap(in->memory, in->bytes);
	*in = (struct intern){0};
}
