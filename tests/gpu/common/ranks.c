/*
 * ranks.c - the ranks of a job as processes.
 */
#include "ranks.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl_dl.h"
#include "util.h"

#define ID_BYTES (RANKS_ID / 2)
#define RANK_WORD "--rank" /* --rank RANK RANKS IN OUT ID */

/* ---- launcher ---- */

static void set_environment(const char *const *env, int rank)
{
	for (; env && *env; env++) {
		char *end;
		long of = strtol(*env, &end, 10);
		const char *text = *env;
		if (end != *env && *end == ':') {
			if (of != rank)
				continue;
			text = end + 1;
		}
		putenv(strdup(text));
	}
}

static bool start_one(struct ranks *job, int rank, const char *const *env)
{
	int to[2], from[2];
	char words[4][16];
	if (pipe(to))
		return false;
	if (pipe(from)) {
		close(to[0]);
		close(to[1]);
		return false;
	}
	pid_t pid = fork();
	if (pid == 0) {
		for (int i = 0; i < job->n; i++) { /* else they stay open when the launcher closes them */
			if (i != rank && job->rank[i].to) {
				close(job->rank[i].to);
				close(job->rank[i].from);
			}
		}
		close(to[1]);
		close(from[0]);
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* no rank outlives the launcher */
		set_environment(env, rank);
		snprintf(words[0], sizeof(words[0]), "%d", rank);
		snprintf(words[1], sizeof(words[1]), "%d", job->n);
		snprintf(words[2], sizeof(words[2]), "%d", to[0]);
		snprintf(words[3], sizeof(words[3]), "%d", from[1]);
		execl("/proc/self/exe", "rank", RANK_WORD, words[0], words[1], words[2], words[3], job->id,
			  (char *)NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	job->rank[rank].pid = pid < 0 ? 0 : pid;
	job->rank[rank].to = to[1];
	job->rank[rank].from = from[0];
	job->rank[rank].got = 0;
	return pid > 0;
}

bool ranks_prepare(struct ranks *job, int n)
{
	ncclUniqueId id;
	memset(job, 0, sizeof(*job));
	if (n < 1 || n > RANKS_MAX || nccl_dl_open() || nccl.ncclGetUniqueId(&id) != ncclSuccess)
		return false;
	for (int i = 0; i < ID_BYTES; i++)
		sprintf(job->id + 2 * i, "%02x", (unsigned char)id.internal[i]);
	signal(SIGPIPE, SIG_IGN); /* a rank that has ended is noticed when it does not answer */
	job->n = n;
	return true;
}

bool ranks_start(struct ranks *job, int n, const char *const *env)
{
	if (!ranks_prepare(job, n))
		return false;
	for (int i = 0; i < n; i++) {
		if (!start_one(job, i, env)) {
			job->n = i;
			ranks_kill(job);
			return false;
		}
	}
	return true;
}

bool ranks_again(struct ranks *job, int rank, const char *const *env)
{
	ranks_signal(job, rank, SIGKILL);
	if (job->rank[rank].to) {
		close(job->rank[rank].to);
		close(job->rank[rank].from);
	}
	return start_one(job, rank, env);
}

static void tell(struct ranks *job, int rank, const char *fmt, va_list ap)
{
	char line[RANKS_LINE];
	int n = vsnprintf(line, sizeof line - 1, fmt, ap);
	if (n > (int)sizeof line - 2)
		n = (int)sizeof line - 2;
	line[n++] = '\n';
	ssize_t ignored = write(job->rank[rank].to, line, (size_t)n);
	(void)ignored;
}

void ranks_tell(struct ranks *job, int rank, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	tell(job, rank, fmt, ap);
	va_end(ap);
}

const char *ranks_answer(struct ranks *job, int rank, int ms)
{
	static char line[RANKS_LINE];
	uint64_t end = now_ns() + (uint64_t)ms * 1000000;
	char *have = job->rank[rank].have;
	size_t *got = &job->rank[rank].got;
	for (;;) {
		char *newline = memchr(have, '\n', *got);
		if (newline) {
			size_t n = (size_t)(newline - have);
			memcpy(line, have, n);
			line[n] = 0;
			*got -= n + 1;
			memmove(have, newline + 1, *got);
			return line;
		}
		uint64_t now = now_ns();
		struct pollfd in = {.fd = job->rank[rank].from, .events = POLLIN};
		if (now >= end && ms)
			return NULL;
		if (poll(&in, 1, ms ? (int)((end - now) / 1000000) + 1 : 0) <= 0)
			return NULL;
		ssize_t n = read(in.fd, have + *got, RANKS_LINE - *got);
		if (n <= 0)
			return NULL;
		*got += (size_t)n;
	}
}

const char *ranks_ask(struct ranks *job, int rank, int ms, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	tell(job, rank, fmt, ap);
	va_end(ap);
	return ranks_answer(job, rank, ms);
}

bool ranks_all(struct ranks *job, int ms, const char *fmt, ...)
{
	bool ok = true;
	char order[RANKS_LINE];
	uint64_t end = now_ns() + (uint64_t)ms * 1000000;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(order, sizeof order, fmt, ap);
	va_end(ap);
	for (int i = 0; i < job->n; i++)
		ranks_tell(job, i, "%s", order);
	for (int i = 0; i < job->n; i++) {
		uint64_t now = now_ns();
		const char *answer = ranks_answer(job, i, now < end ? (int)((end - now) / 1000000) : 0);
		if (answer && !strcmp(answer, "ok"))
			continue;
		fprintf(stderr, "rank %d: %s: %s\n", i, order, answer ? answer : "no answer");
		ok = false;
	}
	return ok;
}

bool ranks_silent(struct ranks *job, int ms)
{
	bool silent = true;
	sleep_ms((unsigned)ms);
	for (int i = 0; i < job->n; i++)
		silent = !ranks_answer(job, i, 0) && silent;
	return silent;
}

int ranks_wait(struct ranks *job, int rank, int ms)
{
	uint64_t end = now_ns() + (uint64_t)ms * 1000000;
	int status = -1;
	for (;;) {
		if (!job->rank[rank].pid)
			return -1;
		if (waitpid(job->rank[rank].pid, &status, WNOHANG) == job->rank[rank].pid) {
			job->rank[rank].pid = 0;
			return status;
		}
		if (now_ns() >= end)
			return -1;
		sleep_ms(1);
	}
}

void ranks_signal(struct ranks *job, int rank, int signal)
{
	if (!job->rank[rank].pid)
		return;
	kill(job->rank[rank].pid, signal);
	if (signal == SIGKILL)
		ranks_wait(job, rank, 10000);
}

static void close_all(struct ranks *job)
{
	for (int i = 0; i < job->n; i++)
		if (job->rank[i].to)
			close(job->rank[i].to);
}

bool ranks_stop(struct ranks *job, int ms)
{
	bool ok = true;
	uint64_t end = now_ns() + (uint64_t)ms * 1000000;
	close_all(job);
	for (int i = 0; i < job->n; i++) {
		uint64_t now = now_ns();
		int status = ranks_wait(job, i, now < end ? (int)((end - now) / 1000000) : 0);
		if (status) {
			fprintf(stderr, "rank %d: wait status %d\n", i, status);
			ok = false;
		}
		ranks_signal(job, i, SIGKILL);
		close(job->rank[i].from);
	}
	job->n = 0;
	return ok;
}

void ranks_kill(struct ranks *job)
{
	close_all(job);
	for (int i = 0; i < job->n; i++) {
		ranks_signal(job, i, SIGKILL);
		if (job->rank[i].to)
			close(job->rank[i].from);
	}
	job->n = 0;
}

/* ---- in a rank ---- */

bool ranks_is_rank(int argc, char **argv)
{
	return argc == 7 && !strcmp(argv[1], RANK_WORD);
}

int ranks_main(char **argv, void (*obey)(struct rank *me, char *order, char *answer))
{
	struct rank me = {.rank = atoi(argv[2]), .ranks = atoi(argv[3])};
	FILE *in = fdopen(atoi(argv[4]), "r");
	int out = atoi(argv[5]);
	char order[RANKS_LINE], answer[RANKS_LINE];
	for (int i = 0; i < ID_BYTES; i++) {
		unsigned byte = 0;
		sscanf(argv[6] + 2 * i, "%2x", &byte);
		me.id[i] = (unsigned char)byte;
	}
	while (in && fgets(order, sizeof order, in)) {
		order[strcspn(order, "\n")] = 0;
		answer[0] = 0;
		obey(&me, order, answer);
		size_t n = strnlen(answer, sizeof answer - 2);
		answer[n++] = '\n';
		if (write(out, answer, n) != (ssize_t)n)
			return 1;
	}
	if (in)
		fclose(in);
	return in ? 0 : 1;
}
