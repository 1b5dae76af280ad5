/*
 * nccl_make.c - the calls that make NCCL's communicators: each gets a place in the flight record, and a key that is the
 * same on all its ranks.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <sys/random.h>
#include <sys/types.h>

#include "nccl_record.h"

typedef struct {
	char bytes[128];
} unique_id;

#define CONFIG_MAGIC 0xcafebeefu
#define CONFIG_NAMED 22700 /* ncclConfig_t has a name from then on */

/* The beginning of ncclConfig_t, which only grows. */
struct config {
	size_t size;
	unsigned magic, version;
	int blocking, others[3];
	const char *net;
	int share, traffic;
	const char *name;
};

/* The caller's structure goes as far as `end`. */
static bool has(const struct config *config, size_t end)
{
	return config && config->magic == CONFIG_MAGIC && config->size >= end;
}

static void read_config(struct flight_made *how, const void *given)
{
	const struct config *config = given;

	if (has(config, offsetof(struct config, others)))
		how->nonblocking = config->blocking == 0;
	if (has(config, sizeof(*config)) && config->version >= CONFIG_NAMED)
		how->name = config->name;
}

static struct flight_comm *making(const struct flight_ticket *ticket, struct flight_made *how,
								  const void *config)
{
	if (!ticket->outermost)
		return NULL;
	read_config(how, config);
	return flight_comm_making(how);
}

/* ---- without a parent ---- */

#define INIT(symbol, params, args, ids, bytes, config)             \
	TURBO_EXPORT int symbol params;                                \
	TURBO_EXPORT int symbol params                                 \
	{                                                              \
		NCCL_BODY(symbol, int, params);                            \
		if (guard_inside())                                        \
			return real args;                                      \
		struct flight_made how = {                                 \
			.function = FLIGHT_INIT,                               \
			.id = ids,                                             \
			.id_bytes = bytes,                                     \
			.rank = rank,                                          \
			.ranks = ranks,                                        \
			.colour = -1,                                          \
			.caller = caller,                                      \
			.frame = __builtin_frame_address(0),                   \
		};                                                         \
		struct flight_ticket ticket;                               \
		(void)coalesce_before_nccl(NULL);                          \
		flight_enter(&ticket);                                     \
		struct flight_comm *place = making(&ticket, &how, config); \
		int result = real args;                                    \
		flight_comm_made(place, comm, result, caller);             \
		flight_end(&ticket, result);                               \
		return result;                                             \
	}
#define INIT_BOTH(symbol, ...) \
	INIT(symbol, __VA_ARGS__)  \
	INIT(p##symbol, __VA_ARGS__)

INIT_BOTH(ncclCommInitRank, (void **comm, int ranks, unique_id id, int rank), (comm, ranks, id, rank), &id,
		  sizeof(id), NULL)
INIT_BOTH(ncclCommInitRankConfig, (void **comm, int ranks, unique_id id, int rank, void *config),
		  (comm, ranks, id, rank, config), &id, sizeof(id), config)
INIT_BOTH(ncclCommInitRankScalable,
		  (void **comm, int ranks, int rank, int n, const unique_id *id, void *config),
		  (comm, ranks, rank, n, id, config), id, id &&n > 0 ? (size_t)n * sizeof(*id) : 0, config)

/* All ranks are in this process: what names them need be told to nobody. */
#define ALL_MOST 64

struct all {
	struct flight_ticket ticket;
	struct flight_comm *place[ALL_MOST];
	int n;
};

static void all_begin(struct all *all, int ranks, const void *caller, const void *frame)
{
	uint64_t id[2] = {(uintptr_t)all, (uintptr_t)caller};
	struct flight_made how = {
		.function = FLIGHT_INIT,
		.id = id,
		.id_bytes = sizeof(id),
		.ranks = ranks,
		.colour = -1,
		.caller = caller,
		.frame = frame,
	};

	(void)coalesce_before_nccl(NULL);
	flight_enter(&all->ticket);
	all->n = !all->ticket.outermost || ranks < 0 ? 0 : ranks < ALL_MOST ? ranks : ALL_MOST;
	if (all->n)
		(void)!getrandom(id, sizeof(id), GRND_NONBLOCK);
	for (how.rank = 0; how.rank < all->n; how.rank++)
		all->place[how.rank] = flight_comm_making(&how);
}

#define INIT_ALL(symbol)                                               \
	TURBO_EXPORT int symbol(void **comms, int ranks, const int *list); \
	TURBO_EXPORT int symbol(void **comms, int ranks, const int *list)  \
	{                                                                  \
		NCCL_BODY(symbol, int, (void **, int, const int *));           \
		struct all all;                                                \
		if (guard_inside())                                            \
			return real(comms, ranks, list);                           \
		all_begin(&all, ranks, caller, __builtin_frame_address(0));    \
		int result = real(comms, ranks, list);                         \
		for (int i = 0; i < all.n; i++)                                \
			flight_comm_made(all.place[i], comms + i, result, caller); \
		flight_end(&all.ticket, result);                               \
		return result;                                                 \
	}

INIT_ALL(ncclCommInitAll)
INIT_ALL(pncclCommInitAll)

/* ---- of a parent ---- */

/* The rest: more members of struct flight_made. */
#define CHILD(symbol, kind, params, args, ...)                                \
	TURBO_EXPORT int symbol params;                                           \
	TURBO_EXPORT int symbol params                                            \
	{                                                                         \
		NCCL_BODY(symbol, int, params);                                       \
		if (guard_inside())                                                   \
			return real args;                                                 \
		if (__builtin_expect(act_tombstone(comm), 0))                         \
			return NCCL_REMOTE_ERROR;                                         \
		const void *const frame = __builtin_frame_address(0);                 \
		const struct flight_call what = nccl_call(kind, comm, caller, frame); \
		struct flight_made how = {                                            \
			.function = kind,                                                 \
			.parent = comm,                                                   \
			.caller = caller,                                                 \
			.frame = frame,                                                   \
			__VA_ARGS__,                                                      \
		};                                                                    \
		struct flight_ticket ticket;                                          \
		(void)coalesce_before_nccl(comm);                                     \
		if (comm)                                                             \
			flight_begin(&ticket, &what);                                     \
		else                                                                  \
			flight_enter(&ticket);                                            \
		struct flight_comm *place = making(&ticket, &how, config);            \
		int result = real args;                                               \
		flight_comm_made(place, made, result, caller);                        \
		flight_end(&ticket, result);                                          \
		return result;                                                        \
	}
#define CHILD_BOTH(symbol, ...) \
	CHILD(symbol, __VA_ARGS__)  \
	CHILD(p##symbol, __VA_ARGS__)

CHILD_BOTH(ncclCommSplit, FLIGHT_SPLIT, (void *comm, int colour, int key, void **made, void *config),
		   (comm, colour, key, made, config), .rank = -1, .ranks = -1, .colour = colour)
CHILD_BOTH(ncclCommShrink, FLIGHT_SHRINK,
		   (void *comm, int *excluded, int n, void **made, void *config, int flags),
		   (comm, excluded, n, made, config, flags), .rank = -1, .ranks = -1, .colour = -1,
		   .excluded = excluded, .excluded_count = excluded && n > 0 ? (unsigned)n : 0)
/* Ranks that it adds have no parent, but an id. */
CHILD_BOTH(ncclCommGrow, FLIGHT_GROW,
		   (void *comm, int ranks, const void *id, int rank, void **made, void *config),
		   (comm, ranks, id, rank, made, config), .rank = rank, .ranks = ranks, .colour = -1, .id = id,
		   .id_bytes = id ? sizeof(unique_id) : 0)
