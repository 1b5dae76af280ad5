/*
 * export_kineto.h - what the two files of the Kineto writer share.
 */
#ifndef TURBO_EXPORT_KINETO_H
#define TURBO_EXPORT_KINETO_H

#include <errno.h>

#include "tools/timeline/export.h"

#define KINETO_FLOWS (1u << 18) /* calls whose work may not have begun yet */

/* What all events of an entry have in common. */
struct kineto_text {
	char *head; /* {"ph":…,"cat":…,"name":…,"pid": */
	size_t head_length;
	char *tail; /* of a kernel: ,"registers per thread": … }} */
	size_t tail_length;
	uint32_t device; /* that the tail is for */
};

struct kineto_row {
	uint32_t pid, tid;
};

struct kineto {
	struct trace *trace;
	const struct export_request *request;
	struct output *out;
	uint64_t base;    /* ns: what times count from */
	uint64_t events;  /* lines */
	uint64_t written; /* without metadata and flows */
	struct tracks tracks;
	struct kineto_row *row; /* by track id */
	uint32_t rows;
	uint32_t process[64]; /* pids that have a name */
	uint32_t processes;
	struct kineto_text **text; /* by entry */
	uint32_t *called;          /* by correlation modulo KINETO_FLOWS: the last call that started work */
};

/* NULL: no memory. Good until the next call. */
const struct kineto_text *kineto_text_of(struct kineto *k, const struct trace_event *e);
void kineto_texts_free(struct kineto *k);
/* From the comma before "args" to the event's end. */
void kineto_put_args(struct kineto *k, const struct trace_event *e, const struct kineto_text *text);

#endif
