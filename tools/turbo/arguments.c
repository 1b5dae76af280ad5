/* arguments.c - see arguments.h. */
#include "arguments.h"

#include <stddef.h>
#include <string.h>

#include "turbo.h"

/* The option's name without its value, which is NULL when it is the next argument; NULL: not one that takes a value. */
static const char *valued(const struct arguments_taker *taker, const char *arg, const char **value)
{
	*value = NULL;
	for (const char *const *name = taker->valued; *name; name++) {
		size_t n = strlen(*name);
		if (!strcmp(arg, *name))
			return *name;
		if (n > 2 && !strncmp(arg, *name, n) && arg[n] == '=') {
			*value = arg + n + 1;
			return *name;
		}
	}
	return NULL;
}

int arguments_take(const struct arguments_taker *taker, void *to, int argc, char **argv)
{
	bool plain = false; /* after -- */
	for (int i = 1; i < argc; i++) {
		const char *value, *name = plain ? NULL : valued(taker, argv[i], &value);
		int code = 0;
		if (name && !value && i + 1 == argc)
			return usage_error(taker->command, "%s needs a value", name);
		if (name)
			code = taker->value(to, name, value ? value : argv[++i]);
		else if (plain || argv[i][0] != '-')
			code = taker->rest(to, argv[i]);
		else if (!strcmp(argv[i], "--"))
			plain = true;
		else if (!taker->flag(to, argv[i]))
			code = usage_error(taker->command, "unknown argument '%s'", argv[i]);
		if (code)
			return code;
	}
	return 0;
}
