/* test_agree.c - ranks cut their sequence alike, whatever the order in which they come to it; nobody waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "policy/nccl/agree.h"

static struct agree_area *area_for(unsigned ranks)
{
	struct agree_area *area = aligned_alloc(128, (agree_bytes(ranks) + 127) / 128 * 128);
	assert_non_null(area);
	memset(area, 0, agree_bytes(ranks));
	return area;
}

static void queue(struct agree *a, unsigned n)
{
	while (n--)
		assert_true(agree_queue(a));
}

static void a_single_rank_groups_what_it_has(void **state)
{
	(void)state;
	struct agree a;
	struct agree_area *area = area_for(1);
	assert_true(agree_init(&a, area, 0, 1));
	assert_true(agree_complete(&a));
	assert_int_equal(agree_step(&a), 0);
	queue(&a, 1);
	assert_int_equal(agree_step(&a), 1);
	queue(&a, 64);
	assert_int_equal(agree_step(&a), 64);
	assert_int_equal(agree_step(&a), 0);
	free(area);
}

static void who_is_first_decides(void **state)
{
	(void)state;
	struct agree a, b;
	struct agree_area *area = area_for(2);
	assert_true(agree_init(&a, area, 0, 2));
	assert_false(agree_complete(&a));
	queue(&a, 2); /* the other has not joined: alone */
	assert_int_equal(agree_step(&a), 1);
	assert_true(agree_init(&b, area, 1, 2));
	assert_true(agree_complete(&a));
	queue(&b, 5);
	assert_int_equal(agree_step(&b), 1); /* as the first has done */
	queue(&a, 2);
	assert_int_equal(agree_step(&a), 3); /* 2 to 4 */
	queue(&a, 7);
	assert_int_equal(agree_step(&b), 3);
	assert_int_equal(agree_step(&b), 1);
	assert_int_equal(agree_step(&a), 1);
	assert_int_equal(agree_step(&a), 1); /* beyond what the other has: alone */
	free(area);
}

static void a_rank_that_leaves_brings_all_to_singles(void **state)
{
	(void)state;
	struct agree a, b;
	struct agree_area *area = area_for(2);
	assert_true(agree_init(&a, area, 0, 2) && agree_init(&b, area, 1, 2));
	queue(&a, 3);
	queue(&b, 4);
	assert_int_equal(agree_step(&a), 3);
	agree_leave(&a);
	assert_false(agree_queue(&a));
	assert_int_equal(agree_step(&a), 0);
	queue(&b, 3);
	assert_int_equal(agree_step(&b), 3);
	for (int i = 0; i < 4; i++)
		assert_int_equal(agree_step(&b), 1);
	free(area);
}

static void a_full_log_is_refused(void **state)
{
	(void)state;
	struct agree a, b;
	struct agree_area *area = area_for(2);
	assert_true(agree_init(&a, area, 0, 2) && agree_init(&b, area, 1, 2));
	for (unsigned i = 0; i < AGREE_SLOTS; i++) {
		queue(&a, 1);
		assert_int_equal(agree_step(&a), 1);
	}
	assert_false(agree_queue(&a)); /* the other has read nothing */
	queue(&b, 10);
	for (int i = 0; i < 10; i++)
		assert_int_equal(agree_step(&b), 1);
	queue(&a, 10); /* room for ten more */
	assert_false(agree_queue(&a));
	free(area);
}

static void the_log_goes_round(void **state)
{
	(void)state;
	struct agree a, b;
	struct agree_area *area = area_for(2);
	uint64_t far = (UINT64_C(1) << 32) - 20; /* tags begin anew on the way */
	assert_true(agree_init(&a, area, 0, 2) && agree_init(&b, area, 1, 2));
	a.next = b.next = far;
	area->place[0].used = area->place[1].used = far;
	for (uint64_t j = far - AGREE_SLOTS; j < far; j++)
		area->slot[j % AGREE_SLOTS] = (uint64_t)(uint32_t)(j + 1) << 32 | 1;
	for (unsigned i = 0; i < 3 * AGREE_SLOTS; i++) {
		unsigned n = 1 + i % 3;
		queue(&a, n);
		queue(&b, n);
		assert_int_equal(agree_step(i % 2 ? &a : &b), n);
		assert_int_equal(agree_step(i % 2 ? &b : &a), n);
	}
	free(area);
}

