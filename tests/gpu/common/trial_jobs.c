/*
 * trial_jobs.c - jobs of ranks that carry out trials.
 */
#include "trial_jobs.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util.h"

#define MS 1000000ull
#define STANDS_MS 150 /* for so long: it hangs, for comparing */

/* ---- one job ---- */

static bool all_say_ok(struct trial_job *j, const char *order)
{
	bool ok = true;

	for (int i = 0; i < j->n; i++)
		ranks_tell(&j->ranks, i, "%s", order);
	for (int i = 0; i < j->n; i++) {
		const char *answer = ranks_answer(&j->ranks, i, (int)TRIAL_MUST_MS);
		if (answer && !strncmp(answer, "ok", 2))
			continue;
		fprintf(stderr, "rank %d: %.40s: %s\n", i, order, answer ? answer : "no answer");
		ok = false;
	}
	return ok;
}

static bool join(struct trial_job *j)
{
	char order[RANKS_LINE];
	const char *id = ranks_ask(&j->ranks, 0, (int)TRIAL_MUST_MS, "id");

	if (!id || strlen(id) != RANKS_ID)
		return false;
	snprintf(order, sizeof(order), "join %s", id);
	return all_say_ok(j, order);
}

bool trial_job_open(struct trial_job *j, int n, const char *const *env)
{
	int count = 0;

	if (!j->page) {
		j->fd = memfd_create("trial", 0); /* ranks inherit it */
		if (j->fd < 0 || ftruncate(j->fd, sizeof(*j->page)))
			return false;
		j->page = mmap(NULL, sizeof(*j->page), PROT_READ | PROT_WRITE, MAP_SHARED, j->fd, 0);
		if (j->page == MAP_FAILED)
			return false;
	}
	memset(j->page, 0, sizeof(*j->page));
	snprintf(j->page_env, sizeof(j->page_env), "TRIAL_PAGE=%d", j->fd);
	j->env[count++] = j->page_env;
	for (; *env && count < TRIAL_ENV - 1; env++)
		j->env[count++] = *env;
	j->env[count] = NULL;
	j->n = n;
	j->open = true;
	if (ranks_start(&j->ranks, n, j->env) && all_say_ok(j, "init") && join(j))
		return true;
	fprintf(stderr, "no ranks\n");
	trial_job_close(j);
	return false;
}

void trial_job_close(struct trial_job *j)
{
	if (j->open)
		ranks_kill(&j->ranks);
	j->open = false;
}

bool trial_job_end(struct trial_job *j)
{
	bool ok = !j->open || all_say_ok(j, "leave");

	/* Told, because processes that were started later have the pipes, too. */
	for (int i = 0; i < j->n && j->open; i++)
		ranks_tell(&j->ranks, i, "exit 0");
	for (int i = 0; i < j->n && j->open; i++)
		ok = ranks_wait(&j->ranks, i, (int)TRIAL_MUST_MS) == 0 && ok;
	trial_job_close(j);
	return ok;
}

bool trial_job_rejoin(struct trial_job *j)
{
	return all_say_ok(j, "leave") && join(j);
}

void trial_job_begin(struct trial_job *j, unsigned seed, enum trial_fault fault)
{
	memset(j->page, 0, sizeof(*j->page));
	memset(j->answered, 0, sizeof(j->answered));
	memset(j->gone, 0, sizeof(j->gone));
	memset(j->at, 0, sizeof(j->at));
	j->error[0] = '\0';
	j->began = j->changed = now_ns();
	for (int i = 0; i < j->n; i++)
		ranks_tell(&j->ranks, i, "trial %u %d %d", seed, j->n, (int)fault);
}

static void take_answer(struct trial_job *j, int i, const char *answer)
{
	j->answered[i] = true;
	if (!trial_result_read(answer, &j->result[i]) && !j->error[0])
		snprintf(j->error, sizeof(j->error), "rank %d: %.400s", i, answer);
	j->operations += j->result[i].operations;
	j->launches += j->result[i].launches;
}

