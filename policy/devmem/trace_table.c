/* trace_table.c - open addressing, linear probing, deletion without tombstones. */
#include "trace_table.h"

#include <sys/mman.h>

#define FIRST_ROOM 4096

static size_t home_of(const struct trace_table *t, uint64_t key)
{
	return (size_t)((key * 0x9e3779b97f4a7c15u) >> 32) & (t->room - 1);
}

/* Index of the key, or of the empty cell where it belongs. */
static size_t place_of(const struct trace_table *t, uint64_t key)
{
	size_t i = home_of(t, key);
	while (t->cell[i].key && t->cell[i].key != key)
		i = (i + 1) & (t->room - 1);
	return i;
}

uint64_t *trace_table_find(const struct trace_table *t, uint64_t key)
{
	size_t i = t->room ? place_of(t, key) : 0;
	return t->room && t->cell[i].key ? &t->cell[i].value : NULL;
}

static bool grow(struct trace_table *t)
{
	struct trace_table bigger = {.room = t->room ? t->room * 2 : FIRST_ROOM, .count = t->count};
	bigger.cell = mmap(NULL, bigger.room * sizeof(*t->cell), PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bigger.cell == MAP_FAILED)
		return false;
	for (size_t i = 0; i < t->room; i++)
		if (t->cell[i].key)
			bigger.cell[place_of(&bigger, t->cell[i].key)] = t->cell[i];
	if (t->room)
		munmap(t->cell, t->room * sizeof(*t->cell));
	*t = bigger;
	return true;
}

bool trace_table_add(struct trace_table *t, uint64_t key, uint64_t value)
{
	if (t->count * 3 >= t->room * 2 && !grow(t))
		return false;
	t->cell[place_of(t, key)] = (struct trace_cell){key, value};
	t->count++;
	return true;
}

void trace_table_remove(struct trace_table *t, uint64_t key)
{
	size_t mask = t->room - 1, hole = t->room ? place_of(t, key) : 0;
	if (!t->room || !t->cell[hole].key)
		return;
	for (size_t i = (hole + 1) & mask; t->cell[i].key; i = (i + 1) & mask) {
		/* It may move to the hole unless its home lies behind the hole. */
		if (((i - home_of(t, t->cell[i].key)) & mask) >= ((i - hole) & mask)) {
			t->cell[hole] = t->cell[i];
			hole = i;
		}
	}
	t->cell[hole].key = 0;
	t->count--;
}
