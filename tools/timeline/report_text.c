/*
 * report_text.c - a report for people at a terminal: sections with something to say, 100 columns.
 */
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "text.h"

const char *text_on(const struct text *t, enum text_colour c)
{
	static const char *const code[TEXT_COLOURS] = {
		[TEXT_PLAIN] = "",        [TEXT_BOLD] = "\033[1m",    [TEXT_DIM] = "\033[2m",
		[TEXT_RED] = "\033[31m",  [TEXT_YELLOW] = "\033[33m", [TEXT_GREEN] = "\033[32m",
		[TEXT_BLUE] = "\033[34m",
	};
	return t->style & REPORT_COLOUR ? code[c] : "";
}

const char *text_off(const struct text *t)
{
	return t->style & REPORT_COLOUR ? "\033[0m" : "";
}

void text_heading(const struct text *t, const char *fmt, ...)
{
	va_list ap;
	fprintf(t->to, "\n%s", text_on(t, TEXT_BOLD));
	va_start(ap, fmt);
	vfprintf(t->to, fmt, ap);
	va_end(ap);
	fprintf(t->to, "%s\n", text_off(t));
}

/* Columns that a text takes: its UTF-8 characters. */
static int columns(const char *s, const char *end)
{
	int n = 0;
	for (; s < end; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

/* Where the word that begins at `s` ends. A number and its unit are one word. */
static const char *word_end(const char *s)
{
	const char *end = s + strcspn(s, " ");
	if (*end == ' ' && end > s && end[-1] >= '0' && end[-1] <= '9') {
		const char *next = end + 1 + strcspn(end + 1, " ");
		if (next - end <= 6 && !(end[1] >= '0' && end[1] <= '9'))
			return next;
	}
	return end;
}

void text_paragraph(const struct text *t, const char *label, int indent, const char *s)
{
	int at = fprintf(t->to, "%-*s", indent, label);
	for (bool first = true; *s; first = false) {
		const char *end = word_end(s);
		int n = columns(s, end);
		if (!first && at + 1 + n > REPORT_COLUMNS) {
			fprintf(t->to, "\n%*s", indent, "");
			at = indent;
			first = true;
		}
		at += fprintf(t->to, "%s", first ? "" : " ") + n;
		fwrite(s, 1, (size_t)(end - s), t->to);
		s = end + (*end == ' ');
	}
	fputc('\n', t->to);
}

void text_fit(const char *s, int width, char *out, size_t size)
{
	size_t n = strlen(s);
	if ((int)n <= width) {
		snprintf(out, size, "%s", s);
		return;
	}
	/* The beginning says more than the end, and the end of template arguments nothing. Not in the middle of a
	 * character. */
	size_t tail = strchr(s, '<') ? 0 : (size_t)(width - 3) / 3, head = (size_t)(width - 3) - tail;
	while (head && ((unsigned char)s[head] & 0xc0) == 0x80)
		head--;
	while (tail && ((unsigned char)s[n - tail] & 0xc0) == 0x80)
		tail--;
	snprintf(out, size, "%.*s...%s", (int)head, s, s + n - tail);
}

struct units_text text_who(const struct report *r, const struct report_rank *rank, const struct report_gpu *g)
{
	struct units_text who = {""};
	if (r->ranks > 1 && rank->rank >= 0)
		snprintf(who.s, sizeof(who.s), "rank %d", rank->rank);
	else if (r->ranks > 1)
		snprintf(who.s, sizeof(who.s), "pid %u", rank->pid);
	if (rank->gpus > 1) {
		size_t n = strlen(who.s);
		snprintf(who.s + n, sizeof(who.s) - n, "%sGPU %u", n ? " " : "", g->device);
	}
	return who;
}

static void what(const struct text *t)
{
	const struct report *r = t->r;
	char when[64];
	time_t seconds = (time_t)(r->origin_ns / 1000000000u);
	struct tm tm;
	if (!gmtime_r(&seconds, &tm) || !strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &tm))
		snprintf(when, sizeof(when), "unknown time");
	fprintf(t->to, "%s%u process%s, %s from %s%s", text_on(t, TEXT_DIM), r->ranks, r->ranks == 1 ? "" : "es",
			units_time((double)(r->window_end - r->window_start)).s, when, text_off(t));
	if (r->window_asked)
		fprintf(t->to, " (window %s to %s)", units_time((double)r->window_start).s,
				units_time((double)r->window_end).s);
	fputc('\n', t->to);
}

void report_text(const struct report *r, FILE *to, unsigned style, unsigned columns)
{
	struct text t = {to, style, (int)(columns > REPORT_COLUMNS ? columns : REPORT_COLUMNS), r};
	fputs(text_on(&t, TEXT_BOLD), to);
	text_paragraph(&t, "", 0, r->verdict);
	fputs(text_off(&t), to);
	what(&t);
	text_ranks(&t);
	text_timeline(&t);
	text_time(&t);
	text_gaps(&t);
	text_steps(&t);
	text_kernels(&t);
	text_copies(&t);
	text_collectives(&t);
	text_host(&t);
	text_recording(&t);
	text_advice(&t);
}
