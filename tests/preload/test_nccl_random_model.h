/*
 * test_nccl_random_model.h - how a program ends: it is carried on until nothing moves any more.
 *
 * Where that is does not depend on how long anything takes.
 */
#ifndef TEST_NCCL_RANDOM_MODEL_H
#define TEST_NCCL_RANDOM_MODEL_H

#include "test_nccl_random.h"

#define MODEL_KERNELS 2048 /* of a rank */
#define MODEL_MOVES 1024   /* sends and receives of a rank */
#define MODEL_CALLS 4096   /* of a rank in a communicator */

struct kernel {
	int comm, stream; /* comm -1: nobody else's business */
	int from, to;     /* steps whose calls on `comm` it does */
	bool pairwise, graph, started, done;
	int number; /* among the communicator's that have started */
};

struct move {
	int kernel, step, number;
	bool posted, done;
};

struct model_rank {
	const struct script *script;
	int at, group, capture, captured; /* steps */
	int kernels, moves;
	struct kernel kernel[MODEL_KERNELS];
	struct move move[MODEL_MOVES];
	int started[PROGRAM_COMMS], met[PROGRAM_COMMS];
	int posted[PROGRAM_COMMS][2][PROGRAM_RANKS];
	bool meets; /* it is in a call that was noted */
	int calls[PROGRAM_COMMS];
	uint64_t call[PROGRAM_COMMS][MODEL_CALLS];
};

struct model {
	const struct program *p;
	struct model_rank rank[PROGRAM_RANKS];
	bool moved;
};
extern struct model model;

void model_run(const struct program *p);
bool model_all_met(const struct model_rank *r, int comm);
/* All kernels of a stream (-1: any) and communicator (-1: any) are done. */
bool model_is_idle(const struct model_rank *r, int stream, int comm);
/* The kernel that started as the communicator's so-many-th; NULL: none has. */
struct kernel *model_started_as(int rank, int comm, int number);
/* The other side of a send or receive that was posted; NULL: there is none yet. */
struct move *model_other_side(int rank, const struct move *v);
uint64_t model_bytes(const struct step *s);

static inline bool model_pairwise(const struct step *s)
{
	return s->func >= F_COLLECTIVES;
}

#endif
