/* seen.c - see seen.h. A table that forgets: two directories at one place take it from each other. */
#include "seen.h"

#include <string.h>

#define FOLDERS 1024u

static struct seen_folder folders[FOLDERS], parents[FOLDERS];

uint64_t seen_hash(const char *text, size_t length)
{
	uint64_t h = UINT64_C(0x9e3779b97f4a7c15) ^ length, word;

	for (; length >= 8; text += 8, length -= 8) {
		memcpy(&word, text, 8);
		h = (h ^ word) * UINT64_C(0xff51afd7ed558ccd);
		h ^= h >> 32;
	}
	word = 0;
	memcpy(&word, text, length);
	h = (h ^ word) * UINT64_C(0xff51afd7ed558ccd);
	h ^= h >> 29;
	return h | 1;
}

/* The first bytes of a name that may differ in a run of files: they compare as the names do. */
static uint64_t order_of(const char *name, size_t length)
{
	unsigned char bytes[8] = {0};
	uint64_t value = 0;

	memcpy(bytes, name + (length > 24 ? length - 24 : 0), length < 8 ? length : 8);
	for (unsigned i = 0; i < 8; i++)
		value = value << 8 | bytes[i];
	return value;
}

static size_t last_slash(const char *path, size_t length)
{
	while (length && path[length - 1] != '/')
		length--;
	return length; /* with the slash */
}

/* One more of this folder; answers how many in a row. */
static uint32_t count(struct seen_folder *f, uint64_t key, uint64_t hash, uint64_t order)
{
	if (atomic_load_explicit(&f->key, memory_order_relaxed) != key) {
		atomic_store_explicit(&f->runs, 0, memory_order_relaxed);
		atomic_store_explicit(&f->ups, 0, memory_order_relaxed);
		atomic_store_explicit(&f->asked, 0, memory_order_relaxed);
		atomic_store_explicit(&f->last, 0, memory_order_relaxed);
		atomic_store_explicit(&f->key, key, memory_order_relaxed);
	}
	if (atomic_load_explicit(&f->hash, memory_order_relaxed) == hash)
		return 0; /* the same again */
	if (order >= atomic_load_explicit(&f->last, memory_order_relaxed))
		atomic_fetch_add_explicit(&f->ups, 1, memory_order_relaxed);
	atomic_store_explicit(&f->hash, hash, memory_order_relaxed);
	atomic_store_explicit(&f->last, order, memory_order_relaxed);
	return atomic_fetch_add_explicit(&f->runs, 1, memory_order_relaxed) + 1;
}

struct seen_folder *seen_file(const char *path, size_t *length, int *tree)
{
	size_t whole = strlen(path), folder = last_slash(path, whole), above;

	if (!folder || folder == whole)
		return NULL;
	uint64_t key = seen_hash(path, folder);
	struct seen_folder *f = &folders[key >> 20 & (FOLDERS - 1)];
	uint32_t runs =
		count(f, key, seen_hash(path + folder, whole - folder), order_of(path + folder, whole - folder));
	if (runs >= SEEN_RUN && !atomic_exchange_explicit(&f->asked, 1, memory_order_relaxed)) {
		*length = folder;
		*tree = 0;
		return f;
	}
	above = last_slash(path, folder - 1);
	if (above <= 1)
		return NULL; /* never all of the file system */
	uint64_t parent = seen_hash(path, above);
	struct seen_folder *p = &parents[parent >> 20 & (FOLDERS - 1)];
	if (count(p, parent, key, 0) < SEEN_TREE_RUN ||
		atomic_exchange_explicit(&p->asked, 1, memory_order_relaxed))
		return NULL;
	*length = above;
	*tree = 1;
	return p;
}
