/* pinned_table.c - see pinned_table.h. */
#define _GNU_SOURCE
#include "pinned_table.h"

#include "pinned.h"

pthread_mutex_t pinned_lock = PTHREAD_MUTEX_INITIALIZER;
uintptr_t pinned_low = UINTPTR_MAX, pinned_high;

static struct pinned_block store[PINNED_BLOCKS];
static struct pinned_block *unused; /* the lock */
static unsigned fresh;              /* store[fresh ..) was never used; the lock */

/* Sorted by base. Written under the lock, and `writes` is odd meanwhile; readers without the lock look at it before
 * (acquire) and after, and what they read is whole when it was even and has stayed. */
static struct {
	_Atomic unsigned writes;
	_Atomic unsigned n;
	_Atomic(struct pinned_block *) at[PINNED_BLOCKS];
} table;

static void write_begin(void)
{
	unsigned w = atomic_load_explicit(&table.writes, memory_order_relaxed);
	atomic_store_explicit(&table.writes, w + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release); /* readers see it odd before they see what follows */
}

static void write_end(void)
{
	unsigned w = atomic_load_explicit(&table.writes, memory_order_relaxed);
	atomic_store_explicit(&table.writes, w + 1, memory_order_release);
}

static struct pinned_block *entry(unsigned i)
{
	return atomic_load_explicit(&table.at[i], memory_order_relaxed);
}

static uintptr_t base_of(const struct pinned_block *b)
{
	return atomic_load_explicit(&b->base, memory_order_relaxed);
}

static size_t size_of(const struct pinned_block *b)
{
	return atomic_load_explicit(&b->size, memory_order_relaxed);
}

/* Entries whose base is not above `at`. Also while somebody writes: then the answer is wrong, and bounded. */
static unsigned below(uintptr_t at)
{
	unsigned low = 0, high = atomic_load_explicit(&table.n, memory_order_relaxed);
	while (low < high) {
		unsigned mid = low + (high - low) / 2;
		struct pinned_block *b = entry(mid);
		if (b && base_of(b) <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct pinned_block *pinned_find(uintptr_t at)
{
	unsigned i = below(at);
	struct pinned_block *b = i ? entry(i - 1) : NULL;
	return b && at - base_of(b) < size_of(b) ? b : NULL;
}

static bool look(uintptr_t at, struct pinned_view *out)
{
	struct pinned_block *b = pinned_find(at);
	if (!b)
		return false;
	out->base = base_of(b);
	out->size = size_of(b);
	out->asked = atomic_load_explicit(&b->asked, memory_order_relaxed);
	out->state = atomic_load_explicit(&b->state, memory_order_relaxed);
	out->buffer_id = atomic_load_explicit(&b->buffer_id, memory_order_relaxed);
	return true;
}

bool pinned_look(uintptr_t at, struct pinned_view *out)
{
	for (int i = 0; i < 16; i++) {
		unsigned w = atomic_load_explicit(&table.writes, memory_order_acquire);
		bool found = !(w & 1) && look(at, out);
		atomic_thread_fence(memory_order_acquire);
		if (!(w & 1) && atomic_load_explicit(&table.writes, memory_order_relaxed) == w)
			return found;
	}
	pthread_mutex_lock(&pinned_lock);
	bool found = look(at, out);
	pthread_mutex_unlock(&pinned_lock);
	return found;
}

struct pinned_block *pinned_block_new(void)
{
	struct pinned_block *b = unused;
	if (b)
		unused = b->next;
	else if (fresh < PINNED_BLOCKS)
		b = &store[fresh++];
	if (b) {
		b->fence = NULL;
		b->keep_out = b->unsure = false;
		b->older = b->newer = b->next = NULL;
		atomic_store_explicit(&b->buffer_id, 0, memory_order_relaxed);
	}
	return b;
}

void pinned_block_drop(struct pinned_block *b)
{
	atomic_store_explicit(&b->state, PINNED_NONE, memory_order_relaxed);
	b->next = unused;
	unused = b;
}

static void take_out(unsigned i)
{
	unsigned n = atomic_load_explicit(&table.n, memory_order_relaxed) - 1;
	write_begin();
	for (; i < n; i++)
		atomic_store_explicit(&table.at[i], entry(i + 1), memory_order_relaxed);
	atomic_store_explicit(&table.n, n, memory_order_relaxed);
	write_end();
}

static void widen(uintptr_t low, uintptr_t high)
{
	if (low < __atomic_load_n(&pinned_low, __ATOMIC_RELAXED))
		__atomic_store_n(&pinned_low, low, __ATOMIC_RELAXED);
	if (high > __atomic_load_n(&pinned_high, __ATOMIC_RELAXED))
		__atomic_store_n(&pinned_high, high, __ATOMIC_RELAXED);
}

bool pinned_insert(struct pinned_block *b, struct pinned_block **stale)
{
	uintptr_t base = base_of(b);
	size_t size = size_of(b);
	unsigned n = atomic_load_explicit(&table.n, memory_order_relaxed), i = below(base + size - 1);
	struct pinned_block *last = i ? entry(i - 1) : NULL;
	*stale = NULL;
	if (last && base_of(last) + size_of(last) > base) {
		take_out(i - 1);
		*stale = last;
		return false;
	}
	if (n == PINNED_BLOCKS)
		return false;
	write_begin();
	for (unsigned k = n; k > i; k--)
		atomic_store_explicit(&table.at[k], entry(k - 1), memory_order_relaxed);
	atomic_store_explicit(&table.at[i], b, memory_order_relaxed);
	atomic_store_explicit(&table.n, n + 1, memory_order_relaxed);
	write_end();
	widen(base, base + size);
	return true;
}

void pinned_remove(struct pinned_block *b)
{
	unsigned i = below(base_of(b));
	if (i && entry(i - 1) == b)
		take_out(i - 1);
}

struct pinned_block *pinned_at(unsigned n)
{
	return n < atomic_load_explicit(&table.n, memory_order_relaxed) ? entry(n) : NULL;
}

/* The parent's memory is not the child's, and nobody looks at the table any more. */
void pinned_table_fork_child(void)
{
	pthread_mutex_init(&pinned_lock, NULL);
}
