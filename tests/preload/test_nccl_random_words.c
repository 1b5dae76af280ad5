/* test_nccl_random_words.c - a program in words. */
#include <stdio.h>

#include "test_nccl_random.h"

static const char *const func_name[] = {"allgather", "allreduce", "reducescatter", "reduce", "broadcast",
										"alltoall",  "gather",    "scatter",       "send",   "recv"};
static const char *const type_name[] = {"i8", "u8", "i32", "u64", "f16", "f32", "f64", "bf16"};
static const char *const op_name[] = {"sum", "prod", "max", "min", "avg"};

static void call_order(const struct step *s, char order[RANKS_LINE])
{
	int n = snprintf(order, RANKS_LINE, "%s %u type=%s comm=%d stream=%d", func_name[s->func], s->count,
					 type_name[s->type], s->slot, s->stream);

	if (s->func == F_SEND || s->func == F_RECV)
		snprintf(order + n, (size_t)(RANKS_LINE - n), " peer=%d", s->peer);
	else
		snprintf(order + n, (size_t)(RANKS_LINE - n), " op=%s root=%d times=%d", op_name[s->op], s->peer,
				 s->times);
}

void program_order(const struct step *s, char order[RANKS_LINE])
{
	static const char *const format[] = {
		[DO_GROUP] = "group",
		[DO_END] = "end",
		[DO_SYNC] = "sync stream=%d",
		[DO_QUERY] = "query stream=%d",
		[DO_CAPTURE] = "capture stream=%d",
		[DO_CAPTURED] = "captured 0 stream=%d",
		[DO_REPLAY] = "replay 0 stream=%d",
		[DO_DROP] = "drop 0",
		[DO_GATE] = "gate stream=%d",
		[DO_OPEN] = "open",
		[DO_STOP] = "stop",
		[DO_DIE] = "die",
		[DO_EXIT] = "exit 0",
	};

	switch (s->what) {
	case DO_CALL: call_order(s, order); break;
	case DO_SPLIT:
		snprintf(order, RANKS_LINE, "split %d %d to=%d comm=%u", s->color, s->key, s->slot, s->count);
		break;
	case DO_DESTROY: snprintf(order, RANKS_LINE, "destroy comm=%d", s->slot); break;
	case DO_SLEEP: snprintf(order, RANKS_LINE, "sleep %u", s->count); break;
	case DO_WORK: snprintf(order, RANKS_LINE, "work %u", s->count); break;
	case DO_SPIN: snprintf(order, RANKS_LINE, "spin %u stream=%d", s->count, s->stream); break;
	case DO_STUCK: snprintf(order, RANKS_LINE, "fault STUCK %u", s->count); break;
	default:
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(order, RANKS_LINE, format[s->what], s->stream);
#pragma GCC diagnostic pop
	}
}

void program_print(const struct program *p)
{
	char order[RANKS_LINE];

	fprintf(stderr, "program %u, %s of rank %d, %d ranks\n", p->seed, fault_name[p->fault], p->culprit, p->n);
	for (int r = 0; r < p->n; r++)
		for (int i = 0; i < p->rank[r].n; i++) {
			program_order(&p->rank[r].step[i], order);
			fprintf(stderr, "%d.%d [%d c%d] %s\n", r, i, p->rank[r].step[i].place, p->rank[r].step[i].comm,
					order);
		}
}
