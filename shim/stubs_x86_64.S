/*
 * stubs_x86_64.S - entries that must leave the caller's registers, stack and return address
 * as they are: the loader's functions, and the slow sides of the count stubs.
 *
 * The stack is 16-byte aligned before each call of C code, as the ABI asks; at a function's
 * entry it is 8 off. Return addresses pair with calls (shadow stacks).
 */

#include "stub_offsets.h"

	.hidden lookup_loader_fns
	.hidden lookup_dlsym
	.hidden lookup_dlvsym
	.hidden lookup_dlopen
	.hidden real_resolve_lazy
	.hidden stats_lane_assign
	.hidden stats_area
	.hidden turbo_tls
	.hidden real_fn
	.hidden doors_counted
	.text

/*
 * dlsym(handle, name): struct lookup_route in %rax, %rdx says jump or return (lookup.h).
 *
 * Most names are nobody's we know: one that begins with none of cu, Cu, n and p (hook_find()
 * looks closer) goes to the real function with nothing saved. Byte by byte, because a name may
 * end at the end of mapped memory.
 */
	.globl dlsym
	.type dlsym, @function
	.p2align 4
dlsym:
	.cfi_startproc
	endbr64
	testq %rsi, %rsi
	jz 3f
	movzbl (%rsi), %eax
	cmpb $'n', %al
	je 3f
	cmpb $'p', %al
	je 3f
	orb $0x20, %al /* C as c */
	cmpb $'c', %al
	jne 2f
	cmpb $'u', 1(%rsi)
	je 3f
2:	movq lookup_loader_fns(%rip), %rax
	testq %rax, %rax
	jz 3f
	jmp *%rax
3:	subq $24, %rsp
	.cfi_adjust_cfa_offset 24
	movq %rsi, (%rsp)
	movq 24(%rsp), %rdx
	call lookup_dlsym
	testq %rax, %rax
	jz 1f
	movq %rdx, %rdi
	movq (%rsp), %rsi
	addq $24, %rsp
	.cfi_adjust_cfa_offset -24
	jmp *%rax
1:	.cfi_adjust_cfa_offset 24
	movq %rdx, %rax
	addq $24, %rsp
	.cfi_adjust_cfa_offset -24
	ret
	.cfi_endproc
	.size dlsym, . - dlsym

/*
 * dlvsym(handle, name, version): the same.
 */
	.globl dlvsym
	.type dlvsym, @function
	.p2align 4
dlvsym:
	.cfi_startproc
	endbr64
	subq $24, %rsp
	.cfi_adjust_cfa_offset 24
	movq %rsi, (%rsp)
	movq %rdx, 8(%rsp)
	movq 24(%rsp), %rcx
	call lookup_dlvsym
	testq %rax, %rax
	jz 1f
	movq %rdx, %rdi
	movq (%rsp), %rsi
	movq 8(%rsp), %rdx
	addq $24, %rsp
	.cfi_adjust_cfa_offset -24
	jmp *%rax
1:	.cfi_adjust_cfa_offset 24
	movq %rdx, %rax
	addq $24, %rsp
	.cfi_adjust_cfa_offset -24
	ret
	.cfi_endproc
	.size dlvsym, . - dlvsym

/*
 * dlopen(file, mode): goes on with the mode that comes back. The loader takes the return
 * address for the caller whose RUNPATH and $ORIGIN count.
 */
	.globl dlopen
	.type dlopen, @function
	.p2align 4
dlopen:
	.cfi_startproc
	endbr64
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	movl %esi, %edi
	call lookup_dlopen
	movq 8(%rsp), %rdi
	addq $24, %rsp
	.cfi_adjust_cfa_offset -24
	testq %rax, %rax
	jz 1f
	movl %edx, %esi
	jmp *%rax
1:	ret
	.cfi_endproc
	.size dlopen, . - dlopen

/* Everything that may carry an argument; %rax has the number of vector arguments in %al. And %r11, the id of a
 * counted symbol. Integer arguments are in the order in which they are numbered. */
