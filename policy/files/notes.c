/* notes.c - see notes.h. */
#include "notes.h"

#include <stdatomic.h>
#include <string.h>

static struct note note[NOTES];
/* turn[i] == n: place i is free for note n; n + 1: it holds note n. Release, acquire. Counted from 0 in each place
 * as n - i, so that what is zero at the start is right. */
static _Atomic uint32_t turn[NOTES];
static _Atomic uint32_t head; /* the next note to be written; CAS, relaxed: places are ordered by `turn` */
static uint32_t tail;         /* the next note to be read; the reader's */

bool notes_put(const char *path, size_t length, int dir, int fd)
{
	uint32_t n = atomic_load_explicit(&head, memory_order_relaxed);

	if (length >= NOTE_BYTES)
		return false;
	for (;;) {
		uint32_t i = n % NOTES;
		int32_t behind = (int32_t)(atomic_load_explicit(&turn[i], memory_order_acquire) - (n - i));
		if (behind < 0)
			return false; /* full */
		if (behind > 0)
			n = atomic_load_explicit(&head, memory_order_relaxed);
		else if (atomic_compare_exchange_weak_explicit(&head, &n, n + 1, memory_order_relaxed,
													   memory_order_relaxed))
			break;
	}
	struct note *place = &note[n % NOTES];
	place->dir = dir;
	place->fd = fd;
	memcpy(place->path, path, length);
	place->path[length] = '\0';
	atomic_store_explicit(&turn[n % NOTES], n - n % NOTES + 1, memory_order_release);
	return true;
}

bool notes_take(struct note *out)
{
	uint32_t i = tail % NOTES;

	if (atomic_load_explicit(&turn[i], memory_order_acquire) != tail - i + 1)
		return false;
	*out = note[i];
	atomic_store_explicit(&turn[i], tail - i + NOTES, memory_order_release);
	tail++;
	return true;
}

void notes_fork_child(void)
{
	if (atomic_load_explicit(&head, memory_order_relaxed) == 0) /* nobody has been at it */
		return;
	for (unsigned i = 0; i < NOTES; i++)
		atomic_store_explicit(&turn[i], 0, memory_order_relaxed);
	atomic_store_explicit(&head, 0, memory_order_relaxed);
	tail = 0;
}
