/*
 * stubs_aarch64.S - entries that must leave the caller's registers, stack and return address
 * as they are: the loader's functions, and the slow sides of the count stubs.
 *
 * Indirect jumps go through x16, which may land on a `bti c`. `hint #34` is `bti c`, spelled
 * for assemblers that target Armv8.0.
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

.macro enter bytes
	stp x29, x30, [sp, -\bytes]!
	.cfi_adjust_cfa_offset \bytes
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	mov x29, sp
.endm

.macro leave bytes
	ldp x29, x30, [sp], \bytes
	.cfi_adjust_cfa_offset -\bytes
	.cfi_restore x29
	.cfi_restore x30
.endm

/*
 * dlsym(handle, name): struct lookup_route in x0, x1 says jump or return (lookup.h).
 *
 * Most names are nobody's we know: one that begins with none of cu, Cu, n and p (hook_find()
 * looks closer) goes to the real function with nothing saved. Byte by byte, because a name may
 * end at the end of mapped memory.
 */
	.globl dlsym
	.type dlsym, %function
	.p2align 4
dlsym:
	.cfi_startproc
	hint #34
	cbz x1, 3f
	ldrb w9, [x1]
	cmp w9, 'n'
	b.eq 3f
	cmp w9, 'p'
	b.eq 3f
	orr w9, w9, 0x20 /* C as c */
	cmp w9, 'c'
	b.ne 2f
	ldrb w9, [x1, 1]
	cmp w9, 'u'
	b.eq 3f
2:	adrp x16, lookup_loader_fns
	ldr x16, [x16, :lo12:lookup_loader_fns]
	cbz x16, 3f
	br x16
3:	enter 32
	str x1, [sp, 16]
	mov x2, x30
	bl lookup_dlsym
	mov x16, x0
	mov x0, x1
	ldr x1, [sp, 16]
	leave 32
	cbz x16, 1f
	br x16
1:	ret
	.cfi_endproc
	.size dlsym, . - dlsym

/*
 * dlvsym(handle, name, version): the same.
 */
	.globl dlvsym
	.type dlvsym, %function
	.p2align 4
dlvsym:
	.cfi_startproc
	hint #34
	enter 32
	stp x1, x2, [sp, 16]
	mov x3, x30
	bl lookup_dlvsym
	mov x16, x0
	mov x0, x1
	ldp x1, x2, [sp, 16]
	leave 32
	cbz x16, 1f
	br x16
1:	ret
	.cfi_endproc
	.size dlvsym, . - dlvsym

/*
 * dlopen(file, mode): goes on with the mode that comes back. The loader takes the return
 * address for the caller whose RUNPATH and $ORIGIN count.
 */
	.globl dlopen
	.type dlopen, %function
	.p2align 4
dlopen:
	.cfi_startproc
	hint #34
	enter 32
	str x0, [sp, 16]
	mov w0, w1
	bl lookup_dlopen
	mov x16, x0
	ldr x0, [sp, 16]
	leave 32
	cbz x16, 1f
	br x16
1:	mov x0, 0
	ret
	.cfi_endproc
	.size dlopen, . - dlopen

/* Everything that may carry an argument: x0-x7, in the order in which they are numbered, the result's address in x8, q0-q7. And
 * x17, the id of a counted symbol. */
.macro save_arguments
	enter 224
	stp x0, x1, [sp, 16]
	stp x2, x3, [sp, 32]
	stp x4, x5, [sp, 48]
	stp x6, x7, [sp, 64]
	stp x8, x17, [sp, 80]
	stp q0, q1, [sp, 96]
	stp q2, q3, [sp, 128]
	stp q4, q5, [sp, 160]
	stp q6, q7, [sp, 192]
.endm

.macro restore_arguments
	ldp x0, x1, [sp, 16]
	ldp x2, x3, [sp, 32]
	ldp x4, x5, [sp, 48]
	ldp x6, x7, [sp, 64]
	ldr x8, [sp, 80]
	ldp q0, q1, [sp, 96]
	ldp q2, q3, [sp, 128]
	ldp q4, q5, [sp, 160]
	ldp q6, q7, [sp, 192]
	leave 224
.endm

/*
 * hook_lazy: a count stub jumped here through an unbound slot, its id in w17. Finds the real
 * function and goes on to it with the call untouched.
 */
	.globl hook_lazy
	.hidden hook_lazy
	.type hook_lazy, %function
	.p2align 4
hook_lazy:
	.cfi_startproc
	hint #34
	save_arguments
	mov w0, w17
	mov x1, x30
	bl real_resolve_lazy
	mov x16, x0
	restore_arguments
	br x16
	.cfi_endproc
	.size hook_lazy, . - hook_lazy

/*
 * hook_count_slow: a count stub came here with its id in x17 and turbo_tls.lane in x10, because the thread has no lane
 * yet or none of its own. Counts, and goes on to the real function with the call untouched.
 */
	.globl hook_count_slow
	.hidden hook_count_slow
	.type hook_count_slow, %function
	.p2align 4
hook_count_slow:
	.cfi_startproc
	cbnz x10, 1f
	save_arguments
	bl stats_lane_assign
	mov x10, x0
	ldr x17, [sp, 88]
	restore_arguments
1:	cmp x10, 0
	b.gt 2f
	adrp x10, stats_area + STUB_LANES_OFF
	add x10, x10, :lo12:stats_area + STUB_LANES_OFF
2:	add x9, x10, x17, lsl 3
3:	ldxr x11, [x9]
	add x11, x11, 1
	stxr w12, x11, [x9]
	cbnz w12, 3b
	adrp x16, real_fn
	add x16, x16, :lo12:real_fn
	ldr x16, [x16, x17, lsl 3]
	br x16
	.cfi_endproc
	.size hook_count_slow, . - hook_count_slow

/*
 * hook_door: a count stub came here with its id in x17, because all-gathers may be pending. Tells
 * doors_counted(id, integer arguments in registers, arguments on the stack, return address), then counts.
 */
	.globl hook_door
	.hidden hook_door
	.type hook_door, %function
	.p2align 4
hook_door:
	.cfi_startproc
	save_arguments
	mov w0, w17
	add x1, sp, 16
	add x2, sp, 224
	mov x3, x30
	bl doors_counted
	ldr x17, [sp, 88]
	restore_arguments
	mrs x9, tpidr_el0
	adrp x10, :gottprel:turbo_tls
	ldr x10, [x10, :gottprel_lo12:turbo_tls]
	add x10, x10, x9
	ldr x10, [x10, STUB_TLS_LANE]
	b hook_count_slow
	.cfi_endproc
	.size hook_door, . - hook_door

	.section .note.GNU-stack, "", %progbits

	/* Fit for branch target identification. */
	.section .note.gnu.property, "a", %note
	.p2align 3
	.long 4, 16, 5
	.asciz "GNU"
	.long 0xc0000000, 4, 1, 0 /* GNU_PROPERTY_AARCH64_FEATURE_1_AND: BTI */
