/* LINK: cuda nccl ENV: TURBO=max TURBO_HOSTMEM=on TURBO_FILES=prefetch TURBO_NCCL_COALESCE=on TURBO_TIMELINE=off SAN: plain: sanitized frames are larger. BARE */
/*
 * test_small_stack.c - a program whose threads have stacks of 64 KiB does all that libturbo takes part in, bare and preloaded
 * with everything on: libturbo may use the stack of who calls it, but not much of it. The rest of the stack is looked at: how deep
 * calls went is printed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "common/gather_fixture.h"

#define STACK (64u << 10)
#define DEEPEST \
	(48u << 10) /* a library that takes more than that of a caller's 64 KiB is none for such programs */
#define COPY ((size_t)24 << 20)
#define PAINT 0xa5

struct small {
	void (*work)(void);
	const char *name;
};

static void copies(void)
{
	char *host = malloc(COPY), *back = malloc(COPY);
	CUdeviceptr p;

	assert_true(host && back);
	memset(host, 7, COPY);
	OK(cuMemAlloc(&p, COPY));
	OK(cuMemcpyHtoD(p, host, COPY));
	OK(cuMemcpyHtoDAsync(p, host, COPY, stream));
	OK(cuMemcpyDtoHAsync(back, p, COPY, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH(back, p, COPY));
	assert_memory_equal(host, back, COPY);
	OK(cuMemFree(p));
	free(host);
	free(back);
}

static void memory(void)
{
	CUdeviceptr p[8];
	void *pinned, *big[4];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 8; i++)
			OK(cuMemAlloc(&p[i], (size_t)1 << (12 + i)));
		for (int i = 0; i < 8; i++)
			OK(cuMemFree(p[i]));
		OK(cuMemAllocAsync(&p[0], 1 << 20, stream));
		OK(cuMemFreeAsync(p[0], stream));
		OK(cuMemHostAlloc(&pinned, 8 << 20, 0));
		OK(cuMemFreeHost(pinned));
		for (int i = 0; i < 4; i++) {
			big[i] = malloc((size_t)(33 + i) << 20);
			assert_non_null(big[i]);
			((volatile char *)big[i])[5] = 1;
			big[i] = realloc(big[i], (size_t)(70 + i) << 20);
			assert_non_null(big[i]);
		}
		for (int i = 0; i < 4; i++)
			free(big[i]);
	}
	/* More than there is. */
	assert_int_equal(cuMemAlloc(&p[0], (size_t)1 << 46), CUDA_ERROR_OUT_OF_MEMORY);
}

static void collectives(void)
{
	CUevent e = event_new(CU_EVENT_DISABLE_TIMING);

	for (int round = 0; round < 3; round++) {
		gathers(0, 40);
		OK(cuEventRecord(e, stream));
		OK(ncclAllReduce(gather_from(50), gather_to(50), GATHER_BYTES, ncclUint8, ncclSum, comm, stream));
		OK(ncclGroupStart());
		gathers(51, 5);
		OK(ncclGroupEnd());
		OK(cuEventSynchronize(e));
		OK(cuStreamSynchronize(stream));
		assert_true(all_arrived(0, 40));
	}
	ncclComm_t c = comm_new(true);
	OK(ncclCommDestroy(c));
	OK(cuEventDestroy(e));
}

static void lookups(void)
{
	char line[64];
	FILE *f;

	assert_non_null(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
	assert_null(dlsym(RTLD_DEFAULT, "cuNoSuchThing"));
	assert_non_null(dlopen("libm.so.6", RTLD_NOW));
	f = fopen("/proc/self/stat", "r");
	assert_true(f && fgets(line, sizeof(line), f));
	fclose(f);
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

/* ---- the thread ---- */

static void *small_main(void *arg)
{
	const struct small *s = arg;

	OK(cuCtxSetCurrent(ctx));
	s->work();
	return NULL;
}

static void on_a_small_stack(void (*work)(void), const char *name)
{
	struct small s = {work, name};
	pthread_attr_t attr;
	pthread_t thread;
	unsigned char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t left = 0;

	assert_true(stack != MAP_FAILED);
	memset(stack, PAINT, STACK);
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstack(&attr, stack, STACK), 0);
	assert_int_equal(pthread_create(&thread, &attr, small_main, &s), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	while (left < STACK && stack[left] == PAINT)
		left++;
	print_message("%s: %zu KiB of the stack used\n", name, (STACK - left) >> 10);
	munmap(stack, STACK);
	if (STACK - left > DEEPEST)
		fail_msg("%s went %zu KiB deep", name, (STACK - left) >> 10);
}

#define SMALL(work)                        \
	static void small_##work(void **state) \
	{                                      \
		(void)state;                       \
		on_a_small_stack(work, #work);     \
	}
SMALL(copies)
SMALL(memory)
SMALL(collectives)
SMALL(lookups)

int main(void)
{
	const struct CMUnitTest tests[] = {
		GATHER(small_copies),
		GATHER(small_memory),
		GATHER(small_collectives),
		GATHER(small_lookups),
	};
	return cmocka_run_group_tests(tests, gather_setup, gather_teardown);
}
