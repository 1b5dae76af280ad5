/*
 * heap_index.c - segregated fits: free blocks by size, found by two bitmaps.
 *
 * A class is a 16th of a power of two, so the first block of a higher class fits and wastes
 * little; within a class the first few are looked at for the best.
 */
#include "heap_impl.h"

/* Blocks of a class that are compared. Each is a cache miss, and there may be very many small ones;
 * among the large ones a bad choice costs memory. */
#define LOOK 24
#define LOOK_SMALL 3
#define SMALL ((size_t)1 << 20)

static void class_of(size_t bytes, unsigned *row, unsigned *column)
{
	unsigned log = 63 - (unsigned)__builtin_clzll(bytes);
	*row = log - INDEX_LOW;
	*column = (unsigned)(bytes >> (log - 4)) & (INDEX_COLUMNS - 1);
	if (*row >= INDEX_ROWS) {
		*row = INDEX_ROWS - 1;
		*column = INDEX_COLUMNS - 1;
	}
}

void index_add(struct index *x, struct block *b)
{
	unsigned row, column;
	class_of(b->bytes, &row, &column);
	struct block **head = &x->head[row][column];
	b->fprev = NULL;
	b->chain = *head;
	if (*head)
		(*head)->fprev = b;
	*head = b;
	x->rows |= 1ull << row;
	x->columns[row] |= (uint16_t)(1u << column);
	x->bytes += b->bytes;
}

void index_remove(struct index *x, struct block *b)
{
	unsigned row, column;
	class_of(b->bytes, &row, &column);
	if (b->fprev)
		b->fprev->chain = b->chain;
	else
		x->head[row][column] = b->chain;
	if (b->chain)
		b->chain->fprev = b->fprev;
	if (!x->head[row][column]) {
		x->columns[row] &= (uint16_t) ~(1u << column);
		if (!x->columns[row])
			x->rows &= ~(1ull << row);
	}
	x->bytes -= b->bytes;
	b->fprev = b->chain = NULL;
}

/* The smallest that fits; of equal ones the lowest address, which keeps the upper end free. */
static struct block *best_of(struct block *b, size_t bytes)
{
	struct block *best = NULL;
	unsigned look = bytes < SMALL ? LOOK_SMALL : LOOK;
	for (unsigned n = 0; b && n < look; n++, b = b->chain)
		if (b->bytes >= bytes &&
			(!best || b->bytes < best->bytes || (b->bytes == best->bytes && b->va < best->va)))
			best = b;
	return best;
}

/* The first class at or after (row, column) that has blocks. */
static struct block *class_from(const struct index *x, unsigned row, unsigned column)
{
	unsigned columns = column < INDEX_COLUMNS ? x->columns[row] >> column << column : 0;
	if (!columns) {
		uint64_t rows = row < 63 ? x->rows >> (row + 1) << (row + 1) : 0;
		if (!rows)
			return NULL;
		row = (unsigned)__builtin_ctzll(rows);
		columns = x->columns[row];
	}
	return x->head[row][__builtin_ctz(columns)];
}

struct block *index_fit(const struct index *x, size_t bytes)
{
	unsigned row, column;
	class_of(bytes, &row, &column);
	struct block *b = best_of(x->head[row][column], bytes);
	if (b)
		return b;
	b = class_from(x, row, column + 1);
	if (!b)
		/* All that is left are those beyond the first few of the request's own class. */
		for (b = x->head[row][column]; b && b->bytes < bytes; b = b->chain)
			;
	return b && b->bytes >= bytes ? best_of(b, bytes) : NULL;
}

struct block *index_next(const struct index *x, const struct block *after, size_t bytes)
{
	unsigned row, column;
	if (after && after->chain)
		return after->chain;
	class_of(after ? after->bytes : bytes, &row, &column);
	return class_from(x, row, after ? column + 1 : column);
}
