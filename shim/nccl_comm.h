/*
 * nccl_comm.h - NCCL's communicators, numbered, and the calls in each counted from its first.
 *
 * Ranks make the same collectives in the same order in a communicator, so the count names one across ranks.
 * Sends and receives, which differ between ranks, are counted apart. Counting is always on, at some
 * nanoseconds a call; the table is fixed, takes no lock and allocates nothing.
 */
#ifndef TURBO_NCCL_COMM_H
#define TURBO_NCCL_COMM_H

#include <stdbool.h>
#include <stdint.h>

enum nccl_order { NCCL_COLLECTIVE, NCCL_PAIRWISE, NCCL_ORDERS };

struct nccl_comm;

/* The communicator of a handle, entered when it is new. NULL: none, or the table is full. Any thread; two of
 * them for one handle at once would be an error of the program. */
struct nccl_comm *nccl_comm_get(const void *handle);
/* It is about to be destroyed, and the handle may be another one's soon. */
void nccl_comm_gone(const void *handle);

/* The number of the call that begins, from 1. 0: it is made inside another one by this thread, as ncclBcast
 * calls ncclBroadcast, and does not count. Paired with nccl_comm_leave(), unless it was 0. */
uint32_t nccl_comm_enter(struct nccl_comm *c, enum nccl_order order);
void nccl_comm_leave(struct nccl_comm *c);

uint32_t nccl_comm_number(const struct nccl_comm *c); /* in this process, from 1 */
/* Rank and ranks as its user knows them: set once, by whoever asked NCCL. */
bool nccl_comm_has_ranks(const struct nccl_comm *c);
void nccl_comm_set_ranks(struct nccl_comm *c, uint32_t rank, uint32_t ranks);
/* Of the communicator with that number. false: not known. Any thread; also some time after it is gone. */
bool nccl_comm_ranks(uint32_t number, uint32_t *rank, uint32_t *ranks);

#endif
