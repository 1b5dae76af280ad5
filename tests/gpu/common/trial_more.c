/*
 * trial_more.c - the rarer parts of programs: ranks that wait for each other outside NCCL, graphs, what is watched, buffers
 * that come and go, communicators.
 */
#include <stdlib.h>

#include "rank_data.h"
#include "trial_make.h"

#define WATCHED_BYTES (TRIAL_UNIT / TRIAL_RANKS) /* a rank's share at most */

static int two_ranks(struct make *m, const struct trial_comm *c, int *other)
{
	int a = (int)make_below(m, (unsigned)c->n);
	int b = (a + 1 + (int)make_below(m, (unsigned)c->n - 1)) % c->n;

	*other = c->rank[b];
	return c->rank[a];
}

static struct trial_step gather(struct make *m, int comm)
{
	return make_call(m, comm, DATA_ALLGATHER, 1 + make_below(m, 400));
}

static void set_flag(struct make *m, int r, int flag, int stream)
{
	struct trial_step s = {.what = make_chance(m, 50) ? TRIAL_SET_HOST : TRIAL_SET_KERNEL,
						   .stream = (int8_t)stream};

	s.value = (uint32_t)flag;
	make_emit(m, r, s);
	make_issue(m, r, stream);
}

/*
 * One rank's second gather is behind a kernel that waits for what another rank does after the first one. Whoever makes the
 * first wait for what the second waits for, has a circle.
 */
void make_dependency(struct make *m)
{
	int comm, other, flag = m->t->flags, setter, stream = make_chance(m, 80) ? 0 : 1;
	struct trial_step await = {.what = TRIAL_AWAIT, .value = (uint32_t)flag};

	if (m->t->flags == TRIAL_FLAGS || m->t->n < 2)
		return;
	comm = make_comm(m, 2);
	m->t->flags++;
	make_call_all(m, gather(m, comm), stream);
	setter = two_ranks(m, &m->t->comm[comm], &other);
	await.stream = 2 + (int8_t)make_below(m, 2);
	if (make_chance(m, 50)) { /* on a stream that waits for the gather */
		int event = make_record(m, setter, stream);
		make_wait(m, setter, 2, event);
		set_flag(m, setter, flag, 2);
	} else if (make_chance(m, 50)) { /* on its own stream */
		set_flag(m, setter, flag, stream);
	} else { /* by the host */
		make_host_waits(m, setter, stream);
		make_emit(m, setter, (struct trial_step){.what = TRIAL_SET, .value = (uint32_t)flag});
	}
	m->t->places++;
	if (make_chance(m, 30))
		make_call_all(m, gather(m, comm), stream);
	make_emit(m, other, await);
	make_issue(m, other, await.stream);
	make_wait(m, other, stream, make_record(m, other, await.stream));
	make_call_all(m, gather(m, comm), stream);
}

/* A host that waits for another rank's host, which waits for a gather; it makes no call meanwhile. */
void make_silent(struct make *m)
{
	int comm, other, flag = m->t->flags, setter;

	if (m->t->flags == TRIAL_FLAGS || m->t->n < 2)
		return;
	comm = make_comm(m, 2);
	m->t->flags++;
	for (unsigned k = 1 + make_below(m, 3); k; k--)
		make_call_all(m, gather(m, comm), 0);
	setter = two_ranks(m, &m->t->comm[comm], &other);
	make_host_waits(m, setter, 0);
	make_emit(m, setter, (struct trial_step){.what = TRIAL_SET, .value = (uint32_t)flag});
	m->t->places++;
	make_emit(m, other, (struct trial_step){.what = TRIAL_HEED, .value = (uint32_t)flag});
}

/* ---- graphs ---- */

static void all_of(struct make *m, int comm, struct trial_step s)
{
	for (int i = 0; i < m->t->comm[comm].n; i++)
		make_emit(m, m->t->comm[comm].rank[i], s);
}

