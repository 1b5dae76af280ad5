/*
 * init.c - the one constructor and the one destructor.
 *
 * The constructor runs in every process of the machine that inherits LD_PRELOAD, so
 * it only parses options and remembers what it found: no file, no thread, no symbol.
 */
#include <string.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "fork.h"
#include "guard.h"
#include "life.h"
#include "log.h"
#include "log_sink.h"
#include "options.h"
#include "stats.h"
#include "../policy/policy.h"

static void report_bad(void *arg, const char *name, const char *value, const char *allowed)
{
	(void)arg;
	log_warn("%s=%.200s is ignored: %s", name, value, allowed);
}

static bool mark_is_set(const char *name)
{
	const char *value = getenv(name);

	return value && strcmp(value, "1") == 0;
}

__attribute__((constructor)) static void turbo_start(void)
{
	static char off[] = "TURBO=off";
	char *const secure_env[] = {off, NULL};
	int saved = errno;

	if (getauxval(AT_SECURE)) {
		options_parse(secure_env, NULL, NULL);
		errno = saved;
		return;
	}
	options_parse(environ, NULL, NULL);
	log_start();
	options_parse(environ, report_bad, NULL);
	life_start(option_get(OPT_PRESET) != 0,
			   strncmp(program_invocation_short_name, "python", 6) == 0 || mark_is_set("TURBO_RUN") ||
				   mark_is_set("TURBO_ENGAGED"));
	fork_start();
	if (life_active())
		policies_start();
	errno = saved;
}

__attribute__((destructor)) static void turbo_stop(void)
{
	int saved = errno;

	guard_enter();
	policies_stop();
	stats_unpublish();
	guard_leave();
	errno = saved;
}
