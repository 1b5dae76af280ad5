/* host_name.h - the machine's name as a part of a file's name. */
#ifndef TURBO_HOST_NAME_H
#define TURBO_HOST_NAME_H

#include <stdio.h>
#include <unistd.h>

#define HOST_NAME_BYTES 65

/* With nothing in it that is special in a path or a terminal. */
static inline void host_name_part(char out[HOST_NAME_BYTES])
{
	if (gethostname(out, HOST_NAME_BYTES) != 0 || !*out)
		snprintf(out, HOST_NAME_BYTES, "localhost");
	out[HOST_NAME_BYTES - 1] = '\0';
	for (char *c = out; *c; c++)
		if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '-' ||
			  (*c == '.' && c != out)))
			*c = '_';
}

#endif