void make_graph(struct make *m)
{
	int comm = make_comm_to_spoil(m), stream = (int)make_below(m, 4), g = (int)make_below(m, TRIAL_GRAPHS);
	struct trial_step s = {.what = TRIAL_CAPTURE, .stream = (int8_t)stream, .event = (int8_t)g};
	const struct trial_comm *c;

	if (comm < 0) {
		make_split(m);
		return;
	}
	c = &m->t->comm[comm];
	s.value = make_chance(m, 60) ? 1 : make_chance(m, 50) ? 2 : 0; /* thread local, relaxed, global */
	all_of(m, comm, s);
	for (int i = 0; i < c->n; i++) {
		m->r[c->rank[i]].graph[g].n = 0;
		m->r[c->rank[i]].capturing = g + 1;
	}
	for (unsigned k = 1 + make_below(m, 4); k; k--) {
		unsigned func = make_chance(m, 70) ? DATA_ALLGATHER : DATA_ALLREDUCE;
		for (int i = 0; i < c->n; i++)
			if (make_chance(m, 40))
				make_kernel(m, c->rank[i], stream);
		make_call_all(m, make_call(m, comm, func, 1 + make_below(m, 400)), stream);
	}
	s.what = TRIAL_CAPTURED;
	all_of(m, comm, s);
	for (int i = 0; i < c->n; i++)
		m->r[c->rank[i]].capturing = 0;
	for (unsigned k = 1 + make_below(m, 3); k; k--) {
		int on = (int)make_below(m, 4);
		for (int i = 0; i < c->n; i++) {
			make_needs_comm(m, c->rank[i], on, comm, true);
			make_replay(m, c->rank[i], on, g);
			make_uses_comm(m, c->rank[i], on, comm, true);
		}
		m->t->places++;
		make_idle(m);
		if (make_chance(m, 50))
			make_call_all(m, gather(m, comm), 0);
	}
	s.what = TRIAL_DROP;
	for (int i = 0; i < c->n; i++)
		make_host_waits(m, c->rank[i], m->r[c->rank[i]].use[TRIAL_UNITS + comm].writer);
	for (int i = 0; i < c->n; i++) {
		make_emit(m, c->rank[i], (struct trial_step){.what = TRIAL_CTX_SYNC});
		make_host_knows(m, c->rank[i], -1);
	}
	all_of(m, comm, s);
}

/* ---- what another thread looks at (trial_watch.c) ---- */

/* A gather of what is always the same, into pinned memory that was cleared; when the event says that it is over, it is there. */
static void watched_once(struct make *m, int comm, int stream)
{
	const struct trial_comm *c = &m->t->comm[comm];
	struct trial_step s = {
		.what = TRIAL_CALL, .func = DATA_ALLGATHER, .type = ncclUint8, .comm = (int8_t)comm};

	s.stream = (int8_t)stream;
	s.bytes = s.count = 8 * (1 + make_below(m, WATCHED_BYTES / 8));
	s.from = (TRIAL_ARENA_UNITS - 1) * TRIAL_UNIT;
	for (int i = 0; i < c->n; i++) {
		int r = c->rank[i];
		unsigned w = make_below(m, TRIAL_UNITS - TRIAL_FIRST_WATCHED);
		struct trial_step put = {.what = TRIAL_UNWATCH, .value = w};
		s.to = put.to = (TRIAL_FIRST_WATCHED + w) * TRIAL_UNIT;
		make_emit(m, r, put);
		make_host_needs(m, r, s.to, TRIAL_UNIT, true);
		put.what = TRIAL_PUT;
		put.bytes = TRIAL_UNIT;
		make_emit(m, r, put);
		make_needs_comm(m, r, stream, comm, false);
		make_emit(m, r, s);
		make_issue(m, r, stream);
		make_uses_comm(m, r, stream, comm, false);
		make_uses(m, r, stream, s.to, s.bytes * (uint32_t)c->n, true);
		make_record(m, r, stream);
		struct trial_step *record = &m->t->rank[r].step[m->t->rank[r].n - 1];
		record->value = w + 1;
		record->comm = (int8_t)comm;
		record->bytes = s.bytes;
	}
	m->t->places++;
}

void make_watched(struct make *m)
{
	int comm = make_comm(m, 1), stream = make_chance(m, 80) ? 0 : (int)make_below(m, TRIAL_STREAMS);

	for (unsigned k = 1 + make_below(m, 6); k; k--)
		watched_once(m, comm, stream);
}

/* ---- buffers ---- */

static void free_buffer(struct make *m, int r, int b)
{
	struct trial_step s = {.what = TRIAL_FREE, .event = (int8_t)b};
	uint32_t at = (uint32_t)(TRIAL_FIRST_BUFFER + b * TRIAL_BUFFER_UNITS) * TRIAL_UNIT;

	/* cuMemFree waits for all that uses it. */
	if (make_chance(m, 50))
		make_host_needs(m, r, at, TRIAL_BUFFER_UNITS * TRIAL_UNIT, true);
	make_emit(m, r, s);
	m->r[r].live[b] = false;
	for (int u = 0; u < TRIAL_BUFFER_UNITS; u++)
		m->r[r].use[TRIAL_FIRST_BUFFER + b * TRIAL_BUFFER_UNITS + u] = (struct make_use){0};
}

