/*
 * cmd_options.c - `turbo options`: the option table, for a terminal or for
 * README.md. Everything comes from options.def.
 */
#include <string.h>

#include "options.h"
#include "turbo.h"

extern char **environ;

#define WIDTH 100
#define INDENT 4

/* "off|on" → "off, on" in buf. */
static const char *spaced(const char *values, char *buf, size_t size)
{
	size_t n = 0;
	for (const char *p = values; *p && n + 3 < size; p++) {
		if (*p == '|') {
			buf[n++] = ',';
			buf[n++] = ' ';
		} else {
			buf[n++] = *p;
		}
	}
	buf[n] = '\0';
	return buf;
}

/* The sentence, indented and broken at blanks before column WIDTH. */
static void print_wrapped(const char *text)
{
	int column = 0;
	while (*text) {
		int n = (int)strcspn(text, " ");
		if (column && column + 1 + n > WIDTH) {
			putchar('\n');
			column = 0;
		}
		column += column ? printf(" %.*s", n, text) : printf("%*s%.*s", INDENT, "", n, text);
		text += n + strspn(text + n, " ");
	}
	putchar('\n');
}

static const char *or_dash(const char *text)
{
	return *text ? text : "-";
}

static void widen(int *width, const char *text)
{
	int n = (int)strlen(or_dash(text));
	if (n > *width)
		*width = n;
}

static void print_text(void)
{
	int name = 6, now = 3, safe = 4, max = 3; /* as wide as the titles */
	char buf[256];
	for (int i = 0; i < OPT_COUNT; i++) {
		widen(&name, option_table[i].name);
		widen(&now, option_text((enum option_id)i));
		widen(&safe, option_table[i].safe);
		widen(&max, option_table[i].max);
	}
	if (now > 16)
		now = 16; /* a long path pushes its own row only */
	printf("%-*s  %-*s   %-*s  %-*s  %s\n", name, "OPTION", now, "NOW", safe, "SAFE", max, "MAX", "ALLOWED");
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct option_row *row = &option_table[i];
		char mark = option_is_set((enum option_id)i) ? '*' : ' ';
		printf("%-*s  %-*s %c %-*s  %-*s  %s\n", name, row->name, now,
			   or_dash(option_text((enum option_id)i)), mark, safe, or_dash(row->safe), max,
			   or_dash(row->max), spaced(row->values, buf, sizeof(buf)));
		print_wrapped(row->text);
	}
}

static void print_markdown(void)
{
	char buf[256];
	puts("| option | values | `safe` | `max` | what it does |");
	puts("|---|---|---|---|---|");
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct option_row *row = &option_table[i];
		printf("| `%s` | %s | %s | %s | %s |\n", row->name, spaced(row->values, buf, sizeof(buf)),
			   or_dash(row->safe), or_dash(row->max), row->text);
	}
}

static void say_bad(void *arg, const char *name, const char *value, const char *reason)
{
	(void)arg;
	fprintf(stderr, "turbo options: %s=%s is ignored: %s\n", name, value, reason);
}

int cmd_options(int argc, char **argv)
{
	bool markdown = false;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--markdown"))
			markdown = true;
		else
			return usage_error("options", "unknown argument '%s'", argv[i]);
	}
	options_parse(environ, say_bad, NULL);
	if (markdown)
		print_markdown();
	else
		print_text();
	return finish_output("options");
}
