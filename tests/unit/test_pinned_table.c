/*
 * The table of pinned blocks against a list: who is around an address, while the table changes, too; ranges that
 * overlap; a full table; and what sizes are asked of the driver.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include <pthread.h>

#include "policy/hostmem/pinned_keep.h"
#include "policy/hostmem/pinned_table.h"

#define MODEL 64
#define SPACE (1u << 16) /* pages, of which blocks take 1 to 40 */
#define PAGE 4096ull
#define LOW 0x7f0000000000ull

static uint64_t random_state;

static uint64_t random_next(void)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return random_state >> 33;
}

static struct pinned_block *block(uintptr_t base, size_t size)
{
	struct pinned_block *b = pinned_block_new();
	assert_non_null(b);
	atomic_store(&b->base, base);
	atomic_store(&b->size, size);
	atomic_store(&b->asked, size - 1);
	atomic_store(&b->state, PINNED_LIVE);
	return b;
}

static struct pinned_block *model_find(struct pinned_block *const *model, uintptr_t at)
{
	for (int i = 0; i < MODEL; i++)
		if (model[i] && at >= model[i]->base && at - model[i]->base < model[i]->size)
			return model[i];
	return NULL;
}

static void agrees_with_a_list(void **state)
{
	(void)state;
	struct pinned_block *model[MODEL] = {0}, *stale;
	for (int op = 0; op < 20000; op++) {
		struct pinned_block **at = &model[random_next() % MODEL];
		pthread_mutex_lock(&pinned_lock);
		if (*at) {
			pinned_remove(*at);
			pinned_block_drop(*at);
			*at = NULL;
		} else {
			uintptr_t base = LOW + random_next() % SPACE * PAGE;
			size_t size = (1 + random_next() % 40) * PAGE;
			struct pinned_block *b = block(base, size);
			bool clash = false;
			for (int i = 0; i < MODEL; i++)
				clash |= model[i] && model[i]->base < base + size && base < model[i]->base + model[i]->size;
			bool in = pinned_insert(b, &stale);
			assert_int_equal(in, !clash);
			if (clash) {
				/* What it overlaps is stale, and out of the table. */
				assert_non_null(stale);
				for (int i = 0; i < MODEL; i++)
					if (model[i] == stale)
						model[i] = NULL;
				pinned_block_drop(stale);
				pinned_block_drop(b);
			} else {
				*at = b;
			}
		}
		uintptr_t look = LOW + random_next() % (SPACE * PAGE);
		struct pinned_block *expected = model_find(model, look), *found = pinned_find(look);
		pthread_mutex_unlock(&pinned_lock);
		struct pinned_view v;
		assert_ptr_equal(found, expected);
		assert_int_equal(pinned_look(look, &v), expected != NULL);
		if (expected) {
			assert_int_equal(v.base, expected->base);
			assert_int_equal(v.asked, expected->size - 1);
		}
	}
	pthread_mutex_lock(&pinned_lock);
	for (struct pinned_block *b; (b = pinned_at(0));) {
		pinned_remove(b);
		pinned_block_drop(b);
	}
	pthread_mutex_unlock(&pinned_lock);
}

static _Atomic bool stop;

/* Blocks 0, 2, 4, ... are always there, the others come and go. */
static void *come_and_go(void *unused)
{
	(void)unused;
	while (!atomic_load(&stop)) {
		struct pinned_block *stale;
		pthread_mutex_lock(&pinned_lock);
		struct pinned_block *b = block(LOW + 2 * PAGE * (random_next() % 100) + PAGE, PAGE);
		if (!pinned_insert(b, &stale)) {
			assert_non_null(stale);
			pinned_block_drop(stale);
		} else {
			pinned_remove(b);
		}
		pinned_block_drop(b);
		pthread_mutex_unlock(&pinned_lock);
	}
	return NULL;
}

static void a_reader_sees_whole_blocks(void **state)
{
	(void)state;
	pthread_t thread;
	struct pinned_block *stale;
	pthread_mutex_lock(&pinned_lock);
	for (unsigned i = 0; i < 100; i++)
		assert_true(pinned_insert(block(LOW + 2 * PAGE * i, PAGE), &stale));
	pthread_mutex_unlock(&pinned_lock);
	assert_int_equal(pthread_create(&thread, NULL, come_and_go, NULL), 0);
	for (unsigned i = 0; i < 300000; i++) {
		struct pinned_view v;
		uintptr_t base = LOW + 2 * PAGE * (i % 100);
		assert_true(pinned_look(base + i % PAGE, &v));
		assert_int_equal(v.base, base);
		assert_int_equal(v.state, PINNED_LIVE);
		assert_int_equal(v.asked, PAGE - 1);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	pthread_mutex_lock(&pinned_lock);
	for (struct pinned_block *b; (b = pinned_at(0));) {
		pinned_remove(b);
		pinned_block_drop(b);
	}
	pthread_mutex_unlock(&pinned_lock);
}

static void a_full_table_takes_no_more(void **state)
{
	(void)state;
	struct pinned_block *stale;
	pthread_mutex_lock(&pinned_lock);
	for (unsigned i = 0; i < PINNED_BLOCKS; i++)
		assert_true(pinned_insert(block(LOW + PAGE * i, PAGE), &stale));
	assert_null(pinned_block_new());
	assert_ptr_equal(pinned_find(LOW + PAGE * 77 + 5), pinned_at(77));
	struct pinned_block *first = pinned_at(0);
	pinned_remove(first);
	pinned_block_drop(first);
	assert_null(pinned_find(LOW));
	assert_non_null(pinned_block_new());
	pthread_mutex_unlock(&pinned_lock);
}

static void rounded_sizes(void **state)
{
	(void)state;
	for (int i = 0; i < 10000; i++) {
		size_t bytes = 1 + (size_t)random_next() % ((size_t)1 << (1 + random_next() % 40));
		size_t rounded = pinned_round(bytes);
		assert_true(rounded >= bytes);
		assert_int_equal(rounded % PAGE, 0);
		assert_true(rounded - bytes < PAGE || rounded - bytes <= bytes / 32);
		assert_int_equal(pinned_round(rounded), rounded);
	}
}

int main(void)
{
	const char *seed = getenv("PINNED_TABLE_SEED");
	random_state = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
	printf("seed %llu\n", (unsigned long long)random_state);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_a_list),
		cmocka_unit_test(a_reader_sees_whole_blocks),
		cmocka_unit_test(rounded_sizes),
		cmocka_unit_test(a_full_table_takes_no_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
