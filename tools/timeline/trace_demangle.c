/*
 * trace_demangle.c - C++ names as people write them, where there is a C++ library to ask.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tools/timeline/trace_impl.h"

/* Longer ones are shown as they are. */
#define MANGLED_MAX 16384

typedef char *demangle_function(const char *mangled, char *buf, size_t *size, int *status);

static demangle_function *demangler(void)
{
	static demangle_function *found;
	static bool asked;
	if (asked)
		return found;
	asked = true;
	void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
	if (library)
		found = (demangle_function *)dlsym(library, "__cxa_demangle");
	return found;
}

static char *demangle(const char *mangled)
{
	int status = -1;
	demangle_function *f = !strncmp(mangled, "_Z", 2) && strlen(mangled) <= MANGLED_MAX ? demangler() : NULL;
	char *name = f ? f(mangled, NULL, NULL, &status) : NULL;
	if (name && status == 0) {
		trace_printable(name, strlen(name));
		return name;
	}
	free(name);
	return NULL;
}

const char *trace_demangled(struct trace *t, uint32_t entry_index)
{
	if (entry_index == 0 || entry_index >= t->entries)
		return "unknown";
	const char *mangled = trace_name(t, t->entry[entry_index].name);
	if (!t->demangled)
		t->demangled = calloc(t->entries, sizeof(*t->demangled));
	if (!t->demangled)
		return mangled;
	char **slot = &t->demangled[entry_index];
	if (!*slot)
		*slot = demangle(mangled);
	if (!*slot)
		*slot = strdup(mangled); /* not asked again */
	return *slot ? *slot : mangled;
}