static void what_is_not_ours_is_refused(void **state)
{
	(void)state;
	struct agree a;
	struct agree_area *area = area_for(4);
	assert_false(agree_init(&a, area, 0, 0));
	assert_false(agree_init(&a, area, 4, 4));
	assert_false(agree_init(&a, area, 0, AGREE_RANKS + 1));
	assert_true(agree_init(&a, area, 0, 4));
	assert_false(agree_init(&a, area, 0, 4)); /* twice */
	assert_false(agree_queue(&a));
	assert_false(agree_init(&a, area, 1, 3));
	atomic_store(&area->layout, 77);
	assert_false(agree_init(&a, area, 1, 4));
	free(area);
}

/* Whose place is taken launches alone: nobody may believe that all are there. */
static void a_place_that_is_taken_is_nobodys(void **state)
{
	(void)state;
	struct agree a, b, again;
	struct agree_area *area = area_for(2);
	assert_true(agree_init(&a, area, 0, 2));
	assert_false(agree_init(&again, area, 0, 2));
	assert_false(agree_init(&b, area, 1, 2));
	assert_false(agree_complete(&a));
	free(area);
	area = area_for(2);
	assert_true(agree_init(&a, area, 0, 2) && agree_init(&b, area, 1, 2));
	assert_true(agree_complete(&a));
	assert_false(agree_init(&again, area, 1, 2));
	assert_false(agree_complete(&a) || agree_complete(&b));
	queue(&a, 3);
	queue(&b, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(agree_step(&b), 1);
	free(area);
}

/* A page that somebody has scribbled over: never more than is queued, and no log any more. */
static void nonsense_ends_it(void **state)
{
	(void)state;
	static const uint64_t nonsense[] = {UINT64_C(1) << 32, UINT64_C(1) << 32 | 6,
										UINT64_C(1) << 32 | UINT32_MAX};
	for (unsigned i = 0; i < 3; i++) {
		struct agree a, b;
		struct agree_area *area = area_for(2);
		assert_true(agree_init(&a, area, 0, 2) && agree_init(&b, area, 1, 2));
		queue(&a, 5);
		atomic_store(&area->slot[0], nonsense[i]);
		for (int n = 0; n < 5; n++)
			assert_int_equal(agree_step(&a), 1);
		assert_int_equal(agree_step(&a), 0);
		assert_false(agree_queue(&a));
		free(area);
	}
}

/* Whose memory is gone is asked still by who waits for the others. */
static void who_has_left_looks_at_nothing(void **state)
{
	struct agree a, b;
	bool decided = false;
	(void)state;
	struct agree_area *area = area_for(2);
	assert_true(agree_init(&a, area, 0, 2) && agree_init(&b, area, 1, 2));
	queue(&a, 3);
	agree_leave(&a);
	free(area);
	a.area = NULL;
	for (int left = 3; left; left--) {
		assert_int_equal(agree_ready(&a, &decided), 1);
		assert_true(decided);
		assert_int_equal(agree_step(&a), 1);
	}
	assert_int_equal(agree_ready(&a, &decided), 0);
	assert_false(agree_queue(&a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_single_rank_groups_what_it_has),
		cmocka_unit_test(who_is_first_decides),
		cmocka_unit_test(a_rank_that_leaves_brings_all_to_singles),
		cmocka_unit_test(a_full_log_is_refused),
		cmocka_unit_test(the_log_goes_round),
		cmocka_unit_test(what_is_not_ours_is_refused),
		cmocka_unit_test(a_place_that_is_taken_is_nobodys),
		cmocka_unit_test(nonsense_ends_it),
		cmocka_unit_test(who_has_left_looks_at_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
