/*
 * act.c - see act.h.
 *
 * Entries are made by the watch's thread and read by the program's: an entry's handle and place stay, what it stands
 * for changes by one store. A handle's address may be given to another communicator later on; the flight record then
 * has another place, or another life of it, for the handle, and the entry says nothing about it.
 */
#include "act.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "act_abort.h"
#include "flight.h"
#include "log.h"

#define NCCL_REMOTE_ERROR 6
#define S 1000000000ull
#define ENTRIES (2 * FLIGHT_COMMS)
#define LINE_BYTES 320
#define GROUP_ABORT 22200 /* ncclGetVersion of the first that aborts in a group */
#define KILL_S 5          /* after a SIGABRT that has ended nothing */

enum stands { NOTHING, TOLD, ABORTED };

struct entry {
	const void *handle;
	struct flight_comm *comm;
	uint32_t life;
	_Atomic uint32_t stands; /* enum stands; release after the rest */
	char line[LINE_BYTES];
};

static struct entry entry[ENTRIES];
static _Atomic uint32_t
	entries; /* 0: the functions that hook bodies ask are one load. Release, after the entry */
static _Atomic uint32_t reacted; /* the program has ended a communicator that libturbo had aborted */

/* The watch's thread alone. */
static enum { IDLE, GRACE, ABORTING, KILLING, GIVEN_UP } step;
static uint64_t deadline;
static bool started;

void act_start(void)
{
	started = true;
}

/* ---- the program's threads ---- */

static bool is_same(const struct entry *e, const struct flight_comm *comm)
{
	return comm == e->comm && atomic_load_explicit(&comm->life, memory_order_relaxed) == e->life;
}

/* The newest that stands for this handle, NULL: none. */
static struct entry *find(const void *handle)
{
	uint32_t n = atomic_load_explicit(&entries, memory_order_acquire);

	for (uint32_t i = n; i-- > 0;) {
		struct entry *e = &entry[i];
		uint32_t stands = atomic_load_explicit(&e->stands, memory_order_acquire);
		if (stands == NOTHING || e->handle != handle)
			continue;
		const struct flight_comm *comm = flight_comm_of(handle);
		if (comm ? is_same(e, comm) : stands == ABORTED)
			return e;
	}
	return NULL;
}

int act_async_error(const void *comm)
{
	if (__builtin_expect(atomic_load_explicit(&entries, memory_order_relaxed) == 0, 1))
		return 0;
	return find(comm) ? NCCL_REMOTE_ERROR : 0;
}

const char *act_last_error(const void *comm)
{
	uint32_t n = atomic_load_explicit(&entries, memory_order_acquire);
	const struct entry *e;

	if (__builtin_expect(n == 0, 1))
		return NULL;
	if (comm) {
		e = find(comm);
		return e ? e->line : NULL;
	}
	/* PyTorch asks without a communicator. */
	for (uint32_t i = n; i-- > 0;)
		if (atomic_load_explicit(&entry[i].stands, memory_order_acquire) != NOTHING)
			return entry[i].line;
	return NULL;
}

bool act_tombstone(const void *comm)
{
	const struct entry *e;

	if (__builtin_expect(atomic_load_explicit(&entries, memory_order_relaxed) == 0, 1))
		return false;
	e = find(comm);
	if (!e || atomic_load_explicit(&e->stands, memory_order_relaxed) != ABORTED)
		return false;
	atomic_store_explicit(&reacted, 1, memory_order_relaxed);
	return true;
}

/* ---- the watch's thread ---- */

/* The words of one that stands, or stood, may be in use by the program: another verdict has its own. */
static bool serves(const struct entry *e, const char *line)
{
	return atomic_load_explicit(&e->stands, memory_order_relaxed) != NOTHING ||
		   strncmp(e->line, line, sizeof(e->line) - 1) == 0;
}

static struct entry *entry_of(struct flight_comm *comm, const void *handle, uint32_t life, const char *line)
{
	uint32_t n = atomic_load_explicit(&entries, memory_order_relaxed);
	struct entry *e;

	for (uint32_t i = n; i-- > 0;) {
		e = &entry[i];
		if (e->handle == handle && e->comm == comm && e->life == life && (n == ENTRIES || serves(e, line)))
			return e;
	}
	if (n == ENTRIES)
		return NULL;
	e = &entry[n];
	e->handle = handle;
	e->comm = comm;
	e->life = life;
	strncpy(e->line, line, sizeof(e->line) - 1);
	atomic_store_explicit(&e->stands, NOTHING, memory_order_relaxed);
	atomic_store_explicit(&entries, n + 1, memory_order_release);
	return e;
}

