/* ENV: TURBO_COPY=early TURBO_COPY_THREADS=2 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=16 */
/*
 * TURBO_COPY=early: whatever the slots of a copy hold is read before its turn, and a copy still
 * waits for nothing that another thread puts on its stream.
 */
#include "common/copy_fixture.h"
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static CUstream stream;

/* 8 MiB fit the slots of one copy in a ring of 16: the call returns before its turn, and what
 * the program writes afterwards is not copied. */
static void it_returns_before_its_turn(void **state)
{
	(void)state;
	const size_t n = 8 * MIB;
	CUdeviceptr d = device_new(n), e = device_new(n);
	unsigned char *h = pages_new(n, 1);
	OK(cu.cuStreamWaitValue32_v2(stream, fx.flag_dev, 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(cu.cuMemcpyHtoDAsync_v2(d, h, n, stream));
	memset(h, 0, n);
	assert_int_equal(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	OK(launch_copy(stream, e, d, n));
	__atomic_store_n(fx.flag, 1, __ATOMIC_RELEASE);
	DEVICE_IS(d, n, 1);
	DEVICE_IS(e, n, 1);
	pages_free(h, n);
	device_free(d);
	device_free(e);
}

static void every_size(void **state)
{
	(void)state;
	for (uint32_t i = 1; i < 40; i += 3) {
		size_t n = i * MIB - i % 5;
		CUdeviceptr d = device_new(n);
		unsigned char *h = pages_new(n, i);
		uint64_t staged = copy_staged();
		OK(launch_spin(stream, 3));
		OK(launch_fill(stream, d, n / 4, 7));
		OK(cu.cuMemcpyHtoDAsync_v2(d, h, n, stream));
		memset(h, 0, n);
		OK(cu.cuMemcpyDtoHAsync_v2(h, d, n, stream));
		HOST_IS(h, n, i);
		assert_int_equal(copy_staged() - staged, 2);
		pages_free(h, n);
		device_free(d);
	}
}

/* ---- another thread puts a wait onto the stream in the middle of a copy ---- */

static unsigned char *trap_page;
static _Atomic int middle, placed, returned;

static void on_fault(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	if ((unsigned char *)info->si_addr < trap_page || (unsigned char *)info->si_addr >= trap_page + 4096)
		_exit(3);
	middle = 1;
	while (!placed)
		usleep(200);
	mprotect(trap_page, 4096, PROT_READ | PROT_WRITE);
}

static void *place_main(void *arg)
{
	CUresult *r = arg;
	while (!middle)
		usleep(200);
	*r = cu.cuCtxSetCurrent(fx.ctx);
	if (*r == CUDA_SUCCESS)
		*r = cu.cuStreamWaitValue32_v2(stream, fx.flag_dev, 1, CU_STREAM_WAIT_VALUE_EQ);
	placed = 1;
	while (!returned)
		usleep(200);
	__atomic_store_n(fx.flag, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void a_wait_in_the_middle(void **state)
{
	(void)state;
	static const size_t sizes[] = {8 * MIB, 60 * MIB};
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old;
	assert_int_equal(sigaction(SIGSEGV, &action, &old), 0);
	for (uint32_t i = 0; i < 2; i++) {
		size_t n = sizes[i];
		CUdeviceptr d = device_new(n);
		unsigned char *h = pages_new(n, i);
		CUresult other = CUDA_ERROR_UNKNOWN;
		pthread_t thread;
		middle = placed = returned = 0;
		__atomic_store_n(fx.flag, 0, __ATOMIC_RELEASE);
		trap_page = h + n / 8 * 5 / 4096 * 4096;
		assert_int_equal(mprotect(trap_page, 4096, PROT_NONE), 0);
		assert_int_equal(pthread_create(&thread, NULL, place_main, &other), 0);
		CUresult r = cu.cuMemcpyHtoDAsync_v2(d, h, n, stream);
		returned = 1;
		pthread_join(thread, NULL);
		OK(r);
		OK(other);
		memset(h, 0, n);
		DEVICE_IS(d, n, i);
		pages_free(h, n);
		device_free(d);
	}
	sigaction(SIGSEGV, &old, NULL);
}

int main(void)
{
	copy_limit();
	copy_open();
	if (!fx.preloaded)
		return 77;
	if (cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
		return 1;
	const struct CMUnitTest tests[] = {
		STAGED(it_returns_before_its_turn),
		STAGED(every_size),
		STAGED(a_wait_in_the_middle),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
