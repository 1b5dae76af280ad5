/* world_unlike.c - see world.h: ranks that have called unlike things, seen by one operation of each. */
#include <string.h>

#include "world.h"

#define STEPS 16 /* back from where a call would be if sends and receives did not count */

struct newest {
	uint64_t call; /* number of the newest that all members have made */
	unsigned members;
};

static bool is_of(const struct world_place *p, const uint64_t key[2])
{
	return (p->state == FLIGHT_LIVE || p->state == FLIGHT_ENDING) && p->key[0] == key[0] &&
		   p->key[1] == key[1];
}

static struct newest newest_of(const struct world *w, const uint64_t key[2])
{
	struct newest n = {UINT64_MAX, 0};

	for (unsigned i = 0; i < w->files; i++)
		for (unsigned k = 0; world_counts(w, i) && k < w->file[i].places; k++) {
			const struct world_place *p = &w->place[i][k];
			if (!is_of(p, key))
				continue;
			n.members++;
			n.call = p->sequence < n.call ? p->sequence : n.call;
		}
	return n;
}

/* After that call; 0: not known. */
static uint64_t signature_at(struct world *w, unsigned i, unsigned k, uint64_t call)
{
	const struct world_place *p = &w->place[i][k];
	uint64_t index = p->issued, back = p->sequence - call;
	struct flight_op op;

	for (unsigned step = 0; step < STEPS && back < index; step++) {
		index -= back;
		if (!world_read_op(&w->file[i], k, index, &op) || (op.sequence && op.sequence < call))
			return 0;
		if (op.sequence == call)
			return op.function == FLIGHT_GRAPH || (op.flags & FLIGHT_FAILED) ? 0 : op.signature;
		back = op.sequence ? op.sequence - call : 1;
	}
	return 0;
}

static bool differ(struct world *w, const uint64_t key[2], uint64_t call)
{
	uint64_t first = 0;

	for (unsigned i = 0; i < w->files; i++)
		for (unsigned k = 0; world_counts(w, i) && k < w->file[i].places; k++) {
			uint64_t is = is_of(&w->place[i][k], key) ? signature_at(w, i, k, call) : 0;
			if (is && first && is != first)
				return true;
			if (is)
				first = is;
		}
	return false;
}

static bool was_told(const struct world *w, const uint64_t key[2])
{
	for (unsigned i = 0; i < w->unlikes && i < WORLD_UNLIKE; i++)
		if (w->unlike[i][0] == key[0] && w->unlike[i][1] == key[1])
			return true;
	return false;
}

/* Each communicator is looked at once: by its rank 0, or of a job that is none of ours by who is known first. */
static bool is_mine(const struct world *w, unsigned file, const struct world_place *p)
{
	if (w->own)
		return w->file[file].memory && p->rank == 0;
	for (unsigned i = 0; i < file; i++)
		for (unsigned k = 0; world_counts(w, i) && k < w->file[i].places; k++)
			if (is_of(&w->place[i][k], p->key))
				return false;
	return true;
}

uint64_t world_calls(const struct world *w)
{
	uint64_t calls = 0;

	for (unsigned i = 0; i < w->files; i++)
		for (unsigned k = 0; w->file[i].memory && k < w->file[i].places; k++)
			if (w->place[i][k].state == FLIGHT_LIVE && w->place[i][k].rank == 0 && w->place[i][k].ranks > 1)
				calls += w->place[i][k].sequence;
	return calls;
}

bool world_unlike(struct world *w)
{
	bool found = false;

	for (unsigned i = 0; i < w->files; i++)
		for (unsigned k = 0; world_counts(w, i) && k < w->file[i].places; k++) {
			const struct world_place *p = &w->place[i][k];
			const uint64_t key[2] = {p->key[0], p->key[1]};
			struct newest n;
			if (!is_of(p, key) || !is_mine(w, i, p) || was_told(w, key))
				continue;
			n = newest_of(w, key);
			if (n.members < 2 || n.call == 0 || !differ(w, key, n.call))
				continue;
			memcpy(w->unlike[w->unlikes++ % WORLD_UNLIKE], key, sizeof(key));
			found = true;
		}
	return found;
}