void act_verdict(struct flight_comm *comm, const char *line)
{
	uint32_t life = atomic_load_explicit(&comm->life, memory_order_relaxed);
	const void *caller, *handle = flight_comm_handle(comm, &caller);
	struct entry *e;

	if (!started || !handle || step == ABORTING || step == KILLING)
		return;
	e = entry_of(comm, handle, life, line);
	if (!e || atomic_load_explicit(&e->stands, memory_order_relaxed) != NOTHING)
		return;
	atomic_store_explicit(&e->stands, TOLD, memory_order_release);
	if (step == IDLE) {
		step = GRACE;
		deadline = 0; /* from the next poll on */
	}
}

/* A communicator of which the program was told is there still. */
static bool any_told(void)
{
	uint32_t n = atomic_load_explicit(&entries, memory_order_relaxed);

	for (uint32_t i = 0; i < n; i++)
		if (atomic_load_explicit(&entry[i].stands, memory_order_relaxed) == TOLD &&
			find(entry[i].handle) == &entry[i])
			return true;
	return false;
}

static void withdraw(void)
{
	uint32_t n = atomic_load_explicit(&entries, memory_order_relaxed);

	for (uint32_t i = 0; i < n; i++)
		if (atomic_load_explicit(&entry[i].stands, memory_order_relaxed) == TOLD)
			atomic_store_explicit(&entry[i].stands, NOTHING, memory_order_release);
	step = IDLE;
}

/* Takes it away from the program; false: the program is ending it itself. The other side stores its state first and
 * asks for the tombstone then, so at least one of the two sees the other. */
static bool claim(struct flight_comm *comm, struct act_abort *a, const char *line)
{
	uint32_t life = atomic_load_explicit(&comm->life, memory_order_relaxed), was;
	struct entry *e;

	a->comm = comm;
	a->handle = flight_comm_handle(comm, &a->caller);
	if (!a->handle || atomic_load(&comm->state) != FLIGHT_LIVE ||
		!(e = entry_of(comm, a->handle, life, line)))
		return false;
	was = atomic_exchange(&e->stands, ABORTED);
	if (atomic_load(&comm->state) == FLIGHT_LIVE &&
		atomic_load_explicit(&comm->life, memory_order_relaxed) == life)
		return true;
	atomic_store(&e->stands, was);
	return false;
}

static bool abort_all(void)
{
	static const char line[] = "libturbo has aborted this communicator: another one of the process is stuck";
	static struct act_abort list[ACT_ABORTS];
	struct flight_page *page = flight_page();
	unsigned n = 0;

	for (unsigned i = 0; page && i < page->comm_high && i < FLIGHT_COMMS; i++) {
		struct flight_comm *comm =
			(struct flight_comm *)(void *)((char *)page + page->comm_off + i * page->comm_bytes);
		n += claim(comm, &list[n], line);
	}
	log_warn("nccl: the program has not ended after the error; it is aborted in its %u communicator%s", n,
			 PLURAL(n));
	return n > 0 && act_abort_start(list, n, page->nccl >= GROUP_ABORT);
}

static void end_process(uint64_t now)
{
	if (step == KILLING) {
		kill(getpid(), SIGKILL);
		return;
	}
	log_warn("nccl: the program hangs, it is ended by SIGABRT");
	step = KILLING;
	deadline = now + KILL_S * S;
	kill(getpid(), SIGABRT);
}

void act_poll(uint64_t now, bool stuck)
{
	switch (step) {
	case IDLE:
	case GIVEN_UP: return;
	case GRACE:
		if (!deadline)
			deadline = now + ACT_GRACE_S * S;
		if (now < deadline)
			return;
		if (!stuck || !any_told()) {
			withdraw();
			return;
		}
		step = ABORTING;
		deadline = now + ACT_ABORT_S * S;
		if (!abort_all())
			end_process(now);
		return;
	case ABORTING:
		/* What the aborted calls leave behind are not results: the program has to end, unless it has seen that. */
		if (act_abort_done() && atomic_load_explicit(&reacted, memory_order_relaxed))
			step = GIVEN_UP;
		else if (now >= deadline)
			end_process(now);
		return;
	case KILLING:
		if (now >= deadline)
			end_process(now);
		return;
	}
}

void act_fork_child(void)
{
	atomic_store_explicit(&entries, 0, memory_order_relaxed);
	atomic_store_explicit(&reacted, 0, memory_order_relaxed);
	step = IDLE;
	started = false;
}
