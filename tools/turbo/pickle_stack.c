/* pickle_stack.c - the memory of the pickle machine: input, values, stack and marks. */
#include "pickle_stack.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- failing ---- */

bool pickle_fail(struct pickle *p, size_t at, const char *fmt, ...)
{
	va_list ap;
	int n = snprintf(p->why, sizeof(p->why), "byte %zu: ", at);
	va_start(ap, fmt);
	vsnprintf(p->why + n, sizeof(p->why) - (size_t)n, fmt, ap);
	va_end(ap);
	return false;
}

bool pickle_no_memory(struct pickle *p)
{
	return pickle_fail(p, p->at, "no memory");
}

/* ---- input ---- */

/* The next n bytes, or NULL. */
const unsigned char *pickle_take(struct pickle *p, uint64_t n)
{
	if (n > p->size - p->at) {
		pickle_fail(p, p->at, "the file ends in the middle of a value");
		return NULL;
	}
	p->at += (size_t)n;
	return p->data + p->at - n;
}

/* A little-endian number of n bytes. */
bool pickle_take_number(struct pickle *p, unsigned n, uint64_t *out)
{
	const unsigned char *b = pickle_take(p, n);
	*out = 0;
	for (unsigned i = 0; b && i < n; i++)
		*out |= (uint64_t)b[i] << 8 * i;
	return b;
}

/* ---- growing arrays ---- */

/* Room for one more; false: no memory. */
bool pickle_reserve(void **array, size_t count, size_t *room, size_t size)
{
	size_t want = *room ? *room * 2 : 64;
	if (count < *room)
		return true;
	void *bigger = want < SIZE_MAX / size ? realloc(*array, want * size) : NULL;
	if (!bigger)
		return false;
	*array = bigger;
	*room = want;
	return true;
}

bool pickle_push(struct pickle *p, pickle_ref ref)
{
	if (!pickle_reserve((void **)&p->stack, p->stacked, &p->stack_room, sizeof(*p->stack)))
		return pickle_no_memory(p);
	p->stack[p->stacked++] = ref;
	return true;
}

bool pickle_make(struct pickle *p, struct pickle_value v, pickle_ref *ref)
{
	if (p->values == p->value_room) {
		size_t want = p->value_room ? (size_t)p->value_room * 2 : 256;
		struct pickle_value *bigger = want < UINT32_MAX ? realloc(p->value, want * sizeof(v)) : NULL;
		if (!bigger)
			return pickle_no_memory(p);
		p->value = bigger;
		p->value_room = (uint32_t)want;
	}
	*ref = p->values++;
	p->value[*ref] = v;
	return true;
}

bool pickle_add_items(struct pickle *p, pickle_ref to, const pickle_ref *item, size_t n)
{
	struct pickle_value *v = &p->value[to];
	if (v->count + n > v->room) {
		size_t want = v->count + n > 2 * (size_t)v->room ? v->count + n : 2 * (size_t)v->room;
		pickle_ref *bigger = want < UINT32_MAX ? realloc(v->item, want * sizeof(*bigger)) : NULL;
		if (!bigger)
			return pickle_no_memory(p);
		v->item = bigger;
		v->room = (uint32_t)want;
	}
	if (n)
		memcpy(v->item + v->count, item, n * sizeof(*item));
	v->count += n;
	return true;
}

/* ---- the stack ---- */

/* Values above the last mark. */
size_t pickle_above_mark(const struct pickle *p)
{
	return p->stacked - (p->marks ? p->mark[p->marks - 1] : 0);
}

bool pickle_needs(struct pickle *p, size_t n)
{
	return pickle_above_mark(p) >= n || pickle_fail(p, p->at - 1, "too few values on the stack");
}

/* The number of values above the last mark, which goes. */
bool pickle_take_mark(struct pickle *p, size_t *n)
{
	if (!p->marks)
		return pickle_fail(p, p->at - 1, "no mark on the stack");
	*n = pickle_above_mark(p);
	p->marks--;
	return true;
}

bool pickle_put_mark(struct pickle *p)
{
	if (!pickle_reserve((void **)&p->mark, p->marks, &p->mark_room, sizeof(*p->mark)))
		return pickle_no_memory(p);
	p->mark[p->marks++] = p->stacked;
	return true;
}

void pickle_free(struct pickle *p)
{
	for (uint32_t i = 0; i < p->values; i++)
		if (p->value[i].type >= PICKLE_LIST)
			free(p->value[i].item);
	free(p->value);
	free(p->stack);
	free(p->memo);
	free(p->mark);
	p->value = NULL;
	p->values = 0;
	p->stack = p->memo = NULL;
	p->mark = NULL;
}

/* ---- looking ---- */

bool pickle_is(const struct pickle *p, pickle_ref ref, const char *text)
{
	const struct pickle_value *v = pickle_value(p, ref);
	return v->type == PICKLE_TEXT && v->count == strlen(text) && !memcmp(v->text, text, v->count);
}

bool pickle_lookup(const struct pickle *p, pickle_ref dict, const char *key, pickle_ref *out)
{
	const struct pickle_value *d = pickle_value(p, dict);
	for (size_t i = d->type == PICKLE_DICT ? d->count : 0; i >= 2; i -= 2)
		if (pickle_is(p, d->item[i - 2], key)) {
			*out = d->item[i - 1];
			return true;
		}
	return false;
}

bool pickle_number(const struct pickle *p, pickle_ref dict, const char *key, uint64_t *out)
{
	pickle_ref ref;
	if (!pickle_lookup(p, dict, key, &ref))
		return false;
	const struct pickle_value *v = pickle_value(p, ref);
	*out = (uint64_t)v->integer;
	return v->type == PICKLE_INT && v->integer >= 0;
}

const pickle_ref *pickle_items(const struct pickle *p, pickle_ref ref, size_t *count)
{
	static const pickle_ref none[1];
	const struct pickle_value *v = pickle_value(p, ref);
	if (v->type != PICKLE_LIST && v->type != PICKLE_TUPLE)
		return NULL;
	*count = v->count;
	return v->count ? v->item : none;
}
