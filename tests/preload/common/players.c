#include "players.h"

static const struct game *game; /* the one that is played */

static void *player_main(void *arg)
{
	struct player *p = arg;
	bool ok = game->open(p);
	for (; ok && p->done < p->ops; p->done += ok)
		ok = game->op(p);
	if (ok)
		game->close(p);
	return NULL;
}

bool game_round(const struct game *g, uint64_t seed, unsigned ops)
{
	bool well = true;
	print_message("seed %llu, %u operations\n", (unsigned long long)seed, ops);
	game = g;
	for (unsigned i = 0; i < g->players; i++) {
		struct player *p = (struct player *)((char *)g->first + i * g->size);
		memset(p, 0, g->size);
		p->number = i;
		p->ops = ops / g->players;
		p->random = seed * 1000003 + i + 1;
	}
	for (unsigned i = 0; i < g->players; i++) {
		struct player *p = (struct player *)((char *)g->first + i * g->size);
		assert_int_equal(pthread_create(&p->thread, NULL, player_main, p), 0);
	}
	for (unsigned i = 0; i < g->players; i++) {
		struct player *p = (struct player *)((char *)g->first + i * g->size);
		pthread_join(p->thread, NULL);
		if (!p->wrong[0])
			continue;
		print_error("seed %llu, thread %u, operation %u: %s\n", (unsigned long long)seed, i, p->done,
					p->wrong);
		well = false;
	}
	return well;
}

unsigned env_number(const char *name, unsigned otherwise)
{
	const char *text = getenv(name);
	return text && *text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

unsigned rounds_play(const struct rounds *r, bool (*one)(uint64_t seed, unsigned ops))
{
	uint64_t start = now_ns(), soak = (uint64_t)(env_number("SOAK_S", 0) * r->soak * 1e9);
	uint64_t limit = soak ? soak : r->limit_s ? r->limit_s * 1000000000ull : UINT64_MAX;
	uint64_t seed = env_number(r->seed, (unsigned)(start / 1000 % 1000000000));
	unsigned done = 0, ops = r->ops < r->most ? r->ops : r->most;
	do {
		if (!one(seed++, ops))
			return 0;
		done += ops;
	} while (now_ns() - start < limit && (soak || done < r->ops));
	return done;
}

/* ---- tags ---- */

static bool failed(struct player *p, const char *what, CUresult r)
{
	snprintf(p->wrong, sizeof(p->wrong), "%s: %s", what, cuda_dl_error(r));
	return false;
}

bool tags_open(struct player *p, struct tag_reads *t)
{
	uint32_t *host;
	size_t bytes = (size_t)TAG_READS * 2 * TAG_WORDS * 4;
	CUresult r = cu.cuMemHostAlloc((void **)&host, bytes, CU_MEMHOSTALLOC_PORTABLE);
	if (r != CUDA_SUCCESS)
		return failed(p, "pinned memory", r);
	for (unsigned i = 0; i < TAG_READS; i++)
		t->at[i].host = host + i * 2 * TAG_WORDS;
	return true;
}

static bool read_end(struct player *p, struct tag_reads *t, struct tag_read *r)
{
	if (!r->used)
		return true;
	CUresult status = cu.cuStreamSynchronize(r->stream);
	if (status != CUDA_SUCCESS)
		return failed(p, "waiting for a tag", status);
	r->used = false;
	t->checked++;
	for (int i = 0; i < 2 * TAG_WORDS; i++)
		if (r->host[i] != r->tag) {
			snprintf(p->wrong, sizeof(p->wrong),
					 "word %d is %08x, not %08x: the block was handed out too early", i, r->host[i], r->tag);
			return false;
		}
	return true;
}

bool tags_read(struct player *p, struct tag_reads *t, CUdeviceptr at, size_t bytes, uint32_t tag,
			   CUstream stream)
{
	struct tag_read *r = &t->at[random_below(&p->random, TAG_READS)];
	size_t n = bytes < TAG_WORDS * 4 ? bytes : TAG_WORDS * 4;
	if (!read_end(p, t, r))
		return false;
	for (size_t i = 0; i < 2 * TAG_WORDS; i++) /* where a small block brings nothing */
		r->host[i] = i % TAG_WORDS < n / 4 ? ~tag : tag;
	*r = (struct tag_read){r->host, tag, stream, true};
	CUresult status = cu.cuMemcpyDtoHAsync_v2(r->host, at, n, stream);
	if (status == CUDA_SUCCESS)
		status = cu.cuMemcpyDtoHAsync_v2(r->host + TAG_WORDS, at + bytes - n, n, stream);
	return status == CUDA_SUCCESS || failed(p, "reading a tag", status);
}

bool tags_wait(struct player *p, struct tag_reads *t)
{
	for (unsigned i = 0; i < TAG_READS; i++)
		if (!read_end(p, t, &t->at[i]))
			return false;
	return true;
}

bool tags_close(struct player *p, struct tag_reads *t)
{
	if (!tags_wait(p, t))
		return false;
	CUresult r = cu.cuMemFreeHost(t->at[0].host);
	return r == CUDA_SUCCESS || failed(p, "pinned memory", r);
}
