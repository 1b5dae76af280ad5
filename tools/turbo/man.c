/*
 * man.c - the manual page and bash's completion, made of the same tables as the help texts: commands, options.
 */
#include <ctype.h>
#include <string.h>

#include "options.h"
#include "turbo.h"

/* ---- the manual page ---- */

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
	puts(".SH ENVIRONMENT\nEach option has a default of the preset that TURBO names; safe is the default preset.");
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
	puts(".SH NAME\nturbo \\- run GPU programs with libturbo, and look at what it does\n"
		 ".SH SYNOPSIS\n.B turbo\n.I COMMAND\n.RI [ ARG ...]\n.br\n"
		 ".B LD_PRELOAD=libturbo.so\n.I CMD\n.RI [ ARG ...]\n"
		 ".SH DESCRIPTION\nlibturbo.so, preloaded, makes host/device traffic, allocation and collectives of unmodified\n"
		 "CUDA programs faster and says which rank of a job holds up the others. This command checks options, starts\n"
		 "programs with it, and shows what it counts and records.");
	put_commands();
	put_options();
	puts(".SH EXIT STATUS\n0 done, 1 it failed, 2 it was asked wrongly.\n"
		 ".B turbo run\nends as CMD does; 126 says that CMD could not be started, 127 that it was not found.\n"
		 ".SH FILES\n.TP\n.I /dev/shm/turbo\\-UID\\-PID.stats\ncounters of a process\n"
		 ".TP\n.I /dev/shm/turbo\\-UID\\-PID.flight\nNCCL calls of a process");
}

/* ---- completion ---- */

/* Words of a text that are options: --name, or - and one character, after a blank, a bracket or at its start. */
static void put_flags(const char *text)
{
	for (const char *p = text; *p; p++) {
		if (*p != '-' || (p > text && !strchr(" [\n,|", p[-1])))
			continue;
		size_t n = strspn(p, "-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
		if (n > 2 || (n == 2 && p[1] != '-'))
			printf(" %.*s", (int)n, p);
		p += n ? n - 1 : 0;
	}
}

void man_completion(void)
{
	fputs("# bash completion for turbo; made by `turbo help --bash`.\n_turbo()\n{\n"
		  "\tlocal word=${COMP_WORDS[COMP_CWORD]} flags= i\n"
		  "\tif [ \"$COMP_CWORD\" = 1 ]; then\n\t\tmapfile -t COMPREPLY < <(compgen -W 'help --version",
		  stdout);
	for (const struct command *c = commands; c->name; c++)
		printf(" %s", c->name);
	fputs("' -- \"$word\")\n\t\treturn\n\tfi\n"
		  "\tif [ \"${COMP_WORDS[1]}\" = run ]; then\n"
		  "\t\tfor ((i = 2; i < COMP_CWORD; i++)); do\n\t\t\tcase ${COMP_WORDS[i]} in\n"
		  "\t\t\t-o | --preset) i=$((i + 1)) ;;\n\t\t\t--) i=$((i + 1)) ;;&\n"
		  "\t\t\t-*) ;;\n\t\t\t*) COMP_WORDS=(\"${COMP_WORDS[@]:i}\") COMP_CWORD=$((COMP_CWORD - i))\n"
		  "\t\t\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n\t\t\t\treturn ;;\n\t\t\tesac\n\t\tdone\n"
		  "\t\tcase ${COMP_WORDS[COMP_CWORD - 1]} in\n"
		  "\t\t-o) mapfile -t COMPREPLY < <(compgen -S = -W '",
		  stdout);
	for (int i = 0; i < OPT_COUNT; i++)
		printf("%s%s", i ? " " : "", option_table[i].name);
	fputs("' -- \"$word\")\n\t\t\tcompopt -o nospace 2>/dev/null\n\t\t\treturn ;;\n"
		  "\t\t--preset) mapfile -t COMPREPLY < <(compgen -W 'off observe safe max' -- \"$word\")\n\t\t\treturn ;;\n"
		  "\t\tesac\n\tfi\n\tcase ${COMP_WORDS[1]} in\n",
		  stdout);
	for (const struct command *c = commands; c->name; c++) {
		printf("\t%s) flags='--help", c->name);
		put_flags(c->usage);
		put_flags(c->details);
		puts("' ;;");
	}
	fputs("\thelp) mapfile -t COMPREPLY < <(compgen -W '", stdout);
	for (const struct command *c = commands; c->name; c++)
		printf("%s%s", c == commands ? "" : " ", c->name);
	puts("' -- \"$word\")\n\t\treturn ;;\n\tesac\n"
		 "\tif [[ $word == -* ]]; then\n\t\tmapfile -t COMPREPLY < <(compgen -W \"$flags\" -- \"$word\")\n"
		 "\telse\n\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n\tfi\n}\ncomplete -o filenames -F _turbo turbo");
}
