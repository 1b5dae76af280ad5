/*
 * arguments.h - the arguments of a subcommand: options with a value, options without, and the rest.
 *
 * An option with a value is "--name VALUE", "--name=VALUE" or "-x VALUE". Options and the rest may be mixed; after "--"
 * all is the rest.
 */
#ifndef TURBO_ARGUMENTS_H
#define TURBO_ARGUMENTS_H

#include <stdbool.h>

struct arguments_taker {
	const char *command;       /* for what is said on stderr */
	const char *const *valued; /* names of the options with a value; NULL ends them */
	/* `to` is what the caller of arguments_take() gave. 0, or an exit code, which ends it. */
	int (*value)(void *to, const char *name, const char *value);
	bool (*flag)(void *to, const char *name); /* an option without a value; false: there is no such option */
	int (*rest)(void *to, const char *arg);
};

/* 0, or an exit code; what is wrong has been said. argv[0] is skipped; texts handed on are argv's. */
int arguments_take(const struct arguments_taker *taker, void *to, int argc, char **argv);

#endif
