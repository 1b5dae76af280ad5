/*
 * sim_graph.h - graphs and the captures that make them.
 */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "sim_internal.h"
#include "sim_user_object.h"

#pragma GCC visibility push(hidden)

#define SIM_MAGIC_GRAPH 0x68707267u
#define SIM_MAGIC_EXEC 0x63657865u

struct sim_node {
	struct sim_cmd *cmd; /* NULL: empty node */
	struct sim_node **deps;
	int dep_count;
	unsigned mark;         /* of the newest walk that came by */
	struct sim_node *next; /* in order of creation, which is a topological order */
};

struct sim_graph {
	uint32_t magic;
	struct sim_node *first, **tail;
	int count;
	struct sim_objects objects;
};

struct sim_capture {
	int refs; /* one for the live list, one a stream, one an event */
	bool invalidated;
	bool to_graph; /* the graph is the program's (cuStreamBeginCaptureToGraph) */
	CUstreamCaptureMode mode;
	uint64_t thread; /* that began it */
	cuuint64_t id;
	struct sim_stream *origin;
	struct sim_graph *graph; /* NULL once the capture has ended */
	struct sim_capture *next;
};

/* Lock held for all. */
struct sim_graph *sim_graph_new(void);
void sim_graph_free(struct sim_graph *g);
/* NULL: out of memory. Takes over the reference to cmd when it succeeds. */
struct sim_node *sim_graph_add(struct sim_graph *g, struct sim_cmd *cmd, struct sim_node *const *deps,
							   int count);

#pragma GCC visibility pop
#endif
