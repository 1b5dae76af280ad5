#include "move.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

/* 64 bytes a turn: one whole write-combining buffer. `dst` is 64-byte aligned. */
static void stream_sse2(unsigned char *dst, const unsigned char *src, size_t lines)
{
	for (; lines; lines--, dst += 64, src += 64) {
		_mm_prefetch((const char *)src + 1024, _MM_HINT_NTA);
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

void move_stream(void *dst, const void *src, size_t bytes)
{
	unsigned char *d = dst;
	const unsigned char *s = src;
	size_t head = -(uintptr_t)d & 63;
	if (head > bytes)
		head = bytes;
	memcpy(d, s, head);
	size_t lines = (bytes - head) / 64;
	stream_sse2(d + head, s + head, lines);
	size_t done = head + lines * 64;
	memcpy(d + done, s + done, bytes - done);
	/* Streaming stores are weakly ordered: make them visible before the release
	 * store by which the other side (DMA issuer, or the program) learns of them. */
	_mm_sfence();
}

#else

void move_stream(void *dst, const void *src, size_t bytes)
{
	memcpy(dst, src, bytes);
}

#endif
