/* agree.c - see agree.h. */
#include "agree.h"

#define BROKEN UINT64_MAX /* in place of the number of ranks */
#define TAG(position) ((uint64_t)(uint32_t)((position) + 1))

static bool take_place(struct agree_area *area, unsigned rank, unsigned ranks)
{
	struct agree_place *mine = &area->place[rank];
	uint64_t count = 0;
	uint32_t nobody = 0;

	if (!atomic_compare_exchange_strong(&area->ranks, &count, ranks) && count != ranks)
		return false;
	return !atomic_load(&mine->safe) && !atomic_load(&mine->used) &&
		   atomic_compare_exchange_strong(&mine->joined, &nobody, 1);
}

bool agree_init(struct agree *a, struct agree_area *area, unsigned rank, unsigned ranks)
{
	uint64_t layout = 0;

	*a = (struct agree){.area = area, .rank = rank, .ranks = ranks, .left = true};
	if (!ranks || ranks > AGREE_RANKS || rank >= ranks)
		return false;
	if (!atomic_compare_exchange_strong(&area->layout, &layout, AGREE_LAYOUT) && layout != AGREE_LAYOUT)
		return false;
	a->left = !take_place(area, rank, ranks);
	/* This rank launches alone from its first operation on: the others must not count on who has its place. */
	if (a->left)
		atomic_store(&area->ranks, BROKEN);
	return !a->left;
}

bool agree_complete(const struct agree *a)
{
	for (unsigned r = 0; r < a->ranks; r++)
		if (!atomic_load_explicit(&a->area->place[r].joined, memory_order_acquire))
			return false;
	return atomic_load_explicit(&a->area->ranks, memory_order_relaxed) == a->ranks;
}

/* Of a rank that has not joined it is 0. What is read may be old: then it is too low, which is safe. */
static uint64_t least_safe(const struct agree *a)
{
	uint64_t least = UINT64_MAX;

	for (unsigned r = 0; r < a->ranks; r++) {
		uint64_t safe = atomic_load_explicit(&a->area->place[r].safe, memory_order_acquire);
		least = safe < least ? safe : least;
	}
	return least;
}

/* A slot is written again when all ranks have read it: what is queued needs a slot each at most. */
static bool has_room(struct agree *a)
{
	uint64_t last = a->next + (a->queued - a->launched), least = UINT64_MAX;

	if (last < a->least_used + AGREE_SLOTS)
		return true;
	for (unsigned r = 0; r < a->ranks; r++) {
		uint64_t used = atomic_load_explicit(&a->area->place[r].used, memory_order_acquire);
		least = used < least ? used : least;
	}
	a->least_used = least;
	return last < least + AGREE_SLOTS;
}

bool agree_queue(struct agree *a)
{
	if (a->left || !has_room(a))
		return false;
	a->queued++;
	atomic_store_explicit(&a->area->place[a->rank].safe, a->queued, memory_order_release);
	return true;
}

static _Atomic uint64_t *next_slot(const struct agree *a)
{
	return &a->area->slot[a->next % AGREE_SLOTS];
}

/* The length of a group, when what was seen in the slot is that; else 0. */
static uint64_t length_in(const struct agree *a, uint64_t seen)
{
	return seen >> 32 == TAG(a->next) ? seen & UINT32_MAX : 0;
}

/* What this rank would launch now. A group of one may lie beyond what the others have queued, a larger one never. */
static uint64_t propose(struct agree *a)
{
	uint64_t safe;

	if (a->queued - a->launched == 1)
		return 1; /* the others' lines are left where they are */
	a->complete = a->complete || agree_complete(a);
	if (!a->complete)
		return 1;
	safe = least_safe(a);
	safe = safe < a->queued ? safe : a->queued;
	return safe > a->launched + 1 ? safe - a->launched : 1;
}

/* The length of the next group, in whose slot `seen` was not yet it: `mine`, unless another rank has been faster. Nobody writes
 * a slot twice, so a failure is another rank's group. */
static uint64_t decide(struct agree *a, uint64_t seen, uint64_t mine)
{
	if (atomic_compare_exchange_strong_explicit(next_slot(a), &seen, TAG(a->next) << 32 | mine,
												memory_order_acq_rel, memory_order_acquire))
		return mine;
	return length_in(a, seen);
}

unsigned agree_step(struct agree *a)
{
	uint64_t left = a->queued - a->launched, seen, length;

	if (!left)
		return 0;
	if (a->left) { /* the log made no sense */
		a->launched++;
		return 1;
	}
	seen = atomic_load_explicit(next_slot(a), memory_order_acquire);
	length = seen >> 32 == TAG(a->next) ? length_in(a, seen) : decide(a, seen, propose(a));
	/* Ranks that keep to the rules never write that. */
	if (!length || length > left) {
		a->left = true;
		length = 1;
	}
	a->launched += length;
	a->next++;
	atomic_store_explicit(&a->area->place[a->rank].used, a->next, memory_order_release);
	return (unsigned)length;
}

void agree_leave(struct agree *a)
{
	a->left = true;
}

unsigned agree_ready(const struct agree *a, bool *decided)
{
	uint64_t left = a->queued - a->launched, seen, safe;

	*decided = true;
	if (a->left)
		return left != 0;
	seen = atomic_load_explicit(next_slot(a), memory_order_acquire);
	*decided = seen >> 32 == TAG(a->next);
	if (*decided)
		return (seen & UINT32_MAX) > left ? left != 0 : (unsigned)(seen & UINT32_MAX);
	safe = least_safe(a);
	safe = safe < a->queued ? safe : a->queued;
	return safe > a->launched ? (unsigned)(safe - a->launched) : 0;
}
