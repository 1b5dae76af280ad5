/* ENV: TURBO_COPY_THREADS=2 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=4 BARE */
/*
 * The smallest ring there is, two slots: copies of any size still go through it, round and round.
 */
#include "common/copy_fixture.h"
#include <cmocka.h>

static void every_size_is_staged(void **state)
{
	(void)state;
	static const size_t sizes[] = {64 * KIB, MIB + 1,     EARLY_BYTES, EARLY_BYTES + 1,
								   4 * MIB,  7 * MIB + 7, 50 * MIB};
	for (uint32_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t n = sizes[i / 2];
		CUdeviceptr d = device_new(n);
		unsigned char *h = pages_new(n, i);
		uint64_t in = counter("copy.h2d.staged"), out = counter("copy.d2h.staged");
		OK(i % 2 ? cu.cuMemcpyHtoD_v2(d, h, n) : cu.cuMemcpyHtoDAsync_v2(d, h, n, NULL));
		memset(h, 0, n);
		DEVICE_IS(d, n, i);
		OK(i % 2 ? cu.cuMemcpyDtoH_v2(h, d, n) : cu.cuMemcpyDtoHAsync_v2(h, d, n, NULL));
		HOST_IS(h, n, i);
		if (fx.preloaded) {
			assert_int_equal(counter("copy.h2d.staged") - in, 1);
			assert_int_equal(counter("copy.d2h.staged") - out, 1);
		}
		pages_free(h, n);
		device_free(d);
	}
}

static void the_ring_is_as_large_as_asked(void **state)
{
	(void)state;
	if (fx.preloaded)
		assert_int_equal(counter("copy.ring.bytes"), 4 * MIB);
	if (fx.preloaded && sim.host_registrations)
		assert_int_equal(sim.host_registrations(), 1);
}

int main(void)
{
	copy_open();
	const struct CMUnitTest tests[] = {
		STAGED(every_size_is_staged),
		EITHER(the_ring_is_as_large_as_asked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
