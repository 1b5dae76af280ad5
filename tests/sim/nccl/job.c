/*
 * job.c - what calls on communicators do: steps that never wait, so that one thread carries several on.
 *
 * NCCL has a thread a job; what can be told apart is the same.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "internal.h"

#define ALONE_NS 20000000
#define TOGETHER_NS 1000000
#define PAUSE_US 6000

struct job *job_new(struct comm *c, bool (*step)(struct job *))
{
	struct job *job = calloc(1, sizeof(*job));
	if (!job)
		abort();
	job->comm = c;
	job->step = step;
	job->parent = NULL;
	job->since = now_ns();
	return job;
}

static bool step_all(struct job *jobs, struct job **waiting, int *left)
{
	*left = 0;
	for (struct job *j = jobs; j; j = j->next) {
		if (!j->done)
			j->done = j->step(j);
		if (!j->done) {
			*waiting = *left ? *waiting : j;
			++*left;
		}
	}
	return *left == 0;
}

ncclResult_t jobs_run(struct job *jobs)
{
	ncclResult_t result = ncclSuccess;
	struct job *waiting = NULL;
	uint32_t *bell = NULL, seen = 0;
	uint64_t pause = 100;
	for (int left; !step_all(jobs, &waiting, &left);) {
		/* The bell that was looked at before the step, or none yet. */
		if (bell && bell == waiting->bell)
			bell_wait(bell, seen, left == 1 ? ALONE_NS : TOGETHER_NS);
		else if (!waiting->bell)
			sleep_us(pause = pause < PAUSE_US ? pause * 2 : pause);
		bell = waiting->bell;
		seen = bell ? bell_look(bell) : 0;
	}
	while (jobs) {
		struct job *next = jobs->next;
		if (result == ncclSuccess)
			result = jobs->result;
		free(jobs);
		jobs = next;
	}
	return result;
}

ncclResult_t jobs_run_held(struct job *jobs)
{
	struct comm *held[2 * MAX_RANKS];
	int n = 0;
	for (struct job *j = jobs; j && n + 2 <= 2 * MAX_RANKS; j = j->next) {
		if (!j->waits && j->comm)
			held[n++] = j->comm;
		if (!j->waits && j->parent)
			held[n++] = j->parent;
	}
	for (int i = 0; i < n; i++)
		__atomic_add_fetch(&held[i]->behind, 1, __ATOMIC_SEQ_CST);
	ncclResult_t result = jobs_run(jobs);
	for (int i = 0; i < n; i++)
		__atomic_sub_fetch(&held[i]->behind, 1, __ATOMIC_SEQ_CST);
	return result;
}

static void *behind_main(void *arg)
{
	struct job *jobs = arg;
	struct comm *comms[MAX_RANKS] = {NULL}, *outs[MAX_RANKS] = {NULL};
	int n = 0;
	for (struct job *j = jobs; j && n < MAX_RANKS; j = j->next, n++) {
		comms[n] = j->comm;
		outs[n] = j->parent;
	}
	if (comms[0] && comms[0]->ctx)
		dr.cuCtxSetCurrent(comms[0]->ctx);
	/* A failure is in the communicator's state already; a success is told last. */
	ncclResult_t result = jobs_run(jobs);
	for (int i = 0; i < n; i++) {
		for (int which = 0; which < 2; which++) {
			struct comm *c = which ? outs[i] : comms[i];
			int32_t busy = ncclInProgress;
			if (!c)
				continue;
			__atomic_compare_exchange_n(&c->state, &busy, (int32_t)result, false, __ATOMIC_SEQ_CST,
										__ATOMIC_SEQ_CST);
			__atomic_sub_fetch(&c->behind, 1, __ATOMIC_SEQ_CST);
		}
	}
	return NULL;
}

/* A thread of ours: the program's signals are for its own. */
static bool start_thread(void *(*start)(void *), void *arg)
{
	pthread_t thread;
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	bool ok = pthread_create(&thread, NULL, start, arg) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ok)
		pthread_detach(thread);
	return ok;
}

