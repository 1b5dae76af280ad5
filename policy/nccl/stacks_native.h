/*
 * stacks_native.h - native frames as lines.
 */
#ifndef TURBO_STACKS_NATIVE_H
#define TURBO_STACKS_NATIVE_H

#include "lines.h"
#include "python.h"

/* "  native SYMBOL" for each; ends where the interpreter `p` (may be NULL) begins. Not in a handler. */
void stacks_native_lines(const struct python *p, void *const *frame, unsigned count, struct lines *out);

#endif
