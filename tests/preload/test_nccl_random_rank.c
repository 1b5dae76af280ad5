/*
 * test_nccl_random_rank.c - a rank that lives through many programs: a thread of its own carries one out, so that it can be
 * asked how far it is, and told to give up where it hangs.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test_nccl_random.h"
#include "tests/gpu/common/nccl_dl.h"
#include "tests/gpu/common/util.h"

#define CANCEL_MS 8000 /* for the thread to come out of whatever it is in */

static struct {
	struct rank me;
	struct program program;
	pthread_t thread;
	bool started;
	_Atomic bool ended, cancelled;
	_Atomic int at;
	char error[RANKS_LINE]; /* valid when ended */
} run;

/* True: it has done so, or has been told to give up. */
static bool order(const char *text)
{
	char line[RANKS_LINE], answer[RANKS_LINE];

	snprintf(line, sizeof(line), "%s", text);
	if (!strcmp(line, "die"))
		raise(SIGKILL);
	rank_obey(&run.me, line, answer);
	if (!strcmp(answer, "ok") || !strcmp(answer, "done") || !strcmp(answer, "busy") || run.cancelled)
		return true;
	snprintf(run.error, sizeof(run.error), "step %d: %.200s: %.200s", run.at, text, answer);
	return false;
}

/* What was begun is ended, else the rank is of no more use. */
static bool is_skipped(const struct step *s, bool grouped, bool capturing, bool graph)
{
	if (!run.cancelled)
		return false;
	return !(s->what == DO_END && grouped) && !(s->what == DO_CAPTURED && capturing) &&
		   !(s->what == DO_DROP && graph);
}

static bool take_step(const struct step *s)
{
	char text[RANKS_LINE];
	bool ok = true;

	if (s->what == DO_SLEEP) {
		for (unsigned ms = 0; ms < s->count && !run.cancelled; ms += 20)
			sleep_ms(s->count - ms < 20 ? s->count - ms : 20);
		return true;
	}
	for (int stream = 0; s->what == DO_SYNC && s->stream < 0 && stream < PROGRAM_STREAMS && ok; stream++) {
		snprintf(text, sizeof(text), "sync stream=%d", stream);
		ok = order(text);
	}
	if (s->what == DO_SYNC && s->stream < 0)
		return ok;
	program_order(s, text);
	return order(text);
}

static void *carry_out(void *unused)
{
	const struct script *t = &run.program.rank[run.me.rank];
	bool grouped = false, capturing = false, graph = false;

	(void)unused;
	if (order("init"))
		for (run.at = 0; run.at < t->n; run.at++) {
			const struct step *s = &t->step[run.at];
			if (is_skipped(s, grouped, capturing, graph))
				continue;
			if (!take_step(s))
				break;
			grouped = s->what == DO_GROUP || (grouped && s->what != DO_END);
			capturing = s->what == DO_CAPTURE || (capturing && s->what != DO_CAPTURED);
			graph = s->what == DO_CAPTURED || (graph && s->what != DO_DROP);
		}
	run.ended = true;
	return NULL;
}

static void begin(char *words, char *answer)
{
	unsigned seed, fault;
	char id[2 * sizeof(run.me.id) + 1];

	if (sscanf(words, "%u %u %d %256s", &seed, &fault, &run.me.rank, id) != 4) {
		strcpy(answer, "error no such program");
		return;
	}
	program_make(&run.program, seed, (enum fault)fault);
	run.me.ranks = run.program.n;
	for (size_t i = 0; i < sizeof(run.me.id); i++)
		sscanf(id + 2 * i, "%2hhx", &run.me.id[i]);
	run.ended = run.cancelled = false;
	run.at = -1;
	run.error[0] = '\0';
	run.started = pthread_create(&run.thread, NULL, carry_out, NULL) == 0;
	strcpy(answer, run.started ? "ok" : "error no thread");
}

static void join(void)
{
	if (run.started)
		pthread_join(run.thread, NULL);
	run.started = false;
}

static void result(char *answer)
{
	if (!run.ended) {
		snprintf(answer, RANKS_LINE, "busy %d", run.at);
		return;
	}
	join();
	snprintf(answer, RANKS_LINE, "%s", run.error[0] ? run.error : "ok");
}

static void cancel(char *answer)
{
	char line[32] = "open";
	struct rank me = run.me;

	run.cancelled = true;
	rank_obey(&me, line, answer);
	for (unsigned ms = 0; ms < CANCEL_MS && !run.ended; ms += 5) {
		strcpy(line, "abortall");
		rank_obey(&me, line, answer);
		sleep_ms(5);
	}
	if (!run.ended) {
		snprintf(answer, RANKS_LINE, "stuck at %d", run.at);
		return;
	}
	join();
	strcpy(line, "abortall");
	rank_obey(&me, line, answer);
	nccl.sim_nccl_fault("STUCK", 0);
	strcpy(answer, "ok");
}

static void make_id(char *answer)
{
	char line[16] = "open";
	ncclUniqueId id;

	rank_obey(&run.me, line, answer); /* loads the library */
	if (nccl.ncclGetUniqueId(&id) != ncclSuccess) {
		strcpy(answer, "error no id");
		return;
	}
	for (size_t i = 0; i < sizeof(id.internal); i++)
		sprintf(answer + 2 * i, "%02x", (unsigned char)id.internal[i]);
}

void program_obey(struct rank *me, char *line, char *answer)
{
	if (!strcmp(line, "id"))
		make_id(answer);
	else if (!strncmp(line, "run ", 4))
		begin(line + 4, answer);
	else if (!strcmp(line, "result"))
		result(answer);
	else if (!strcmp(line, "cancel"))
		cancel(answer);
	else
		rank_obey(me, line, answer);
}
