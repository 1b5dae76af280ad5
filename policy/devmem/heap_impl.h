/*
 * heap_impl.h - what the files of the heap share. HEAP.md says how it works.
 *
 * Locks, in the order in which they are taken:
 *   grow         serialises backend calls and whatever decides about them: chunks, views, marks
 *                come and go under grow AND lock, so either is enough to look at them.
 *   lock         ranges, indexes, streams. Never held across a backend call.
 *   stream.lock  one stream's bins. All that a hit or a free takes.
 * "[lock]" below names what protects a field; "[grow+lock]" is changed under both.
 */
#ifndef TURBO_HEAP_IMPL_H
#define TURBO_HEAP_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "heap.h"

#define HEAP_UNIT ((size_t)512)
#define HEAP_LOOSE 64 /* free memory that may stay unused for better use later: this part of what there is */
#define HEAP_AGAIN (-100) /* within the heap: a stream refused to be waited for, plan without it */

/* Home spaces, where each chunk has one address of its own, and addresses for views. */
enum { SPACE_LARGE, SPACE_SMALL, SPACE_HOMES, SPACE_VIEWS = SPACE_HOMES, SPACES };

enum block_kind {
	BLOCK_NONE,  /* addresses without memory; in heap.none */
	BLOCK_FREE,  /* in its owner's index, or in heap.done */
	BLOCK_CLAIM, /* taken by whoever holds grow, or by a view */
	BLOCK_USED,  /* the program's, or in a bin */
};

/* State in the low bits of block.key. */
#define KEY_LIVE 1u
#define KEY_BIN 2u

/* A range of addresses. Together the blocks of a space cover it without gap or overlap; a
 * stitched block is one more, outside that order, with `view` set. Never unmapped by the host
 * before heap_destroy(), so that a stale pointer to one is harmless. */
struct block {
	_Atomic uint64_t key;      /* va | state of a used block, else 0; who swaps LIVE for BIN owns the block */
	uint64_t va;               /* [lock]; fixed while used */
	size_t bytes;              /* [lock]; fixed while used */
	struct block *prev, *next; /* [lock] neighbours by address */
	struct block *fprev, *chain; /* [lock] class list of an index; [stream.lock] chain of a bin; claims */
	uint8_t kind, space;         /* [lock] */
	/* The next cache line. */
	struct heap_stream *owner
		__attribute__((aligned(64))); /* [lock] whose order the last use was in; NULL: it is over for all */
	uint64_t epoch;                   /* [lock] heap.epoch when it was freed */
	struct view *view;                /* [lock] */
	_Atomic size_t asked;             /* what the program asked for; written before the key is LIVE */
	_Atomic uint64_t id;              /* given when it is first asked for by heap_look(); 0: not yet */
} __attribute__((aligned(128)));

/* Segregated fits: one list for each 16th of a power of two. [lock] */
#define INDEX_LOW 9 /* log2(HEAP_UNIT) */
#define INDEX_ROWS 38
#define INDEX_COLUMNS 16
struct index {
	uint64_t rows; /* bit: some column is not empty */
	uint16_t columns[INDEX_ROWS];
	struct block *head[INDEX_ROWS][INDEX_COLUMNS];
	size_t bytes;
};

typedef _Atomic(struct block *) block_slot;

struct space {
	uint64_t base;  /* fixed */
	size_t bytes;   /* fixed; 0: could not be reserved */
	unsigned shift; /* fixed: at most one used block starts in each 1 << shift bytes */
	/* Used blocks by start. Written under lock, read without: an entry is good if its key is.
	 * Pages of the small space get theirs with their chunk and keep it. */
	_Atomic(block_slot *) *leaf; /* by page of one grain */
	block_slot *flat;            /* the other spaces' entries */
	struct chunk **chunk;        /* [grow+lock] by page, homes only */
	struct block *first;         /* [lock] */
	uint64_t top;                /* [grow+lock] no memory was ever mapped from here on; homes only */
};

struct chunk {
	uint64_t home; /* its address in its home space */
	size_t bytes;
	uint64_t handle;
	struct block *cover; /* [lock] the block that holds its first byte */
	unsigned space;
	bool doomed; /* [grow] being given back */
};

/* Whole neighbouring chunks of a home space. */
struct piece {
	uint64_t home;
	size_t bytes;
	unsigned space;
};

/* Pieces mapped side by side. While in use its claims hold the memory; idle, it owns nothing
 * and may be used again when its memory happens to be free. */
