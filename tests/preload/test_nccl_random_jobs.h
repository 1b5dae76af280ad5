/*
 * test_nccl_random_jobs.h - slots: each runs one program after the other on processes of its own.
 */
#ifndef TEST_NCCL_RANDOM_JOBS_H
#define TEST_NCCL_RANDOM_JOBS_H

#include "test_nccl_random.h"

#define SLOTS 13
#define SLOTS_LIMITED 7 /* of these: with TURBO_NCCL_TIMEOUT_S, for what is else told after a minute */

#define SEEN 4096 /* reports that are known */

enum slot_state { SLOT_IDLE, SLOT_RUNS, SLOT_LINGERS, SLOT_CANCELS, SLOT_COUNTS };
enum asked { ASKED_NOTHING, ASKED_RUN, ASKED_RESULT, ASKED_CANCEL, ASKED_MISTAKES };

struct slot {
	bool limited, closed, soaks;
	bool patient; /* waits for what is told after a minute, without a limit */
#define SEEN 4096 /* reports that are known */

	enum slot_state state;
	char dir[64], log[96], where[96], to[128]; /* of the reports; the log; both as variables */
	struct ranks ranks;                        /* the pool */
	uint64_t seen[SEEN];                       /* names of reports, as hashes */
	unsigned seen_next;
	unsigned long mistakes[PROGRAM_RANKS]; /* so far, of the simulated NCCL */
	/* of the program */
	struct program program;
	struct expected expected;
	int of[PROGRAM_RANKS]; /* index in the pool, by rank */
	pid_t pid[PROGRAM_RANKS];
	enum asked asked[PROGRAM_RANKS];
	bool finished[PROGRAM_RANKS];
	uint64_t began, died, found, until;
	bool failed;
	bool again, second; /* another rank than the right one was named: it is run once more */
};

bool slot_is_limited(enum fault fault);
void slot_open(struct slot *s, int number, bool soaks);
void slot_begin(struct slot *s); /* the program that is in it */
void slot_poll(struct slot *s);
void slot_end(struct slot *s);
void slot_close(struct slot *s); /* after that */
unsigned slot_leftovers(void);   /* files of killed ranks that are there still */

/* test_nccl_random_found.c: reports. */
struct found {
	unsigned reports;
	char verdict[32]; /* of the first */
	long pid;         /* of the culprit; -1: nobody */
	char text[8192];
};
void found_look(struct slot *s, struct found *f);
void found_forget(struct slot *s); /* what there is */
void found_clear(struct slot *s);
void found_file(pid_t pid, char path[64]);
void found_killed(pid_t pid); /* it has left its file, as if that had been long ago */
bool found_log(const struct slot *s, char text[2048]); /* false: it is empty */

/* test_nccl_random.c */
void slot_fails(struct slot *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void slot_ended(struct slot *s);

#endif
