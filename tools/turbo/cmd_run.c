/*
 * cmd_run.c - `turbo run`: check the options, put libturbo.so into LD_PRELOAD
 * and become CMD, so that CMD's status and signals are seen by our parent
 * without a process in between.
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "turbo.h"

extern char **environ;

enum { STATUS_NOT_STARTED = 126, STATUS_NOT_FOUND = 127 };

static bool is_option(const char *name)
{
	for (int i = 0; i < OPT_COUNT; i++)
		if (!strcmp(option_table[i].name, name))
			return true;
	return false;
}

static void say_bad(void *arg, const char *name, const char *value, const char *reason)
{
	fprintf(stderr, "turbo run: %s=%s: %s\n", name, value, reason);
	*(int *)arg += 1;
}

/* "copy=off", "COPY=off", "TURBO_COPY=off" → setenv("TURBO_COPY", "off"). 0, or an exit code. */
static int set_option(const char *text)
{
	const char *eq = strchr(text, '=');
	bool prefixed = !strncasecmp(text, "TURBO_", 6) || !strncasecmp(text, "TURBO=", 6);
	int bad = 0;

	if (!eq || eq == text)
		return usage_error("run", "-o takes NAME=VALUE, not '%s'", text);
	char *entry = malloc(strlen(text) + sizeof("TURBO_"));
	if (!entry)
		return failure("run", "no memory for -o %s", text);
	char *p = stpcpy(entry, prefixed ? "" : "TURBO_");
	for (const char *s = text; s < eq; s++)
		*p++ = *s == '-' ? '_' : (char)toupper((unsigned char)*s);
	*p = '\0';
	char *end = p;
	stpcpy(p, eq);
	options_parse((char *[]){entry, NULL}, say_bad, &bad);
	*end = '\0';
	if (!bad && !is_option(entry)) /* a mark that libturbo leaves for itself */
		say_bad(&bad, entry, eq + 1, "not an option; see `turbo options`");
	if (!bad)
		setenv(entry, eq + 1, 1);
	free(entry);
	return bad ? EXIT_ASKED_WRONGLY : 0;
}

/* Takes the arguments before CMD. Returns the index of CMD, or -(exit code). */
static int take_arguments(int argc, char **argv)
{
	int i = 1;
	for (; i < argc && argv[i][0] == '-'; i++) {
		const char *arg = argv[i], *value = NULL;
		char preset[64];
		if (!strcmp(arg, "--"))
			return i + 1;
		if (!strcmp(arg, "-o") || !strcmp(arg, "--preset")) {
			if (i + 1 >= argc)
				return -usage_error("run", "%s needs a value", arg);
			value = argv[++i];
		} else if (!strncmp(arg, "-o", 2)) {
			value = arg + 2;
		} else if (!strncmp(arg, "--preset=", 9)) {
			value = arg + 9;
		} else {
			return -usage_error("run", "unknown argument '%s'", arg);
		}
		if (arg[1] == '-') {
			snprintf(preset, sizeof(preset), "TURBO=%s", value);
			value = preset;
		}
		int code = set_option(value);
		if (code)
			return -code;
	}
	return i;
}

/* Appends `item` to the colon-separated list. */
static void append(char *list, size_t size, const char *item, size_t n)
{
	size_t used = strlen(list);
	if (n && used + n + 2 <= size)
		snprintf(list + used, size - used, "%s%.*s", used ? ":" : "", (int)n, item);
}

/* Sanitizer runtimes, libturbo, then whatever was there, without a second libturbo. */
static int set_preload(const char *library, const char *runtimes)
{
	const char *old = getenv("LD_PRELOAD");
	size_t size = strlen(library) + strlen(runtimes) + (old ? strlen(old) : 0) + 8;
	char *list = calloc(1, size);
	if (!list)
		return failure("run", "no memory for LD_PRELOAD");
	append(list, size, runtimes, strlen(runtimes));
	append(list, size, library, strlen(library));
	for (const char *p = old; p && *p;) {
		size_t n = strcspn(p, ": ");
		if (n != strlen(library) || strncmp(p, library, n))
			append(list, size, p, n);
		p += n + strspn(p + n, ": ");
	}
	setenv("LD_PRELOAD", list, 1);
	free(list);
	return 0;
}

static void say_fit(const struct program *p)
{
	static const char *const why[] = {
		[PROGRAM_STATIC] = "it is statically linked",
		[PROGRAM_SETUID] = "it is started with more privileges than yours",
		[PROGRAM_FOREIGN] = "it was built for another machine or word size",
		[PROGRAM_OTHER_LIBC] = "it uses another C library than glibc",
	};
	if (p->fit != PROGRAM_FITS)
		fprintf(stderr, "turbo run: libturbo cannot be loaded into %s: %s; it runs without\n", p->image,
				why[p->fit]);
}

/* Static and privileged programs ignore the variable, and their children may still use it;
 * the others would complain about it, or fail. */
static bool wants_preload(enum program_fit fit)
{
	return fit == PROGRAM_FITS || fit == PROGRAM_STATIC || fit == PROGRAM_SETUID;
}

static int start(const char *path, char **argv)
{
	execve(path, argv, environ);
	int err = errno;
	fprintf(stderr, "turbo run: cannot start %s: %s\n", path, strerror(err));
	return err == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_STARTED;
}

/* A text file without a #! line: execvp's rule is to hand it to the shell. */
static int start_by_shell(const char *path, int argc, char **argv)
{
	char **shell = calloc((size_t)argc + 2, sizeof(*shell));
	if (!shell)
		return failure("run", "no memory for %d arguments", argc);
	shell[0] = (char *)"/bin/sh";
	shell[1] = (char *)path;
	for (int i = 1; i < argc; i++)
		shell[i + 1] = argv[i];
	int code = start(shell[0], shell);
	free(shell);
	return code;
}

int cmd_run(int argc, char **argv)
{
	static struct program program;
	char library[PATH_MAX];
	int bad = 0, at = take_arguments(argc, argv);
	if (at < 0)
		return -at;
	options_parse(environ, say_bad, &bad);
	if (bad)
		return EXIT_ASKED_WRONGLY;
	if (at >= argc)
		return usage_error("run", "no CMD to run");
	if (!library_find(library, sizeof(library)))
		return failure("run", "no libturbo.so beside this command, nor in ../lib; install both together");
	if (strpbrk(library, ": "))
		return failure("run", "LD_PRELOAD cannot name '%s': it holds a blank or a colon; move it", library);

	int err = program_inspect(argv[at], &program);
	if (err && err != ENOEXEC) {
		fprintf(stderr, "turbo run: %s: %s\n", argv[at], err == ENOENT ? "not found" : strerror(err));
		return err == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_STARTED;
	}
	say_fit(&program);
	if (wants_preload(program.fit) && set_preload(library, program.runtimes))
		return EXIT_FAILED;
	setenv("TURBO_RUN", "1", 1);
	setenv("TURBO_SUMMARY", "on", 0);

	execve(program.path, argv + at, environ);
	if (errno == ENOEXEC)
		return start_by_shell(program.path, argc - at, argv + at);
	return start(program.path, argv + at);
}
