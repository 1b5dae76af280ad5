/* nccl_jobs.c - see nccl.h: which processes make a job, and what the judge says of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nccl.h"

#define SECOND 1000000000ull
#define PAUSE_NS 100000000   /* between the two looks that tell what a process does */
#define SILENT (60 * SECOND) /* after which one that cannot be asked about is taken for ended */
#define ANCESTORS 32

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* ---- grouping ---- */

static bool share(const struct world *w, unsigned a, unsigned b)
{
	for (unsigned i = 0; i < w->file[a].places; i++)
		for (unsigned k = 0; k < w->file[b].places; k++)
			if (w->place[a][i].state != FLIGHT_FREE && w->place[b][k].state != FLIGHT_FREE &&
				memcmp(w->place[a][i].key, w->place[b][k].key, sizeof(w->place[0][0].key)) == 0)
				return true;
	return false;
}

/* group[i]: the lowest file that file i belongs together with. */
static void group_files(const struct world *w, unsigned group[JUDGE_PROCESSES])
{
	for (unsigned i = 0; i < w->files; i++)
		group[i] = i;
	for (unsigned i = 0; i < w->files; i++)
		for (unsigned k = 0; k < i; k++) {
			unsigned from = group[i], to = group[k];
			if (from == to || !w->file[i].read || !w->file[k].read || !share(w, i, k))
				continue;
			for (unsigned m = 0; m < w->files; m++)
				if (group[m] == from || group[m] == to)
					group[m] = from < to ? from : to;
		}
}

static bool descends(pid_t pid, pid_t from)
{
	struct proc_stat stat;

	for (unsigned i = 0; i < ANCESTORS && pid > 1; i++) {
		if (pid == from)
			return true;
		if (!proc_stat_read((uint32_t)pid, &stat))
			return false;
		pid = stat.parent;
	}
	return false;
}

/* Its number may be another process's by now. */
static bool lives(const struct world *w, unsigned i)
{
	return w->file[i].near && proc_life((uint32_t)w->file[i].pid, w->page[i].start_ticks) == PROC_RUNS;
}

static bool wanted(const struct world *w, const unsigned *group, unsigned i, pid_t pid)
{
	for (unsigned k = 0; k < w->files; k++)
		if (group[k] == group[i] &&
			(!pid || w->file[k].pid == pid || (lives(w, k) && descends(w->file[k].pid, pid))))
			return true;
	return false;
}

/* ---- jobs ---- */

static void add_process(struct nccl_job *job, const struct world_file *f)
{
	unsigned at = job->pids++;

	for (; at > 0 && job->pid[at - 1] > f->pid; at--) {
		job->pid[at] = job->pid[at - 1];
		memcpy(job->dir[at], job->dir[at - 1], sizeof(job->dir[0]));
	}
	job->pid[at] = f->pid;
	snprintf(job->dir[at], sizeof(job->dir[0]), "%s", f->path);
	char *slash = strrchr(job->dir[at], '/');
	if (slash)
		*slash = '\0';
}

static bool same_job(const struct nccl_job *a, const struct nccl_job *b)
{
	return a->pids == b->pids && memcmp(a->pid, b->pid, a->pids * sizeof(a->pid[0])) == 0;
}

/* Takes the job's files out of `w`; one that is known is marked as there. */
static bool take_job(struct nccl_jobs *jobs, const struct world *w, const unsigned *group, unsigned first)
{
	struct nccl_job *job, *more = realloc(jobs->job, (jobs->count + 1) * sizeof(*more));

	if (!more)
		return false;
	jobs->job = more;
	job = &more[jobs->count];
	memset(job, 0, sizeof(*job));
	for (unsigned i = first; i < w->files; i++)
		if (group[i] == first && w->file[i].read)
			add_process(job, &w->file[i]);
	for (unsigned i = 0; i < jobs->count; i++)
		if (same_job(&jobs->job[i], job)) {
			jobs->job[i].listed = true;
			return true;
		}
	job->world = world_new(NULL);
	if (!job->world)
		return false;
	job->world->whole = true;
	for (unsigned i = 0; i < job->pids; i++)
		world_find(job->world, job->dir[i], job->pid[i], false);
	job->listed = true;
	jobs->count++;
	return true;
}

static void drop_unlisted(struct nccl_jobs *jobs)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < jobs->count; i++) {
		if (jobs->job[i].listed)
			jobs->job[kept++] = jobs->job[i];
		else
			world_free(jobs->job[i].world);
	}
	jobs->count = kept;
}

