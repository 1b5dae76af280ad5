/* stacks_native.c - see stacks_native.h. */
#include "stacks_native.h"

#include <string.h>

#include "symbol.h"

#define SHOWN 110 /* bytes of a symbol; the names of templates are longer */

void stacks_native_lines(const struct python *p, void *const *frame, unsigned count, struct lines *out)
{
	char name[512];
	for (unsigned i = 0; i < count; i++) {
		uintptr_t at = (uintptr_t)frame[i];
		unsigned start = out->used;
		if (p && at >= p->low && at < p->high)
			return;
		symbol_name(frame[i], name, sizeof(name));
		lines_string(out, "  native ");
		size_t bytes = strlen(name);
		lines_text(out, name, bytes < SHOWN ? bytes : SHOWN);
		if (!lines_end(out, start))
			return;
	}
}
