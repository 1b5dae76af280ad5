/*
 * libturbo.c - whether libturbo can be loaded into CMD, and what stands in its way.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../turbo/turbo.h"
#include "doctor.h"
#include "options.h"

extern char **environ;

char *const *doctor_self(const char *worker)
{
	static char *argv[] = {(char *)"/proc/self/exe", (char *)"doctor", (char *)"--worker", NULL, NULL};
	static char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	if (n > 0) {
		path[n] = '\0';
		argv[0] = path;
	}
	argv[3] = (char *)worker;
	return argv;
}

bool doctor_preload(char *buf, size_t size)
{
	static struct program self;
	char library[PATH_MAX];
	if (!library_find(library, sizeof(library)) || strpbrk(library, ": "))
		return false;
	/* Built with a sanitizer whose runtime must come first. */
	if (program_inspect("/proc/self/exe", &self) != 0)
		self.runtimes[0] = '\0';
	return (size_t)snprintf(buf, size, "%s%s%s", self.runtimes, *self.runtimes ? ":" : "", library) < size;
}

struct loading {
	struct doctor *d;
	bool loaded;
	char said[300];
};

static void take(void *arg, char *line)
{
	struct loading *v = arg;
	if (!strncmp(line, "loaded\t", 7) && strstr(line, "libturbo.so"))
		v->loaded = true;
}

static void take_error(void *arg, char *line)
{
	struct loading *v = arg;
	if (*line && !*v->said)
		snprintf(v->said, sizeof(v->said), "%s", line);
}

/* In CMD's interpreter where there is one, else in this command. */
static void loading(struct doctor *d, const char *preload)
{
	struct loading v = {.d = d};
	bool python = *d->board->facts.python;
	if (python) {
		doctor_look(d, "loaded", preload, take, take_error, &v);
	} else {
		struct doctor_start s = {
			.argv = doctor_self("loaded"), .preload = preload, .out = take, .err = take_error, .arg = &v};
		doctor_start(&s);
	}
	const char *into = python ? d->board->facts.python : "this command";
	if (v.loaded)
		doctor_say(d, F_loaded, DOCTOR_OK, NULL, "into %s", into);
	else
		doctor_say(d, F_loaded, DOCTOR_FAIL, NULL, "it is not loaded into %s: %s", into,
				   *v.said ? v.said : "the loader does not say why");
}

static void fit(struct doctor *d)
{
	static struct program program;
	static const struct {
		enum doctor_level level;
		const char *what;
	} said[] = {
		[PROGRAM_FITS] = {DOCTOR_OK, "the loader takes LD_PRELOAD"},
		[PROGRAM_STATIC] = {DOCTOR_FAIL, "is statically linked"},
		[PROGRAM_SETUID] = {DOCTOR_FAIL, "is started with more privileges than yours"},
		[PROGRAM_FOREIGN] = {DOCTOR_FAIL, "was built for another machine or word size"},
		[PROGRAM_OTHER_LIBC] = {DOCTOR_FAIL, "uses another C library than glibc"},
	};
	if (!d->cmd || program_inspect(d->cmd[0], &program) != 0)
		return;
	doctor_say(d, F_fit, said[program.fit].level, NULL, "%s: %s", program.image, said[program.fit].what);
	if (*program.runtimes)
		doctor_do(doctor_say(d, F_fit, DOCTOR_WARN, NULL, "%s needs a sanitizer's runtime first: %s",
							 program.image, program.runtimes),
				  "Start it with turbo run, which puts that before libturbo.");
}

static void say_bad(void *arg, const char *name, const char *value, const char *allowed)
{
	doctor_say(arg, F_options, DOCTOR_WARN, NULL, "%s=%s is ignored: %s", name, value, allowed);
}

static void options(struct doctor *d)
{
	char set[400] = "";
	options_parse(environ, say_bad, d);
	const char *preset = option_text(OPT_PRESET);
	for (int i = 0; i < OPT_COUNT; i++)
		if (option_is_set((enum option_id)i)) {
			size_t used = strlen(set);
			snprintf(set + used, sizeof(set) - used, "%s%s=%s", used ? ", " : "", option_table[i].name,
					 option_text((enum option_id)i));
		}
	bool off = !strcmp(preset, "off") || !strcmp(preset, "observe");
	doctor_say(d, F_options, off ? DOCTOR_WARN : DOCTOR_OK, NULL, "%s%s",
			   *set ? set : "none set, preset safe", off ? ": libturbo changes nothing" : "");
}

static void preloaded(struct doctor *d)
{
	const char *list = getenv("LD_PRELOAD");
	unsigned turbos = 0, bad = 0;
	for (const char *at = list; at && *at; at += strcspn(at, ": "), at += strspn(at, ": ")) {
		char path[PATH_MAX];
		size_t n = strcspn(at, ": ");
		if (n >= sizeof(path))
			continue;
		memcpy(path, at, n);
		path[n] = '\0';
		turbos += strstr(path, "libturbo.so") != NULL;
		if (strchr(path, '/') && access(path, R_OK) != 0) {
			bad++;
			doctor_say(d, F_preload, DOCTOR_WARN, NULL, "%s is not there: the loader goes on without it",
					   path);
		}
	}
	if (turbos > 1)
		doctor_say(d, F_preload, DOCTOR_WARN, NULL, "names libturbo %u times: %s", turbos, list);
	else if (!bad && list && *list)
		doctor_say(d, F_preload, DOCTOR_OK, NULL, "%s", list);
}

void probe_libturbo(struct doctor *d)
{
	char library[PATH_MAX], preload[8192];
	if (!library_find(library, sizeof(library)))
		doctor_say(d, F_library, DOCTOR_FAIL, NULL,
				   "there is no libturbo.so beside this command, nor in ../lib");
	else if (strpbrk(library, ": "))
		doctor_say(d, F_library, DOCTOR_FAIL, NULL,
				   "LD_PRELOAD cannot name '%s': it holds a blank or a colon", library);
	else
		doctor_say(d, F_library, DOCTOR_OK, NULL, "%s, %s", TURBO_VERSION, library);
	if (doctor_preload(preload, sizeof(preload)))
		loading(d, preload);
	fit(d);
	options(d);
	preloaded(d);
}
