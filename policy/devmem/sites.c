#include "sites.h"

#include <pthread.h>
#include <string.h>

#include "real.h"
#include "unwind.h"

#define SITES 256    /* different stacks; more are not sampled */
#define SAMPLES 4096 /* live sampled blocks */

/* At least this many ticks between two samples (0.2-0.5 ms): however fast a program allocates,
 * stacks cost it less than a tenth of its time. */
#define TICKS_BETWEEN (1u << 20)

bool sites_on;
uint16_t sites_filter[SITE_FILTER]; /* written under the lock, read relaxed by sites_free() */

struct sample {
	CUdeviceptr ptr; /* 0: free */
	size_t weight;
	unsigned site;
};

static struct {
	pthread_mutex_t lock; /* guards all but `next`; no driver call and no stack walk under it */
	struct site site[SITES];
	unsigned sites;
	struct sample sample[SAMPLES]; /* open addressing; see forget_at() */
	unsigned samples;
	uint64_t next; /* ticks of the earliest next sample; relaxed: two at a time do no harm */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

void sites_pressure(size_t held, size_t total)
{
	if (total && held > total / 4 && !__atomic_load_n(&sites_on, __ATOMIC_RELAXED))
		__atomic_store_n(&sites_on, true, __ATOMIC_RELAXED);
}

/* libturbo's own frames, which are all alike, are left out. */
static int stack_of(void **frame)
{
	void *raw[SITE_FRAMES + 8];
	int n = unwind_stack(raw, SITE_FRAMES + 8), skip = 0;
	while (skip < n && real_is_own(raw[skip]))
		skip++;
	n = n - skip < SITE_FRAMES ? n - skip : SITE_FRAMES;
	memcpy(frame, raw + skip, (size_t)n * sizeof(*frame));
	return n;
}

/* Index of the stack's site, or SITES. Lock held. */
static unsigned site_of(void *const *frame, int frames)
{
	unsigned i = 0, unused = SITES;
	size_t bytes = (size_t)frames * sizeof(*frame);
	for (; i < table.sites; i++) {
		if (table.site[i].frames == frames && memcmp(table.site[i].frame, frame, bytes) == 0)
			return i;
		if (!table.site[i].blocks)
			unused = i;
	}
	i = table.sites < SITES ? table.sites++ : unused;
	if (i < SITES) {
		table.site[i] = (struct site){.frames = frames};
		memcpy(table.site[i].frame, frame, bytes);
	}
	return i;
}

static unsigned home(CUdeviceptr ptr)
{
	return sites_slot(ptr) % SAMPLES;
}

/* Index of the entry of `ptr`, or of the free one where it would go. Lock held. */
static unsigned find(CUdeviceptr ptr)
{
	unsigned i = home(ptr);
	while (table.sample[i].ptr && table.sample[i].ptr != ptr)
		i = (i + 1) % SAMPLES;
	return i;
}

static void add(CUdeviceptr ptr, size_t weight, unsigned site)
{
	table.sample[find(ptr)] = (struct sample){ptr, weight, site};
	table.samples++;
	table.site[site].bytes += weight;
	table.site[site].blocks++;
	uint16_t *count = &sites_filter[sites_slot(ptr)];
	__atomic_store_n(count, (uint16_t)(*count + 1), __ATOMIC_RELAXED);
}

/* Takes entry i out and closes the gap, so that no chain is cut. Lock held. */
static void forget_at(unsigned i)
{
	struct sample *s = table.sample;
	table.site[s[i].site].bytes -= s[i].weight;
	table.site[s[i].site].blocks--;
	uint16_t *count = &sites_filter[sites_slot(s[i].ptr)];
	__atomic_store_n(count, (uint16_t)(*count - 1), __ATOMIC_RELAXED);
	table.samples--;
	for (unsigned j = (i + 1) % SAMPLES; s[j].ptr; j = (j + 1) % SAMPLES) {
		/* May the one at j stand at i? Only if its home is not between the two. */
		if ((j - home(s[j].ptr)) % SAMPLES >= (j - i) % SAMPLES) {
			s[i] = s[j];
			i = j;
		}
	}
	s[i].ptr = 0;
}

void sites_sample(CUdeviceptr ptr, size_t bytes, uint64_t ticks)
{
	void *frame[SITE_FRAMES];
	if (ticks < __atomic_load_n(&table.next, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&table.next, ticks + TICKS_BETWEEN, __ATOMIC_RELAXED);
	int frames = stack_of(frame);
	if (frames <= 0)
		return;
	size_t period = (size_t)1 << SITE_PERIOD_LOG2, weight = bytes > period ? bytes : period;
	pthread_mutex_lock(&table.lock);
	unsigned old = find(ptr);
	if (table.sample[old].ptr) /* its free went past us */
		forget_at(old);
	unsigned site = table.samples < SAMPLES / 2 ? site_of(frame, frames) : SITES;
	if (site < SITES)
		add(ptr, weight, site);
	pthread_mutex_unlock(&table.lock);
}

void sites_forget(CUdeviceptr ptr)
{
	pthread_mutex_lock(&table.lock);
	unsigned i = find(ptr);
	if (table.sample[i].ptr)
		forget_at(i);
	pthread_mutex_unlock(&table.lock);
}

unsigned sites_top(struct site *out, unsigned max)
{
	unsigned n = 0;
	pthread_mutex_lock(&table.lock);
	for (unsigned i = 0; i < table.sites; i++) {
		if (!table.site[i].blocks)
			continue;
		unsigned at = n < max ? n++ : max;
		/* Insertion from the end; the last one falls out. */
		for (; at > 0 && out[at - 1].bytes < table.site[i].bytes; at--)
			if (at < max)
				out[at] = out[at - 1];
		if (at < max)
			out[at] = table.site[i];
	}
	pthread_mutex_unlock(&table.lock);
	return n;
}

void sites_fork_child(void)
{
	pthread_mutex_init(&table.lock, NULL);
	__atomic_store_n(&sites_on, false, __ATOMIC_RELAXED);
}
