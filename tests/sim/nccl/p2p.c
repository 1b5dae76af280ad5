/*
 * p2p.c - sends and receives of a group, which progress together.
 *
 * The nth send of one rank to another meets the nth receive there; until then, and when sizes differ for
 * good, it blocks. Each pair has room for two pieces. To one peer and from one peer things go in order.
 */
#include <stdlib.h>

#include "internal.h"

enum phase { POST, MATCH, MOVE, STUCK, DONE };

struct transfer {
	const struct op *op;
	enum phase phase;
	uint64_t number;
	size_t bytes, moved;
};

static bool is_send(const struct transfer *t)
{
	return t->op->func == F_SEND;
}

static struct pair *pair_of(const struct run *r, const struct transfer *t)
{
	int me = r->c->rank, peer = t->op->root;
	return is_send(t) ? shared_pair(r->c->shared, me, peer) : shared_pair(r->c->shared, peer, me);
}

static void post(struct run *r, struct transfer *t, struct pair *pair)
{
	bool send = is_send(t);
	uint64_t number = send ? ++r->c->sends[t->op->root] : ++r->c->recvs[t->op->root];
	struct p2p_op *slot = send ? &pair->send[number & 1] : &pair->recv[number & 1];
	t->number = number;
	*slot = (struct p2p_op){t->bytes, t->op->type};
	__atomic_store_n(send ? &pair->sends : &pair->recvs, number, __ATOMIC_SEQ_CST);
	t->phase = MATCH;
}

static bool match(struct run *r, struct transfer *t, struct pair *pair)
{
	bool send = is_send(t);
	if (__atomic_load_n(send ? &pair->recvs : &pair->sends, __ATOMIC_SEQ_CST) < t->number)
		return false;
	const struct p2p_op *other = send ? &pair->recv[t->number & 1] : &pair->send[t->number & 1];
	t->phase = other->bytes == t->bytes ? MOVE : STUCK;
	if (t->phase == STUCK)
		complain("communicator %d: rank %d %s %zu bytes %s rank %d, which has %llu", r->c->number, r->c->rank,
				 send ? "sends" : "receives", t->bytes, send ? "to" : "from", t->op->root,
				 (unsigned long long)other->bytes);
	else if (!t->bytes)
		t->phase = DONE;
	return true;
}

static bool move(struct run *r, struct transfer *t, struct pair *pair)
{
	bool send = is_send(t);
	int from = send ? r->c->rank : t->op->root, to = send ? t->op->root : r->c->rank;
	uint64_t filled = __atomic_load_n(&pair->filled, __ATOMIC_SEQ_CST);
	uint64_t emptied = __atomic_load_n(&pair->emptied, __ATOMIC_SEQ_CST);
	if (send ? filled - emptied == 2 : filled == emptied)
		return false;
	size_t n = t->bytes - t->moved < P2P_CHUNK ? t->bytes - t->moved : P2P_CHUNK;
	if (send) {
		unsigned char *room = shared_pair_room(r->c->shared, from, to, filled & 1);
		run_load(r, room, (const char *)t->op->send + t->moved, n);
		__atomic_store_n(&pair->filled, filled + 1, __ATOMIC_SEQ_CST);
	} else {
		unsigned char *room = shared_pair_room(r->c->shared, from, to, emptied & 1);
		run_store(r, (char *)t->op->recv + t->moved, room, n);
		__atomic_store_n(&pair->emptied, emptied + 1, __ATOMIC_SEQ_CST);
	}
	t->moved += n;
	if (t->moved == t->bytes)
		t->phase = DONE;
	return true;
}

/* True when something happened, which is then told to the peer. */
static bool step(struct run *r, struct transfer *t)
{
	struct pair *pair = pair_of(r, t);
	bool moved = true;
	switch (t->phase) {
	case POST: post(r, t, pair); break;
	case MATCH: moved = match(r, t, pair); break;
	case MOVE: moved = move(r, t, pair); break;
	default: return false;
	}
	if (moved && t->op->root != r->c->rank)
		bell_ring(&r->c->shared->rank[t->op->root].bell);
	return moved;
}

/* Steps the first of each peer and direction. */
static bool step_all(struct run *r, struct transfer *all, int count, bool *left)
{
	bool busy[2][MAX_RANKS] = {{false}}, moved = false;
	*left = false;
	for (int i = 0; i < count; i++) {
		bool *taken = &busy[is_send(&all[i])][all[i].op->root];
		if (all[i].phase == DONE)
			continue;
		*left = true;
		if (!*taken)
			moved = step(r, &all[i]) || moved;
		*taken = true;
	}
	return moved;
}

void run_p2p(struct run *r)
{
	int count = r->l->count;
	struct transfer *all = calloc((size_t)count, sizeof(*all));
	uint32_t *bell = &r->c->shared->rank[r->c->rank].bell;
	bool left = true;
	if (!all)
		abort();
	for (int i = 0; i < count; i++) {
		const struct op *op = &r->l->op[i];
		all[i] = (struct transfer){.op = op, .bytes = op->count * type_size(op->type)};
	}
	while (left && !run_must_end(r)) {
		uint32_t seen = bell_look(bell);
		if (!step_all(r, all, count, &left) && left)
			bell_wait(bell, seen, LOOK_NS);
	}
	free(all);
}
