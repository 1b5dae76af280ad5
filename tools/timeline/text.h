/*
 * text.h - what the parts of the text output share.
 */
#ifndef TURBO_REPORT_TEXT_H
#define TURBO_REPORT_TEXT_H

#include "report.h"
#include "units.h"

enum text_colour {
	TEXT_PLAIN,
	TEXT_BOLD,
	TEXT_DIM,
	TEXT_RED,
	TEXT_YELLOW,
	TEXT_GREEN,
	TEXT_BLUE,
	TEXT_COLOURS
};

struct text {
	FILE *to;
	unsigned style; /* enum report_style */
	int columns;    /* of the whole; at least REPORT_COLUMNS */
	const struct report *r;
};

/* "" without colours. */
const char *text_on(const struct text *t, enum text_colour c);
const char *text_off(const struct text *t);
void text_heading(const struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Wrapped at spaces, each line after `indent` columns; the first after `label`, which is as wide at most. */
void text_paragraph(const struct text *t, const char *label, int indent, const char *s);
/* As text_fit(), of the short name of a kernel: what tells it apart remains. */
void text_kernel(const char *short_name, int width, char *out, size_t size);
/* At most `width` columns: the middle of a long one is left out. */
void text_fit(const char *s, int width, char *out, size_t size);
/* "rank 3", or "GPU 1 of rank 3" where ranks have several, or "" where there is one of all. */
struct units_text text_who(const struct report *r, const struct report_rank *rank,
						   const struct report_gpu *g);

/* report_text_time.c */
void text_ranks(const struct text *t);
void text_timeline(const struct text *t);
void text_time(const struct text *t);
void text_gaps(const struct text *t);
void text_steps(const struct text *t);
/* report_text_work.c */
void text_kernels(const struct text *t);
void text_copies(const struct text *t);
void text_collectives(const struct text *t);
void text_host(const struct text *t);
/* report_text_end.c */
void text_recording(const struct text *t);
void text_advice(const struct text *t);

#endif
