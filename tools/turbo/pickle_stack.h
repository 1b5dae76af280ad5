/* pickle_stack.h - what pickle.c's opcodes work with. All that return bool say false after setting why. */
#ifndef TURBO_PICKLE_STACK_H
#define TURBO_PICKLE_STACK_H

#include "pickle.h"

/* "byte AT: text"; returns false. */
bool pickle_fail(struct pickle *p, size_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool pickle_no_memory(struct pickle *p);

/* The next n bytes of the input, or NULL. */
const unsigned char *pickle_take(struct pickle *p, uint64_t n);
/* A little-endian number of n bytes, at most 8. */
bool pickle_take_number(struct pickle *p, unsigned n, uint64_t *out);

/* Room in *array for one more than `count`. False, without a word: no memory. */
bool pickle_reserve(void **array, size_t count, size_t *room, size_t size);
bool pickle_make(struct pickle *p, struct pickle_value v, pickle_ref *ref);
bool pickle_push(struct pickle *p, pickle_ref ref);
bool pickle_add_items(struct pickle *p, pickle_ref to, const pickle_ref *item, size_t n);

/* Values above the last mark. */
size_t pickle_above_mark(const struct pickle *p);
bool pickle_needs(struct pickle *p, size_t n);
bool pickle_put_mark(struct pickle *p);
/* The number of values above the last mark, which goes. */
bool pickle_take_mark(struct pickle *p, size_t *n);

#endif
