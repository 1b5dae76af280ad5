/*
 * nccl.h - what the files of `turbo nccl` share.
 */
#ifndef TURBO_TOOL_NCCL_H
#define TURBO_TOOL_NCCL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "nccl/report_parts.h"
#include "nccl/world.h"

#define NCCL_FINDINGS 16

/* Processes that share communicators, be it through others. */
struct nccl_job {
	pid_t pid[JUDGE_PROCESSES]; /* ascending */
	char dir[JUDGE_PROCESSES][160];
	unsigned pids;
	struct world *world; /* of these alone */
	bool live;           /* one of them still is */
	bool listed;         /* it was there at the last scan */
	/* Of the last look: */
	const struct judge_world *look;
	uint64_t real; /* CLOCK_REALTIME at look->now */
	struct judge_finding found[NCCL_FINDINGS];
	unsigned findings;
};

struct nccl_jobs {
	struct nccl_job *job;
	unsigned count;
	const char *why; /* there is none: why, if there is more to say */
};

/*
 * nccl_jobs.c: looks at the files in `dir` (NULL: the usual places), at the job of `pid` alone if it is not 0: that of a
 * rank, or of a process that ranks descend from. What is in `jobs` from the last time is gone on with. false: there is
 * no memory.
 */
bool nccl_jobs_look(struct nccl_jobs *jobs, const char *dir, pid_t pid);
void nccl_jobs_free(struct nccl_jobs *jobs);

/* nccl_show.c: all of them, as text (`brief`: a line for one that has ended) and as one JSON object on a line. */
void nccl_show_text(struct out *o, const struct nccl_jobs *jobs, bool brief);
void nccl_show_json(struct out *o, const struct nccl_jobs *jobs);

/* nccl_files.c: reports in a folder; the newest one's path with `suffix`. Returns how many there are, -1 and errno: it
 * cannot be read. */
int nccl_files_last(const char *dir, const char *suffix, char *path, size_t size);
/* To stdout, what a terminal would obey left out. 0, or an errno. */
int nccl_files_print(const char *path);

#endif
