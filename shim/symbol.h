/*
 * symbol.h - what a code address is called, for reports.
 */
#ifndef TURBO_SYMBOL_H
#define TURBO_SYMBOL_H

#include <stddef.h>

/*
 * Writes "libname.so: function+0x1f" (the nearest dynamic symbol below `address`), "libname.so+0x1234"
 * where none is near, or the bare address, always with a final zero. Any thread; makes no dl*
 * call and keeps errno. Reads every symbol of the object (a millisecond for the largest): not
 * for hot paths.
 */
void symbol_name(const void *address, char *buf, size_t size);

#endif
