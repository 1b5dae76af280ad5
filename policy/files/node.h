/*
 * node.h - one process of the machine reads a directory for all.
 *
 * Who has bound its name among the abstract sockets. It is nowhere in the file system; its descriptor is in a table that no fork
 * inherits (fds.h), and goes with the threads that use it, however they end.
 */
#ifndef TURBO_FILES_NODE_H
#define TURBO_FILES_NODE_H

#include <stdint.h>

#define NODE_TAKEN (-1) /* by another process, or another job of this one */
#define NODE_ALONE (-2) /* it cannot be told: each reads for itself */

/* For `what`, a hash: one of these, or what node_leave() wants. */
int node_take(uint64_t what);
void node_leave(int held);

#endif