static bool scan(struct nccl_jobs *jobs, const char *dir, pid_t pid)
{
	struct world *w = world_new(NULL);
	unsigned group[JUDGE_PROCESSES];
	bool fine = w != NULL;

	if (!w)
		return false;
	if (pid) /* so that it is there when there are too many */
		world_find(w, dir, pid, false);
	world_find(w, dir, 0, false);
	world_read(w, clock_ns(CLOCK_MONOTONIC), true);
	group_files(w, group);
	for (unsigned i = 0; i < jobs->count; i++)
		jobs->job[i].listed = false;
	jobs->why = w->files ? "no file there can be read, or none has to do with that process" : NULL;
	for (unsigned i = 0; fine && i < w->files; i++)
		if (group[i] == i && w->file[i].read && wanted(w, group, i, pid))
			fine = take_job(jobs, w, group, i);
	world_free(w);
	drop_unlisted(jobs);
	return fine;
}

/* ---- looking ---- */

static bool file_lives(struct world *w, unsigned i, uint64_t now)
{
	uint64_t beat = w->page[i].heartbeat;

	if (!w->file[i].read)
		return false;
	if (w->file[i].near)
		return proc_lives(&w->file[i].proc, now);
	/* A later time is another machine's. */
	return beat + SILENT > now && beat < now + SECOND;
}

static void measure(struct nccl_job *job, uint64_t now)
{
	struct world *w = job->world;

	world_read(w, now, true);
	job->live = false;
	for (unsigned i = 0; i < w->files; i++) {
		job->live |= file_lives(w, i, now);
		if (w->file[i].read && w->file[i].near)
			proc_measure(&w->file[i].proc, NULL, 0, now);
	}
}

/* What was so at the first measurement has been so for longer: since its watch's last sign of life, where it is dead or
 * stopped, and else nobody knows. */
static void mend(struct nccl_job *job, uint64_t first)
{
	for (uint32_t i = 0; i < job->look->processes; i++) {
		struct judge_process *p = &job->world->process[i];
		struct proc *proc = &job->world->file[job->world->file_of[i]].proc;
		uint64_t beat = p->page->heartbeat;
		if (p->cpu_changed == first)
			p->cpu_changed = 0;
		if (p->io_changed == first)
			p->io_changed = 0;
		if ((p->life == LIFE_DEAD || p->life == LIFE_STOPPED) && proc->life_since == first && beat &&
			beat < first)
			p->life_since = proc->life_since = beat;
	}
}

static void look(struct nccl_job *job, uint64_t first)
{
	/* Who asks wants to know what it is now, though it may pass. */
	static const struct judge_limits limits = {
		.cycle = 3 * SECOND, .transport = 15 * SECOND, .frozen = 5 * SECOND, .said = 2 * SECOND};
	uint64_t now = clock_ns(CLOCK_MONOTONIC), real = clock_ns(CLOCK_REALTIME);
	struct world *w = job->world;

	measure(job, now);
	job->look = world_look(w, job->live ? now : 0);
	world_texts(w);
	if (first && job->live)
		mend(job, first);
	job->real = real;
	if (!job->live && job->look->processes) {
		const struct flight_page *page = job->look->process[0].page;
		job->real = page->made_real + (job->look->now > page->made ? job->look->now - page->made : 0);
	}
	job->findings = judge_look_all(job->look, &limits, job->found, NCCL_FINDINGS);
}

bool nccl_jobs_look(struct nccl_jobs *jobs, const char *dir, pid_t pid)
{
	static const struct timespec pause = {0, PAUSE_NS};
	uint64_t first = 0;
	bool fresh = false, live = false;

	if (!scan(jobs, dir, pid))
		return false;
	for (unsigned i = 0; i < jobs->count; i++)
		fresh |= jobs->job[i].look == NULL;
	if (fresh && jobs->count) {
		first = clock_ns(CLOCK_MONOTONIC);
		for (unsigned i = 0; i < jobs->count; i++) {
			measure(&jobs->job[i], first);
			live |= jobs->job[i].live;
		}
		if (live)
			nanosleep(&pause, NULL);
	}
	for (unsigned i = 0; i < jobs->count; i++)
		look(&jobs->job[i], first);
	return true;
}

void nccl_jobs_free(struct nccl_jobs *jobs)
{
	for (unsigned i = 0; i < jobs->count; i++)
		world_free(jobs->job[i].world);
	free(jobs->job);
	*jobs = (struct nccl_jobs){0};
}
