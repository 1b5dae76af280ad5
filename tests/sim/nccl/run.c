/*
 * run.c - what the kernels do: meet the other ranks, and move the data of collectives.
 *
 * A kernel says what it is (struct desc) and waits until all ranks' have started; if they are unlike, it
 * never ends, as on a GPU. Then data goes through the shared memory in rounds: every rank puts a piece of what
 * it has into its room, all meet, and take what they need from the others' rooms. A rank has room for two
 * rounds, so that one meeting a round is enough.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

#define ALIGN 16u

bool run_must_end(struct run *r)
{
	return comm_has_stopped(r->c) || r->lost(r->ctx) || r->result != CUDA_SUCCESS;
}

void run_hang(struct run *r)
{
	uint32_t *bell = &r->c->shared->rank[r->c->rank].bell;
	for (;;) {
		uint32_t seen = bell_look(bell);
		if (run_must_end(r))
			return;
		bell_wait(bell, seen, LOOK_NS);
	}
}

static void run_sleep(struct run *r, uint64_t us)
{
	for (uint64_t end = now_ns() + us * 1000; !run_must_end(r);) {
		uint64_t now = now_ns();
		if (now >= end)
			return;
		sleep_us(end - now > 20000000 ? 20000 : (end - now) / 1000 + 1);
	}
}

static void bad_memory(struct run *r, const void *at)
{
	if (r->result == CUDA_SUCCESS)
		complain("rank %d: a kernel touches %p, which is no memory of a device", r->c->rank, at);
	r->result = CUDA_ERROR_ILLEGAL_ADDRESS;
}

void run_load(struct run *r, void *to, const void *from, size_t n)
{
	if (n && !dr.load(to, (uint64_t)(uintptr_t)from, n))
		bad_memory(r, from);
}

void run_store(struct run *r, void *to, const void *from, size_t n)
{
	if (n && !dr.store((uint64_t)(uintptr_t)to, from, n))
		bad_memory(r, to);
}

/* ---- meeting ---- */

enum meet { MEET_STARTED, MEET_ARRIVED };

static uint64_t *counter_of(struct shared *s, int rank, enum meet what)
{
	return what == MEET_STARTED ? &s->rank[rank].started : &s->rank[rank].arrived;
}

/* The first rank that is not there; -1: all are. */
static int missing(struct comm *c, enum meet what, uint64_t number)
{
	for (int i = 0; i < c->ranks; i++)
		if (__atomic_load_n(counter_of(c->shared, i, what), __ATOMIC_SEQ_CST) < number)
			return i;
	return -1;
}

/* As a network transport finds out. Within a host nobody does. */
static bool peer_is_dead(struct run *r, int rank)
{
	struct comm *c = r->c;
	uint32_t pid = __atomic_load_n(&c->shared->rank[rank].pid, __ATOMIC_ACQUIRE);
	if (!fault(c, FAULT_PEER_ERROR) || !process_dead(pid))
		return false;
	comm_fail(c, ncclRemoteError, "rank %d's process has ended", rank);
	return true;
}

/* False: the kernel must end. */
static bool meet(struct run *r, enum meet what, uint64_t number)
{
	struct shared *s = r->c->shared;
	__atomic_store_n(counter_of(s, r->c->rank, what), number, __ATOMIC_SEQ_CST);
	int late = missing(r->c, what, number);
	if (late < 0)
		bell_ring(&s->bell);
	while (late >= 0) {
		uint32_t seen = bell_look(&s->bell);
		if (run_must_end(r))
			return false;
		late = missing(r->c, what, number);
		if (late < 0)
			break;
		if (peer_is_dead(r, late))
			run_hang(r);
		bell_wait(&s->bell, seen, LOOK_NS);
	}
	return !run_must_end(r);
}

/* ---- are all ranks' launches alike? ---- */

static int text_of(char *out, size_t room, const struct desc *d)
{
	int n = snprintf(out, room, "%s", d->ops > 1 ? "{" : "");
	for (uint32_t i = 0; i < d->known && i < 3 && n < (int)room; i++) {
		const struct desc_op *op = &d->op[i];
		n += snprintf(out + n, room - (size_t)n, "%s%s(count %llu, type %u, op %u, root %d)", i ? ", " : "",
					  func_name[op->func % F_COUNT], (unsigned long long)op->count, op->type, op->op,
					  op->root);
	}
	if (n < (int)room && d->ops > 1)
		n += snprintf(out + n, room - (size_t)n, "%s} (%u in a group)", d->ops > 3 ? ", …" : "", d->ops);
	return n;
}

