/*
 * turbo.h - what the files of the `turbo` command share.
 *
 * A subcommand is one cmd_NAME.c with one row in main.c's table. Exit codes:
 * 0 done, 1 it failed, 2 it was asked wrongly (usage, a bad option).
 * `turbo run` otherwise ends as its CMD does.
 */
#ifndef TURBO_TOOL_H
#define TURBO_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "stats_page.h"

#ifndef TURBO_VERSION
#error "the Makefile names the version"
#endif

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_ASKED_WRONGLY = 2 };

struct command {
	const char *name;
	int (*run)(int argc, char **argv); /* argv[0] is the subcommand's name */
	const char *usage;                 /* after "turbo " */
	const char *summary;               /* one line for `turbo --help` */
	const char *details;               /* the rest of `turbo help NAME` */
};

/* main.c */
extern const struct command commands[];
const struct command *command_find(const char *name);
void command_help(const struct command *cmd, FILE *to);
/* "turbo NAME: text" on stderr, then how to get help; returns EXIT_ASKED_WRONGLY. */
int usage_error(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "turbo NAME: text" on stderr; returns EXIT_FAILED. */
int failure(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Flushes stdout; a reader that went away or a full disk is EXIT_FAILED, said once. */
int finish_output(const char *name);

int cmd_doctor(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_options(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_nccl(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_replay(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_stats(int argc, char **argv);

/* man.c: turbo(1) for man, on stdout. */
void man_page(void);

/* window.c: a --window of `command`, in ns after the first record; *end is UINT64_MAX where none was given. Returns 0, or
 * what usage_error() did. */
int window_take(const char *command, const char *value, uint64_t *start, uint64_t *end);

/* library.c: path of libturbo.so beside this command, in buf; false when there is none. */
bool library_find(char *buf, size_t size);

/* program.c: what `turbo run` must know about CMD before it is started. */
enum program_fit {
	PROGRAM_FITS,       /* the loader will take LD_PRELOAD */
	PROGRAM_STATIC,     /* no dynamic loader at all */
	PROGRAM_SETUID,     /* the loader ignores LD_PRELOAD in secure mode */
	PROGRAM_FOREIGN,    /* another machine or word size than libturbo's */
	PROGRAM_OTHER_LIBC, /* a loader that is not glibc's */
};

struct program {
	char path[4096];  /* CMD, found as execvp finds it */
	char image[4096]; /* the ELF file that will run: CMD, or the interpreter of its #! line */
	enum program_fit fit;
	char runtimes[4096]; /* sanitizer runtimes that must come first, colon-separated; "" */
};

/* Returns 0, or an errno: ENOENT not found, EACCES not executable, … */
int program_inspect(const char *cmd, struct program *p);

/* elf.c: the few facts of an ELF file that matter here. */
struct elf_facts {
	bool native;        /* same class, byte order and machine as this command */
	bool loader_itself; /* no PT_INTERP, but a shared object with a DT_SONAME: ld.so */
	char interp[4096];  /* PT_INTERP, "" when static */
	size_t needed_count;
	char needed[32][128]; /* the first DT_NEEDED names */
};

/* Returns 1 for ELF, 0 for anything else, -1 when the file cannot be read (errno). */
int elf_read(const char *path, struct elf_facts *facts);

/* stats_file.c: one process's stats page, checked and copied. */
struct stats_cell {
	const char *name, *unit, *text; /* inside struct stats_file, printable ASCII only */
	uint64_t value;                 /* sum over the lanes */
};

enum stats_life {
	STATS_ENDED,
	STATS_RUNNING,
	STATS_ELSEWHERE, /* another pid namespace: its number means nothing here */
};

struct stats_file {
	struct stats_header head; /* texts terminated and printable */
	struct stats_cell *cell;  /* head.cells of them; the first head.calls count calls by symbol */
	enum stats_life life;
	char path[4096];
	char *text; /* the names; owned */
};

/* Reads `path` for the user `uid`. On failure returns false and says why in `why`. */
bool stats_file_read(const char *path, struct stats_file *f, char *why, size_t why_size);
void stats_file_free(struct stats_file *f);
/* Path of the page of `pid` in buf; false when there is none. */
bool stats_file_find(uint32_t pid, char *buf, size_t size);
/* Calls `each` with every page that this user may read, by user and number in each folder;
 * returns how many. */
typedef void stats_file_each(void *arg, uint32_t pid, const char *path);
int stats_file_list(stats_file_each *each, void *arg);

#endif
