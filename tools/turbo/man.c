/*
 * man.c - the manual page, made of the same tables as the help texts: commands, options.
 */
#include <ctype.h>
#include <string.h>

#include "options.h"
#include "turbo.h"

/* In roff a line that begins with . or ' is a request, - a hyphen, and \ an escape. */
static void put_roff(const char *text)
{
	for (const char *p = text; *p; p++) {
		if (strchr(".'", *p) && (p == text || p[-1] == '\n'))
			fputs("\\&", stdout);
		if (*p == '\\')
			fputs("\\e", stdout);
		else if (*p == '-')
			fputs("\\-", stdout);
		else
			putchar(*p);
	}
}

static void put_commands(void)
{
	puts(".SH COMMANDS");
	for (const struct command *c = commands; c->name; c++) {
		printf(".SS turbo %s\n", c->name);
		fputs(".nf\n.B turbo ", stdout);
		put_roff(c->usage);
		fputs("\n.fi\n.PP\n", stdout);
		putchar(toupper((unsigned char)*c->summary));
		put_roff(c->summary + 1);
		puts(".\n.PP\n.nf");
		put_roff(c->details);
		puts(".fi");
	}
}

static void put_options(void)
{
	puts(
		".SH ENVIRONMENT\nEach option has a default of the preset that TURBO names; safe is the default preset.");
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct option_row *row = &option_table[i];
		printf(".TP\n.B %s\n", row->name);
		put_roff(row->text);
		fputs("\nValues: ", stdout);
		for (const char *p = row->values; *p; p++)
			*p == '|' ? fputs(", ", stdout) : putchar(*p);
		if (*row->safe)
			printf(". Default: %s%s%s", row->safe, strcmp(row->safe, row->max) ? "; under max: " : "",
				   strcmp(row->safe, row->max) ? row->max : "");
		puts(".");
	}
}

void man_page(void)
{
	printf(".TH TURBO 1 \"\" \"libturbo %s\" \"User Commands\"\n", TURBO_VERSION);
	puts(
		".SH NAME\nturbo \\- run GPU programs with libturbo, and look at what it does\n"
		".SH SYNOPSIS\n.B turbo\n.I COMMAND\n.RI [ ARG ...]\n.br\n"
		".B LD_PRELOAD=libturbo.so\n.I CMD\n.RI [ ARG ...]\n"
		".SH DESCRIPTION\nlibturbo.so, preloaded, makes host/device traffic, allocation and collectives of unmodified\n"
		"CUDA programs faster and says which rank of a job holds up the others. This command checks options, starts\n"
		"programs with it, and shows what it counts and records.");
	put_commands();
	put_options();
	puts(
		".SH EXIT STATUS\n0 done, 1 it failed, 2 it was asked wrongly.\n"
		".B turbo run\nends as CMD does; 126 says that CMD could not be started, 127 that it was not found.\n"
		".SH FILES\n.TP\n.I /dev/shm/turbo\\-UID\\-PID.stats\ncounters of a process\n"
		".TP\n.I /dev/shm/turbo\\-UID\\-PID.flight\nNCCL calls of a process");
}
