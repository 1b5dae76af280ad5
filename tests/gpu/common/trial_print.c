/*
 * trial_print.c - programs for people.
 */
#include <stdio.h>

#include "rank_data.h"
#include "trial.h"

static const char *const names[] = {
	[TRIAL_FILL] = "fill",
	[TRIAL_ADD] = "add",
	[TRIAL_COPY] = "copy",
	[TRIAL_MEMSET] = "memset",
	[TRIAL_UPLOAD] = "upload",
	[TRIAL_FETCH] = "fetch",
	[TRIAL_HOST] = "host function",
	[TRIAL_SPIN] = "spin",
	[TRIAL_CALL] = "call",
	[TRIAL_GROUP] = "group",
	[TRIAL_END] = "end",
	[TRIAL_SET_HOST] = "set by host function",
	[TRIAL_SET_KERNEL] = "set by kernel",
	[TRIAL_AWAIT] = "await",
	[TRIAL_RECORD] = "record",
	[TRIAL_WAIT] = "wait",
	[TRIAL_EVENT_SYNC] = "event synchronize",
	[TRIAL_EVENT_POLL] = "event poll",
	[TRIAL_STREAM_SYNC] = "stream synchronize",
	[TRIAL_STREAM_POLL] = "stream poll",
	[TRIAL_CTX_SYNC] = "context synchronize",
	[TRIAL_EVENT_ASK] = "event query",
	[TRIAL_STREAM_ASK] = "stream query",
	[TRIAL_EVENT_ANEW] = "event anew",
	[TRIAL_STREAM_ANEW] = "stream anew",
	[TRIAL_PUT] = "put",
	[TRIAL_LOOK] = "look",
	[TRIAL_PAGEABLE] = "pageable copy",
	[TRIAL_SET] = "set",
	[TRIAL_HEED] = "heed",
	[TRIAL_SLEEP] = "sleep",
	[TRIAL_WORK] = "work",
	[TRIAL_DIE] = "die",
	[TRIAL_ALLOC] = "allocate",
	[TRIAL_FREE] = "free",
	[TRIAL_CAPTURE] = "capture",
	[TRIAL_CAPTURED] = "captured",
	[TRIAL_REPLAY] = "replay",
	[TRIAL_DROP] = "drop",
	[TRIAL_SPLIT] = "split",
	[TRIAL_INIT] = "init",
	[TRIAL_DESTROY] = "destroy",
	[TRIAL_ASYNC] = "async error",
	[TRIAL_UNWATCH] = "unwatch",
};

static void put_place(char *to, size_t room, uint32_t at)
{
	snprintf(to, room, "%u+%u", at / TRIAL_UNIT, at % TRIAL_UNIT);
}

const char *trial_step_text(const struct trial_step *s)
{
	static char text[256];
	char to[24], from[24];
	const char *where = s->other ? " (other thread)" : "";

	put_place(to, sizeof(to), s->to);
	put_place(from, sizeof(from), s->from);
	if (s->what == TRIAL_CALL)
		snprintf(text, sizeof(text), "%s comm %d stream %d: %u %s, root %d, op %u, from %s to %s%s",
				 data_func_names[s->func], s->comm, s->stream, s->count, data_type_names[s->type], s->peer,
				 s->op, from, to, where);
	else if (s->what < TRIAL_RECORD || s->what == TRIAL_PUT || s->what == TRIAL_LOOK ||
			 s->what == TRIAL_PAGEABLE)
		snprintf(text, sizeof(text), "%s stream %d: %u bytes from %s to %s, value %u%s", names[s->what],
				 s->stream, s->bytes, from, to, s->value, where);
	else if (s->what < TRIAL_PUT)
		snprintf(text, sizeof(text), "%s stream %d event %d, value %u%s", names[s->what], s->stream, s->event,
				 s->value, where);
	else
		snprintf(text, sizeof(text), "%s stream %d number %d comm %d peer %d, value %u%s", names[s->what],
				 s->stream, s->event, s->comm, s->peer, s->value, where);
	return text;
}

void trial_print(const struct trial *t)
{
	fprintf(stderr, "---- seed %u, %d ranks, fault %d of rank %d\n", t->seed, t->n, (int)t->fault,
			t->culprit);
	for (int c = 0; c < t->comms; c++) {
		fprintf(stderr, "comm %d%s:", c, t->comm[c].nonblocking ? " (non-blocking)" : "");
		for (int i = 0; i < t->comm[c].n; i++)
			fprintf(stderr, " %d", t->comm[c].rank[i]);
		fprintf(stderr, "\n");
	}
	for (int r = 0; r < t->n; r++)
		for (int i = 0; i < t->rank[r].n; i++)
			fprintf(stderr, "%d.%d [%u] %s\n", r, i, t->rank[r].step[i].place,
					trial_step_text(&t->rank[r].step[i]));
}
