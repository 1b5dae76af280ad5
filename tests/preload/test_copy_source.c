/* ENV: TURBO_COPY_THREADS=3 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=8 SIM_JITTER_US=200 BARE */
/*
 * When a copy returns its source may be overwritten, freed or unmapped, and a destination holds
 * the bytes. Sources of every kind of memory, pages that the program's own fault handler
 * repairs, callers with small stacks.
 */
#include "common/copy_fixture.h"
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t sizes[] = {64 * KIB, 777777, EARLY_BYTES, EARLY_BYTES + 4, 13 * MIB + 3};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))
static CUstream stream;

static CUresult h2d(unsigned i, CUdeviceptr d, const void *h, size_t n)
{
	return i % 2 ? cu.cuMemcpyHtoDAsync_v2(d, h, n, stream) : cu.cuMemcpyHtoD_v2(d, h, n);
}

static CUresult d2h(unsigned i, void *h, CUdeviceptr d, size_t n)
{
	return i % 2 ? cu.cuMemcpyDtoHAsync_v2(h, d, n, stream) : cu.cuMemcpyDtoH_v2(h, d, n);
}

static void overwritten_on_return(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2 * SIZES; i++) {
		size_t n = sizes[i / 2];
		CUdeviceptr d = device_new(n);
		unsigned char *h = pages_new(n, i);
		for (unsigned round = 0; round < 3; round++) {
			OK(h2d(i, d, h, n));
			memset(h, 0x5c, n);
			DEVICE_IS(d, n, i + round);
			pattern_fill(h, n, i + round + 1);
		}
		pages_free(h, n);
		device_free(d);
	}
}

static void freed_on_return(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2 * SIZES; i++) {
		size_t n = sizes[i / 2], off = i * 17 % 64;
		CUdeviceptr d = device_new(n);
		for (unsigned round = 0; round < 3; round++) {
			unsigned char *h = malloc(n + off);
			assert_non_null(h);
			pattern_fill(h + off, n, i + round);
			OK(h2d(i, d, h + off, n));
			free(h);
			/* Whoever gets the block next writes it. */
			h = malloc(n + off);
			memset(h, 0x5d, n + off);
			DEVICE_IS(d, n, i + round);
			free(h);
		}
		device_free(d);
	}
}

static void unmapped_on_return(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2 * SIZES; i++) {
		size_t n = sizes[i / 2];
		CUdeviceptr d = device_new(n);
		unsigned char *h = pages_new(n, i);
		OK(h2d(i, d, h, n));
		pages_free(h, n);
		DEVICE_IS(d, n, i);
		device_free(d);
	}
}

/* The destination may be read, freed and unmapped at once, and so may the device block. */
static void arrived_on_return(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2 * SIZES; i++) {
		size_t n = sizes[i / 2], off = i * 29 % 64;
		CUdeviceptr d = device_new(n);
		device_write(d, n, i);
		unsigned char *h = malloc(n + off);
		assert_non_null(h);
		OK(d2h(i, h + off, d, n));
		HOST_IS(h + off, n, i);
		free(h);
		unsigned char *pages = pages_new(n, 99);
		OK(d2h(i, pages, d, n));
		HOST_IS(pages, n, i);
		pages_free(pages, n);
		device_free(d);
	}
}

/* Bytes just before and after the range stay as they are, on both sides. */
static void nothing_beside_it(void **state)
{
	(void)state;
	const size_t room = 8 * MIB;
	CUdeviceptr d = device_new(room);
	unsigned char *h = pages_new(room, 1), *seen = pages_new(room, 0);
	uint64_t random = 42;
	for (unsigned i = 0; i < 12; i++) {
		size_t n = 64 * KIB + random_below(&random, 5 * MIB), at = 1 + random_below(&random, 2 * MIB);
		device_write(d, room, 2);
		OK(h2d(i, d + at, h, n));
		OK(cu.cuCtxSynchronize());
		OK(cu.cuMemcpyDtoH_v2(seen, d, room));
		assert_memory_equal(seen + at, h, n);
		pattern_fill(seen + at, 0, 0);
		unsigned char *want = pages_new(room, 2);
		assert_memory_equal(seen, want, at);
		assert_memory_equal(seen + at + n, want + at + n, room - at - n);
		/* And back: into the middle of a block. */
		memset(want, 0x77, room);
		OK(d2h(i, want + at, d + at, n));
		assert_memory_equal(want + at, h, n);
		for (size_t k = 0; k < room; k = k + 1 == at ? at + n : k + 1)
			if (want[k] != 0x77)
				fail_msg("byte %zu beside a destination of %zu at %zu", k, n, at);
		pages_free(want, room);
	}
	pages_free(h, room);
	pages_free(seen, room);
	device_free(d);
}

/* ---- other memory ---- */

