/*
 * kernels_ptx.h - the kernels of the test and benchmark programs, as PTX.
 *
 * PTX, so that no compiler is needed where the tests run. The simulated driver has the same
 * kernels under the same names (tests/sim/cuda/sim_kernel.c); any grid will do.
 *
 *   fill32(u64 p, u64 n, u32 v)        p[i] = v, n 32-bit words
 *   add32(u64 p, u64 n, u32 v)         p[i] += v
 *   copy(u64 dst, u64 src, u64 bytes)
 *   checksum64(u64 p, u64 n, u64 out)  *out += sum of p[i] * (2 i + 1), n 32-bit words, the
 *                                      sum in 64 bits: depends on the places of the words
 *   spin_us(u64 us)                    busy for that long
 *   spin_flag(u64 flag)                busy until the 32-bit *flag is not 0
 */
#ifndef TURBO_TEST_KERNELS_PTX_H
#define TURBO_TEST_KERNELS_PTX_H

/* clang-format off */
/* Sets %rd1 = this thread's index in the grid, %rd2 = threads in the grid. */
#define KERNELS_PTX_INDEX \
	"mov.u32 %r1, %ctaid.x;\n" \
	"mov.u32 %r2, %ntid.x;\n" \
	"mov.u32 %r3, %tid.x;\n" \
	"mov.u32 %r4, %nctaid.x;\n" \
	"mad.lo.u32 %r5, %r1, %r2, %r3;\n" \
	"cvt.u64.u32 %rd1, %r5;\n" \
	"mul.wide.u32 %rd2, %r4, %r2;\n"

#define KERNELS_PTX_REGS ".reg .pred %p<4>;\n.reg .b32 %r<12>;\n.reg .b64 %rd<16>;\n"

static const char kernels_ptx[] =
	".version 6.3\n"
	".target sm_70\n"
	".address_size 64\n"

	".visible .entry fill32(.param .u64 fill32_p, .param .u64 fill32_n, .param .u32 fill32_v)\n"
	"{\n" KERNELS_PTX_REGS
	"ld.param.u64 %rd3, [fill32_p];\n"
	"ld.param.u64 %rd4, [fill32_n];\n"
	"ld.param.u32 %r6, [fill32_v];\n"
	KERNELS_PTX_INDEX
	"LOOP:\n"
	"setp.ge.u64 %p1, %rd1, %rd4;\n"
	"@%p1 bra DONE;\n"
	"shl.b64 %rd5, %rd1, 2;\n"
	"add.u64 %rd6, %rd3, %rd5;\n"
	"st.global.u32 [%rd6], %r6;\n"
	"add.u64 %rd1, %rd1, %rd2;\n"
	"bra LOOP;\n"
	"DONE:\n"
	"ret;\n"
	"}\n"

	".visible .entry add32(.param .u64 add32_p, .param .u64 add32_n, .param .u32 add32_v)\n"
	"{\n" KERNELS_PTX_REGS
	"ld.param.u64 %rd3, [add32_p];\n"
	"ld.param.u64 %rd4, [add32_n];\n"
	"ld.param.u32 %r6, [add32_v];\n"
	KERNELS_PTX_INDEX
	"LOOP:\n"
	"setp.ge.u64 %p1, %rd1, %rd4;\n"
	"@%p1 bra DONE;\n"
	"shl.b64 %rd5, %rd1, 2;\n"
	"add.u64 %rd6, %rd3, %rd5;\n"
	"ld.global.u32 %r7, [%rd6];\n"
	"add.u32 %r7, %r7, %r6;\n"
	"st.global.u32 [%rd6], %r7;\n"
	"add.u64 %rd1, %rd1, %rd2;\n"
	"bra LOOP;\n"
	"DONE:\n"
	"ret;\n"
	"}\n"

	".visible .entry copy(.param .u64 copy_dst, .param .u64 copy_src, .param .u64 copy_n)\n"
	"{\n" KERNELS_PTX_REGS
	"ld.param.u64 %rd3, [copy_dst];\n"
	"ld.param.u64 %rd7, [copy_src];\n"
	"ld.param.u64 %rd4, [copy_n];\n"
	KERNELS_PTX_INDEX
	"LOOP:\n"
	"setp.ge.u64 %p1, %rd1, %rd4;\n"
	"@%p1 bra DONE;\n"
	"add.u64 %rd6, %rd7, %rd1;\n"
	"ld.global.u8 %r7, [%rd6];\n"
	"add.u64 %rd6, %rd3, %rd1;\n"
	"st.global.u8 [%rd6], %r7;\n"
	"add.u64 %rd1, %rd1, %rd2;\n"
	"bra LOOP;\n"
	"DONE:\n"
	"ret;\n"
	"}\n"

	".visible .entry checksum64(.param .u64 checksum64_p, .param .u64 checksum64_n,"
	" .param .u64 checksum64_out)\n"
	"{\n" KERNELS_PTX_REGS
	"ld.param.u64 %rd3, [checksum64_p];\n"
	"ld.param.u64 %rd4, [checksum64_n];\n"
	"ld.param.u64 %rd7, [checksum64_out];\n"
	"mov.u64 %rd8, 0;\n"
	KERNELS_PTX_INDEX
	"LOOP:\n"
	"setp.ge.u64 %p1, %rd1, %rd4;\n"
	"@%p1 bra DONE;\n"
	"shl.b64 %rd5, %rd1, 2;\n"
	"add.u64 %rd6, %rd3, %rd5;\n"
	"ld.global.u32 %rd9, [%rd6];\n"
	"shl.b64 %rd10, %rd1, 1;\n"
	"add.u64 %rd10, %rd10, 1;\n"
	"mad.lo.u64 %rd8, %rd9, %rd10, %rd8;\n"
	"add.u64 %rd1, %rd1, %rd2;\n"
	"bra LOOP;\n"
	"DONE:\n"
	"red.global.add.u64 [%rd7], %rd8;\n"
	"ret;\n"
	"}\n"

	/* globaltimer counts nanoseconds; it ticks coarsely, which is fine for milliseconds. */
	".visible .entry spin_us(.param .u64 spin_us_us)\n"
	"{\n" KERNELS_PTX_REGS
	"ld.param.u64 %rd3, [spin_us_us];\n"
	"mul.lo.u64 %rd3, %rd3, 1000;\n"
	"mov.u64 %rd4, %globaltimer;\n"
	"LOOP:\n"
	"mov.u64 %rd5, %globaltimer;\n"
	"sub.u64 %rd6, %rd5, %rd4;\n"
	"setp.lt.u64 %p1, %rd6, %rd3;\n"
	"@%p1 bra LOOP;\n"
	"ret;\n"
	"}\n"

	".visible .entry spin_flag(.param .u64 spin_flag_flag)\n"
	"{\n" KERNELS_PTX_REGS
	"ld.param.u64 %rd3, [spin_flag_flag];\n"
	"LOOP:\n"
	"ld.volatile.global.u32 %r7, [%rd3];\n"
	"setp.eq.u32 %p1, %r7, 0;\n"
	"@%p1 bra LOOP;\n"
	"ret;\n"
	"}\n";
/* clang-format on */

#endif
