/* foreign.c - see foreign.h. */
#include "foreign.h"

#include <stdatomic.h>

#include "times.h"

#define CALLS 1024

/* Who acts on these makes a transition first (client.c); a call that comes meanwhile waits for it. */
static _Atomic uint64_t kinds; /* a bit each; bit 63: any beyond */
static _Atomic uint64_t calls[2][CALLS / 64];
static _Atomic int subscriptions, under_way;
static _Atomic bool ever;
static _Atomic uint64_t last;

void foreign_begin(void)
{
	atomic_fetch_add(&under_way, 1);
	atomic_store(&ever, true);
}

void foreign_end(void)
{
	atomic_store(&last, times_steady());
	atomic_fetch_sub(&under_way, 1);
}

void foreign_subscribed(bool on)
{
	if (on)
		atomic_fetch_add(&subscriptions, 1);
	else if (atomic_fetch_sub(&subscriptions, 1) <= 0)
		atomic_fetch_add(&subscriptions, 1);
}

static void set_bit(_Atomic uint64_t *word, unsigned bit, bool on)
{
	if (on)
		atomic_fetch_or(word, 1ull << bit);
	else
		atomic_fetch_and(word, ~(1ull << bit));
}

/* The kinds of all calls take the place of the single ones. */
void foreign_kind(uint32_t kind, bool on)
{
	set_bit(&kinds, kind < 63 ? kind : 63, on);
	for (unsigned runtime = 0; runtime < 2 && !on; runtime++)
		if (kind == (runtime ? 5 : 4))
			for (unsigned i = 0; i < CALLS / 64; i++)
				atomic_store(&calls[runtime][i], 0);
}

void foreign_api(bool runtime, uint32_t callback, bool on)
{
	if (callback < CALLS)
		set_bit(&calls[runtime][callback / 64], callback % 64, on);
}

void foreign_finalized(void)
{
	atomic_store(&kinds, 0);
	atomic_store(&subscriptions, 0);
	for (unsigned i = 0; i < CALLS / 64; i++) {
		atomic_store(&calls[0][i], 0);
		atomic_store(&calls[1][i], 0);
	}
	atomic_store(&ever, false);
}

bool foreign_busy(void)
{
	uint64_t any = atomic_load(&kinds);
	for (unsigned i = 0; i < CALLS / 64; i++)
		any |= atomic_load(&calls[0][i]) | atomic_load(&calls[1][i]);
	return any != 0;
}

bool foreign_holds_subscription(void)
{
	return atomic_load(&subscriptions) > 0;
}

bool foreign_ever(void)
{
	return atomic_load(&ever);
}

uint64_t foreign_quiet_ns(void)
{
	return atomic_load(&under_way) ? 0 : times_steady() - atomic_load(&last);
}