static void shared_memory_and_files(void **state)
{
	(void)state;
	const size_t n = 6 * MIB + 4096;
	CUdeviceptr d = device_new(n);
	for (unsigned i = 0; i < 4; i++) {
		char path[] = "/dev/shm/test_copy_XXXXXX";
		int fd = mkstemp(path);
		assert_true(fd >= 0);
		unlink(path);
		assert_int_equal(ftruncate(fd, (off_t)n), 0);
		unsigned char *w = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		pattern_fill(w, n, i);
		munmap(w, n);
		/* Mapped afresh: every page faults while it is copied. Read-only and private too. */
		unsigned char *r = mmap(NULL, n, PROT_READ, i % 2 ? MAP_SHARED : MAP_PRIVATE, fd, 0);
		assert_ptr_not_equal(r, MAP_FAILED);
		close(fd);
		OK(h2d(i / 2, d, r, n));
		munmap(r, n);
		DEVICE_IS(d, n, i);
	}
	/* Never touched: zeroes. */
	unsigned char *zero = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	OK(h2d(0, d, zero, n));
	assert_int_equal(device_differs_word(d, n, 0), -1);
	/* A destination that was never touched. */
	device_write(d, n, 5);
	OK(d2h(0, zero, d, n));
	HOST_IS(zero, n, 5);
	munmap(zero, n);
	device_free(d);
}

/* ---- pages that the program repairs ---- */

static struct {
	unsigned char *base;
	size_t bytes;
	_Atomic unsigned faults;
} guarded;

static void repair(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	unsigned char *at = info->si_addr;
	if (at < guarded.base || at >= guarded.base + guarded.bytes)
		_exit(3);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	guarded.faults++;
	mprotect((void *)((uintptr_t)at & ~(page - 1)), page, PROT_READ | PROT_WRITE);
}

static void repaired_by_the_programs_handler(void **state)
{
	(void)state;
	const size_t n = 5 * MIB;
	CUdeviceptr d = device_new(n);
	struct sigaction action = {.sa_sigaction = repair, .sa_flags = SA_SIGINFO}, old;
	guarded.base = pages_new(n, 3);
	guarded.bytes = n;
	assert_int_equal(sigaction(SIGSEGV, &action, &old), 0);
	for (unsigned i = 0; i < 6; i++) {
		guarded.faults = 0;
		pattern_fill(guarded.base, n, i);
		device_write(d, n, 100 + i);
		/* Every 16th page, so that each chunk has some and the workers meet them. */
		for (size_t at = 8 * 4096; at < n; at += 16 * 4096)
			assert_int_equal(mprotect(guarded.base + at, 4096, PROT_NONE), 0);
		if (i < 4) {
			OK(h2d(i, d, guarded.base, n));
			DEVICE_IS(d, n, i);
		} else {
			OK(d2h(i, guarded.base, d, n));
			HOST_IS(guarded.base, n, 100 + i);
		}
		assert_int_equal(guarded.faults, n / (16 * 4096));
	}
	sigaction(SIGSEGV, &old, NULL);
	pages_free(guarded.base, n);
	device_free(d);
}

/* ---- callers ---- */

struct caller {
	CUdeviceptr d;
	unsigned char *h;
	size_t bytes;
	const char *wrong;
};

static void *small_stack_main(void *arg)
{
	struct caller *c = arg;
	if (cu.cuCtxSetCurrent(fx.ctx))
		c->wrong = "context";
	else if (cu.cuMemcpyHtoD_v2(c->d, c->h, c->bytes))
		c->wrong = "to the device";
	memset(c->h, 0, c->bytes);
	if (!c->wrong && cu.cuMemcpyDtoH_v2(c->h, c->d, c->bytes))
		c->wrong = "from the device";
	if (!c->wrong && pattern_check(c->h, c->bytes, 11) != -1)
		c->wrong = "bytes";
	return NULL;
}

static void callers_with_small_stacks(void **state)
{
	(void)state;
	struct caller c = {.bytes = 9 * MIB};
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstacksize(&attr, 64 * KIB), 0);
	c.d = device_new(c.bytes);
	for (unsigned i = 0; i < 4; i++) {
		c.h = pages_new(c.bytes, 11);
		pthread_t t;
		assert_int_equal(pthread_create(&t, &attr, small_stack_main, &c), 0);
		pthread_join(t, NULL);
		if (c.wrong)
			fail_msg("%s", c.wrong);
		pages_free(c.h, c.bytes);
	}
	device_free(c.d);
}

static void errno_is_kept(void **state)
{
	(void)state;
	const size_t n = 3 * MIB;
	CUdeviceptr d = device_new(n);
	unsigned char *h = pages_new(n, 1);
	for (unsigned i = 0; i < 4; i++) {
		errno = 4711;
		CUresult r = i < 2 ? h2d(i, d, h, n) : d2h(i, h, d, n);
		int after = errno;
		OK(r);
		assert_int_equal(after, 4711);
	}
	pages_free(h, n);
	device_free(d);
}

int main(void)
{
	copy_open();
	if (cu.cuStreamCreate(&stream, CU_STREAM_DEFAULT))
		return 1;
	const struct CMUnitTest tests[] = {
		STAGED(overwritten_on_return),
		STAGED(freed_on_return),
		STAGED(unmapped_on_return),
		STAGED(arrived_on_return),
		STAGED(nothing_beside_it),
		STAGED(shared_memory_and_files),
		STAGED(repaired_by_the_programs_handler),
		STAGED(callers_with_small_stacks),
		STAGED(errno_is_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
