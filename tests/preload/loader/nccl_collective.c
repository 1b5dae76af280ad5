/*
 * nccl_collective.c - what a libnccl.so.2 in name only makes of collectives: nothing, after some time.
 */
#include <stddef.h>
#include <unistd.h>

#define RANK 3
#define RANKS 8

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream)
{
	(void)from, (void)to, (void)count, (void)type, (void)op, (void)comm, (void)stream;
	usleep(3000);
	return 0;
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, void *comm, void *stream)
{
	(void)from, (void)to, (void)count, (void)type, (void)root, (void)comm, (void)stream;
	return 0;
}

/* As NCCL does it, through its own exported symbol. */
int ncclBcast(void *buffer, size_t count, int type, int root, void *comm, void *stream)
{
	return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

int ncclSend(const void *buffer, size_t count, int type, int peer, void *comm, void *stream)
{
	(void)buffer, (void)count, (void)type, (void)peer, (void)comm, (void)stream;
	return 4;
}

int ncclCommUserRank(void *comm, int *rank)
{
	(void)comm;
	*rank = RANK;
	return 0;
}

int ncclCommCount(void *comm, int *ranks)
{
	(void)comm;
	*ranks = RANKS;
	return 0;
}
