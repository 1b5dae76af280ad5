/* buffers.c - see buffers.h. */
#include "buffers.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "decode.h"
#include "guard.h"
#include "recording.h"

#define BYTES ((size_t)1 << 20)
#define MOST 64u /* bits of a word */
#define FIRST 8u
#define FEW 4u
#define SPARE_BYTES 16384u

/* Address space for all; the first `count` are readable and writable. Set by buffers_start(), release. */
static uint8_t *_Atomic pool;
static _Atomic unsigned count; /* only the helper adds */
/* A bit for each that is free: acquire when taken, release when given back. */
static _Atomic uint64_t free_pool, free_spare = UINT64_MAX;
static uint8_t spare[MOST][SPARE_BYTES] __attribute__((aligned(8)));
static uint8_t waste[SPARE_BYTES] __attribute__((aligned(8)));

static _Atomic bool ours, asked;
static cupti_requested *_Atomic foreign_requested;
static cupti_completed *_Atomic foreign_completed;

static int take(_Atomic uint64_t *word)
{
	uint64_t bits = atomic_load_explicit(word, memory_order_relaxed);
	while (bits)
		if (atomic_compare_exchange_weak_explicit(word, &bits, bits & (bits - 1), memory_order_acquire,
												  memory_order_relaxed))
			return __builtin_ctzll(bits);
	return -1;
}

static void give(_Atomic uint64_t *word, unsigned bit)
{
	atomic_fetch_or_explicit(word, 1ull << bit, memory_order_release);
}

static bool add(unsigned n)
{
	uint8_t *base = atomic_load_explicit(&pool, memory_order_relaxed);
	unsigned have = atomic_load_explicit(&count, memory_order_relaxed);
	for (; n > 0 && have < MOST; n--, have++) {
		if (mprotect(base + have * BYTES, BYTES, PROT_READ | PROT_WRITE) != 0)
			return false;
		/* Not on a launch: its pages are there when CUPTI writes. */
		for (size_t at = 0; at < BYTES; at += 4096)
			*(volatile uint8_t *)(base + have * BYTES + at) = 0;
		give(&free_pool, have);
		atomic_store_explicit(&count, have + 1, memory_order_relaxed);
	}
	return true;
}

bool buffers_start(void)
{
	if (atomic_load_explicit(&pool, memory_order_acquire))
		return true;
	uint8_t *base = mmap(NULL, MOST * BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		return false;
	madvise(base, MOST * BYTES, MADV_DONTFORK);
	atomic_store_explicit(&pool, base, memory_order_release);
	return add(FIRST);
}

void buffers_grow(void)
{
	unsigned left = (unsigned)__builtin_popcountll(atomic_load_explicit(&free_pool, memory_order_relaxed));
	if (atomic_load_explicit(&pool, memory_order_relaxed) && left < FEW)
		add(FEW - left);
}

void buffers_forget(void)
{
	atomic_store(&foreign_requested, NULL);
	atomic_store(&foreign_completed, NULL);
}

cupti_result buffers_register(cupti_result (*real)(cupti_requested *, cupti_completed *),
							  cupti_requested *requested, cupti_completed *completed)
{
	cupti_requested *old_requested = atomic_load(&foreign_requested);
	cupti_completed *old_completed = atomic_load(&foreign_completed);
	bool between = atomic_load(&pool) && requested && completed;
	cupti_result r;
	if (requested && completed) {
		atomic_store(&foreign_requested, requested);
		atomic_store(&foreign_completed, completed);
	}
	r = between ? real(buffers_requested, buffers_completed) : real(requested, completed);
	if (r != CUPTI_OK) {
		atomic_store(&foreign_requested, old_requested);
		atomic_store(&foreign_completed, old_completed);
	}
	return r;
}

void buffers_ours(bool on)
{
	if (on)
		atomic_store(&asked, false);
	atomic_store(&ours, on);
}

bool buffers_asked(void)
{
	return atomic_load(&asked);
}

/* Where the zeroes at the end begin. Not a data race that could hurt: whole words, looked at for their being 0. */
__attribute__((no_sanitize("thread"))) static uint64_t filled(const uint8_t *buffer)
{
	const volatile uint64_t *word = (const volatile uint64_t *)(const void *)buffer;
	size_t n = BYTES / sizeof(*word);
	while (n > 0 && word[n - 1] == 0)
		n--;
	return n * sizeof(*word);
}

uint64_t buffers_filled(void)
{
	uint64_t free = atomic_load_explicit(&free_pool, memory_order_relaxed), sum = 0;
	for (unsigned i = 0; i < atomic_load_explicit(&count, memory_order_relaxed); i++)
		if (!(free & 1ull << i))
			sum += filled(atomic_load_explicit(&pool, memory_order_relaxed) + i * BYTES);
	return sum;
}

/* ---- callbacks ---- */

/* Nothing of ours is left: what CUPTI writes here nobody reads, so all may share it. */
static void request_nothing(uint8_t **buffer, size_t *size)
{
	recording_count(TIMELINE_COUNT_NO_BUFFER, 1);
	*buffer = waste;
	*size = sizeof(waste);
}

static bool request(_Atomic uint64_t *word, uint8_t *base, size_t bytes, uint8_t **buffer, size_t *size)
{
	int i = take(word);
	if (i < 0)
		return false;
	*buffer = base + (size_t)i * bytes;
	*size = bytes;
	return true;
}

void buffers_requested(uint8_t **buffer, size_t *size, size_t *most_records)
{
	cupti_requested *other = atomic_load(&foreign_requested);
	if (!atomic_load(&ours) && other) {
		other(buffer, size, most_records);
		return;
	}
	if (!request(&free_pool, atomic_load_explicit(&pool, memory_order_relaxed), BYTES, buffer, size) &&
		!request(&free_spare, spare[0], SPARE_BYTES, buffer, size))
		request_nothing(buffer, size);
	*most_records = 0; /* as many as fit */
	atomic_store_explicit(&asked, true, memory_order_release);
}

static void empty(uint8_t *buffer, size_t valid, size_t bytes)
{
	guard_enter();
	decode_buffer(buffer, valid < bytes ? valid : bytes);
	memset(buffer, 0, bytes);
	guard_leave();
}

void buffers_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	uintptr_t in_pool = (uintptr_t)buffer - (uintptr_t)atomic_load_explicit(&pool, memory_order_relaxed);
	uintptr_t in_spare = (uintptr_t)buffer - (uintptr_t)spare;
	cupti_completed *other = atomic_load(&foreign_completed);
	if (in_pool < MOST * BYTES) {
		empty(buffer, valid, BYTES);
		give(&free_pool, (unsigned)(in_pool / BYTES));
	} else if (in_spare < sizeof(spare)) {
		empty(buffer, valid, SPARE_BYTES);
		give(&free_spare, (unsigned)(in_spare / SPARE_BYTES));
	} else if (other && buffer != waste) {
		other(context, stream, buffer, size, valid);
	}
}
