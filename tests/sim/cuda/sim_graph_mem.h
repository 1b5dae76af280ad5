/*
 * sim_graph_mem.h - memory that belongs to graphs. sim.lock held for all.
 */
#ifndef SIM_GRAPH_MEM_H
#define SIM_GRAPH_MEM_H

#include "sim_internal.h"

#pragma GCC visibility push(hidden)

/* An allocation or free node in the capture of s. */
CUresult sim_graph_mem_alloc(struct sim_device *dev, size_t size, struct sim_stream *s, uintptr_t *out);
/* Also outside a capture, of memory of a graph. */
CUresult sim_graph_mem_free(struct sim_range *r, struct sim_stream *s);
/* The node, all graphs with it and all their launches are gone. */
void sim_graph_mem_end(uintptr_t base);
/* A command that keeps the allocation nodes among `cmds` alive until it has run; NULL: there
 * are none. */
struct sim_cmd *sim_graph_mem_keep(struct sim_cmd *const *cmds, int count);

#pragma GCC visibility pop
#endif
