/* test_devmem_block.c - the table of blocks: exact addresses, many of them, several threads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/devmem/block.h"
#include "policy/devmem/cache_space.h"

static struct space *const space = &spaces[0];

static struct block *block_at(CUdeviceptr base)
{
	struct block *b = block_new();
	assert_non_null(b);
	b->base = base;
	b->size = b->asked = 512;
	b->space = space;
	assert_true(block_insert(b));
	return b;
}

static void only_the_exact_base_is_found(void **state)
{
	(void)state;
	struct block *b = block_at(0x7f0000000000);
	assert_ptr_equal(block_find(0x7f0000000000), b);
	assert_null(block_find(0x7f0000000001));
	assert_null(block_find(0x7f0000000200));
	assert_null(block_find(0));
	block_remove(b);
	assert_null(block_find(0x7f0000000000));
	block_remove(b); /* again: nothing */
	block_drop(b);
}

static void many_are_kept_apart(void **state)
{
	enum { MANY = 100000 };
	static struct block *all[MANY];
	(void)state;
	for (unsigned i = 0; i < MANY; i++)
		all[i] = block_at(0x100000000000 + (CUdeviceptr)i * 512);
	assert_int_equal(block_count(), MANY);
	for (unsigned i = 0; i < MANY; i++)
		assert_ptr_equal(block_find(0x100000000000 + (CUdeviceptr)i * 512), all[i]);
	block_forget(&spaces[1]);
	assert_int_equal(block_count(), MANY);
	block_forget(space);
	assert_int_equal(block_count(), 0);
}

static void what_is_known_is_told(void **state)
{
	(void)state;
	struct block_view view;
	struct block *b = block_at(4096);
	b->asked = 100;
	assert_true(block_look(4096, &view));
	assert_int_equal(view.asked, 100);
	assert_int_equal(view.size, 512);
	assert_int_equal(view.state, BLOCK_LIVE);
	assert_int_equal(view.flags, 0);
	assert_true(block_flag(4096, BLOCK_KEEP_OUT));
	assert_true(block_look(4096, &view));
	assert_int_equal(view.flags, BLOCK_KEEP_OUT);
	assert_false(block_look(8192, &view));
	assert_false(block_flag(8192, BLOCK_KEEP_OUT));
	b->state = BLOCK_CACHED; /* not the program's any more */
	assert_false(block_flag(4096, BLOCK_KEEP_OUT));
	block_forget(space);
}

/* The driver hands an address out again that we believe to be taken. */
static void a_newer_block_takes_the_place(void **state)
{
	(void)state;
	struct block *old = block_at(4096), *new = block_at(4096);
	assert_ptr_equal(block_find(4096), new);
	assert_true(old->flags & BLOCK_STALE);
	block_remove(old); /* does not take the newer one along */
	assert_ptr_equal(block_find(4096), new);
	block_forget(space);
	block_drop(old);
}

static void *insert_and_remove(void *arg)
{
	uintptr_t n = (uintptr_t)arg;
	for (unsigned round = 0; round < 2000; round++) {
		struct block *b[16];
		for (unsigned i = 0; i < 16; i++)
			b[i] = block_at((n << 40) + (CUdeviceptr)i * 512);
		for (unsigned i = 0; i < 16; i++)
			if (block_find((n << 40) + (CUdeviceptr)i * 512) != b[i])
				return "lost";
		for (unsigned i = 0; i < 16; i++) {
			block_remove(b[i]);
			block_drop(b[i]);
		}
	}
	return NULL;
}

static void threads_do_not_disturb_each_other(void **state)
{
	pthread_t thread[4];
	(void)state;
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, insert_and_remove, (void *)(i + 1));
	for (int i = 0; i < 4; i++) {
		void *wrong;
		pthread_join(thread[i], &wrong);
		assert_null(wrong);
	}
	assert_int_equal(block_count(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_exact_base_is_found),
		cmocka_unit_test(many_are_kept_apart),
		cmocka_unit_test(what_is_known_is_told),
		cmocka_unit_test(a_newer_block_takes_the_place),
		cmocka_unit_test(threads_do_not_disturb_each_other),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
