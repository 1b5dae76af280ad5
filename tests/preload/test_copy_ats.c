/* ENV: SIM_ATS=1 TURBO_COPY_THREADS=2 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=4 */
/*
 * Where the device walks the host's page tables a ring gains nothing: no ring is built, copies
 * pass through.
 */
#include "common/copy_fixture.h"
#include <cmocka.h>

static void copies_pass_through(void **state)
{
	(void)state;
	const size_t n = 3 * MIB;
	CUdeviceptr d = device_new(n);
	unsigned char *h = pages_new(n, 1);
	for (uint32_t i = 0; i < 3; i++) {
		uint64_t passed = counter("copy.pass.no_context");
		pattern_fill(h, n, i);
		OK(cu.cuMemcpyHtoD_v2(d, h, n));
		memset(h, 0, n);
		OK(cu.cuMemcpyDtoH_v2(h, d, n));
		HOST_IS(h, n, i);
		assert_int_equal(counter("copy.pass.no_context") - passed, 2);
	}
	assert_int_equal(counter("copy.ring.bytes"), 0);
	assert_int_equal(sim.host_registrations(), 0);
	pages_free(h, n);
	device_free(d);
}

int main(void)
{
	copy_limit();
	copy_open();
	if (!fx.preloaded || !sim.calls) {
		print_message("needs libturbo.so and the simulated driver\n");
		return 77;
	}
	const struct CMUnitTest tests[] = {
		PASSED(copies_pass_through),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
