/*
 * stress.c - lookups, loading, unloading and counted calls on many threads at once. Whatever
 * the order, a lookup in a handle reaches that handle's library. Arguments: two drivers, two
 * NCCLs, and a library that is linked with nothing.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 300

static char **files;
static void *first_driver;
static int bad;

static void check(bool good, const char *what)
{
	if (!good && __atomic_fetch_add(&bad, 1, __ATOMIC_RELAXED) < 5)
		printf("wrong: %s\n", what);
}

static void *lookups(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS * 20; i++) {
		int (*init)(unsigned int) = (int (*)(unsigned int))dlsym(first_driver, "cuInit");
		int (*alloc)(void **, size_t) = (int (*)(void **, size_t))dlsym(first_driver, "cuMemAlloc_v2");

		check(init && init(1) == 101, "cuInit of the first driver");
		check(alloc && alloc(NULL, 0) == 100, "cuMemAlloc_v2 of the first driver");
		check(dlsym(RTLD_DEFAULT, "getppid") == dlsym(RTLD_NEXT, "getppid"), "getppid");
	}
	return NULL;
}

static void *second_driver(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		void *handle = dlopen(files[1], RTLD_NOW);
		int (*init)(unsigned int) = handle ? (int (*)(unsigned int))dlsym(handle, "cuInit") : NULL;

		check(init && init(1) == 201, "cuInit of the second driver");
		if (handle)
			dlclose(handle);
	}
	return NULL;
}

/* Two threads load and unload two copies; each must reach its own. */
static void *nccl(void *arg)
{
	int which = (int)(size_t)arg;

	for (int i = 0; i < ROUNDS; i++) {
		void *handle = dlopen(files[2 + which], RTLD_NOW);
		int (*version)(int *) = handle ? (int (*)(int *))dlsym(handle, "ncclGetVersion") : NULL;
		int value = 0;

		check(version && version(&value) == 0 && value == 1 + which, "ncclGetVersion");
		if (handle)
			dlclose(handle);
	}
	return NULL;
}

static void *others(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		void *handle = dlopen(files[4], RTLD_NOW);

		check(handle && dlsym(handle, "cuInit") == NULL, "cuInit of a library that has none");
		if (handle)
			dlclose(handle);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static void *(*const work[])(void *) = {lookups, lookups, second_driver, nccl, nccl, others};
	enum { THREADS = sizeof(work) / sizeof(work[0]) };
	pthread_t threads[THREADS];

	files = argv + 1;
	if (argc != 6 || !(first_driver = dlopen(files[0], RTLD_NOW)))
		return 2;
	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work[i], (void *)(i == 4 ? (size_t)1 : 0));
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%d wrong answers\n", bad);
	return bad != 0;
}
