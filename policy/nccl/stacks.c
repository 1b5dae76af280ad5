/*
 * stacks.c - sites: a text for each stack that issued something, made once.
 *
 * The table says which text belongs to a stack; issuing threads read it without a lock. Who finds nothing makes the
 * text under a lock that nobody waits for, into the flight file. When the file's room is used up, later stacks are
 * not known; the fuller it is, the shorter the texts.
 */
#include "stacks.h"

#include <errno.h>

#include "guard.h"
#include "peek.h"
#include "python.h"
#include "python_gil.h"
#include "real.h"
#include "stacks_native.h"
#include "stacks_signal.h"
#include "symbol.h"
#include "unwind.h"

#define SITES 1024 /* texts; the room in the file is for some 100 of Python */
#define SLOTS (2 * SITES)
#define LEAST 512 /* bytes of a text */
#define MOST 4096
#define NATIVE 8   /* frames shown */
#define TEST_MS 50 /* for the self-test, each time */

static struct slot {
	_Atomic uint64_t key; /* 0: free; release, after `site` */
	uint32_t site;
} slots[SLOTS];
static _Atomic bool making;   /* the lock: who has it writes slots, `made` and the page's texts */
static _Atomic unsigned made; /* relaxed */
static _Atomic bool ready;    /* libunwind is loaded, an interpreter was looked for; release */

static uint64_t mix(uint64_t h, const void *p)
{
	h = (h ^ (uintptr_t)p) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

/* The slot of a key, or the free one where it would go; NULL: the table is full. */
static struct slot *find(uint64_t key)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		struct slot *s = &slots[(key + i) % SLOTS];
		uint64_t seen = atomic_load_explicit(&s->key, memory_order_acquire);
		if (seen == key || !seen)
			return s;
	}
	return NULL;
}

static void add_python(const struct python *p, struct lines *out)
{
	struct python_frame frame[PYTHON_FRAMES];
	unsigned n = python_frames(p, p->api.this_state(), frame, PYTHON_FRAMES);
	for (unsigned i = 0; i < n; i++) {
		unsigned start = out->used;
		lines_string(out, "  python ");
		if (!python_describe(p, &frame[i], out) || !lines_end(out, start)) {
			out->text[out->used = start] = 0;
			break;
		}
	}
}

/* Bytes of the text, its final 0 included. */
static unsigned make_text(const struct python *p, const void *caller, char *text, unsigned size)
{
	struct lines out;
	void *frame[NATIVE + 16];
	lines_begin(&out, text, p ? size - size / 4 : size);
	if (p)
		add_python(p, &out);
	out.size = size;
	out.cut = false;
	int n = unwind_stack(frame, NATIVE + 16), skip = 0;
	while (skip < n && real_is_own(frame[skip]))
		skip++;
	if (skip == n) { /* no libunwind */
		frame[0] = (void *)(uintptr_t)caller;
		n = 1;
		skip = 0;
	}
	n = n - skip < NATIVE ? n - skip : NATIVE;
	stacks_native_lines(p, (void *const *)frame + skip, (unsigned)n, &out);
	return out.used + 1;
}

static bool has_room(struct flight_page *page)
{
	return atomic_load_explicit(&made, memory_order_relaxed) < SITES &&
		   atomic_load_explicit(&page->site_bytes, memory_order_relaxed) + LEAST <= FLIGHT_SITE_BYTES;
}

/* Lock held. The site of a new stack, or 0: no room. */
static uint32_t make_site(struct flight_page *page, const struct python *p, const void *caller, uint64_t key)
{
	uint32_t used = atomic_load_explicit(&page->site_bytes, memory_order_relaxed);
	struct slot *s = find(key);
	if (!s || !has_room(page))
		return 0;
	if (atomic_load_explicit(&s->key, memory_order_relaxed))
		return s->site; /* another thread was faster */
	unsigned size = (FLIGHT_SITE_BYTES - used) / 8;
	size = size < LEAST ? LEAST : size > MOST ? MOST : size;
	unsigned bytes = make_text(p, caller, page->sites + used, size);
	s->site = used + 1;
	atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
	atomic_store_explicit(&page->site_bytes, used + bytes, memory_order_release);
	atomic_store_explicit(&s->key, key, memory_order_release);
	return used + 1;
}

static uint32_t new_site(struct flight_page *page, const struct python *p, const void *caller, uint64_t key)
{
	uint32_t site = 0;
	int saved = errno;
	/* What runs here must not come back here. */
	guard_enter();
	if (has_room(page) && !atomic_exchange_explicit(&making, true, memory_order_acquire)) {
		site = make_site(page, p, caller, key);
		atomic_store_explicit(&making, false, memory_order_release);
	}
	guard_leave();
	errno = saved;
	return site;
}

uint32_t stacks_site(struct flight_page *page, const void *caller, const void *frame)
{
	if (!page || !atomic_load_explicit(&ready, memory_order_acquire))
		return 0;
	const struct python *p = python_get();
	uint64_t key = 0;
	if (p && python_readable(p) && python_alive(p))
		key = python_walk(p, mix(mix(0, page), caller));
	if (!key) {
		p = NULL;
		key = mix(mix(mix(1, page), caller), frame) | 1;
	}
	struct slot *s = find(key);
	if (s && atomic_load_explicit(&s->key, memory_order_acquire) == key)
		return s->site;
	return new_site(page, p, caller, key);
}

uint32_t stacks_python(void)
{
	void *frame[1];
	if (!atomic_load_explicit(&ready, memory_order_relaxed)) {
		unwind_stack(frame, 1); /* loads libunwind */
		atomic_store_explicit(&ready, true, memory_order_release);
	}
	const struct python *p = python_find();
	if (!p)
		return 0;
	return python_self_test(p, TEST_MS) ? p->version : 0;
}

void stacks_tick(_Atomic uint64_t *tick)
{
	const struct python *p = python_find();
	if (!p)
		return;
	python_self_test(p, TEST_MS);
	python_tick(p, tick);
	stacks_signal_settle();
}

void stacks_fork_child(void)
{
	python_forget();
	python_gil_fork_child();
	stacks_signal_fork_child();
	atomic_store_explicit(&ready, false, memory_order_relaxed);
	atomic_store_explicit(&making, false, memory_order_relaxed);
}
