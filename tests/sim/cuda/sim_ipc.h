/*
 * sim_ipc.h - what is behind an event that processes share: tickets, one a record.
 */
#ifndef SIM_IPC_H
#define SIM_IPC_H

#include "sim_internal.h"

#pragma GCC visibility push(hidden)

struct sim_ipc *sim_ipc_new(void); /* NULL: out of memory or descriptors */
/* Lock held. */
struct sim_ipc *sim_ipc_get(struct sim_ipc *ipc);
void sim_ipc_put(struct sim_ipc *ipc);
/* The event is destroyed: it cannot be opened any more. */
void sim_ipc_close(struct sim_ipc *ipc);

/* The rest takes no lock, and needs a reference. */
uint64_t sim_ipc_newest(const struct sim_ipc *ipc); /* 0: never recorded */
uint64_t sim_ipc_record(struct sim_ipc *ipc);       /* a new ticket, of this process */
void sim_ipc_complete(struct sim_ipc *ipc, uint64_t ticket);
bool sim_ipc_is_done(const struct sim_ipc *ipc, uint64_t ticket);
/* Until the ticket is done, its process has ended, or ctx has failed. Never with the lock held. */
void sim_ipc_wait(struct sim_ipc *ipc, uint64_t ticket, const struct sim_ctx *ctx);

/* CMD_RECORD_IPC or CMD_WAIT_IPC. Lock held. */
struct sim_cmd *sim_ipc_cmd(enum sim_cmd_kind kind, struct sim_ipc *ipc, uint64_t ticket);

#pragma GCC visibility pop
#endif
