/*
 * nccl_signal.c - NCCL's one-sided calls (2.29): recorded for the watchdog, gone on with.
 */
#include <stddef.h>

#include "nccl_record.h"

#define BODY(symbol, kind, params, args, ...)                               \
	NCCL_OPERATION(symbol, kind, params, args, struct flight_ticket ticket; \
				   flight_begin(&ticket, &what), flight_end(&ticket, result), .reduction = -1, __VA_ARGS__)
#define EACH(symbol, ...)     \
	BODY(symbol, __VA_ARGS__) \
	BODY(p##symbol, __VA_ARGS__)

#define PUT                                                                                                \
	(const void *from, size_t count, int type, int peer, void *window, size_t offset, int signal, int ctx, \
	 unsigned flags, void *comm, void *stream),                                                            \
		(from, count, type, peer, window, offset, signal, ctx, flags, comm, stream),                       \
		.count = count, .type = type, .peer = peer
#define SIGNAL                                                                 \
	(int peer, int signal, int ctx, unsigned flags, void *comm, void *stream), \
		(peer, signal, ctx, flags, comm, stream), .type = -1, .peer = peer
/* Of several peers, perhaps. */
#define WAIT                                                                                            \
	(int n, void *signals, void *comm, void *stream), (n, signals, comm, stream), .count = (uint64_t)n, \
																				  .type = -1, .peer = -1

EACH(ncclPutSignal, FLIGHT_PUT_SIGNAL, PUT)
EACH(ncclSignal, FLIGHT_SIGNAL, SIGNAL)
EACH(ncclWaitSignal, FLIGHT_WAIT_SIGNAL, WAIT)
