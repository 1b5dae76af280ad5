/* test_report_text.c - names, figures and histograms of a report, and its text: it fits 100 columns. */
#include "report_fixture.h"

#include "tools/timeline/metrics.h"
#include "tools/timeline/text.h"
#include "tools/timeline/units.h"

/* ---- names ---- */

static void test_short_names(void **state)
{
	static const struct {
		const char *name, *want;
	} row[] = {
		{"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> "
		 ">(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
		 "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3ul>>"},
		{"void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::"
		 "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda(float)#1}>("
		 "at::TensorIteratorBase&)::{lambda(int)#1}>(int)",
		 "elementwise_kernel<128, 2, direct_copy_kernel_cuda>"},
		{"void at::native::reduce_kernel<512, at::native::sum_functor<float>::operator()(int)::{lambda(float)#1}>(int)",
		 "reduce_kernel<512, sum_functor<float>>"},
		{"void at::native::(anonymous namespace)::f<(bool)1, unsigned int, (anonymous namespace)::X>(int)",
		 "f<1, unsigned int, X>"},
		{"void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64>(cutlass_80_simt_sgemm_128x64::Params)",
		 "cutlass::Kernel2<cutlass_80_simt_sgemm_128x64>"},
		{"void k<1, 2, 3, 4, 5, 6, 7, 8>(int)", "k<1, 2, 3, 4, 5, 6, ...>"},
		{"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
		 "ncclDevKernel_AllReduce_Sum_f32_RING_LL"},
		{"triton_poi_fused_add_0", "triton_poi_fused_add_0"},
		{"Graph 1", "Graph 1"},
		{"CUDA graph", "CUDA graph"},
		{"", ""},
		{"<", "<"},
		{">>>", ">>>"},
		{"a<b", "a<b"},
		{"(((", "((("},
		{"a::", "a::"},
		{"::", "::"},
		{"f<(", "f<("},
		{"f<()>", "f<>"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		char *have = kernel_short_name(row[i].name);
		assert_string_equal(have, row[i].want);
		free(have);
	}
}

/* In a column there remains what tells one kernel from another. */
static void test_names_in_columns(void **state)
{
	static const struct {
		const char *name;
		int width;
		const char *want;
	} row[] = {
		{"k<1, 2>", 48, "k<1, 2>"},
		{"vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3ul>>", 48,
		 "vectorized_ele..._kernel<CUDAFunctor_add<float>>"},
		{"vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3ul>>", 60,
		 "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>"},
		{"vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3ul>>", 80,
		 "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3ul>>"},
		{"vectorized_elementwise_kernel<4, BUnaryFunctor<float, float, float, MulFunctor<float>>, array<char*, 2ul>>",
		 48, "vectorized_e...kernel<BUnaryFunctor<MulFunctor>>"},
		{"reduce_kernel<512, 1, ReduceOp<float, func_wrapper_t<float, sum_functor<...>>, unsigned int, float, 4, 4>>",
		 48, "reduce_kernel<512, 1, sum_functor>"},
		{"multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float, 4>, float const*>", 48,
		 ""},
		{"elementwise_kernel<128, 2, a_very_long_name_of_a_functor_that_fits_in_no_column<float>>", 48, ""},
		{"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas", 48, ""},
		{"k<k<k<k<k<k<k<k<k<k<1, 2, 3, 4, 5, 6, 7>>>>>>>>>>, 1, 2, 3, 4, 5, 6, 7, 8, 9>", 30, ""},
		{"softmax<softmax<float>, float, float, float, float, float, float, float, float, float>", 26, ""},
		{"kernel_that_is_long_enough<float, double, int, long, 1, 2, 3, 4>", 40,
		 "kernel_that_is_long_enough"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		char have[300];
		text_kernel(row[i].name, row[i].width, have, sizeof(have));
		assert_true((int)strlen(have) <= row[i].width);
		if (*row[i].want)
			assert_string_equal(have, row[i].want);
	}
	char have[300];
	text_kernel(row[6].name, 48, have, sizeof(have));
	assert_non_null(strstr(have, "FusedAdam"));
	text_kernel(row[7].name, 48, have, sizeof(have));
	assert_non_null(strstr(have, "<a_very_long_name"));
}

static uint32_t random_state = 1;
static uint32_t random_below(uint32_t n)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (uint32_t)(((uint64_t)random_state * n) >> 32);
}

/* Whatever the name, there is a short one, not longer than it was (but for the dots of what is left out). */
static void test_any_name(void **state)
{
	static const char *const piece[] = {"<",
										">",
										"(",
										")",
										"::",
										" ",
										", ",
										"a",
										"operator",
										"kernel",
										"{",
										"}",
										"(anonymous namespace)",
										"const",
										"\xc3\xa9",
										"[",
										"]",
										"*",
										"void "};
	(void)state;
	for (int i = 0; i < 20000; i++) {
		char name[600] = "";
		for (uint32_t k = random_below(30); k; k--)
			strcat(name, piece[random_below(sizeof(piece) / sizeof(piece[0]))]);
		char *have = kernel_short_name(name), fitted[1100];
		assert_true(strlen(have) <= 2 * strlen(name) + 8);
		text_kernel(have, 26 + (int)random_below(100), fitted, sizeof(fitted));
		assert_true(strlen(fitted) <= 126);
		free(have);
		kernel_traits(name);
		kernel_category(name);
	}
	char deep[5000];
	memset(deep, '<', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = '\0';
	free(kernel_short_name(deep));
}

/* HTA's rules: ^nccl.*Kernel, ^Memcpy|^Memset|^dma, and Memcpy or Sync anywhere is neither. */
static void test_categories(void **state)
{
	(void)state;
	assert_int_equal(kernel_category("ncclDevKernel_AllReduce"), REPORT_COMMUNICATION);
	assert_int_equal(kernel_category("ncclKernel_AllReduce"), REPORT_COMMUNICATION);
	assert_int_equal(kernel_category("my_ncclKernel"), REPORT_COMPUTE);
	assert_int_equal(kernel_category("nccl_other"), REPORT_COMPUTE);
	assert_int_equal(kernel_category("MemsetKernel"), REPORT_MEMORY);
	assert_int_equal(kernel_category("batchMemcpyKernel"), REPORT_OTHER);
	assert_int_equal(kernel_category("gridSync"), REPORT_OTHER);
	assert_int_equal(kernel_category("gemm"), REPORT_COMPUTE);
}

static void test_traits(void **state)
{
	static const struct {
		const char *name;
		unsigned traits;
	} row[] = {
		{"ampere_sgemm_128x64_tn", KERNEL_GEMM | KERNEL_FP32},
		{"void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nt_align1>(x)", KERNEL_GEMM | KERNEL_FP32},
		{"sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x8_stage3_ffma_kernel",
		 KERNEL_GEMM | KERNEL_FP32},
		{"ampere_fp16_sgemm_fp16_128x64_tn", KERNEL_GEMM}, /* TF32 is nothing for it */
		{"sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x128x32", KERNEL_GEMM},
		{"cutlass_80_tensorop_s1688gemm_128x128_16x5_nt_align4", KERNEL_GEMM},
		{"nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT", KERNEL_GEMM},
		{"void pytorch_flash::flash_fwd_kernel<T<64, cutlass::bfloat16_t> >(x)", 0},
		{"void implicit_convolve_sgemm<float, float, 1024>(int)",
		 KERNEL_CONV | KERNEL_FP32 | KERNEL_SLOW_CONV},
		{"sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc", KERNEL_CONV},
		{"void cudnn::ops::nchwToNhwcKernel<float, float>(x)", KERNEL_LAYOUT},
		{"void at::native::convert_dtype(x)", 0},
		{"vectorized_elementwise_kernel", 0},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		if (kernel_traits(row[i].name) != row[i].traits)
			fail_msg("%s: %x, not %x", row[i].name, kernel_traits(row[i].name), row[i].traits);
}

/* ---- figures ---- */

static void test_units(void **state)
{
	(void)state;
	assert_string_equal(units_time(0).s, "0 ns");
	assert_string_equal(units_time(999).s, "999 ns");
	assert_string_equal(units_time(999.7).s, "1.00 us");
	assert_string_equal(units_time(1234).s, "1.23 us");
	assert_string_equal(units_time(9.996e6).s, "10.0 ms");
	assert_string_equal(units_time(99.96e6).s, "100 ms");
	assert_string_equal(units_time(999.96e6).s, "1.00 s");
	assert_string_equal(units_time(3661e9).s, "3661 s");
	assert_string_equal(units_bytes(0).s, "0 B");
	assert_string_equal(units_bytes(38535168).s, "38.5 MB");
	assert_string_equal(units_gib(150754820096.0).s, "140 GiB");
	assert_string_equal(units_count(0).s, "0");
	assert_string_equal(units_count(1234567).s, "1,234,567");
	assert_string_equal(units_short(12).s, "12");
	assert_string_equal(units_short(1234567).s, "1.23 M");
	assert_string_equal(units_share(0).s, "0 %");
	assert_string_equal(units_share(0.0123).s, "1.2 %");
	assert_string_equal(units_share(0.9996).s, "100 %");
	assert_true(units_ratio(1, 0) == 0);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* Percentiles are within 3.2 % of the exact ones, also of histograms that were put together. */
static void test_percentiles(void **state)
{
	static uint64_t v[20000];
	(void)state;
	for (int round = 0; round < 20; round++) {
		struct hist h = {0}, half[2] = {{0}};
		size_t n = 1 + random_below(20000);
		for (size_t i = 0; i < n; i++) {
			v[i] = (uint64_t)random_below(1u << (4 + random_below(27))) * (1 + random_below(100));
			hist_add(&half[i % 2], v[i]);
		}
		hist_merge(&h, &half[0]);
		hist_merge(&h, &half[1]);
		qsort(v, n, sizeof(*v), by_value);
		assert_true(h.min == v[0] && h.max == v[n - 1] && h.count == n);
		for (unsigned q = 1; q <= 100; q++) {
			size_t at = (n * q + 99) / 100 - 1;
			uint64_t have = hist_quantile(&h, q / 100.0);
			double off = (double)have - (double)v[at];
			if (off > 0.0315 * (double)v[at] + 1 || off < -0.0315 * (double)v[at] - 1)
				fail_msg("%u %% of %zu: %lu, not %lu", q, n, have, v[at]);
		}
		hist_free(&h);
		hist_free(&half[0]);
		hist_free(&half[1]);
	}
}

/* ---- the text ---- */

static void long_scene(int rank)
{
	static const char *const call[] = {"cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize"};
	struct scene s = scene_of_rank(rank, 12);
	uint32_t reduce =
		trace_build_collective_entry(s.b, "ncclReduceScatterWithAVeryLongName", 1, (uint32_t)rank, 12);
	uint64_t at = 0;
	snprintf(trace_build_header(s.b)->host, 64, "a-node-with-a-very-long-name-%d.example", rank);
	snprintf(trace_build_header(s.b)->device[0].name, 64,
			 "NVIDIA GeForce RTX 5090 Laptop GPU with a long name");
	for (unsigned i = 0; i < TIMELINE_COUNTS; i++)
		trace_build_header(s.b)->count[i] = 123456789012345ull;
	for (int i = 0; i < 200; i++) {
		char name[300];
		snprintf(name, sizeof(name), "some_kernel_%d_%0*d", i, 1 + (int)random_below(200), 0);
		copy(&s, s.a, HTOD, PAGEABLE, 123456789012ull, at, at + 1 + random_below(100000));
		at += random_below(100000);
		kernel(&s, s.a, name, at, at + random_below(10000));
		kernel(&s, s.c, "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", at, at + random_below(1000));
		at += 1000;
		on_host(&s, TIMELINE_SYNC, call[i % 3], at, at + 5000000000ull, 0);
		on_host(&s, TIMELINE_EVENT, "device memory from the driver", at, at + 900, MB);
		on_host(&s, TIMELINE_API, "cuAFunctionWhoseNameIsLongerThanAnyFunctionOfTheDriver_v2_ptsz", at,
				at + 9, 0);
		trace_build_add(s.b, s.host, reduce, at * US, US, 1, 1000000000ull);
		if (i % 50 == 0)
			gap(&s, at, at + 77);
		memory_used(&s, at, (uint64_t)random_below(100) << 30);
	}
	trace_build_close(s.b);
}

static unsigned columns(const char *line, size_t n)
{
	unsigned c = 0;
	for (size_t i = 0; i < n; i++)
		c += ((unsigned char)line[i] & 0xc0) != 0x80;
	return c;
}

static void check_text(const struct report *r, unsigned style)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	report_text(r, to, style, 0);
	fclose(to);
	assert_true((strchr(text, '\033') != NULL) == (style & REPORT_COLOUR));
	for (char *line = text; *line && !(style & REPORT_COLOUR);) {
		size_t n = strcspn(line, "\n");
		if (columns(line, n) > 100)
			fail_msg("%u columns: %.*s", columns(line, n), (int)n, line);
		if (n && line[n - 1] == ' ')
			fail_msg("blanks at the end: %.*s", (int)n, line);
		for (size_t i = 0; i < n; i++)
			assert_true((unsigned char)line[i] >= 0x20 &&
						((unsigned char)line[i] < 0x7f || style & REPORT_UTF8));
		line += n + (line[n] == '\n');
	}
	free(text);
}

static void test_text_fits(void **state)
{
	(void)state;
	for (int ranks = 1; ranks <= 12; ranks += 11) {
		for (int i = 0; i < ranks; i++)
			long_scene(i + (ranks > 1 ? 100000 : 0));
		struct report *r = report_with(&(struct report_options){.top = 50});
		assert_int_equal(r->ranks, ranks);
		for (unsigned style = 0; style < 4; style++)
			check_text(r, style);
		report_free(r);
	}
	struct scene s = scene();
	kernel(&s, s.a, "_Z4axpyifPfS_", 0, 1); /* a share that has no bar */
	kernel(&s, s.a, "_Z4axpyifPfS_", 1000, 1001);
	struct report *r = report_of(&s);
	check_text(r, 0);
	report_free(r);
	s = scene();
	r = report_of(&s);
	check_text(r, 0);
	report_free(r);
}

/* Sections appear with what they are about. */
static void test_sections(void **state)
{
	struct scene s = scene();
	char *text = NULL;
	size_t size;
	(void)state;
	kernel(&s, s.a, "_Z4axpyifPfS_", 0, 100);
	struct report *r = report_of(&s);
	FILE *to = open_memstream(&text, &size);
	report_text(r, to, 0, 0);
	fclose(to);
	assert_non_null(strstr(text, "GPU: busy 100 %"));
	assert_non_null(strstr(text, "KERNELS"));
	for (const char *const *no =
			 (const char *const[]){"COPIES", "COLLECTIVES", "HOST,", "STEPS", "ADVICE", "GAPS", NULL};
		 *no; no++)
		if (strstr(text, *no))
			fail_msg("%s in %s", *no, text);
	free(text);
	report_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_short_names), cmocka_unit_test(test_names_in_columns),
		cmocka_unit_test(test_any_name),    cmocka_unit_test(test_categories),
		cmocka_unit_test(test_traits),      cmocka_unit_test(test_units),
		cmocka_unit_test(test_percentiles), cmocka_unit_test(test_text_fits),
		cmocka_unit_test(test_sections),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