ncclResult_t jobs_run_behind(struct job *jobs)
{
	for (struct job *j = jobs; j; j = j->next) {
		for (int which = 0; which < 2; which++) {
			struct comm *c = which ? j->parent : j->comm;
			if (!c)
				continue;
			__atomic_add_fetch(&c->behind, 1, __ATOMIC_SEQ_CST);
			__atomic_store_n(&c->state, ncclInProgress, __ATOMIC_SEQ_CST);
		}
	}
	return start_thread(behind_main, jobs) ? ncclInProgress : jobs_run(jobs);
}

/* ---- ends of what runs ---- */

void comm_stop(struct comm *c, enum stop how)
{
	uint32_t now = __atomic_load_n(&c->stop, __ATOMIC_SEQ_CST);
	while (now < (uint32_t)how &&
		   !__atomic_compare_exchange_n(&c->stop, &now, how, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	struct shared *s = __atomic_load_n(&c->shared, __ATOMIC_ACQUIRE);
	if (s) { /* those that sleep look again */
		bell_ring(&s->bell);
		bell_ring(&s->rank[c->rank].bell);
	}
}

/* What was launched has run, and all that was on its stream before. */
static bool is_quiet(struct comm *c)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	dr.cuThreadExchangeStreamCaptureMode(&mode);
	pthread_mutex_lock(&c->lock);
	bool quiet = !c->launched || dr.cuEventQuery(c->order) != CUDA_ERROR_NOT_READY;
	pthread_mutex_unlock(&c->lock);
	dr.cuThreadExchangeStreamCaptureMode(&mode);
	return quiet;
}

/* ---- initialisation ---- */

static bool end_with(struct job *job, ncclResult_t result, const char *why)
{
	job->result = result;
	if (result != ncclSuccess)
		set_last_error("%s", why);
	if (job->comm)
		comm_fail(job->comm, result, "%s", why);
	return true;
}

static const char *join(struct comm *c)
{
	struct shared *s = shared_open(&c->place, c->ranks);
	__atomic_store_n(&c->shared, s, __ATOMIC_RELEASE);
	if (!s)
		return "the process that made the unique id is gone, or the id is none";
	struct rank_shared *me = &c->shared->rank[c->rank];
	uint32_t free_slot = 0;
	if (!__atomic_compare_exchange_n(&me->claimed, &free_slot, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return "two ranks have the same number, or the unique id was used twice";
	__atomic_store_n(&me->pid, (uint32_t)getpid(), __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&c->shared->joined, 1, __ATOMIC_SEQ_CST);
	bell_ring(&c->shared->bell);
	return NULL;
}

/* Before all have joined, the real library's ranks are connected by sockets. */
static bool a_rank_died(const struct comm *c)
{
	for (int i = 0; i < c->ranks; i++) {
		uint32_t pid = __atomic_load_n(&c->shared->rank[i].pid, __ATOMIC_ACQUIRE);
		if (pid && process_dead(pid))
			return true;
	}
	return false;
}

static void close_place(struct comm *c)
{
	uint32_t open = 0;
	if (c->place.pid == getpid() &&
		__atomic_compare_exchange_n(&c->shared->closed, &open, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		close(c->place.fd);
}

/* An abort of the parent ends what is being made of it. */
static bool init_has_stopped(const struct job *job)
{
	return comm_has_stopped(job->comm) || (job->parent && !job->kind && comm_has_stopped(job->parent));
}

bool step_init(struct job *job)
{
	struct comm *c = job->comm;
	if (fault(c, FAULT_INIT) && !init_has_stopped(job))
		return false;
	if (init_has_stopped(job))
		return end_with(job, ncclInternalError, "aborted during initialisation");
	if (!c->shared) {
		const char *why = join(c);
		if (why)
			return end_with(job, ncclSystemError, why);
		job->bell = &c->shared->bell;
	}
	if (__atomic_load_n(&c->shared->joined, __ATOMIC_SEQ_CST) < (uint32_t)c->ranks) {
		if (now_ns() - job->since < LOOK_NS)
			return false;
		job->since = now_ns();
		if (a_rank_died(c))
			return end_with(job, ncclRemoteError, "a rank died during initialisation");
		return false;
	}
	close_place(c);
	profiler_begin(c);
	if (c->blocking)
		__atomic_store_n(&c->state, ncclSuccess, __ATOMIC_SEQ_CST);
	return true;
}

/* ---- split and shrink ---- */

bool takes_part(const struct job *job, int rank)
{
	for (int i = 0; i < job->excludes; i++)
		if (job->excluded[i] == rank)
			return false;
	return true;
}

static struct meeting *meeting_of(const struct job *job, int rank)
{
	return &job->parent->shared->rank[rank].meeting[job->number & 1];
}

static bool all_met(const struct job *job)
{
	for (int i = 0; i < job->parent->ranks; i++)
		if (takes_part(job, i) &&
			__atomic_load_n(&meeting_of(job, i)->number, __ATOMIC_SEQ_CST) < job->number)
			return false;
	return true;
}

/* The child's size, this rank's number in it, and the parent's rank that is its first. */
static void order_ranks(const struct job *job, int *size, int *mine, int *first)
{
	int best = -1, me = job->parent->rank;
	*size = *mine = 0;
	for (int i = 0; i < job->parent->ranks; i++) {
		const struct meeting *m = meeting_of(job, i);
		if (!takes_part(job, i) || m->color != job->color)
			continue;
		++*size;
		*mine += m->key < job->key || (m->key == job->key && i < me);
		if (best < 0 || m->key < meeting_of(job, best)->key)
			best = i;
	}
	*first = best;
}

static void meet(struct job *job)
{
	struct comm *p = job->parent;
	struct meeting *m = meeting_of(job, p->rank);
	m->color = job->color;
	m->key = job->key;
	__atomic_store_n(&m->number, job->number, __ATOMIC_SEQ_CST);
	bell_ring(&p->shared->bell);
	job->bell = &p->shared->bell;
}

/* True when the child's memory is there. */
static bool child_placed(struct job *job)
{
	int size, mine, first;
	order_ranks(job, &size, &mine, &first);
	struct meeting *m = meeting_of(job, first);
	if (!mine && m->made != job->number) {
		struct place place = {0};
		int fd = shared_make(&place);
		m->pid = place.pid;
		m->fd = fd;
		m->nonce = place.nonce;
		__atomic_store_n(&m->made, job->number, __ATOMIC_SEQ_CST);
		bell_ring(&job->parent->shared->bell);
	}
	if (__atomic_load_n(&m->made, __ATOMIC_SEQ_CST) != job->number)
		return false;
	struct comm *c = job->comm;
	c->ranks = size;
	c->rank = mine;
	c->place = (struct place){job->parent->place.magic, m->nonce, m->pid, m->fd};
	return true;
}

bool step_split(struct job *job)
{
	struct comm *p = job->parent;
	if (job->phase == 0) {
		meet(job);
		job->phase++;
	}
	if (job->phase == 1) {
		if (comm_has_stopped(p) && !job->kind)
			return end_with(job, ncclInvalidUsage, "the parent was aborted");
		if ((job->kind && !is_quiet(p)) || !all_met(job))
			return false;
		job->phase++;
	}
	if (!job->comm) /* NCCL_SPLIT_NOCOLOR */
		return true;
	if (job->phase == 2) {
		if (!child_placed(job))
			return false;
		job->phase++;
	}
	return step_init(job);
}

/* ---- finalize, destroy, abort, revoke ---- */

bool step_close(struct job *job)
{
	struct comm *c = job->comm;
	if (job->phase == 0) {
		if (job->kind == CLOSE_ABORT && fault(c, FAULT_ABORT))
			return false;
		if (job->kind == CLOSE_ABORT)
			comm_stop(c, STOP_ABORTED);
		if (job->kind == CLOSE_REVOKE)
			comm_stop(c, STOP_REVOKED);
		job->phase++;
	}
	bool ends = job->kind == CLOSE_DESTROY || job->kind == CLOSE_ABORT;
	if (!is_quiet(c) || (ends && __atomic_load_n(&c->behind, __ATOMIC_SEQ_CST)))
		return false;
	/* A captured graph holds the communicator for as long as it lives. */
	if (job->kind != CLOSE_REVOKE && __atomic_load_n(&c->persistent, __ATOMIC_SEQ_CST))
		return false;
	if (ends) {
		comm_free(c);
		job->comm = NULL;
	} else {
		c->finalized = job->kind == CLOSE_FINALIZE;
	}
	return true;
}