struct view {
	struct view *prev, *next;   /* [lock] in heap.idle or heap.busy */
	struct view *newer, *older; /* [grow+lock] all views, from heap.newest */
	struct block *range;        /* [grow+lock] its addresses */
	struct block *claims;       /* [lock] chain of blocks; NULL: idle */
	struct heap_stream *owner;  /* [lock] last use, as in a block */
	uint64_t epoch;
	size_t skip;  /* the first byte's offset in the first piece */
	size_t bytes; /* usable from there */
	unsigned pieces;
	struct piece piece[];
};

#define MARKS 4 /* marks of one stream that wait to pass */
struct mark {
	void *mark;
	uint64_t epoch; /* covers what was freed at this epoch or earlier */
	unsigned pins;  /* [grow] mark_block() calls that look at it */
};

/* Ways of a group are neighbours in memory; a size goes to any way of its group. */
#define BIN_GROUPS 128
#define BIN_WAYS 4
struct bin {
	size_t bytes;
	struct block *head; /* last in, first out */
};

#define SEEN 8
struct heap_stream {
	struct heap *heap;
	void *stream;
	/* What hits and frees touch. [lock] */
	pthread_mutex_t lock __attribute__((aligned(64)));
	uint32_t binned[SPACES]; /* blocks; views count as large */
	size_t binned_bytes;
	size_t credit; /* bytes that heap.live counts and the program does not hold */
	uint64_t hits;
	uint64_t groups[BIN_GROUPS / 64]; /* bit: the group has blocks */
	unsigned victim;
	struct bin bin[BIN_GROUPS][BIN_WAYS];
	/* heap.lock from here on */
	struct heap_stream *prev, *next; /* heap.streams */
	struct index index[SPACE_HOMES]; /* free blocks in this stream's order */
	uint64_t freed;                  /* epoch of the latest free that went to the heap */
	uint64_t done;                   /* all up to this epoch is over */
	uint64_t absorbed;               /* `done` when its blocks were last looked through */
	bool closed;
	bool refuses;             /* [grow+lock] a call on its marks failed; this allocation leaves it alone */
	struct mark marks[MARKS]; /* [grow+lock] oldest first */
	unsigned mark_count;
	struct { /* this stream waits for what that one did up to `epoch` */
		const struct heap_stream *stream;
		uint64_t epoch;
	} seen[SEEN]; /* [grow+lock] */
	unsigned seen_next;
};

struct heap {
	struct heap_backend to;
	struct heap_tune tune;
	/* Read by every hit, hardly ever written. */
	atomic_bool dead; /* the context is gone */
	atomic_uint reuse;
	_Atomic size_t slack; /* how much a stream may hold as credit: half of it; see heap_use.c */

	/* Published: never less than what the program holds. A line that hits may write. */
	_Atomic size_t live __attribute__((aligned(64)));
	_Atomic size_t live_high;

	_Atomic uint64_t calls __attribute__((aligned(64)));
	_Atomic uint64_t map_calls;

	pthread_mutex_t grow;
	pthread_mutex_t lock;

	struct space space[SPACES] __attribute__((aligned(64)));
	struct index done[SPACE_HOMES]; /* free and over for all streams */
	struct index none[SPACES];
	struct heap_stream *streams; /* closed ones too, until their mark has passed */
	unsigned stream_count;       /* of those that are open */
	_Atomic uint64_t
		epoch;          /* a point in time: rises with every mark and synchronisation; written under lock */
	uint64_t sync_done; /* everything up to this epoch is over */
	size_t out;         /* bytes of used blocks */
	size_t reserved, reserved_high;
	size_t lost;   /* addresses that could not be unmapped: never used again */
	uint64_t hits; /* of streams that are closed */
	uint64_t misses, steals, waits, stitches, view_hits, trims, blocks;
	struct view *idle, *idle_last; /* least recently used first */
	struct view *busy, *newest;
	bool tight;   /* [grow+lock] memory was not ample when large chunks were last made */
	bool cramped; /* [grow] a view found no addresses, because of views that the device may still use */
	unsigned views;
	size_t chunks;
	struct block *spare; /* records; chained by `chain` */
	size_t spares;
	struct region *regions;
};

/* ---- heap_record.c: host memory. [lock] ---- */
/* False: no host memory. After it, `n` calls of record_get() succeed. */
bool record_reserve(struct heap *heap, size_t n);
struct block *record_get(struct heap *heap);
void record_put(struct heap *heap, struct block *b);
/* Cleared memory that lives as long as the heap; NULL: none. */
void *host_get(struct heap *heap, size_t bytes);
void host_free_all(struct heap *heap);

