/* ENV: TURBO_COPY_THREADS=2 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=4 */
/*
 * A program that makes one context after the other, none of which can have a ring: that is said
 * once. Needs the simulated driver.
 */
#include "common/copy_fixture.h"
#include <cmocka.h>

#include <fcntl.h>
#include <unistd.h>

#define BYTES (2 * MIB)
#define CONTEXTS 20

static int out[2], was;

static void hear_stderr(void)
{
	was = dup(STDERR_FILENO);
	assert_int_equal(pipe2(out, O_NONBLOCK), 0);
	assert_int_equal(dup2(out[1], STDERR_FILENO), STDERR_FILENO);
}

/* Lines on stderr since hear_stderr(). */
static unsigned lines(void)
{
	static char text[65536];
	ssize_t n = read(out[0], text, sizeof(text));
	unsigned found = 0;
	dup2(was, STDERR_FILENO);
	close(was);
	close(out[0]);
	close(out[1]);
	for (ssize_t i = 0; i < n; i++)
		found += text[i] == '\n';
	return found;
}

static void rings_that_fail(void **state)
{
	(void)state;
	unsigned char *h = pages_new(BYTES, 1);
	hear_stderr();
	sim.fail_set("cuMemHostRegister_v2", 0, CUDA_ERROR_OUT_OF_MEMORY);
	CUresult r = CUDA_SUCCESS;
	for (int i = 0; i < CONTEXTS && r == CUDA_SUCCESS; i++) {
		CUcontext ctx;
		CUdeviceptr d;
		if ((r = cu.cuCtxCreate_v2(&ctx, 0, 0)) == CUDA_SUCCESS &&
			(r = cu.cuMemAlloc_v2(&d, BYTES)) == CUDA_SUCCESS &&
			(r = cu.cuMemcpyHtoD_v2(d, h, BYTES)) == CUDA_SUCCESS)
			r = cu.cuCtxDestroy_v2(ctx);
	}
	sim.fail_clear();
	unsigned said = lines();
	OK(r);
	assert_int_equal(said, 1);
	OK(cu.cuCtxSetCurrent(fx.ctx));
	pages_free(h, BYTES);
}

int main(void)
{
	copy_limit();
	if (!counters_preloaded()) {
		print_message("needs libturbo.so\n");
		return 77;
	}
	copy_open();
	if (!sim.fail_set) {
		print_message("needs the simulated driver\n");
		return 77;
	}
	const struct CMUnitTest tests[] = {PASSED(rings_that_fail)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
