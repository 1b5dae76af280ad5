/* heap_check.c - every invariant of the heap, for tests. */
#include "heap_impl.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define MUST(what)                                            \
	do {                                                      \
		if (!(what))                                          \
			return "heap_check.c:" TEXT(__LINE__) ": " #what; \
	} while (0)
#define PASS(check)                  \
	do {                             \
		const char *wrong = (check); \
		if (wrong)                   \
			return wrong;            \
	} while (0)

struct sums {
	size_t used, claimed, mapped, free_blocks, none_blocks, views;
};

static const char *check_block(struct heap *heap, const struct block *b, struct sums *sums)
{
	struct space *s = &heap->space[b->space];
	uint64_t key = atomic_load_explicit(&b->key, memory_order_relaxed);
	MUST(b->bytes && b->bytes % HEAP_UNIT == 0 && b->va % HEAP_UNIT == 0);
	MUST(!b->prev ? s->first == b : b->prev->next == b);
	MUST(b->next ? b->next->va == b->va + b->bytes : b->va + b->bytes == s->base + s->bytes);
	MUST(b->kind != BLOCK_NONE || b->va % heap->to.grain == 0);
	if (b->kind == BLOCK_USED) {
		MUST(key == (b->va | KEY_LIVE) || key == (b->va | KEY_BIN));
		MUST(atomic_load_explicit(space_slot(heap, s, b->va), memory_order_relaxed) == b);
		sums->used += b->bytes;
		return NULL;
	}
	MUST(key == 0);
	if (b->kind == BLOCK_CLAIM) {
		sums->claimed += b->bytes;
		return NULL;
	}
	/* Neighbours alike would be one. */
	MUST(!b->next || b->next->kind != b->kind || b->next->owner != b->owner);
	MUST(!b->fprev || b->fprev->chain == b);
	sums->free_blocks += b->kind == BLOCK_FREE;
	sums->none_blocks += b->kind == BLOCK_NONE;
	return NULL;
}

static const char *check_space(struct heap *heap, unsigned number, struct sums *sums)
{
	struct space *s = &heap->space[number];
	MUST(!s->bytes || s->first->va == s->base);
	for (const struct block *b = s->first; b; b = b->next) {
		MUST(b->space == number);
		PASS(check_block(heap, b, sums));
	}
	return NULL;
}

static const char *check_chunks(struct heap *heap, unsigned number, struct sums *sums)
{
	struct space *s = &heap->space[number];
	size_t grain = heap->to.grain;
	for (const struct block *b = s->first; b; b = b->next)
		for (uint64_t at = b->va / grain * grain; at < b->va + b->bytes; at += grain)
			MUST((b->kind == BLOCK_NONE) == (space_chunk(heap, number, at) == NULL) ||
				 (b->kind == BLOCK_CLAIM && heap->lost));
	for (size_t i = 0; i < s->bytes / grain; i++) {
		const struct chunk *c = s->chunk[i];
		if (!c || c->home != s->base + i * grain)
			continue;
		MUST(c->cover && c->cover->va <= c->home && c->home < c->cover->va + c->cover->bytes);
		MUST(!c->doomed && c->space == number && c->bytes % grain == 0 && c->home + c->bytes <= s->top);
		for (size_t k = 0; k < c->bytes / grain; k++)
			MUST(s->chunk[i + k] == c);
		sums->mapped += c->bytes;
	}
	return NULL;
}

static const char *check_index(const struct index *x, const struct heap_stream *owner, unsigned kind,
							   size_t *blocks)
{
	size_t bytes = 0;
	for (const struct block *b = index_next(x, NULL, HEAP_UNIT); b; b = index_next(x, b, HEAP_UNIT)) {
		MUST(b->kind == kind && b->owner == owner);
		bytes += b->bytes;
		++*blocks;
	}
	MUST(bytes == x->bytes);
	return NULL;
}

static const char *check_indexes(struct heap *heap, const struct sums *sums)
{
	size_t free_blocks = 0, none_blocks = 0;
	for (unsigned i = 0; i < SPACES; i++)
		PASS(check_index(&heap->none[i], NULL, BLOCK_NONE, &none_blocks));
	for (unsigned i = 0; i < SPACE_HOMES; i++) {
		PASS(check_index(&heap->done[i], NULL, BLOCK_FREE, &free_blocks));
		for (const struct heap_stream *s = heap->streams; s; s = s->next)
			PASS(check_index(&s->index[i], s, BLOCK_FREE, &free_blocks));
	}
	MUST(free_blocks == sums->free_blocks && none_blocks == sums->none_blocks);
	return NULL;
}

static const char *check_view(struct heap *heap, const struct view *v, bool busy, struct sums *sums)
{
	size_t mapped = 0, claims = 0;
	for (unsigned i = 0; i < v->pieces; i++) {
		const struct piece *p = &v->piece[i];
		for (uint64_t at = p->home; at < p->home + p->bytes;) {
			const struct chunk *c = space_chunk(heap, p->space, at);
			MUST(c && c->home == at);
			at += c->bytes;
		}
		mapped += p->bytes;
	}
	MUST(v->range->kind == BLOCK_CLAIM && v->range->space == SPACE_VIEWS && v->range->bytes == mapped);
	MUST(v->bytes + v->skip <= mapped && busy == (v->claims != NULL));
	uint64_t va = v->range->va + v->skip;
	block_slot *slot = space_slot(heap, &heap->space[SPACE_VIEWS], va);
	const struct block *b = atomic_load_explicit(slot, memory_order_relaxed);
	for (const struct block *c = v->claims; c; c = c->chain) {
		MUST(c->kind == BLOCK_CLAIM);
		claims += c->bytes;
	}
	MUST(busy ? b && b->view == v && b->va == va && b->bytes == claims && claims <= v->bytes : !b);
	sums->claimed -= claims + mapped;
	sums->used += claims;
	sums->views++;
	return NULL;
}

static const char *check_all(struct heap *heap)
{
	struct sums sums = {0};
	for (unsigned i = 0; i < SPACES; i++)
		PASS(check_space(heap, i, &sums));
	for (unsigned i = 0; i < SPACE_HOMES; i++)
		PASS(check_chunks(heap, i, &sums));
	PASS(check_indexes(heap, &sums));
	for (const struct view *v = heap->idle; v; v = v->next) {
		MUST(v->next ? v->next->prev == v : heap->idle_last == v);
		PASS(check_view(heap, v, false, &sums));
	}
	for (const struct view *v = heap->busy; v; v = v->next)
		PASS(check_view(heap, v, true, &sums));
	size_t views = 0;
	for (const struct view *v = heap->newest; v; v = v->older, views++)
		MUST(!v->older || v->older->newer == v);
	MUST(views == heap->views && sums.views == views);
	/* All that is claimed belongs to a view or is lost; every byte has one owner. */
	MUST(sums.claimed == heap->lost);
	MUST(sums.used == heap->out);
	MUST(sums.mapped == heap->reserved && heap->reserved <= heap->reserved_high);
	return NULL;
}

const char *heap_check(struct heap *heap)
{
	pthread_mutex_lock(&heap->grow);
	pthread_mutex_lock(&heap->lock);
	const char *wrong = check_all(heap);
	pthread_mutex_unlock(&heap->lock);
	pthread_mutex_unlock(&heap->grow);
	return wrong;
}
