/* room.c - see room.h. */
#define _GNU_SOURCE
#include "room.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "cache.h"
#include "calls.h"
#include "capture.h"
#include "clock.h"
#include "stream.h"

/* Threads that compete for the last memory give back what the others have just freed: it is never for long. */
#define TURNS_NS 2000000000ull
/* Bare, the frees would have waited for the device. */
#define PENDING_NS 60000000000ull

/* Times that memory went back to the driver. Relaxed: read before a call that takes the driver's own lock. */
uint64_t devmem_room_came;

static _Atomic size_t leaving; /* bytes between a cache and the driver */

void room_leaving(size_t bytes)
{
	atomic_fetch_add(&leaving, bytes);
}

void room_came(void)
{
	__atomic_fetch_add(&devmem_room_came, 1, __ATOMIC_SEQ_CST);
}

/* Who sees that nothing is leaving sees that it came. */
void room_left(size_t bytes)
{
	room_came();
	atomic_fetch_sub(&leaving, bytes);
}

/* Nobody tries again on account of what a dead context holds. */
void room_refused(size_t bytes)
{
	atomic_fetch_sub(&leaving, bytes);
}

void room_fork_child(void)
{
	atomic_store(&leaving, 0);
}

/* Caches what the device is done with. True: it may still use some of what was freed. */
static bool advance(int device)
{
	bool pending = false;
	for (unsigned i = 0; i < SPACES; i++) {
		struct space *s = &spaces[i];
		if (!atomic_load_explicit(&s->defer.pending, memory_order_relaxed) || !space_hold(s))
			continue;
		if (device < 0 || s->device == device) {
			defer_squeeze(s);
			/* What a faulted context holds comes back at its end, which nobody waits for. */
			pending |= !s->faulted && atomic_load_explicit(&s->defer.pending, memory_order_relaxed);
		}
		space_put(s);
	}
	return pending;
}

static size_t give(int device, size_t bytes)
{
	size_t given = 0;
	int first = device < 0 ? 0 : device, last = device < 0 ? SPACE_DEVICES - 1 : device;
	for (int d = first; d <= last; d++) {
		size_t more = cache_release(NULL, d, bytes, RELEASE_PRESSURE);
		if (more < bytes)
			more += stream_release(d);
		given += more;
	}
	return given;
}

static bool give_or_wait(struct devmem_room *room, int device, size_t bytes)
{
	uint64_t since = clock_ns();
	for (;;) {
		bool pending = advance(device);
		if (give(device, bytes))
			return true;
		bool others = atomic_load(&leaving) != 0;
		if (__atomic_load_n(&devmem_room_came, __ATOMIC_SEQ_CST) != room->came)
			return true;
		uint64_t waited = clock_ns() - since;
		if ((!others || waited > TURNS_NS) && (!pending || capture_live() || waited > PENDING_NS))
			return false;
		pause_poll(since);
	}
}

bool room_more(struct devmem_room *room, int device, size_t bytes)
{
	CUdevice current;
	uint64_t now = clock_ns();
	if (!room->since)
		room->since = now;
	else
		bytes = SIZE_MAX;
	if (now - room->since > PENDING_NS)
		return false; /* others take it, again and again */
	if (device < 0 && REAL(cuCtxGetDevice)(&current) == CUDA_SUCCESS && give_or_wait(room, current, bytes)) {
		*room = (struct devmem_room){.came = devmem_room_begin().came, .since = room->since};
		return true;
	}
	bool more = give_or_wait(room, device, bytes);
	room->came = devmem_room_begin().came;
	return more;
}

bool devmem_make_room(struct devmem_room *room, int device)
{
	int saved = errno, cancel;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	bool more = room_more(room, device, SIZE_MAX);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return more;
}