/* ---- heap_index.c. [lock] ---- */
void index_add(struct index *x, struct block *b);
void index_remove(struct index *x, struct block *b);
/* The smallest block of at least `bytes` among the first few of its class; NULL: none. */
struct block *index_fit(const struct index *x, size_t bytes);
/* Each block of at least `bytes`' class, in no order: NULL starts, NULL ends. */
struct block *index_next(const struct index *x, const struct block *after, size_t bytes);

/* ---- heap_range.c: blocks in address order. [lock] ---- */
struct index *range_index(struct heap *heap, const struct block *b);
/* Takes [va, va+bytes) out of a block that is in an index; the rest goes back. The
 * block returned is a claim that keeps owner and epoch. Needs two spare records. */
struct block *range_carve(struct heap *heap, struct block *b, uint64_t va, size_t bytes);
/* A claim becomes free (or none) and one with neighbours of the same kind and owner. */
struct block *range_put(struct heap *heap, struct block *b, enum block_kind kind, struct heap_stream *owner,
						uint64_t epoch);
/* Neighbouring claims become one. */
struct block *range_join(struct heap *heap, struct block *a, struct block *b);
/* Cuts a claim's end off as a claim of its own (one spare record); NULL when `bytes` is its size. */
struct block *range_cut(struct heap *heap, struct block *b, size_t bytes, struct block **rest);

/* ---- heap_space.c: addresses to blocks and chunks ---- */
int space_open(struct heap *heap, unsigned number, size_t bytes);
void space_close(struct heap *heap, unsigned number);
/* Entries of the live map for [va, va+bytes) exist. [lock] */
bool space_leaves(struct heap *heap, unsigned number, uint64_t va, size_t bytes);
/* The space that contains `va`, or NULL. Lock-free. */
struct space *space_of(const struct heap *heap, uint64_t va);
/* The entry of the block that starts at `va`; NULL: there can be none. Lock-free. */
block_slot *space_slot(const struct heap *heap, const struct space *s, uint64_t va);
static inline struct chunk *space_chunk(const struct heap *heap, unsigned number, uint64_t va)
{
	const struct space *s = &heap->space[number];
	return va - s->base < s->bytes ? s->chunk[(va - s->base) / heap->to.grain] : NULL;
}
/* The block of a home space that holds `va`, which is mapped. [lock] */
struct block *space_block(const struct heap *heap, unsigned number, uint64_t va);

/* ---- heap_bins.c: free blocks in front of the heap ---- */
struct block *bin_pop(struct heap_stream *s, size_t bytes); /* [stream.lock] */
/* Returns a chain of blocks that had to make room. [stream.lock] */
struct block *bin_push(struct heap_stream *s, struct block *b);
/* The chain's blocks go back to the heap in the order of `s`. [lock] */
void bin_dissolve(struct heap *heap, struct heap_stream *s, struct block *chain);
/* All blocks of a home space (a view is large) go back. [lock] */
void bin_drain(struct heap_stream *s, unsigned space);
void bin_drain_all(struct heap *heap, unsigned space); /* of all streams. [lock] */

/* ---- heap_use.c: what the program holds ---- */
void use_more(struct heap *heap, struct heap_stream *s, size_t bytes); /* [stream.lock] */
void use_less(struct heap *heap, struct heap_stream *s, size_t bytes); /* [stream.lock] */
void use_tune(struct heap *heap);                                      /* [lock] */

/* ---- heap_mark.c: when is memory of another stream free? ---- */
/* `s` may use what `owner` freed at `epoch`, without any call. [lock] */
bool mark_usable(const struct heap *heap, const struct heap_stream *s, const struct heap_stream *owner,
				 uint64_t epoch);
/* Its last use is over on the device. [lock] */
bool mark_over(const struct heap *heap, const struct heap_stream *owner, uint64_t epoch);
/* Another stream could be made to wait for `owner`. [lock] */
bool mark_waitable(const struct heap_stream *owner);
/* Records marks on all other streams that freed something since their last one, looks which marks have
 * passed, and hands what is over to everybody. `s` NULL: all streams. [grow] */
void mark_refresh(struct heap *heap, struct heap_stream *s);
/* Forgets closed streams whose work is over. [grow] */
void mark_refresh_closed(struct heap *heap);
void mark_forgive(struct heap *heap); /* no stream refuses any more. [grow] */
/* The stream waits until what `owner` freed at `epoch` is over. False: it refuses. [grow] */
bool mark_order(struct heap *heap, struct heap_stream *s, struct heap_stream *owner, uint64_t epoch);
/* Waits, at most `ns`, for the mark of another stream (`s` NULL: of any) that lets most memory go; false: there
 * is none, or it did not pass. Lets go of grow meanwhile. [grow] */
bool mark_wait_most(struct heap *heap, struct heap_stream *s, uint64_t ns);
/* The last mark on a stream that is about to go. [grow] */
void mark_last(struct heap *heap, struct heap_stream *s);

