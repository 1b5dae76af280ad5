/*
 * sim_range.c - what is behind addresses.
 *
 * Device addresses are reserved and inaccessible (sim_device.c); the bytes are elsewhere
 * (sim_arena.c), where only the simulator knows.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim_internal.h"

#define SLOT (64u << 10) /* device addresses: an allocation takes whole slots and a gap of one */

void sim_release_range(struct sim_range *range)
{
	if (range->graph)
		range->dev->graph_used -= range->phys->size;
	if (range->phys)
		sim_phys_put(range->phys);
	if (range->imported)
		sim_import_put(range->imported);
	if (range->kind == MEM_PINNED || range->kind == MEM_MANAGED) {
		if (range->kind == MEM_MANAGED && range->dev)
			sim_uncharge(range->dev, range->size);
		munmap((void *)range->base, range->size);
	}
	sim_range_remove(range);
}

/* ---- device addresses and the bytes behind them ---- */

bool sim_in_device_space(uintptr_t addr)
{
	for (int i = 0; i < sim_conf.devices; i++)
		if (addr >= sim.dev[i].va_base && addr < sim.dev[i].va_end)
			return true;
	return false;
}

/* Next fit, so that a freed address is not handed out again soon: a stale pointer is
 * then recognised. */
uintptr_t sim_va_take(struct sim_device *dev, size_t size, size_t align)
{
	if (align < SLOT)
		align = SLOT;
	size_t take = (size + SLOT - 1) / SLOT * SLOT + SLOT;
	uintptr_t at = dev->va_next;
	for (int wrapped = 0;;) {
		at = (at + align - 1) / align * align;
		if (at + take > dev->va_end || at + take < at) {
			if (wrapped++)
				return 0;
			at = dev->va_base;
			continue;
		}
		uintptr_t past = sim_va_conflict(at, take);
		if (!past)
			break;
		at = past;
	}
	dev->va_next = at + take;
	return at;
}

unsigned char *sim_translate(uintptr_t addr, size_t *n, struct sim_phys **phys)
{
	*phys = NULL;
	struct sim_range *r = sim_range_find(addr);
	if (!r && sim_in_device_space(addr)) {
		sim_complain("access to device memory at %p, which %s", (void *)addr,
					 sim_range_was_freed(addr) ? "was freed" : "was never allocated");
		return NULL;
	}
	if (!r)
		return (unsigned char *)addr;
	size_t off = addr - r->base;
	if (*n > r->size - off)
		*n = r->size - off;
	if (!r->phys)
		return (unsigned char *)addr;
	if (r->kind == MEM_VMM && !r->may_read) {
		sim_complain("access to mapped memory at %p without cuMemSetAccess", (void *)addr);
		return NULL;
	}
	if (sim_thread.kernel && !sim_peer_reaches(sim_thread.kernel, r)) {
		sim_complain("kernel of device %d has no access to %p", sim_thread.kernel->dev->ordinal,
					 (void *)addr);
		return NULL;
	}
	if (r->imported && !sim_import_alive(r->imported)) {
		sim_complain("access at %p to memory of another process, which has freed it", (void *)addr);
		return NULL;
	}
	*phys = r->phys;
	r->phys->refs++;
	return r->phys->bytes + r->phys_off + off;
}

void sim_bytes(void *dst, const void *src, size_t n)
{
#if defined(__x86_64__)
	__asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(n) : : "memory");
#else
	volatile unsigned char *d = dst;
	const volatile unsigned char *s = src;
	while (n--)
		*d++ = *s++;
#endif
}

void sim_fill_bytes(void *dst, int value, size_t n)
{
#if defined(__x86_64__)
	__asm__ volatile("rep stosb" : "+D"(dst), "+c"(n) : "a"(value) : "memory");
#else
	volatile unsigned char *d = dst;
	while (n--)
		*d++ = (unsigned char)value;
#endif
}

bool sim_move(uintptr_t dst, uintptr_t src, size_t n)
{
	while (n) {
		size_t part = n;
		struct sim_phys *dst_phys, *src_phys;
		sim_lock();
		unsigned char *from = sim_translate(src, &part, &src_phys);
		unsigned char *to = from ? sim_translate(dst, &part, &dst_phys) : NULL;
		sim_unlock();
		if (to)
			sim_bytes(to, from, part);
		sim_lock();
		if (from && src_phys)
			sim_phys_put(src_phys);
		if (to && dst_phys)
			sim_phys_put(dst_phys);
		sim_unlock();
		if (!to)
			return false;
		dst += part;
		src += part;
		n -= part;
	}
	return true;
}

void sim_see(uintptr_t addr)
{
#ifdef SIM_TSAN
	/* Not a load: the program may have written the word by a plain store. */
	extern void __tsan_acquire(void *at);
	__tsan_acquire((void *)addr);
#else
	(void)addr;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}
