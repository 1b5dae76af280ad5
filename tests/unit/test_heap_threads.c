/* test_heap_threads.c - threads that free the same blocks. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/common/heap_fake.h"

#define MIB ((size_t)1 << 20)
#define RACED 400

struct racer {
	pthread_t thread;
	struct heap *heap;
	struct heap_stream *stream;
	const uint64_t *va;
	unsigned won;
};

static void *race(void *arg)
{
	struct racer *r = arg;
	for (unsigned i = 0; i < RACED; i++)
		r->won += heap_free(r->heap, r->stream, r->va[i]) == HEAP_OK;
	return NULL;
}

/* Threads free the same blocks: each block is freed once. */
static void one_free_of_many_wins(void **state)
{
	(void)state;
	static struct fake fake;
	struct heap_backend backend;
	struct racer racer[4];
	uint64_t va[RACED];
	fake_open(&fake, 1024 * MIB, &backend);
	fake.loose = true;
	struct heap *heap = fake.look = heap_create(&backend, fake.device);
	struct heap_stream *s[4];
	for (unsigned k = 0; k < 4; k++)
		s[k] = heap_stream_open(heap, fake_stream_open(&fake));
	for (unsigned round = 0; round < 20; round++) {
		unsigned won = 0;
		for (unsigned i = 0; i < RACED; i++)
			assert_int_equal(heap_alloc(s[i % 4], i % 8 ? 700 * i + 1 : MIB + i, &va[i]), HEAP_OK);
		for (unsigned k = 0; k < 4; k++) {
			racer[k] = (struct racer){0, heap, s[k], va, 0};
			assert_int_equal(pthread_create(&racer[k].thread, NULL, race, &racer[k]), 0);
		}
		for (unsigned k = 0; k < 4; k++) {
			pthread_join(racer[k].thread, NULL);
			won += racer[k].won;
		}
		assert_int_equal(won, RACED);
		fake_check(heap);
	}
	heap_destroy(heap);
	fake_close(&fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_free_of_many_wins),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