/* ---- heap_chunk.c: physical memory. [grow] ---- */
/* Memory for a claim of none-addresses that begins and ends at a grain, in chunks of at most `largest`, for a
 * block of `request` bytes that begins at `begin`. 0: it is a claim of free memory. Else nothing is left behind,
 * and the addresses are none again. */
int chunk_grow(struct heap *heap, struct block *none, uint64_t begin, size_t request, size_t largest);
/* Gives back chunks that are over for all until `want` bytes are; returns how many bytes were. */
size_t chunk_release(struct heap *heap, size_t want);

/* ---- heap_view.c ---- */
/* An idle view whose first `bytes` are usable by `s`, claimed; NULL: none. [lock] */
struct view *view_again(struct heap *heap, struct heap_stream *s, size_t bytes, bool wait);
/* Maps the claims of `chain` (in that order) side by side. [grow] */
int view_make(struct heap *heap, struct block *chain, struct view **out);
/* The block that a busy view holds. [lock] */
void view_block(const struct view *v, struct block *record, size_t bytes);
/* Claims of view_again() go back as they were. [lock] */
void view_undo(struct heap *heap, struct view *v);
/* Its claims go back, it is idle. [lock] */
void view_rest(struct heap *heap, struct view *v, struct heap_stream *owner, uint64_t epoch);
/* Unmaps up to `n` idle views that are over, oldest first; returns how many. [grow] */
unsigned view_evict(struct heap *heap, unsigned n);
/* Unmaps all views on doomed chunks; a chunk whose view must or does stay is doomed no more. [grow] */
void view_evict_doomed(struct heap *heap);
int view_access_again(struct heap *heap); /* [grow] */
void view_destroy_all(struct heap *heap); /* at the end */

/* ---- heap_plan.c: which free memory makes up a block. [grow+lock] ---- */
struct plan {
	struct heap *heap;
	struct heap_stream *stream;
	size_t bytes;
	bool wait;  /* memory of streams that have not come so far may be used */
	bool exact; /* grow by what is needed and no more */
	/* Filled in: */
	struct block *claims, *last; /* chain, in the order of the block's bytes */
	struct block *fresh;         /* one of the claims: addresses that must get memory first */
	bool stitched;               /* the claims are not neighbours */
	size_t chunk;                /* the largest chunk for the fresh memory */
	bool stolen;
};
bool plan_fit(struct plan *p);  /* one run of neighbouring free blocks */
bool plan_grow(struct plan *p); /* the cheapest way to more memory, or to stitch. False: no way */
void plan_undo(struct plan *p); /* the claims go back as they were */
/* The request may have it; `waits`: if its stream waits. */
bool plan_may_use(const struct plan *p, const struct block *b, bool *waits);
/* Free memory at [va, va+bytes) of a home space is claimed and added to the plan. False: no host memory. */
bool plan_claim(struct plan *p, unsigned space, uint64_t va, size_t bytes);

/* ---- heap_fit.c: which free block serves a request. [lock] ---- */
/* A claim (or a view's block) is the program's. */
struct block *fit_take(struct heap *heap, struct block *b, size_t bytes);
/* Did the memory have to be handed over from one stream to another? */
bool fit_stolen(const struct heap_stream *s, const struct block *b);
/* The best of the stream's own free blocks and everybody's, taken; NULL: none fits. */
struct block *fit(struct heap *heap, struct heap_stream *s, unsigned space, size_t bytes);
/* The same for a large block that is smaller than a grain. Among others it would pin a chunk or two, so where
 * memory is little it goes to the small ones, but for pieces that are of no use to large ones and while large memory
 * lies idle. `any`: memory is out, it goes wherever it fits. */
struct block *fit_middle(struct heap *heap, struct heap_stream *s, size_t bytes, bool any);
static inline bool fit_is_middle(const struct heap *heap, size_t bytes)
{
	return bytes >= heap->tune.small && bytes < heap->to.grain;
}

/* ---- heap_miss.c ---- */
int miss_alloc(struct heap_stream *s, size_t bytes, struct block **out);

/* A backend call, counted. */
#define CALL(heap, member, ...)                                          \
	(atomic_fetch_add_explicit(&(heap)->calls, 1, memory_order_relaxed), \
	 (heap)->to.member((heap)->to.arg __VA_OPT__(, ) __VA_ARGS__))
#define MAP_CALL(heap, member, ...) \
	(atomic_fetch_add_explicit(&(heap)->map_calls, 1, memory_order_relaxed), CALL(heap, member, __VA_ARGS__))

static inline size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

#endif
