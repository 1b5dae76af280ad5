/*
 * trial_rank.c - a rank carries out its script of a trial.
 */
#include "trial_rank.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rank_orders.h"
#include "util.h"

struct trial_rank trial_me;
#define me trial_me

bool trial_fails(const char *fmt, ...)
{
	char text[sizeof(me.error)];
	uint32_t none = 0;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (__atomic_compare_exchange_n(&me.failed, &none, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		memcpy(me.error, text, sizeof(text));
		__atomic_store_n(&me.failed, 2, __ATOMIC_RELEASE);
	}
	return false;
}

bool trial_good(CUresult r, const char *what)
{
	return r == CUDA_SUCCESS || trial_fails("%s: %s", what, cuda_dl_error(r));
}

uint64_t trial_hash(uint64_t h, const void *data, size_t n)
{
	const unsigned char *p = data;
	uint64_t word;

	for (; n; p += word ? sizeof(word) : 0) {
		size_t part = n < sizeof(word) ? n : sizeof(word);
		word = 0;
		memcpy(&word, p, part);
		h = (h ^ word) * 0x9fb21c651e98df25u;
		h ^= h >> 32;
		n -= part;
		word = 1;
	}
	return h;
}

void trial_constant(unsigned char *to, unsigned seed, int rank, size_t n)
{
	pattern_fill(to, n, seed * 16 + (unsigned)rank);
}

uint64_t trial_at(uint32_t place)
{
	uint32_t unit = place / TRIAL_UNIT, first;

	if (unit >= TRIAL_FIRST_PINNED)
		return (uint64_t)(uintptr_t)me.pinned + place - TRIAL_FIRST_PINNED * TRIAL_UNIT;
	if (unit < TRIAL_FIRST_BUFFER)
		return me.arena + place;
	first = TRIAL_FIRST_BUFFER + (unit - TRIAL_FIRST_BUFFER) / TRIAL_BUFFER_UNITS * TRIAL_BUFFER_UNITS;
	return me.buffer[(first - TRIAL_FIRST_BUFFER) / TRIAL_BUFFER_UNITS] + place - first * TRIAL_UNIT;
}

/* ---- another thread, for which this one waits ---- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	const struct trial_step *step; /* lock */
	bool started, ok;
} other = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

static void *other_main(void *unused)
{
	(void)unused;
	cu.cuCtxSetCurrent(me.ctx);
	pthread_mutex_lock(&other.lock);
	for (;;) {
		while (!other.step)
			pthread_cond_wait(&other.wake, &other.lock);
		other.ok = trial_take(other.step);
		other.step = NULL;
		pthread_cond_broadcast(&other.wake);
	}
	return NULL;
}

static bool take_elsewhere(const struct trial_step *s)
{
	pthread_t thread;

	pthread_mutex_lock(&other.lock);
	if (!other.started && pthread_create(&thread, NULL, other_main, NULL) == 0) {
		pthread_detach(thread);
		other.started = true;
	}
	other.step = s;
	pthread_cond_broadcast(&other.wake);
	while (other.step)
		pthread_cond_wait(&other.wake, &other.lock);
	pthread_mutex_unlock(&other.lock);
	return other.ok;
}

/* ---- programs ---- */

