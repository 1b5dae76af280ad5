/* test_report_advice.c - each rule of the advice: where it must speak, and where it must not. */
#include "advice_fixture.h"

#define NCCL "ncclDevKernel_AllReduce_Sum_f32_RING_LL"

/* ---- host ---- */

static void copies_scene(struct scene *s, bool bad)
{
	for (uint64_t i = 0; i < 20; i++) {
		copy(s, s->a, HTOD, i % 2 && bad ? PAGEABLE : PINNED, 10 * MB, 1000 * i,
			 1000 * i + (i % 2 ? 500 : 100));
		kernel(s, s->a, COMPUTE, 1000 * i + 500, 1000 * i + 1000);
	}
}

static void test_pageable_copies(void **state)
{
	struct report *r = speaks("pageable-copies", copies_scene);
	const struct report_finding *f = finding(r, "pageable-copies");
	(void)state;
	assert_non_null(strstr(f->evidence, "10 of 20 copies H2D (100 MB of 200 MB)"));
	assert_non_null(strstr(f->evidence, "20.0 GB/s"));
	assert_non_null(strstr(f->evidence, "pinned ones ran at 100 GB/s"));
	assert_non_null(strstr(f->fix, "pin_memory=True"));
	assert_non_null(strstr(f->option, "TURBO_COPY=on"));
	assert_true(f->cost > 0.24 && f->cost < 0.26 && f->severity == REPORT_BAD && f->rank == -1);
	report_free(r);
}

/* Gaps before kernels, not before copies. */
static void tiny_scene(struct scene *s, bool bad)
{
	for (uint64_t i = 0; i < 2000; i++)
		kernel(s, s->a, COMPUTE, 10 * i, 10 * i + (bad ? 4 : 10));
}

static void big_kernels_scene(struct scene *s, bool bad)
{
	for (uint64_t i = 0; i < 2000; i++)
		kernel(s, s->a, COMPUTE, bad ? 10 * i : 100 * i, bad ? 10 * i + 4 : 100 * i + 60);
}

/* A few long waits between bursts are something else. */
static void bursts_scene(struct scene *s, bool bad)
{
	for (uint64_t i = 0; i < 2000; i++) {
		uint64_t at = bad ? 10 * i : 4 * i + i / 100 * 1000;
		kernel(s, s->a, COMPUTE, at, at + 4);
	}
}

static void test_tiny_kernels(void **state)
{
	(void)state;
	check("tiny-kernels", tiny_scene, "half of them shorter than 4.00 us", 0.60);
	check("tiny-kernels", bursts_scene, "2,000 kernels", 0.60);
	check("tiny-kernels", big_kernels_scene, "2,000 kernels", 0.60);
}

static void sync_scene(struct scene *s, bool bad)
{
	for (uint64_t i = 0; i < 50; i++) {
		kernel(s, s->a, COMPUTE, 1000 * i, 1000 * i + 900);
		on_host(s, TIMELINE_EVENT, "cuStreamSynchronize", 1000 * i + 10, bad ? 1000 * i + 905 : 1000 * i + 20,
				0);
	}
}

/* Some are part of any program. */
static void few_syncs_scene(struct scene *s, bool bad)
{
	for (uint64_t i = 0; i < (bad ? 20 : 5); i++) {
		kernel(s, s->a, COMPUTE, 1000 * i, 1000 * i + 500);
		on_host(s, TIMELINE_EVENT, "cuCtxSynchronize", 1000 * i + 10, 1000 * i + 505, 0);
	}
}

static void test_synchronisation(void **state)
{
	(void)state;
	check("synchronisation", few_syncs_scene, "cuCtxSynchronize, 20 times", 0.487);
	check("synchronisation", sync_scene, "Most waits: cuStreamSynchronize, 50 times", 0.098);
}

/* ---- device ---- */

static void fp32_scene(struct scene *s, bool bad)
{
	for (uint64_t i = 0; i < 50; i++) {
		kernel(s, s->a,
			   bad ? "ampere_sgemm_128x64_tn"
				   : "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x64x32_cublas",
			   1000 * i, 1000 * i + 500);
		kernel(s, s->a, COMPUTE, 1000 * i + 500, 1000 * i + 1000);
	}
}

static void test_fp32(void **state)
{
	(void)state;
	check("fp32-matmul", fp32_scene, "50 kernels, 25.0 ms; most time: ampere_sgemm_128x64_tn", 0.5);
}

static void layout_scene(struct scene *s, bool bad)
{
	for (uint64_t i = 0; i < 50; i++) {
		kernel(s, s->a, "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc", 1000 * i,
			   1000 * i + 900);
		kernel(s, s->a, bad ? "_ZN5cudnn3ops16nchwToNhwcKernelIffEEvv" : COMPUTE, 1000 * i + 900,
			   1000 * i + 1000);
	}
}

static void test_convolution_layout(void **state)
{
	(void)state;
	check("convolution-layout", layout_scene,
		  "50 conversions between NCHW and NHWC take 5.00 ms, beside 45.0 ms", 0.1);
}

static void algorithm_scene(struct scene *s, bool bad)
{
	for (uint64_t i = 0; i < 50; i++)
		kernel(s, s->a,
			   bad ? "_Z23implicit_convolve_sgemmIfLi1024EEvv"
				   : "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32",
			   1000 * i, 1000 * i + 1000);
}

static void test_convolution_algorithm(void **state)
{
	(void)state;
	check("convolution-algorithm", algorithm_scene,
		  "50 kernels of direct or explicit convolution take 50.0 ms", 1);
}