.macro save_arguments
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	subq $192, %rsp
	andq $-16, %rsp
	movq %rdi, 128(%rsp)
	movq %rsi, 136(%rsp)
	movq %rdx, 144(%rsp)
	movq %rcx, 152(%rsp)
	movq %r8, 160(%rsp)
	movq %r9, 168(%rsp)
	movq %rax, 176(%rsp)
	movq %r11, 184(%rsp)
	movaps %xmm0, (%rsp)
	movaps %xmm1, 16(%rsp)
	movaps %xmm2, 32(%rsp)
	movaps %xmm3, 48(%rsp)
	movaps %xmm4, 64(%rsp)
	movaps %xmm5, 80(%rsp)
	movaps %xmm6, 96(%rsp)
	movaps %xmm7, 112(%rsp)
.endm

.macro restore_arguments
	movq 128(%rsp), %rdi
	movq 136(%rsp), %rsi
	movq 144(%rsp), %rdx
	movq 152(%rsp), %rcx
	movq 160(%rsp), %r8
	movq 168(%rsp), %r9
	movq 176(%rsp), %rax
	movaps (%rsp), %xmm0
	movaps 16(%rsp), %xmm1
	movaps 32(%rsp), %xmm2
	movaps 48(%rsp), %xmm3
	movaps 64(%rsp), %xmm4
	movaps 80(%rsp), %xmm5
	movaps 96(%rsp), %xmm6
	movaps 112(%rsp), %xmm7
	leave
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
.endm

/*
 * hook_lazy: a count stub jumped here through an unbound slot, its id in %r11d. Finds the
 * real function and goes on to it with the call untouched.
 */
	.globl hook_lazy
	.hidden hook_lazy
	.type hook_lazy, @function
	.p2align 4
hook_lazy:
	.cfi_startproc
	endbr64
	save_arguments
	movl %r11d, %edi
	movq 8(%rbp), %rsi
	call real_resolve_lazy
	movq %rax, %r11
	restore_arguments
	jmp *%r11
	.cfi_endproc
	.size hook_lazy, . - hook_lazy

/*
 * hook_count_slow: a count stub jumped here with its id in %r11 and turbo_tls.lane in %r10, because the thread has no lane
 * yet or none of its own. Counts, and goes on to the real function with the call untouched.
 */
	.globl hook_count_slow
	.hidden hook_count_slow
	.type hook_count_slow, @function
	.p2align 4
hook_count_slow:
	.cfi_startproc
	testq %r10, %r10
	jnz 1f
	save_arguments
	call stats_lane_assign
	movq %rax, %r10
	movq 184(%rsp), %r11
	restore_arguments
1:	testq %r10, %r10
	jle 2f
	incq (%r10, %r11, 8)
	jmp 3f
2:	leaq stats_area + STUB_LANES_OFF(%rip), %r10
	lock incq (%r10, %r11, 8)
3:	leaq real_fn(%rip), %r10
	jmp *(%r10, %r11, 8)
	.cfi_endproc
	.size hook_count_slow, . - hook_count_slow

/*
 * hook_door: a count stub jumped here with its id in %r11, because all-gathers may be pending. Tells
 * doors_counted(id, integer arguments in registers, arguments on the stack, return address), then counts.
 */
	.globl hook_door
	.hidden hook_door
	.type hook_door, @function
	.p2align 4
hook_door:
	.cfi_startproc
	save_arguments
	movl %r11d, %edi
	leaq 128(%rsp), %rsi
	leaq 16(%rbp), %rdx
	movq 8(%rbp), %rcx
	call doors_counted
	movq 184(%rsp), %r11
	restore_arguments
	movq turbo_tls@gottpoff(%rip), %r10
	movq %fs:STUB_TLS_LANE(%r10), %r10
	jmp hook_count_slow
	.cfi_endproc
	.size hook_door, . - hook_door

	.section .note.GNU-stack, "", @progbits

	/* Fit for indirect branch tracking and shadow stacks. */
	.section .note.gnu.property, "a", @note
	.p2align 3
	.long 4, 16, 5
	.asciz "GNU"
	.long 0xc0000002, 4, 3, 0 /* GNU_PROPERTY_X86_FEATURE_1_AND: IBT, SHSTK */