static bool set_up(const struct rank *rank)
{
	int devices = 0, fd = atoi(getenv("TRIAL_PAGE") ? getenv("TRIAL_PAGE") : "-1");
	const char *local = getenv("LOCAL_RANK"), *why = cuda_dl_open();
	void *page = mmap(NULL, sizeof(*me.page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	size_t all = (size_t)TRIAL_UNITS * TRIAL_UNIT;

	if (!why)
		why = nccl_dl_open();
	if (why || page == MAP_FAILED)
		return trial_fails("%s", why ? why : "no page to share");
	me.page = page;
	me.rank = rank->rank;
	cu.cuDeviceGetCount(&devices);
	if (!GOOD(cu.cuDevicePrimaryCtxRetain(&me.ctx, (local ? atoi(local) : me.rank) % devices)) ||
		!GOOD(cu.cuCtxSetCurrent(me.ctx)) ||
		!GOOD(cu.cuMemAlloc_v2(&me.arena, TRIAL_ARENA_UNITS * TRIAL_UNIT)) ||
		!GOOD(cu.cuMemHostAlloc((void **)&me.pinned, TRIAL_PINNED_UNITS * TRIAL_UNIT, 0)) ||
		!GOOD(cu.cuMemHostRegister_v2(page, sizeof(*me.page), 0)) ||
		!GOOD(cu.cuMemHostGetDevicePointer_v2(&me.flags, me.page->flag, 0)))
		return false;
	for (int s = 0; s < TRIAL_LEGACY; s++)
		if (!GOOD(cu.cuStreamCreate(&me.stream[s], s == 3 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING)))
			return false;
	me.host = malloc(all);
	why = me.host ? kernels_load(&me.kernels) : "no memory";
	kernels_current = &me.kernels;
	me.ready = !why && watch_init();
	return me.ready || trial_fails("%s", why ? why : "no thread");
}

/* All memory has what the seed says. */
static bool clear(void)
{
	size_t n = TRIAL_ARENA_UNITS * TRIAL_UNIT, last = n - TRIAL_UNIT;

	__atomic_store_n(&me.failed, 0, __ATOMIC_RELEASE);
	me.seen = 1;
	memset(me.seen_on, 0, sizeof(me.seen_on));
	memset(&me.result, 0, sizeof(me.result));
	memset(me.pinned, 0, TRIAL_PINNED_UNITS * TRIAL_UNIT);
	pattern_fill(me.host, n, me.trial.seed * 32 + (unsigned)me.rank);
	trial_constant(me.host + last, me.trial.seed, me.rank, TRIAL_UNIT);
	return GOOD(cu.cuMemcpyHtoD_v2(me.arena, me.host, n)) && GOOD(cu.cuCtxSynchronize()) && watch_reset();
}

static bool look_at_all(void)
{
	size_t n = TRIAL_ARENA_UNITS * TRIAL_UNIT, buffer = TRIAL_BUFFER_UNITS * TRIAL_UNIT;
	uint64_t h = 7;

	if (!GOOD(cu.cuCtxSynchronize()) || !GOOD(cu.cuMemcpyDtoH_v2(me.host, me.arena, n)))
		return false;
	h = trial_hash(h, me.host, n);
	for (int b = 0; b < TRIAL_BUFFERS; b++) {
		if (!me.buffer[b])
			continue;
		if (!GOOD(cu.cuMemcpyDtoH_v2(me.host, me.buffer[b], buffer)) || !GOOD(cu.cuMemFree_v2(me.buffer[b])))
			return false;
		me.buffer[b] = 0;
		h = trial_hash(h, me.host, buffer);
	}
	me.result.data = trial_hash(h, me.pinned, TRIAL_PINNED_UNITS * TRIAL_UNIT);
	me.result.seen = trial_hash(me.seen, me.seen_on, sizeof(me.seen_on));
	trial_account(0);
	return true;
}

static bool carry_out(void)
{
	const struct trial_step *step = me.trial.rank[me.rank].step;
	int n = me.trial.rank[me.rank].n;
	bool ok = true;

	for (int i = 0; i < n && ok; i++) {
		__atomic_store_n(&me.page->rank[me.rank].at, (uint32_t)i + 1, __ATOMIC_RELEASE);
		ok = step[i].other ? take_elsewhere(&step[i]) : trial_take(&step[i]);
		ok = ok && !__atomic_load_n(&me.failed, __ATOMIC_ACQUIRE);
		if (!ok && !__atomic_load_n(&me.page->abort, __ATOMIC_SEQ_CST))
			fprintf(stderr, "rank %d (pid %d), step %d of seed %u: %s\n", me.rank, (int)getpid(), i,
					me.trial.seed, trial_step_text(&step[i]));
	}
	return ok;
}

static bool run(const char *words)
{
	unsigned seed, ranks, fault;

	if (sscanf(words, "%u %u %u", &seed, &ranks, &fault) != 3)
		return trial_fails("no such trial");
	trial_make(&me.trial, seed, (int)ranks, (enum trial_fault)fault);
	if (!clear())
		return false;
	__atomic_store_n(&me.page->rank[me.rank].running, 1, __ATOMIC_RELEASE);
	watch_run(true);
	bool ok = carry_out() && look_at_all();
	if (!ok)
		trial_drop_all();
	watch_run(false);
	__atomic_store_n(&me.page->rank[me.rank].running, 0, __ATOMIC_RELEASE);
	return ok && !__atomic_load_n(&me.failed, __ATOMIC_ACQUIRE);
}

static bool join(const char *words, int ranks)
{
	unsigned char id[128];

	for (size_t i = 0; i < sizeof(id); i++)
		if (sscanf(words + 2 * i, "%2hhx", &id[i]) != 1)
			return trial_fails("no such id");
	return trial_join(id, ranks);
}

void trial_obey(struct rank *rank, char *line, char *answer)
{
	bool ok = me.ready || set_up(rank);
	const struct trial_result *r = &me.result;

	if (ok)
		cu.cuCtxSetCurrent(me.ctx);
	if (ok && !strncmp(line, "trial ", 6))
		ok = run(line + 6);
	else if (ok && !strncmp(line, "join ", 5))
		ok = join(line + 5, rank->ranks);
	else if (ok && !strcmp(line, "leave"))
		ok = trial_leave(0);
	else if (ok && !strcmp(line, "id")) {
		trial_make_id(answer);
		return;
	} else if (ok && strcmp(line, "init") != 0) {
		rank_obey(rank, line, answer);
		return;
	}
	if (ok)
		snprintf(answer, RANKS_LINE, "ok %llx %llx %llx %llu %llu", (unsigned long long)r->data,
				 (unsigned long long)r->seen, (unsigned long long)r->order, r->operations, r->launches);
	else
		snprintf(answer, RANKS_LINE, "error %s", me.error);
}

bool trial_result_read(const char *answer, struct trial_result *r)
{
	unsigned long long data, seen, order_;

	if (sscanf(answer, "ok %llx %llx %llx %llu %llu", &data, &seen, &order_, &r->operations, &r->launches) !=
		5)
		return false;
	r->data = data;
	r->seen = seen;
	r->order = order_;
	return true;
}
