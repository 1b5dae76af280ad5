/* report_facts.c - see report_facts.h: what is so. The words are in report_words.c. */
#include "report_facts.h"

#include <string.h>

static uint64_t load(const _Atomic uint64_t *p)
{
	return atomic_load_explicit(p, memory_order_relaxed);
}

const struct judge_member *report_member(const struct judge_world *w, int64_t member)
{
	if (member < 0 || member >= w->members || w->member[member].process >= w->processes)
		return NULL;
	return &w->member[member];
}

const struct judge_process *report_process(const struct judge_world *w, const struct judge_member *m)
{
	return &w->process[m->process];
}

bool report_same_comm(const struct judge_member *a, const uint64_t key[2])
{
	return a->key[0] == key[0] && a->key[1] == key[1];
}

uint64_t report_ago(const struct judge_world *w, uint64_t since)
{
	return w->now > since ? w->now - since : 0;
}

/* ---- operations ---- */

const struct flight_op *report_op(const struct judge_member *m, uint64_t index)
{
	const struct flight_op *op = m->op && index ? &m->op[index % FLIGHT_OPS] : NULL;

	return op && op->index == index && op->function != FLIGHT_NONE ? op : NULL;
}

enum report_stage report_stage(const struct judge_member *m, const struct flight_op *op)
{
	if (op->flags & FLIGHT_FAILED)
		return STAGE_FAILED;
	if (op->flags & FLIGHT_CAPTURED)
		return STAGE_CAPTURED;
	if (op->index <= m->done || load(&op->done))
		return STAGE_DONE;
	if (op->index <= m->started || load(&op->started))
		return STAGE_STARTED;
	return op->flags & FLIGHT_BLIND ? STAGE_BLIND : STAGE_CALLED;
}

const char *report_stage_name(enum report_stage stage)
{
	static const char *const name[] = {
		[STAGE_CAPTURED] = "captured", [STAGE_FAILED] = "failed",   [STAGE_BLIND] = "unknown",
		[STAGE_CALLED] = "called",     [STAGE_STARTED] = "started", [STAGE_DONE] = "done"};

	return name[stage];
}

const struct flight_op *report_op_open(const struct judge_member *m)
{
	uint64_t from = m->issued > FLIGHT_OPS ? m->issued - FLIGHT_OPS + 1 : 1;
	const struct flight_op *blind = NULL;

	from = from > m->done ? from : m->done + 1;
	for (uint64_t i = from; i <= m->issued && i >= from; i++) {
		const struct flight_op *op = report_op(m, i);
		enum report_stage stage = op ? report_stage(m, op) : STAGE_DONE;
		if (stage == STAGE_BLIND && load(&op->returned) && !blind)
			blind = op; /* a later one may tell more */
		else if (stage == STAGE_BLIND || stage == STAGE_CALLED || stage == STAGE_STARTED)
			return op;
	}
	return blind;
}

const struct flight_op *report_op_last(const struct judge_member *m)
{
	return report_op(m, m->issued);
}

const struct flight_op *report_op_now(const struct judge_member *m)
{
	const struct flight_op *op = report_op_open(m);

	return op ? op : report_op_last(m);
}

/* ---- ranks ---- */

enum flight_wait_kind report_wait(const struct judge_process *p, uint32_t thread, uint64_t *since)
{
	for (int i = 0; i < FLIGHT_WAITS && thread; i++) {
		const struct flight_wait *w = &p->page->wait[i];
		uint32_t kind = atomic_load_explicit(&w->kind, memory_order_relaxed);
		if (atomic_load_explicit(&w->thread, memory_order_relaxed) != thread ||
			(kind != FLIGHT_WAIT_GPU && kind != FLIGHT_WAIT_NCCL))
			continue;
		*since = load(&w->since);
		return (enum flight_wait_kind)kind;
	}
	return FLIGHT_WAIT_NONE;
}

static bool gone(const struct judge_member *m)
{
	return m->state == FLIGHT_GONE || m->state == FLIGHT_ABORTED || m->state == FLIGHT_FREE;
}

bool report_waits(const struct judge_world *w, const struct judge_member *m)
{
	const struct judge_process *p = report_process(w, m);
	const struct flight_op *op = gone(m) || p->life == LIFE_DEAD ? NULL : report_op_open(m);
	uint64_t since;

	if (!op)
		return false;
	if (report_stage(m, op) == STAGE_STARTED || !load(&op->returned))
		return true;
	if (op->function >= FLIGHT_INIT && op->function != FLIGHT_GRAPH)
		return true; /* a call that all ranks make */
	return (op->flags & FLIGHT_BLIND) && report_wait(p, op->thread, &since) != FLIGHT_WAIT_NONE;
}

bool report_late(const struct judge_world *w, const struct judge_member *m)
{
	for (uint32_t i = 0; i < w->members; i++) {
		const struct judge_member *q = report_member(w, i);
		const struct flight_op *op;
		if (!q || q == m || !report_same_comm(q, m->key) || !report_waits(w, q))
			continue;
		op = report_op_open(q);
		if (op->sequence ? m->sequence < op->sequence : op->peer == m->rank)
			return true;
	}
	return false;
}

const char *report_state(const struct judge_world *w, const struct judge_member *m)
{
	static const char *const life[] = {
		[LIFE_STOPPED] = "stopped", [LIFE_TRACED] = "traced", [LIFE_DISK] = "disk", [LIFE_DEAD] = "dead"};
	const struct judge_process *p = report_process(w, m);

	if (p->life == LIFE_DEAD || p->life == LIFE_STOPPED)
		return life[p->life];
	if (gone(m))
		return m->state == FLIGHT_ABORTED ? "aborted" : "left";
	if (report_waits(w, m))
		return "waits";
	if (report_op_open(m))
		return "called";
	if (p->life == LIFE_TRACED || p->life == LIFE_DISK)
		return life[p->life];
	return m->state == FLIGHT_ENDING ? "leaving" : report_late(w, m) ? "late" : "idle";
}

int32_t report_job_rank(const struct judge_world *w, const struct judge_member *m)
{
	int32_t rank = report_process(w, m)->page->rank;

	return rank >= 0 && rank != m->rank ? rank : -1;
}