void make_buffer(struct make *m)
{
	for (int r = 0; r < m->t->n; r++) {
		int b = (int)make_below(m, TRIAL_BUFFERS), stream = (int)make_below(m, TRIAL_STREAMS);
		struct trial_step s = {.what = TRIAL_ALLOC, .event = (int8_t)b, .stream = (int8_t)stream};
		if (make_chance(m, 30))
			continue;
		if (m->r[r].live[b]) {
			free_buffer(m, r, b);
			continue;
		}
		make_emit(m, r, s);
		m->r[r].live[b] = true;
		s.what = TRIAL_FILL;
		s.to = (uint32_t)(TRIAL_FIRST_BUFFER + b * TRIAL_BUFFER_UNITS) * TRIAL_UNIT;
		s.bytes = TRIAL_BUFFER_UNITS * TRIAL_UNIT;
		s.value = make_below(m, 1u << 31);
		make_emit(m, r, s);
		make_issue(m, r, stream);
		make_uses(m, r, stream, s.to, s.bytes, true);
	}
	make_call_all(m, gather(m, make_comm(m, 1)), 0);
}

/* ---- communicators ---- */

void make_split(struct make *m)
{
	struct trial *t = m->t;
	int parent = make_comm(m, 1), first = t->comms, colors = 1 + (int)make_below(m, 2);
	const struct trial_comm *c = &t->comm[parent];
	bool backwards = make_chance(m, 30), nonblocking = make_chance(m, 20);

	if (first + colors > TRIAL_COMMS)
		return;
	for (int k = 0; k < colors; k++)
		t->comm[t->comms++] = (struct trial_comm){.nonblocking = nonblocking};
	for (int at = 0; at < c->n; at++) {
		int i = backwards ? c->n - 1 - at : at, color = i % colors - (i > 1 && make_chance(m, 10) ? 9 : 0);
		struct trial_step s = {
			.what = TRIAL_SPLIT, .comm = (int8_t)parent, .to = (uint32_t)at, .value = nonblocking};
		s.peer = (int8_t)(color < 0 ? -1 : first + color);
		s.from = (uint32_t)(color < 0 ? -1 : color);
		if (color >= 0) {
			struct trial_comm *child = &t->comm[first + color];
			child->rank[child->n++] = c->rank[i];
		}
		make_emit(m, c->rank[i], s);
	}
	t->places++;
	for (int k = first; k < t->comms; k++)
		t->comm[k].gone = t->comm[k].n == 0;
	for (int k = first; k < t->comms; k++) /* what is lazily connected, is */
		if (!t->comm[k].gone && make_chance(m, 80))
			make_call_all(m, gather(m, k), 0);
}

void make_init(struct make *m)
{
	struct trial *t = m->t;
	int comm = t->comms, first = (int)make_below(m, (unsigned)t->n);
	struct trial_comm *c = &t->comm[comm];
	struct trial_step s = {.what = TRIAL_INIT, .comm = (int8_t)comm};

	if (comm == TRIAL_COMMS) {
		if (t->comms > 1 && !t->comm[1].gone)
			make_destroy(m, 1);
		return;
	}
	t->comms++;
	for (int i = 0; i < t->n; i++)
		if (i < 2 || make_chance(m, 70))
			c->rank[c->n++] = (int8_t)((first + i) % t->n);
	c->nonblocking = make_chance(m, 20);
	s.value = c->nonblocking;
	for (int i = 0; i < c->n; i++) {
		s.peer = (int8_t)i;
		make_emit(m, c->rank[i], s);
	}
	t->places++;
	for (unsigned k = make_below(m, 3); k; k--)
		make_call_all(m, gather(m, comm), 0);
}

void make_destroy(struct make *m, int comm)
{
	struct trial_comm *c = &m->t->comm[comm];

	for (int i = 0; i < c->n; i++) {
		int r = c->rank[i];
		if (make_chance(m, 50)) {
			make_emit(m, r, (struct trial_step){.what = TRIAL_CTX_SYNC});
			make_host_knows(m, r, -1);
		}
		make_emit(m, r, (struct trial_step){.what = TRIAL_DESTROY, .comm = (int8_t)comm});
	}
	m->t->places++;
	c->gone = true;
}