static void exposed_scene(struct scene *s, bool bad)
{
	for (uint64_t i = 0; i < 50; i++) {
		kernel(s, s->a, COMPUTE, 1000 * i, 1000 * i + (bad ? 700 : 1000));
		kernel(s, s->c, NCCL, 1000 * i + 600, 1000 * i + 1000);
	}
}

static void test_exposed_communication(void **state)
{
	(void)state;
	check("exposed-communication", exposed_scene,
		  "20.0 ms of communication, 15.0 ms of it alone; overlap 25 %", 0.3);
}

static void small_scene(struct scene *s, bool bad)
{
	uint32_t call = trace_build_collective_entry(s->b, "ncclAllGather", 1, 0, 8);
	exposed_scene(s, true);
	for (uint64_t i = 0; i < 400; i++)
		trace_build_add(s->b, s->host, call, 100 * i * US, 5 * US, (uint32_t)i + 1,
						bad || i % 3 == 0 ? 512 : MB);
}

static void test_small_collectives(void **state)
{
	(void)state;
	check("small-collectives", small_scene,
		  "400 of 400 calls of ncclAllGather are smaller than 64 KiB, 512 B", 0.3);
}

/* ---- ranks ---- */

static struct report *ranks(unsigned slow, bool kernels, uint64_t memory)
{
	for (unsigned k = 0; k < 4; k++) {
		struct scene s = scene_of_rank((int)k, 4);
		for (uint64_t i = 0; i < 50; i++) {
			uint64_t at = 1000 * i, compute = k == slow && kernels ? 930 : 620,
					 idle = k == slow && !kernels ? 310 : 0;
			kernel(&s, s.a, COMPUTE, at + idle, at + idle + compute);
			kernel(&s, s.c, NCCL, at + idle + compute, at + 1000);
		}
		memory_used(&s, 100, k == 1 ? memory : 50ull << 30);
		trace_build_close(s.b);
	}
	return report_with(&(struct report_options){0});
}

static void test_straggler(void **state)
{
	(void)state;
	for (int kernels = 0; kernels < 2; kernels++) {
		struct report *r = ranks(2, kernels, 50ull << 30);
		const struct report_finding *f = finding(r, "straggler");
		assert_non_null(f);
		assert_int_equal(f->rank, 2);
		if (!strstr(f->evidence, kernels ? "50.0 % longer" : "49.9 % longer"))
			fail_msg("%s", f->evidence);
		assert_non_null(strstr(f->fix, kernels ? "nvidia-smi" : "data loader"));
		assert_true(f->cost > 0.32 && f->cost < 0.34);
		/* The others wait: more overlap would not help them. */
		assert_null(finding(r, "exposed-communication"));
		report_free(r);
	}
	struct report *r = ranks(99, false, 50ull << 30);
	assert_null(finding(r, "straggler"));
	assert_non_null(finding(r, "exposed-communication"));
	report_free(r);
}

static void test_memory(void **state)
{
	struct report *r = ranks(99, false, 50ull << 30);
	(void)state;
	assert_null(finding(r, "memory-imbalance"));
	assert_null(finding(r, "memory-full"));
	report_free(r);
	r = ranks(99, false, 139ull << 30);
	const struct report_finding *f = finding(r, "memory-imbalance");
	assert_non_null(f);
	assert_true(f->rank == 1 && f->cost == 0 && f->severity == REPORT_WARN);
	assert_non_null(strstr(f->evidence, "139 GiB"));
	f = finding(r, "memory-full");
	assert_non_null(f);
	assert_non_null(strstr(f->evidence, "139 GiB of 140 GiB"));
	report_free(r);
}

static void oom_scene(struct scene *s, bool bad)
{
	kernel(s, s->a, COMPUTE, 0, 10);
	on_host(s, TIMELINE_EVENT, bad ? "out of device memory" : "stream capture", 5, 6, MB);
}

static void test_out_of_memory(void **state)
{
	(void)state;
	check("memory-full", oom_scene, "1 allocations found no memory", 0);
}

/* ---- all ---- */

/* A timeline without fault gets no advice at all, and every rule has been tried above. */
static void test_nothing_to_say(void **state)
{
	struct scene s = scene();
	(void)state;
	for (uint64_t i = 0; i < 1000; i++) {
		copy(&s, s.c, HTOD, PINNED, 10 * MB, 1000 * i, 1000 * i + 200);
		kernel(&s, s.a, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas", 1000 * i,
			   1000 * i + 995);
	}
	struct report *r = report_of(&s);
	assert_int_equal(r->findings, 0);
	report_free(r);
}

static void test_order(void **state)
{
	struct scene s = scene();
	(void)state;
	copies_scene(&s, true);
	fp32_scene(&s, true);
	exposed_scene(&s, true);
	struct report *r = report_of(&s);
	assert_true(r->findings >= 2);
	for (unsigned i = 1; i < r->findings; i++)
		assert_true(r->finding[i].cost <= r->finding[i - 1].cost + 0.001);
	report_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pageable_copies),
		cmocka_unit_test(test_tiny_kernels),
		cmocka_unit_test(test_synchronisation),
		cmocka_unit_test(test_fp32),
		cmocka_unit_test(test_convolution_layout),
		cmocka_unit_test(test_convolution_algorithm),
		cmocka_unit_test(test_exposed_communication),
		cmocka_unit_test(test_small_collectives),
		cmocka_unit_test(test_straggler),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_out_of_memory),
		cmocka_unit_test(test_nothing_to_say),
		cmocka_unit_test(test_order),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
