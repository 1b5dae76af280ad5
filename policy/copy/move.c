#define _GNU_SOURCE
#include "move.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tune.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define PAGE 4096u

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

/* 64 bytes a turn: one whole write-combining buffer. `dst` is 64-byte aligned. */
static void lines_sse2(unsigned char *dst, const unsigned char *src, size_t lines)
{
	for (; lines; lines--, dst += 64, src += 64) {
		__m128i a = _mm_loadu_si128((const __m128i *)(const void *)src);
		__m128i b = _mm_loadu_si128((const __m128i *)(const void *)(src + 16));
		__m128i c = _mm_loadu_si128((const __m128i *)(const void *)(src + 32));
		__m128i d = _mm_loadu_si128((const __m128i *)(const void *)(src + 48));
		_mm_stream_si128((__m128i *)(void *)dst, a);
		_mm_stream_si128((__m128i *)(void *)(dst + 16), b);
		_mm_stream_si128((__m128i *)(void *)(dst + 32), c);
		_mm_stream_si128((__m128i *)(void *)(dst + 48), d);
	}
}

/* Wider loads and stores: 10-20 % faster a thread where memory is contended. */
__attribute__((target("avx2"))) static void lines_avx2(unsigned char *dst, const unsigned char *src,
													   size_t lines)
{
	for (; lines; lines--, dst += 64, src += 64) {
		__m256i a = _mm256_loadu_si256((const __m256i *)(const void *)src);
		__m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(src + 32));
		_mm256_stream_si256((__m256i *)(void *)dst, a);
		_mm256_stream_si256((__m256i *)(void *)(dst + 32), b);
	}
}

/* Set by move_start(), constant afterwards. */
static bool have_avx2;

/* By hand: __builtin_cpu_supports() would bring a constructor of libgcc's into every
 * process. The processor has AVX2, and the system saves the wide registers (OSXSAVE, XCR0). */
void move_start(void)
{
	unsigned a, b, c, d, low, high;
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX))
		return;
	__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	have_avx2 = (low & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}

static void copy_lines(unsigned char *dst, const unsigned char *src, size_t lines)
{
	if (have_avx2)
		lines_avx2(dst, src, lines);
	else
		lines_sse2(dst, src, lines);
	/* Streaming stores are weakly ordered: make them visible before the release
	 * store by which the other side (DMA issuer, or the program) learns of them. */
	_mm_sfence();
}

void move_stream(void *dst, const void *src, size_t bytes)
{
	unsigned char *d = dst;
	const unsigned char *s = src;
	size_t head = -(uintptr_t)d & 63;
	if (head > bytes)
		head = bytes;
	memcpy(d, s, head);
	size_t lines = (bytes - head) / 64, done = head + lines * 64;
	copy_lines(d + head, s + head, lines);
	memcpy(d + done, s + done, bytes - done);
}

#else

void move_start(void) {}

void move_stream(void *dst, const void *src, size_t bytes)
{
	memcpy(dst, src, bytes);
}

#endif

void move_in(void *ring, const void *user, size_t bytes, bool past_caches)
{
	if (past_caches)
		move_stream(ring, user, bytes);
	else
		memcpy(ring, user, bytes);
}

static uintptr_t page_of(const void *p)
{
	return (uintptr_t)p & ~(uintptr_t)(PAGE - 1);
}

static bool resident(uintptr_t page)
{
	unsigned char state = 1;
	return mincore((void *)page, PAGE, &state) != 0 || (state & 1);
}

bool move_is_fresh(const void *user, size_t bytes)
{
	const unsigned char *p = user;
	return !resident(page_of(p + bytes / 4)) || !resident(page_of(p + bytes / 2)) ||
		   !resident(page_of(p + bytes - 1));
}

/* Bit 63 of a word a page: it is in this process's page tables. */
static bool mapped(int pagemap, const unsigned char *p)
{
	uint64_t word;
	off_t at = (off_t)((uintptr_t)p / PAGE * sizeof(word));
	return pread(pagemap, &word, sizeof(word), at) != sizeof(word) || word >> 63;
}

bool move_is_unmapped(const void *user, size_t bytes)
{
	const unsigned char *p = user;
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (pagemap < 0)
		return false;
	bool unmapped =
		!mapped(pagemap, p + bytes / 4) || !mapped(pagemap, p + bytes / 2) || !mapped(pagemap, p + bytes - 1);
	close(pagemap);
	return unmapped;
}

/*
 * A fresh result (torch's .cpu()) is nothing but page faults. Advice only: what cannot be
 * populated faults as usual.
 */
static void populate(void *user, size_t bytes)
{
	uintptr_t first = page_of((unsigned char *)user + PAGE - 1), end = page_of((unsigned char *)user + bytes);
	if (end > first)
		madvise((void *)first, end - first, MADV_POPULATE_WRITE);
}

void move_out(void *user, const void *ring, size_t bytes, bool fresh)
{
	if (fresh)
		populate(user, bytes);
	move_stream(user, ring, bytes);
}
