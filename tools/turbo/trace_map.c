/*
 * trace_map.c - a hash table from 64-bit numbers to small ones: open addressing, linear probing,
 * deletion by moving back what probed past the hole, so that no tombstone ever piles up.
 */
#include <stdlib.h>

#include "trace_file.h"

static size_t home_of(const struct trace_map *m, uint64_t key)
{
	/* Fibonacci hashing: addresses and counters differ in few bits. */
	return (size_t)((key * 0x9e3779b97f4a7c15u) >> 32) & (m->room - 1);
}

uint32_t *trace_map_find(const struct trace_map *m, uint64_t key)
{
	if (!m->room)
		return NULL;
	for (size_t i = home_of(m, key); m->cell[i].used; i = (i + 1) & (m->room - 1))
		if (m->cell[i].key == key)
			return &m->cell[i].value;
	return NULL;
}

static void put(struct trace_map *m, uint64_t key, uint32_t value)
{
	size_t i = home_of(m, key);
	while (m->cell[i].used)
		i = (i + 1) & (m->room - 1);
	m->cell[i] = (struct trace_map_cell){.key = key, .value = value, .used = 1};
}

static bool grow(struct trace_map *m)
{
	struct trace_map bigger = {.room = m->room ? m->room * 2 : 256, .count = m->count};
	bigger.cell = calloc(bigger.room, sizeof(*bigger.cell));
	if (!bigger.cell)
		return false;
	for (size_t i = 0; i < m->room; i++)
		if (m->cell[i].used)
			put(&bigger, m->cell[i].key, m->cell[i].value);
	free(m->cell);
	*m = bigger;
	return true;
}

bool trace_map_add(struct trace_map *m, uint64_t key, uint32_t value)
{
	if (m->count * 3 >= m->room * 2 && !grow(m))
		return false;
	put(m, key, value);
	m->count++;
	return true;
}

void trace_map_remove(struct trace_map *m, uint64_t key)
{
	size_t mask = m->room - 1, hole;
	if (!m->room)
		return;
	for (hole = home_of(m, key); m->cell[hole].used && m->cell[hole].key != key;)
		hole = (hole + 1) & mask;
	if (!m->cell[hole].used)
		return;
	for (size_t i = (hole + 1) & mask; m->cell[i].used; i = (i + 1) & mask) {
		/* It may move to the hole unless its home lies behind the hole. */
		if (((i - home_of(m, m->cell[i].key)) & mask) >= ((i - hole) & mask)) {
			m->cell[hole] = m->cell[i];
			hole = i;
		}
	}
	m->cell[hole].used = 0;
	m->count--;
}

void trace_map_free(struct trace_map *m)
{
	free(m->cell);
	*m = (struct trace_map){0};
}
