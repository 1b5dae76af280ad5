/* LINK: simrt
 *
 * test_sim_runtime.c - the tiny runtime, from several threads.
 */
#include <pthread.h>

#include "common/simtest.h"
#include "simrt.h"
#include "tests/gpu/kernels_ptx.h"

#define N (3u << 20)

static void resolves_as_the_real_runtime_does(void **state)
{
	(void)state;
	assert_int_equal(rtInit(), 0);
	assert_null(rtDriver("", 0, 0));
	assert_ptr_equal(rtDriver("cuMemAlloc", 3020, 0), (void *)cuMemAlloc_v2);
	assert_ptr_equal(rtDriver("cuMemcpyHtoD", 7000, 2), (void *)cuMemcpyHtoD_v2_ptds);
}

static void *work(void *arg)
{
	uint32_t seed = *(uint32_t *)arg;
	uint32_t *in = malloc(N), *back = malloc(N);
	void *dev, *stream, *event;
	assert_non_null(in);
	assert_non_null(back);
	for (size_t i = 0; i < N / 4; i++)
		in[i] = seed + (uint32_t)i * 2654435761u;
	ok(rtMalloc(&dev, N));
	ok(rtStreamCreateWithFlags(&stream, 1));
	ok(rtEventCreate(&event, 2));
	for (int round = 0; round < 4; round++) {
		uint64_t words = N / 4;
		uint32_t add = (uint32_t)round + 1;
		void *args[] = {&dev, &words, &add};
		memset(back, 0, N);
		ok(rtMemcpyAsync(dev, in, N, round & 1 ? RT_ANY : RT_H2D, stream));
		ok(round & 2 ? rtLaunchEx("add32", 8, stream, args) : rtLaunch("add32", 8, stream, args));
		ok(rtEventRecord(event, stream));
		ok(rtEventSynchronize(event));
		ok(rtMemcpyAsync_ptsz(back, dev, N, RT_D2H, stream));
		ok(rtStreamSynchronize(stream));
		for (size_t i = 0; i < N / 4; i++)
			assert_int_equal(back[i], in[i] + add);
	}
	ok(rtEventDestroy(event));
	ok(rtStreamDestroy(stream));
	ok(rtFree(dev));
	free(in);
	free(back);
	return NULL;
}

static void threads_copy_and_compute(void **state)
{
	(void)state;
	pthread_t threads[3];
	uint32_t seeds[3] = {1, 77, 4242};
	ok(rtLoad(kernels_ptx));
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, &seeds[i]), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

static void the_rest(void **state)
{
	(void)state;
	void *dev, *pinned;
	ok(rtMalloc(&dev, 4096));
	ok(rtMallocHost(&pinned, 4096));
	ok(rtMemset(dev, 5, 4096));
	ok(rtMemcpy(pinned, dev, 4096, RT_D2H));
	assert_int_equal(((unsigned char *)pinned)[4095], 5);
	memset(pinned, 6, 4096);
	ok(rtMemcpy_ptds(dev, pinned, 4096, RT_ANY));
	ok(rtMemcpy_ptds(pinned, dev, 1, RT_D2H));
	assert_int_equal(*(unsigned char *)pinned, 6);
	ok(rtDeviceSynchronize());
	ok(rtFreeHost(pinned));
	ok(rtFree(dev));
	assert_int_equal(rtMalloc(&dev, (size_t)1 << 45), CUDA_ERROR_OUT_OF_MEMORY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resolves_as_the_real_runtime_does),
		cmocka_unit_test(threads_copy_and_compute),
		cmocka_unit_test(the_rest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
