/* test_copy_move.c - bytes between user memory and the ring: exactly those asked for, at any alignment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "policy/copy/move.h"

#define ROOM (72u << 10)

static unsigned char from[ROOM], to[ROOM], want[ROOM];

static void fill(unsigned char *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++) {
		seed = seed * 1103515245u + 12345u;
		p[i] = (unsigned char)(seed >> 16);
	}
}

/* Every way there is; 256 bytes around the destination are compared too. */
static void move_and_check(size_t dst_at, size_t src_at, size_t bytes)
{
	size_t low = dst_at - 128, high = dst_at + bytes + 128;
	memset(want + low, 0xa5, high - low);
	memcpy(want + dst_at, from + src_at, bytes);
	for (int way = 0; way < 5; way++) {
		memset(to + low, 0xa5, high - low);
		if (way == 0)
			move_stream(to + dst_at, from + src_at, bytes);
		else if (way < 3)
			move_out(to + dst_at, from + src_at, bytes, way == 1);
		else
			move_in(to + dst_at, from + src_at, bytes, way == 3);
		if (memcmp(to + low, want + low, high - low) != 0)
			fail_msg("way %d: destination offset %zu, source offset %zu, %zu bytes", way, dst_at & 63,
					 src_at & 63, bytes);
	}
}

static size_t aligned(const unsigned char *p)
{
	return 256 + (-(uintptr_t)p & 63);
}

static void every_alignment_and_length(void **state)
{
	(void)state;
	static const unsigned src_offsets[] = {0, 1, 3, 8, 15, 16, 31, 33, 63};
	fill(from, sizeof(from), 1);
	for (unsigned d = 0; d < 64; d++)
		for (size_t s = 0; s < sizeof(src_offsets) / sizeof(src_offsets[0]); s++)
			for (size_t n = 0; n <= 200; n++)
				move_and_check(aligned(to) + d, aligned(from) + src_offsets[s], n);
}

static void every_pair_of_alignments(void **state)
{
	(void)state;
	for (unsigned d = 0; d < 64; d++)
		for (unsigned s = 0; s < 64; s++)
			move_and_check(aligned(to) + d, aligned(from) + s, 333);
}

static void lengths_near_pages(void **state)
{
	(void)state;
	for (size_t n = 4096 - 65; n <= 4096 + 65; n++)
		move_and_check(aligned(to) + n % 64, aligned(from) + (n * 7) % 64, n);
	for (size_t n = 65536 - 3; n <= 65536 + 3; n++)
		move_and_check(aligned(to), aligned(from) + n % 64, n);
}

/* Neither reads nor writes beyond the last byte: both blocks end at an unmapped page. */
static void stays_inside_its_pages(void **state)
{
	(void)state;
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 4 * page;
	unsigned char *map[2];
	for (int i = 0; i < 2; i++) {
		map[i] = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(map[i], MAP_FAILED);
		assert_int_equal(munmap(map[i] + bytes, page), 0);
	}
	fill(map[0], bytes, 2);
	for (size_t n = 0; n < 300; n++) {
		move_stream(map[1] + bytes - n, map[0] + bytes - n, n);
		assert_memory_equal(map[1] + bytes - n, map[0] + bytes - n, n);
	}
	move_stream(map[1], map[0], bytes);
	assert_memory_equal(map[1], map[0], bytes);
	munmap(map[0], bytes);
	munmap(map[1], bytes);
}

/* Destinations that were never touched, or partly, private and shared. */
static void moves_out_to_fresh_pages(void **state)
{
	(void)state;
	const size_t bytes = 1 << 20;
	unsigned char *src = malloc(bytes);
	fill(src, bytes, 3);
	for (unsigned i = 0; i < 12; i++) {
		unsigned char *map = mmap(NULL, bytes + 8192, PROT_READ | PROT_WRITE,
								  (i % 2 ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(map, MAP_FAILED);
		if (i % 3 == 1)
			map[4096 * i] = 7;
		if (i % 3 == 2)
			memset(map, 7, bytes / 2);
		size_t off = i * 333, n = bytes - i * 777;
		move_out(map + off, src, n, i % 4 < 2 || move_is_fresh(map + off, n));
		assert_memory_equal(map + off, src, n);
		for (size_t k = off + n; k < off + n + 256; k++)
			assert_int_equal(map[k], 0);
		munmap(map, bytes + 8192);
	}
	free(src);
}

static void knows_fresh_pages(void **state)
{
	(void)state;
	const size_t bytes = 1 << 20;
	unsigned char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	madvise(map, bytes, MADV_NOHUGEPAGE);
	assert_true(move_is_fresh(map, bytes));
	memset(map, 1, bytes);
	assert_false(move_is_fresh(map, bytes));
	assert_false(move_is_fresh(map + 100, 50)); /* less than a page */
	munmap(map, bytes);
	/* Nothing there at all: no crash, no advice. */
	(void)move_is_fresh(map, bytes);
}

static void knows_unmapped_pages(void **state)
{
	(void)state;
	size_t bytes = 1u << 20;
	int fd = memfd_create("source", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	unsigned char *first = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(first, MAP_FAILED);
	memset(first, 1, bytes);
	assert_false(move_is_unmapped(first, bytes));
	unsigned char *second = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(second, MAP_FAILED);
	/* Without /proc nothing is known, and no claim made. */
	assert_int_equal(move_is_unmapped(second, bytes), access("/proc/self/pagemap", R_OK) == 0);
	for (size_t at = 0; at < bytes; at += 4096)
		assert_int_equal(second[at], 1);
	assert_false(move_is_unmapped(second, bytes));
	munmap(first, bytes);
	munmap(second, bytes);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_alignment_and_length), cmocka_unit_test(every_pair_of_alignments),
		cmocka_unit_test(lengths_near_pages),         cmocka_unit_test(stays_inside_its_pages),
		cmocka_unit_test(moves_out_to_fresh_pages),   cmocka_unit_test(knows_fresh_pages),
		cmocka_unit_test(knows_unmapped_pages),
	};
	/* What every processor can do, then what this one can. */
	int failed = cmocka_run_group_tests_name("baseline", tests, NULL, NULL);
	move_start();
	return failed + cmocka_run_group_tests_name("this processor", tests, NULL, NULL);
}
