/* ENV: SIM_HMM=1 TURBO_COPY=early TURBO_COPY_THREADS=2 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=16 */
/*
 * Where kernels can write pageable memory, nothing of a source is read before the copy's turn,
 * whatever TURBO_COPY says.
 */
#include "common/copy_fixture.h"
#include <cmocka.h>

static void a_kernel_writes_the_source(void **state)
{
	(void)state;
	static const size_t sizes[] = {64 * KIB, EARLY_BYTES, 9 * MIB};
	CUstream stream;
	OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (uint32_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t n = sizes[i / 2];
		uint64_t staged = copy_staged();
		CUdeviceptr d = device_new(n);
		unsigned char *h = pages_new(n, 1);
		OK(launch_spin(stream, 20));
		OK(launch_fill(stream, (CUdeviceptr)h, n / 4, 0x5a5a0000u + i));
		if (i % 2)
			OK(cu.cuStreamSynchronize(stream));
		OK(cu.cuMemcpyHtoDAsync_v2(d, h, n, stream));
		memset(h, 0, n);
		assert_int_equal(device_differs_word(d, n, 0x5a5a0000u + i), -1);
		assert_int_equal(copy_staged() - staged, 1);
		pages_free(h, n);
		device_free(d);
	}
	OK(cu.cuStreamDestroy_v2(stream));
}

int main(void)
{
	copy_limit();
	copy_open();
	if (!fx.preloaded || !sim.calls) {
		print_message("needs libturbo.so and a driver that lets kernels write pageable memory\n");
		return 77;
	}
	const struct CMUnitTest tests[] = {
		STAGED(a_kernel_writes_the_source),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
