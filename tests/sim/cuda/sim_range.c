/*
 * sim_range.c - the table of all memory the driver knows, and what is behind addresses.
 *
 * Device addresses are reserved and inaccessible (sim_device.c); the bytes live in
 * ordinary memory elsewhere, which only the simulator knows (struct sim_phys).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim_internal.h"

#define FREED_KEPT 1024
#define SLOT (64u << 10) /* device addresses: an allocation takes whole slots and a gap of one */
#define FILL 0xcd        /* fresh memory */
#define POISON 0xdb      /* freed memory */
#define FILL_MAX (1u << 20)

static struct sim_range *table; /* sorted by base, none overlap */
static size_t count, room;

static struct {
	uintptr_t base;
	size_t size;
} freed[FREED_KEPT];
static unsigned freed_next;

/* Index of the first range that ends above addr. */
static size_t position(uintptr_t addr)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (table[mid].base + table[mid].size <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct sim_range *sim_range_find(uintptr_t addr)
{
	size_t i = position(addr);
	return i < count && table[i].base <= addr ? &table[i] : NULL;
}

struct sim_range *sim_range_overlap(uintptr_t base, size_t size)
{
	size_t i = position(base);
	return i < count && table[i].base < base + size ? &table[i] : NULL;
}

struct sim_range *sim_range_at(size_t index)
{
	return index < count ? &table[index] : NULL;
}

static uint64_t *counter_of(enum sim_kind kind)
{
	if (kind == MEM_REGISTERED)
		return &sim.registrations;
	return kind == MEM_PINNED ? &sim.host_allocs : &sim.allocs;
}

struct sim_range *sim_range_add(const struct sim_range *range)
{
	if (!range->size || sim_range_overlap(range->base, range->size))
		return NULL;
	if (count == room) {
		room = room ? room * 2 : 256;
		table = realloc(table, room * sizeof *table);
		if (!table)
			abort();
	}
	size_t i = position(range->base);
	memmove(&table[i + 1], &table[i], (count - i) * sizeof *table);
	table[i] = *range;
	table[i].id = sim.next_id++;
	count++;
	++*counter_of(range->kind);
	return &table[i];
}

void sim_range_remove(struct sim_range *range)
{
	if (sim_in_device_space(range->base)) {
		freed[freed_next].base = range->base;
		freed[freed_next].size = range->size;
		freed_next = (freed_next + 1) % FREED_KEPT;
	}
	--*counter_of(range->kind);
	size_t i = (size_t)(range - table);
	count--;
	memmove(&table[i], &table[i + 1], (count - i) * sizeof *table);
}

bool sim_range_was_freed(uintptr_t addr)
{
	for (unsigned i = 0; i < FREED_KEPT; i++)
		if (addr - freed[i].base < freed[i].size)
			return true;
	return false;
}

void sim_release_range(struct sim_range *range)
{
	if (range->phys)
		sim_phys_put(range->phys);
	if (range->kind == MEM_PINNED || range->kind == MEM_MANAGED) {
		if (range->kind == MEM_MANAGED && range->dev)
			range->dev->used -= range->size;
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

struct sim_phys *sim_phys_new(struct sim_device *dev, size_t size)
{
	if (dev && (size > sim_conf.mem_bytes || dev->used > sim_conf.mem_bytes - size))
		return NULL;
	struct sim_phys *phys = calloc(1, sizeof *phys);
	void *bytes =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!phys || bytes == MAP_FAILED) {
		free(phys);
		return NULL;
	}
	memset(bytes, FILL, size < FILL_MAX ? size : FILL_MAX);
	phys->refs = 1;
	phys->bytes = bytes;
	phys->size = size;
	phys->dev = dev;
	if (dev)
		dev->used += size;
	return phys;
}

void sim_phys_put(struct sim_phys *phys)
{
	if (--phys->refs)
		return;
	memset(phys->bytes, POISON, phys->size < FILL_MAX ? phys->size : FILL_MAX);
	munmap(phys->bytes, phys->size);
	if (phys->dev)
		phys->dev->used -= phys->size;
	free(phys);
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
	if (r->kind == MEM_VMM && !r->accessible) {
		sim_complain("access to mapped memory at %p without cuMemSetAccess", (void *)addr);
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

#if defined(__SANITIZE_THREAD__)
#define SIM_TSAN
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SIM_TSAN
#endif
#endif

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
