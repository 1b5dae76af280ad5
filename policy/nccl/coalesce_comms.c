/* coalesce_comms.c - see coalesce_comms.h. */
#include "coalesce_comms.h"

#include <stddef.h>
#include <string.h>

#include "comms.h"
#include "stats.h"

/* Two ranks that count by other rules must not meet: raised with each change of what is counted. */
#define RULES 1
#define ALONE_AFTER 16 /* launches of one, then the site is left alone, */
#define TRY_EVERY 256  /* but for one call in so many */
#define IMPATIENT_AFTER 8

static struct gather_comm all[FLIGHT_COMMS];
static _Atomic int the_device = -1; /* of the first communicator that joined */

struct gather_comm *coalesce_comms_at(const struct flight_comm *place)
{
	return &all[place - comms_at(flight_page(), 0)];
}

static uint32_t life_of(const struct flight_comm *place)
{
	return atomic_load_explicit(&place->life, memory_order_relaxed);
}

static void begin(struct gather_comm *c, struct flight_comm *place, const struct flight_call *call)
{
	if (c->state == GATHER_IN)
		agree_file_close(&c->file);
	memset(&c->agree, 0, sizeof(c->agree));
	memset(&c->file, 0, sizeof(c->file));
	memset(c->alone, 0, sizeof(c->alone));
	c->place = place;
	c->life = life_of(place);
	c->state = GATHER_NEW;
	c->connected = c->complete = false;
	c->handle = call->comm;
	c->caller = call->caller;
	c->begun = c->skipped = 0;
	c->impatient = 0;
	atomic_store(&c->aborted, false);
}

/* One device a process: a thread that waits here for the launch of another device's might be what that launch waits for. */
static bool is_our_device(int device)
{
	int none = -1;

	return device >= 0 && (atomic_compare_exchange_strong(&the_device, &none, device) || none == device);
}

static bool join(struct gather_comm *c, uint64_t limit)
{
	const struct flight_comm *place = c->place;
	int rank = atomic_load_explicit(&place->rank, memory_order_relaxed);
	int ranks = atomic_load_explicit(&place->ranks, memory_order_relaxed);
	uint64_t key[2] = {comms_mix(place->key[0], RULES), comms_mix(place->key[1], limit)};

	if (rank < 0 || ranks <= rank || ranks > (int)AGREE_RANKS || place->nonblocking ||
		!is_our_device(place->device) || !agree_file_open(&c->file, key, (unsigned)rank, (unsigned)ranks))
		return false;
	c->ranks = (unsigned)ranks;
	if (agree_init(&c->agree, c->file.area, (unsigned)rank, (unsigned)ranks))
		return true;
	agree_file_close(&c->file);
	return false;
}

struct gather_comm *coalesce_comms_get(const struct flight_call *call, uint64_t limit)
{
	struct flight_comm *place = flight_comm_of(call->comm);
	struct gather_comm *c;

	if (!place)
		return NULL;
	c = coalesce_comms_at(place);
	if (c->place != place || c->life != life_of(place))
		begin(c, place, call);
	if (c->state == GATHER_NEW) {
		if (atomic_load_explicit(&place->state, memory_order_acquire) != FLIGHT_LIVE)
			return NULL;
		c->state = join(c, limit) ? GATHER_IN : GATHER_OUT;
	}
	return c->state == GATHER_IN ? c : NULL;
}

void coalesce_comms_leave(struct gather_comm *c)
{
	if (c->state == GATHER_IN) {
		agree_leave(&c->agree);
		agree_file_close(&c->file);
	}
	c->state = GATHER_OUT;
}

void coalesce_comms_gone(struct gather_comm *c)
{
	coalesce_comms_leave(c);
	c->place = NULL;
}

void coalesce_comms_stop(void)
{
	for (unsigned i = 0; i < FLIGHT_COMMS; i++)
		if (all[i].state == GATHER_IN)
			agree_file_ready(&all[i].file);
}

bool coalesce_comms_complete(struct gather_comm *c)
{
	if (!c->complete && agree_complete(&c->agree)) {
		c->complete = true;
		agree_file_ready(&c->file);
	}
	return c->complete;
}

/* ---- sites ---- */

unsigned coalesce_comms_site(uint64_t bytes)
{
	return (unsigned)(comms_mix(0, bytes) % COMM_SITES);
}

bool coalesce_comms_alone(struct gather_comm *c, unsigned site)
{
	return c->alone[site] >= ALONE_AFTER && ++c->begun % TRY_EVERY;
}

void coalesce_comms_launched(struct gather_comm *c, unsigned site, bool alone)
{
	if (!alone)
		c->alone[site] = 0;
	else if (c->alone[site] < ALONE_AFTER)
		c->alone[site]++;
}

bool coalesce_comms_patient(struct gather_comm *c)
{
	return c->impatient < IMPATIENT_AFTER || ++c->skipped % TRY_EVERY == 0;
}

void coalesce_comms_waited(struct gather_comm *c, bool came)
{
	if (came)
		c->impatient = 0;
	else if (c->impatient < IMPATIENT_AFTER)
		c->impatient++;
}

/* ---- late errors ---- */

int coalesce_comms_late(const void *handle)
{
	const struct flight_comm *place = flight_comm_of(handle);
	struct gather_comm *c;

	if (!place)
		return 0;
	c = coalesce_comms_at(place);
	int late = atomic_load_explicit(&c->late, memory_order_acquire);
	return late && atomic_load_explicit(&c->late_life, memory_order_relaxed) == life_of(place) ? late : 0;
}
