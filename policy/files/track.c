/* track.c - see track.h. */
#include "track.h"

#include <string.h>

#include "where.h"

uint64_t track_hash(const char *text, size_t length, uint64_t seed)
{
	uint64_t h = seed + 0x9e3779b97f4a7c15u + length, word;

	for (; length >= 8; text += 8, length -= 8) {
		memcpy(&word, text, 8);
		h = (h ^ word) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	word = 0;
	memcpy(&word, text, length);
	h = (h ^ word) * 0xff51afd7ed558ccdu;
	h ^= h >> 29;
	return h | 1; /* 0 is free */
}

static struct track_dir *find(struct track *t, uint64_t key)
{
	/* Eight places of the table, the oldest of which gives way. */
	unsigned first = (unsigned)(key >> 8) % TRACK_DIRS & ~7u;
	struct track_dir *oldest = &t->dir[first];

	t->clock++;
	for (unsigned i = first; i < first + 8; i++) {
		if (t->dir[i].key == key) {
			t->dir[i].used = t->clock;
			return &t->dir[i];
		}
		if (t->dir[i].used < oldest->used)
			oldest = &t->dir[i];
	}
	memset(oldest, 0, sizeof(*oldest));
	oldest->key = key;
	oldest->used = t->clock;
	return oldest;
}

static void add_extension(struct track_dir *d, uint64_t extension)
{
	for (unsigned i = 0; i < d->extensions && i < TRACK_EXTENSIONS; i++)
		if (d->extension[i] == extension)
			return;
	if (d->extensions < TRACK_EXTENSIONS)
		d->extension[d->extensions] = extension;
	if (d->extensions <= TRACK_EXTENSIONS)
		d->extensions++;
}

static bool is_run(const struct track_dir *d, unsigned level)
{
	uint32_t enough = level == 0 ? TRACK_FILES : TRACK_CHILD_FILES;

	return d->files - d->asked >= enough &&
		   (level == 0 || __builtin_popcountll(d->children) >= TRACK_CHILDREN);
}

static void give_out(struct track_dir *d, const char *path, size_t length, unsigned level,
					 struct track_run *run)
{
	/* Ever more rarely: it was looked at then. */
	d->asked = d->files * 2;
	memcpy(run->root, path, length);
	run->root[length] = '\0';
	run->depth = level;
	run->extensions = d->extensions;
	memcpy(run->extension, d->extension, sizeof(run->extension));
}

bool track_open(struct track *t, const char *path, struct track_run *run)
{
	size_t length = strlen(path), end = length;
	uint64_t extension = where_extension(path, length), file = track_hash(path, length, 0), child = file;
	bool found = false;

	if (*path != '/' || length >= PATH_MAX)
		return false;
	for (unsigned level = 0; level < TRACK_LEVELS; level++) {
		while (end > 0 && path[end - 1] != '/')
			end--;
		if (end < 2 || !where_may_be_tree(path, end - 1, level > 0))
			break;
		end--;
		uint64_t key = track_hash(path, end, level);
		struct track_dir *d = find(t, key);
		if (d->last != file) {
			d->last = file;
			d->files++;
			d->children |= 1ull << (child >> 40 & 63);
			add_extension(d, extension);
			/* The highest one that is a run: it has the others' files. */
			if (d->files >= d->asked && is_run(d, level)) {
				give_out(d, path, end, level, run);
				found = true;
			}
		}
		child = key;
	}
	return found;
}

bool track_covers(const struct track_run *run, const char *path)
{
	size_t n = strlen(run->root);
	unsigned below = 0;

	if (strncmp(path, run->root, n) != 0 || path[n] != '/')
		return false;
	for (const char *c = path + n + 1; *c; c++)
		below += *c == '/';
	return below <= run->depth;
}

bool track_wants(const struct track_run *run, const char *name)
{
	uint64_t extension;

	if (run->extensions > TRACK_EXTENSIONS)
		return true;
	extension = where_extension(name, strlen(name));
	for (unsigned i = 0; i < run->extensions; i++)
		if (run->extension[i] == extension)
			return true;
	return false;
}
