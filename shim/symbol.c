#include "symbol.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#include "elfsym.h"
#include "text.h"

/* A symbol without a size ends somewhere; further away than this it says nothing. */
#define NEAR_BYTES (1u << 20)

struct wanted {
	const void *address;
	char *buf;
	size_t size;
};

/* One more than the largest index that the hash table knows of: a dynamic section has no count. */
static uint32_t symbol_count(const struct elfsym_object *object)
{
	if (object->sysv_hash)
		return object->sysv_hash[1];
	if (!object->gnu_hash)
		return 0;
	uint32_t buckets = object->gnu_hash[0], first = object->gnu_hash[1], bloom = object->gnu_hash[2];
	const uint32_t *bucket = object->gnu_hash + 4 + bloom * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	const uint32_t *chain = bucket + buckets;
	uint32_t last = 0;
	for (uint32_t i = 0; i < buckets; i++)
		if (bucket[i] > last)
			last = bucket[i];
	if (last < first)
		return 0;
	while (!(chain[last - first] & 1))
		last++;
	return last + 1;
}

/* Does the symbol hold the address, or stand nearest below it? */
static bool is_better(const struct elfsym_object *object, const ElfW(Sym) *s, uintptr_t at,
					  const ElfW(Sym) *best)
{
	unsigned type = ELF64_ST_TYPE(s->st_info);
	uintptr_t start = object->base + s->st_value;
	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || s->st_shndx == SHN_UNDEF || start > at)
		return false;
	if (s->st_size ? at - start >= s->st_size : at - start >= NEAR_BYTES)
		return false;
	return s->st_name < object->strings_size && (!best || s->st_value > best->st_value);
}

static int describe(struct elfsym_object *object, unsigned index, void *arg)
{
	const struct wanted *w = arg;
	uintptr_t at = (uintptr_t)w->address;
	const ElfW(Sym) *best = NULL;
	(void)index;
	if (!elfsym_contains(object, w->address))
		return 0;
	elfsym_load(object);
	const char *file = *object->path ? text_last_part(object->path) : "program";
	uint32_t count = symbol_count(object);
	for (uint32_t i = 1; i < count; i++)
		if (is_better(object, &object->symbols[i], at, best))
			best = &object->symbols[i];
	if (best)
		snprintf(w->buf, w->size, "%s: %s+0x%zx", file, object->strings + best->st_name,
				 (size_t)(at - object->base - best->st_value));
	else
		snprintf(w->buf, w->size, "%s+0x%zx", file, (size_t)(at - object->base));
	return 1;
}

void symbol_name(const void *address, char *buf, size_t size)
{
	int saved = errno;
	struct wanted w = {address, buf, size};
	if (size && !elfsym_walk(describe, &w))
		snprintf(buf, size, "%p", address);
	errno = saved;
}
