/*
 * show.c - the findings for people: by subject, then what to do, worst first.
 */
#include <string.h>

#include "doctor.h"

#define TITLE 22  /* columns of a title */
#define INDENT 10 /* where titles begin */

static const char *colour(const struct doctor_look *look, enum doctor_level level)
{
	static const char *const codes[] = {"\033[2m", "\033[32m", "\033[33m", "\033[31m"};
	return look->colour ? codes[level] : "";
}

static const char *bold(const struct doctor_look *look)
{
	return look->colour ? "\033[1m" : "";
}

static const char *off(const struct doctor_look *look)
{
	return look->colour ? "\033[0m" : "";
}

/* Columns of UTF-8 text, taking every character for one. */
static unsigned width(const char *s, size_t bytes)
{
	unsigned n = 0;
	for (size_t i = 0; i < bytes; i++)
		n += ((unsigned char)s[i] & 0xc0) != 0x80;
	return n;
}

/* Words from column `at` on, later lines at `indent`; a word that is longer than a line is cut into several. */
static void paragraph(const struct doctor_look *look, unsigned at, unsigned indent, const char *text)
{
	bool first = true;
	while (*text) {
		size_t n = strcspn(text, " ");
		unsigned columns = width(text, n);
		if (!first && at + 1 + columns > look->columns) {
			fprintf(look->to, "\n%*s", (int)indent, "");
			at = indent;
			first = true;
		}
		if (!first) {
			fputc(' ', look->to);
			at++;
		}
		while (at + columns > look->columns && look->columns > indent + 8) {
			size_t part = look->columns - at;
			while (part > 1 && ((unsigned char)text[part] & 0xc0) == 0x80)
				part--;
			fprintf(look->to, "%.*s\n%*s", (int)part, text, (int)indent, "");
			text += part;
			n -= part;
			columns = width(text, n);
			at = indent;
		}
		fprintf(look->to, "%.*s", (int)n, text);
		at += columns;
		text += n;
		text += strspn(text, " ");
		first = false;
	}
	fputc('\n', look->to);
}

/* "GPU 0: text", or the text alone. */
static void sentence(const char *where, const struct finding *f, char *buf, size_t size)
{
	snprintf(buf, size, "%s%s%s", where, *where ? ": " : "", f->seen);
}

static bool alike(const struct finding *a, const struct finding *b)
{
	return a->id == b->id && a->level == b->level && a->subject == b->subject;
}

/* Where the same was seen, "GPU 0, 1, 2": from `first` on; what is named there is marked. */
static void places(const struct doctor *d, unsigned first, unsigned count, bool *told, char *buf, size_t size)
{
	const struct finding *f = &d->board->finding[first];
	size_t word = strcspn(f->where, " ");
	snprintf(buf, size, "%s", f->where);
	told[first] = true;
	for (unsigned i = first + 1; i < count && *f->where; i++) {
		const struct finding *g = &d->board->finding[i];
		size_t used = strlen(buf);
		if (told[i] || !alike(f, g) || strcmp(f->seen, g->seen) || strcmp(f->todo, g->todo) ||
			strncmp(f->where, g->where, word) || strcspn(g->where, " ") != word || !g->where[word])
			continue;
		snprintf(buf + used, size - used, ",%s", g->where + word);
		told[i] = true;
	}
}

static const char *todo_of(const struct finding *f)
{
	return *f->todo ? f->todo : doctor_table[f->id].todo;
}

static void line(const struct doctor_look *look, const char *where, const struct finding *f, bool again)
{
	const char *title = again ? "" : doctor_table[f->id].title;
	char text[1024];
	unsigned at = INDENT + TITLE;
	fprintf(look->to, "%s%-8s%s  %-*s", colour(look, f->level), doctor_levels[f->level], off(look), TITLE,
			title);
	if (strlen(title) >= TITLE) {
		fputc(' ', look->to);
		at = INDENT + (unsigned)strlen(title) + 1;
	}
	sentence(where, f, text, sizeof(text));
	if (f->level == DOCTOR_NOT_HERE)
		fputs(colour(look, f->level), look->to);
	paragraph(look, at, INDENT + TITLE, text);
	if (f->level == DOCTOR_NOT_HERE)
		fputs(off(look), look->to);
}

/* In the order of the table; findings of one row stay in the order in which they were said. */
static void subject(const struct doctor *d, const struct doctor_look *look, enum doctor_subject s,
					unsigned count)
{
	static bool told[DOCTOR_MOST];
	bool any = false;
	int last = -1; /* the title that stands above */
	for (int id = 0; id < DOCTOR_FINDINGS; id++)
		for (unsigned i = 0; i < count; i++) {
			const struct finding *f = &d->board->finding[i];
			char where[256];
			if ((int)f->id != id || f->subject != s || told[i])
				continue;
			places(d, i, count, told, where, sizeof(where));
			if (!any)
				fprintf(look->to, "\n%s%s%s\n", bold(look), doctor_subjects[s], off(look));
			any = true;
			line(look, where, f, last == id);
			last = id;
		}
}

/* Those of one row that ask for the same, first all that was seen, then once why and what to do. `told` marks them. */
static void advice(const struct doctor *d, const struct doctor_look *look, unsigned first, unsigned count,
				   bool *told)
{
	const struct finding *f = &d->board->finding[first];
	const struct doctor_row *row = &doctor_table[f->id];
	fputc('\n', look->to);
	for (unsigned i = first; i < count; i++) {
		const struct finding *g = &d->board->finding[i];
		char text[1300], where[256];
		if (told[i] || !alike(g, f) || strcmp(g->todo, f->todo))
			continue;
		places(d, i, count, told, where, sizeof(where));
		snprintf(text, sizeof(text), "%s%s%s: %s", row->title, *where ? ", " : "", where, g->seen);
		fprintf(look->to, "%s%-6s%s", colour(look, f->level), i == first ? doctor_levels[f->level] : "",
				off(look));
		paragraph(look, 6, 6, text);
	}
	fprintf(look->to, "      ");
	paragraph(look, 6, 6, row->why);
	fprintf(look->to, "   %s->%s ", bold(look), off(look));
	paragraph(look, 6, 6, todo_of(f));
}

void doctor_show(const struct doctor *d, const struct doctor_look *look)
{
	static bool told[DOCTOR_MOST];
	unsigned count = atomic_load_explicit(&d->board->findings, memory_order_acquire),
			 of[DOCTOR_FAIL + 1] = {0};
	for (int s = 0; s < DOCTOR_SUBJECTS; s++)
		subject(d, look, (enum doctor_subject)s, count);
	for (unsigned i = 0; i < count; i++)
		of[d->board->finding[i].level]++;
	if (of[DOCTOR_FAIL] + of[DOCTOR_WARN])
		fprintf(look->to, "\n%sWhat to do%s\n", bold(look), off(look));
	for (int level = DOCTOR_FAIL; level >= DOCTOR_WARN; level--)
		for (int id = 0; id < DOCTOR_FINDINGS; id++)
			for (unsigned i = 0; i < count; i++)
				if ((int)d->board->finding[i].level == level && (int)d->board->finding[i].id == id &&
					!told[i])
					advice(d, look, i, count, told);
	fprintf(look->to, "\n%s%u fail, %u warn, %u ok, %u not here%s\n", bold(look), of[DOCTOR_FAIL],
			of[DOCTOR_WARN], of[DOCTOR_OK], of[DOCTOR_NOT_HERE], off(look));
}