static bool only_size_differs(const struct desc *a, const struct desc *b)
{
	return a->ops == 1 && b->ops == 1 && a->op[0].func == F_ALLGATHER && b->op[0].func == F_ALLGATHER &&
		   a->op[0].type == b->op[0].type;
}

static bool all_alike(struct run *r, uint64_t number)
{
	const struct comm *c = r->c;
	const struct desc *mine = &r->l->desc;
	for (int i = 0; i < c->ranks; i++) {
		const struct desc *d = &c->shared->rank[i].desc[number & 1];
		if (d->hash == mine->hash && d->ops == mine->ops)
			continue;
		char here[224], there[224];
		text_of(here, sizeof here, mine);
		text_of(there, sizeof there, d);
		complain("communicator %d, launch %llu: rank %d has %s, rank %d has %s", c->number,
				 (unsigned long long)number, c->rank, here, i, there);
		if (fault(c, FAULT_SIZE_ERROR) && only_size_differs(d, mine))
			comm_fail(r->c, ncclRemoteError, "rank %d: message of unexpected size", i);
		return false;
	}
	return true;
}

/* ---- pieces of collectives ---- */

struct piece {
	const struct op *op;
	size_t off, n; /* elements */
	size_t at;     /* in the room */
};
#define PIECES 64

/* A rank's contribution has so many blocks of count elements. */
static size_t blocks(const struct op *op)
{
	bool many = op->func == F_REDUCESCATTER || op->func == F_ALLTOALL || op->func == F_SCATTER;
	return many ? (size_t)op->comm->ranks : 1;
}

static bool contributes(const struct op *op)
{
	return (op->func != F_BROADCAST && op->func != F_SCATTER) || op->root == op->comm->rank;
}

static void scale(struct run *r, const struct op *op, void *data, size_t n)
{
	struct premul premul = op->premul;
	if (op->op != ncclNumOps)
		return;
	if (premul.device)
		run_load(r, premul.scalar, (const void *)(uintptr_t)premul.address, type_size(op->type));
	reduce_scale(op->type, data, n, premul.scalar);
}

static void put(struct run *r, const struct piece *p, unsigned half)
{
	size_t size = type_size(p->op->type), bytes = p->n * size;
	unsigned char *room = shared_room(r->c->shared, r->c->rank, half) + p->at;
	if (!contributes(p->op))
		return;
	for (size_t b = 0; b < blocks(p->op); b++) {
		const char *from = (const char *)p->op->send + (b * p->op->count + p->off) * size;
		run_load(r, room + b * bytes, from, bytes);
		scale(r, p->op, room + b * bytes, p->n);
	}
}

static const unsigned char *block_of(struct run *r, const struct piece *p, unsigned half, int rank, int block)
{
	return shared_room(r->c->shared, rank, half) + p->at + (size_t)block * p->n * type_size(p->op->type);
}

static void store_at(struct run *r, const struct piece *p, int block, const void *from)
{
	size_t size = type_size(p->op->type);
	run_store(r, (char *)p->op->recv + ((size_t)block * p->op->count + p->off) * size, from, p->n * size);
}

/* All ranks in the same order: the same bits everywhere. */
static void take_reduced(struct run *r, const struct piece *p, unsigned half, int block)
{
	const struct op *op = p->op;
	memcpy(r->temp, block_of(r, p, half, 0, block), p->n * type_size(op->type));
	for (int i = 1; i < r->c->ranks; i++)
		reduce(op->op, op->type, r->temp, block_of(r, p, half, i, block), p->n);
	if (op->op == ncclAvg)
		reduce_average(op->type, r->temp, p->n, r->c->ranks);
	store_at(r, p, 0, r->temp);
}

