/*
 * report_stacks.h - the stacks that a process has left in its file: at the issue of a call (a site), and now (a dump).
 *
 * Their lines are those of stacks.h. They come from another process: whatever else stands there is passed over.
 */
#ifndef TURBO_NCCL_REPORT_STACKS_H
#define TURBO_NCCL_REPORT_STACKS_H

#include "report.h"
#include "report_out.h"

enum report_frame_kind { FRAME_OTHER, FRAME_THREAD, FRAME_PYTHON, FRAME_NATIVE, FRAME_NOTE };

/* A part of a text that is read line by line. */
struct report_lines {
	const char *at, *end;
};
struct report_frame {
	enum report_frame_kind kind;
	const char *text; /* behind the word that names the kind; no 0 at its end */
	size_t bytes;
	uint32_t thread; /* of FRAME_THREAD; its text is the name then */
};

/* false: the end. */
bool report_next_frame(struct report_lines *l, struct report_frame *f);

/* Empty when there is none. */
struct report_lines report_site(const struct flight_page *page, uint32_t site);
/* Of the dump, if it is of this report; else empty. */
struct report_lines report_dump(const struct report *r, const struct flight_page *page);
/* What the dump says of one thread, without its head; empty: nothing. */
struct report_lines report_dump_thread(const struct report *r, const struct flight_page *page,
									   uint32_t thread);

/*
 * The innermost Python frame that is not of an installed package, if any, or else the innermost one:
 * `train.py:88 in step`; without Python the innermost native one; in at most `columns`. false: there is none, and
 * nothing was put.
 */
bool report_own_frame(struct out *o, struct report_lines l, unsigned columns);
/* `step (/src/train.py:88)`, uncut. */
void report_python_frame(struct out *o, const struct report_frame *f);

#endif
