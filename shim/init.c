/*
 * init.c - the one constructor and the one destructor.
 *
 * The constructor runs in every process that inherits LD_PRELOAD, most of which never
 * touch a GPU: it parses options, remembers what it found and registers the fork
 * handlers, and looks for the functions of libc that it stands before. No file, no thread.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "fork.h"
#include "guard.h"
#include "hostmem_early.h"
#include "libc.h"
#include "life.h"
#include "log.h"
#include "lookup.h"
#include "options.h"
#include "stats.h"
#include "summary.h"
#include "../policy/policy.h"

/* Marks for child processes, each "1". A process that has said what is wrong with the options
 * leaves WARNED, or a shell script would repeat it at every command. */
#define MARK_RUN "TURBO_RUN"
#define MARK_ENGAGED "TURBO_ENGAGED"
#define MARK_WARNED "TURBO_WARNED"

/* The very program that `turbo run` started, not one of its children. Constructor, then destructor. */
static bool is_run_cmd;

static bool mark_is_set(const char *name)
{
	const char *value = getenv(name);

	return value && strcmp(value, "1") == 0;
}

static void report_bad(void *arg, const char *name, const char *value, const char *allowed)
{
	*(bool *)arg = true;
	log_warn("%s=%.200s is ignored: %s", name, value, allowed);
}

/* TURBO_LOG and TURBO_LOG_FILE say where complaints go, so the log is started before the
 * pass that complains. */
static void read_options(void)
{
	bool complained = false;

	options_parse(environ, NULL, NULL);
	log_start();
	if (mark_is_set(MARK_WARNED))
		return;
	options_parse(environ, report_bad, &complained);
	complained |= !log_file_usable();
	if (complained)
		setenv(MARK_WARNED, "1", 1); /* safe: the program has no second thread yet */
}

static bool is_python(void)
{
	return strncmp(program_invocation_short_name, "python", strlen("python")) == 0;
}

__attribute__((constructor)) static void turbo_start(void)
{
	static char off[] = "TURBO=off";
	char *const secure_env[] = {off, NULL};
	int saved = errno;
	bool origin = is_python() || mark_is_set(MARK_RUN);

	/* Another user's privileges: nothing in the environment is to be believed. */
	if (getauxval(AT_SECURE)) {
		options_parse(secure_env, NULL, NULL);
		lookup_start(false);
		errno = saved;
		return;
	}
	libc_look();
	early_find();
	read_options();
	is_run_cmd = mark_is_set(MARK_RUN) && !mark_is_set(MARK_ENGAGED);
	life_start(option_get(OPT_PRESET) != 0, origin || mark_is_set(MARK_ENGAGED));
	lookup_start(life_active());
	if (life_active()) {
		if (origin && !mark_is_set(MARK_ENGAGED))
			setenv(MARK_ENGAGED, "1", 1);
		fork_start();
		policies_start();
	}
	errno = saved;
}

__attribute__((destructor)) static void turbo_stop(void)
{
	int saved = errno;

	guard_enter();
	policies_stop();
	summary_print(is_run_cmd);
	stats_unpublish();
	guard_leave();
	errno = saved;
}
