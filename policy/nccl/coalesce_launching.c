/* coalesce_launching.c - see coalesce_launching.h. */
#include "coalesce_launching.h"

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "coalesce_held.h"
#include "coalesce_timer.h"
#include "flight_thread.h"
#include "log.h"

#define LOCK_NS 2000000000ull
#define LOOK_NS 20000

static _Atomic bool accepts;

bool launching_pending(void)
{
	return atomic_load_explicit(&coalesce_pending, memory_order_relaxed) != 0;
}

bool launching_accepts(void)
{
	return atomic_load_explicit(&accepts, memory_order_relaxed);
}

void launching_accept(bool on)
{
	atomic_store_explicit(&accepts, on, memory_order_relaxed);
}

static void give_up(void)
{
	launching_accept(false);
	stats_add(STATS_ERRORS, 1);
	log_once(LOG_WARN, "nccl: all-gathers are no longer held back: a launch has taken more than 2 s");
}

bool launching_lock(enum patience patience)
{
	if (held_try())
		return true;
	if (patience == LAUNCHING_MUST || held_is_mine()) {
		while (!held_lock(LOCK_NS))
			log_once(LOG_INFO, "nccl: a launch of all-gathers that were held back waits for the device");
		return true;
	}
	if (patience == LAUNCHING_TRY || !launching_accepts())
		return false;
	if (held_lock(LOCK_NS))
		return true;
	give_up();
	return false;
}

/* What NCCL launches in a group of the program's own comes with the group's end. */
void launching_elsewhere(void)
{
	struct timespec t = {0, LOOK_NS};
	uint64_t number = held_number();

	/* What others queue meanwhile comes later. */
	for (uint64_t waited = 0; launching_pending() && held_number() == number && launching_accepts();
		 waited += LOOK_NS) {
		if (waited > LOCK_NS)
			give_up();
		coalesce_timer_hurry();
		nanosleep(&t, NULL);
	}
}

void launching_locked(enum stats_counter why)
{
	if (!launching_pending())
		return;
	stats_add(why, 1);
	held_launch();
}

void launching(enum patience patience, enum stats_counter why)
{
	if (flight_thread.depth) {
		launching_elsewhere();
	} else if (launching_lock(patience)) {
		launching_locked(why);
		held_unlock();
	}
}

void coalesce_due(bool hurry)
{
	if (!held_try())
		return;
	if (!coalesce_timer_is_quiet() && launching_pending()) {
		stats_add(STATS_NCCL_LAUNCH_TIME, 1);
		if (hurry)
			held_launch();
		else
			held_launch_ready();
	}
	held_unlock();
}