bool trial_job_hear(struct trial_job *j)
{
	bool all = true;

	for (int i = 0; i < j->n; i++) {
		uint32_t at = __atomic_load_n(&j->page->rank[i].at, __ATOMIC_ACQUIRE);
		const char *answer = j->answered[i] || j->gone[i] ? NULL : ranks_answer(&j->ranks, i, 0);
		if (answer)
			take_answer(j, i, answer);
		if (at != j->at[i] || answer)
			j->changed = now_ns();
		j->at[i] = at;
		if (!j->answered[i] && !j->gone[i] && ranks_wait(&j->ranks, i, 0) != -1)
			j->gone[i] = true;
		all = all && (j->answered[i] || j->gone[i]);
	}
	return all;
}

bool trial_job_stands(const struct trial_job *j, uint64_t ms)
{
	return now_ns() > j->changed + ms * MS;
}

void trial_job_print(const struct trial_job *j, const char *name, const struct trial *t)
{
	for (int i = 0; i < j->n; i++) {
		uint32_t at = j->at[i];
		fprintf(stderr, "  %s rank %d (pid %d): step %d of %d%s: %s\n", name, i, (int)j->ranks.rank[i].pid,
				(int)at - 1, t->rank[i].n,
				j->answered[i] ? ", answered"
				: j->gone[i]   ? ", ended"
							   : "",
				at ? trial_step_text(&t->rank[i].step[at - 1]) : "");
	}
}

/* ---- pairs ---- */

bool trial_pair_open(struct trial_pair *p, int n, const char *const *bare, const char *const *preloaded)
{
	p->state = PAIR_IDLE;
	if (trial_job_open(&p->bare, n, bare) && trial_job_open(&p->preloaded, n, preloaded))
		return true;
	trial_job_close(&p->bare);
	trial_job_close(&p->preloaded);
	return false;
}

void trial_pair_begin(struct trial_pair *p, unsigned seed, enum trial_fault fault)
{
	trial_make(&p->trial, seed, p->bare.n, fault);
	p->why[0] = '\0';
	p->resumed = false;
	trial_job_begin(&p->bare, seed, fault);
	trial_job_begin(&p->preloaded, seed, fault);
	p->until = now_ns() + TRIAL_MUST_MS * MS;
	p->state = PAIR_RUNS;
}

static void __attribute__((format(printf, 2, 3))) wrong(struct trial_pair *p, const char *fmt, ...)
{
	va_list ap;

	if (p->why[0])
		return;
	va_start(ap, fmt);
	vsnprintf(p->why, sizeof(p->why), fmt, ap);
	va_end(ap);
}

static bool over(struct trial_pair *p, bool close)
{
	if (p->why[0]) {
		trial_job_print(&p->bare, "bare", &p->trial);
		trial_job_print(&p->preloaded, "preloaded", &p->trial);
	}
	if (close || p->why[0]) {
		trial_job_close(&p->bare);
		trial_job_close(&p->preloaded);
	}
	p->state = PAIR_IDLE;
	return true;
}

static void compare(struct trial_pair *p)
{
	for (int i = 0; i < p->bare.n; i++) {
		const struct trial_result *a = &p->bare.result[i], *b = &p->preloaded.result[i];
		if (a->data != b->data)
			wrong(p, "rank %d: the data is another", i);
		else if (a->seen != b->seen)
			wrong(p, "rank %d: the host has seen other data, or in another order", i);
		else if (a->order != b->order || a->operations != b->operations)
			wrong(p, "rank %d: NCCL's operations are others, or in another order", i);
	}
}

/* Whoever has ended, must have. */
static void check_ends(struct trial_pair *p, const struct trial_job *j, const char *name)
{
	bool dies = p->trial.fault != TRIAL_FAULTLESS && p->trial.fault != TRIAL_STOPPED;

	if (j->error[0])
		wrong(p, "%s: %.600s", name, j->error);
	for (int i = 0; i < j->n; i++)
		if (j->gone[i] && !(dies && i == p->trial.culprit))
			wrong(p, "%s: rank %d has ended", name, i);
}