static void take(struct run *r, const struct piece *p, unsigned half)
{
	int me = r->c->rank, root = p->op->root;
	switch (p->op->func) {
	case F_ALLREDUCE: take_reduced(r, p, half, 0); break;
	case F_REDUCESCATTER: take_reduced(r, p, half, me); break;
	case F_REDUCE:
		if (me == root)
			take_reduced(r, p, half, 0);
		break;
	case F_BROADCAST: store_at(r, p, 0, block_of(r, p, half, root, 0)); break;
	case F_SCATTER: store_at(r, p, 0, block_of(r, p, half, root, me)); break;
	case F_GATHER:
	case F_ALLGATHER:
		for (int i = 0; i < r->c->ranks && (p->op->func == F_ALLGATHER || me == root); i++)
			store_at(r, p, i, block_of(r, p, half, i, 0));
		break;
	case F_ALLTOALL:
		for (int i = 0; i < r->c->ranks; i++)
			store_at(r, p, i, block_of(r, p, half, i, me));
		break;
	default: break;
	}
}

static bool round_trip(struct run *r, const struct piece *pieces, int count)
{
	unsigned half = r->c->round & 1;
	for (int i = 0; i < count; i++)
		put(r, &pieces[i], half);
	if (!meet(r, MEET_ARRIVED, ++r->c->round))
		return false;
	for (int i = 0; i < count; i++)
		take(r, &pieces[i], half);
	return !run_must_end(r);
}

/* Cuts the operations into rounds; all ranks cut alike. */
/* What the profiler plugin knows of the kernel; NULL: nothing. */
static void **events_new(const struct run *r)
{
	return r->c->profiled ? calloc((size_t)r->l->count, sizeof(void *)) : NULL;
}

static bool move_all(struct run *r, uint64_t number)
{
	struct piece pieces[PIECES];
	int count = 0;
	size_t used = 0;
	for (int i = 0; i < r->l->count; i++) {
		const struct op *op = &r->l->op[i];
		size_t size = type_size(op->type) * blocks(op);
		for (size_t off = 0; off < op->count;) {
			size_t n = (CHUNK - used) / size;
			if (!n || count == PIECES) {
				if (!round_trip(r, pieces, count))
					return false;
				if (fault(r->c, FAULT_HALF) == number)
					run_hang(r);
				count = 0;
				used = 0;
				continue;
			}
			n = n < op->count - off ? n : op->count - off;
			pieces[count++] = (struct piece){op, off, n, used};
			used = (used + n * size + ALIGN - 1) / ALIGN * ALIGN;
			used = used < CHUNK ? used : CHUNK;
			off += n;
		}
	}
	return !count || round_trip(r, pieces, count);
}

void run_collectives(struct run *r)
{
	struct comm *c = r->c;
	struct rank_shared *me = &c->shared->rank[c->rank];
	uint64_t number = c->started + 1;
	if (fault(c, FAULT_DIE) == number)
		kill(getpid(), SIGKILL);
	if (fault(c, FAULT_NO_START) == number)
		run_hang(r);
	if (run_must_end(r))
		return;
	void **events = events_new(r);
	if (events)
		profiler_kernel_start(c, r->l, events);
	c->started = number;
	me->desc[number & 1] = r->l->desc;
	bool met = meet(r, MEET_STARTED, number);
	bool alike = !met || all_alike(r, number);
	if (met && ((!alike && !fault(c, FAULT_MIXED)) || fault(c, FAULT_STUCK) == number))
		run_hang(r);
	if (met)
		run_sleep(r, fault(c, FAULT_TIME_US));
	if (!run_must_end(r) && (!alike || move_all(r, number))) {
		if (events)
			profiler_kernel_end(c, r->l, events);
		__atomic_store_n(&me->completed, number, __ATOMIC_SEQ_CST);
	}
	free(events);
}

static void run_told_p2p(struct run *r)
{
	void **events = events_new(r);
	if (events)
		profiler_kernel_start(r->c, r->l, events);
	run_p2p(r);
	if (events && !run_must_end(r))
		profiler_kernel_end(r->c, r->l, events);
	free(events);
}

int run_launch(void *launch, int (*lost)(const void *), const void *ctx)
{
	struct launch *l = launch;
	struct run r = {.c = l->comm, .l = l, .lost = lost, .ctx = ctx, .temp = malloc(CHUNK)};
	bool p2p = l->op[0].func == F_SEND || l->op[0].func == F_RECV;
	if (!r.temp)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&r.c->run);
	run_sleep(&r, fault(r.c, FAULT_LATE_US) + draw(fault(r.c, FAULT_DELAY_US)));
	if (run_must_end(&r))
		;
	else if (p2p)
		run_told_p2p(&r);
	else
		run_collectives(&r);
	pthread_mutex_unlock(&r.c->run);
	free(r.temp);
	if (!l->persistent)
		free(l);
	return (int)r.result;
}