static bool alike(const struct trial_pair *p)
{
	for (int i = 0; i < p->bare.n; i++)
		if (p->bare.at[i] != p->preloaded.at[i] || p->bare.answered[i] != p->preloaded.answered[i] ||
			p->bare.gone[i] != p->preloaded.gone[i])
			return false;
	return true;
}

static bool stops_itself(const struct trial_pair *p, const struct trial_job *j)
{
	int c = p->trial.culprit;
	uint32_t at = j->at[c];

	return at && at <= (uint32_t)p->trial.rank[c].n && p->trial.rank[c].step[at - 1].what == TRIAL_DIE;
}

/* In both jobs: who is told to go on before it has stopped stops for ever. */
static bool culprit_is_there(const struct trial_pair *p)
{
	int c = p->trial.culprit;

	if (p->trial.fault == TRIAL_STOPPED)
		return stops_itself(p, &p->bare) && stops_itself(p, &p->preloaded);
	return p->bare.gone[c] && p->preloaded.gone[c];
}

/* The others are where the bare run's are, and come no further. */
static bool stands(const struct trial_pair *p)
{
	bool as_bare = p->trial.fault != TRIAL_TORN && p->trial.fault != TRIAL_STOPPED;

	return culprit_is_there(p) && trial_job_stands(&p->bare, STANDS_MS) &&
		   trial_job_stands(&p->preloaded, STANDS_MS) && (!as_bare || alike(p));
}

static void cont(struct trial_job *j, int rank)
{
	ranks_signal(&j->ranks, rank, SIGCONT);
	j->changed = now_ns();
}

/* Kernels that wait for what a dead rank was to do, end: an abort waits for what is before the collective. */
static void let_abort(struct trial_job *j)
{
	for (int i = 0; i < TRIAL_FLAGS; i++)
		__atomic_store_n(&j->page->flag[i], 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&j->page->abort, 1, __ATOMIC_SEQ_CST);
}

static bool poll_running(struct trial_pair *p, bool all)
{
	check_ends(p, &p->bare, "bare");
	check_ends(p, &p->preloaded, "preloaded");
	if (p->why[0])
		return over(p, true);
	if (all && !(p->trial.fault == TRIAL_STOPPED && !p->resumed)) {
		if (p->trial.fault == TRIAL_FAULTLESS || p->trial.fault == TRIAL_STOPPED)
			compare(p);
		return over(p, p->trial.fault != TRIAL_FAULTLESS && p->trial.fault != TRIAL_STOPPED);
	}
	if (p->trial.fault != TRIAL_FAULTLESS && !p->resumed && (all || stands(p))) {
		p->until = now_ns() + TRIAL_MUST_MS * MS;
		if (p->trial.fault == TRIAL_STOPPED) {
			cont(&p->bare, p->trial.culprit);
			cont(&p->preloaded, p->trial.culprit);
			p->resumed = true;
		} else {
			let_abort(&p->bare);
			let_abort(&p->preloaded);
			p->state = PAIR_ABORTS;
		}
	} else if (now_ns() > p->until) {
		wrong(p, p->trial.fault == TRIAL_FAULTLESS || p->resumed
					 ? "it hangs"
					 : "the ranks end otherwise than without libturbo");
		return over(p, true);
	}
	return false;
}

static bool is_free(const struct trial_job *j)
{
	for (int i = 0; i < j->n; i++)
		if (!j->answered[i] && !j->gone[i] && !__atomic_load_n(&j->page->rank[i].aborted, __ATOMIC_SEQ_CST))
			return false;
	return true;
}

bool trial_pair_poll(struct trial_pair *p)
{
	bool all = trial_job_hear(&p->bare);

	all = trial_job_hear(&p->preloaded) && all;
	if (p->state == PAIR_RUNS)
		return poll_running(p, all);
	/* After an abort steps fail, and whatever they say is no matter. */
	if (is_free(&p->bare) && is_free(&p->preloaded))
		return over(p, true);
	if (now_ns() > p->until) {
		wrong(p, "aborts have not returned");
		return over(p, true);
	}
	return false;
}

bool trial_pair_end(struct trial_pair *p)
{
	bool bare = trial_job_end(&p->bare);

	return trial_job_end(&p->preloaded) && bare;
}
