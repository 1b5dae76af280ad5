/*
 * linked.c - a program linked with libcuda.so.1: the first counted call of a thread finds an
 * unbound slot and no lane, and must arrive with all arguments all the same.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

int cuInit(unsigned int flags);
double cuLaunchHostFunc(long a, long b, long c, long d, long e, long f, long g, long h, double i, double j,
						double k, double l, double m, double n, double o, double p, double q);

static void *call(void *arg)
{
	double *sum = arg;

	for (int i = 0; i < 100; i++)
		*sum += cuLaunchHostFunc(1, 2, 3, 4, 5, 6, 7, 8, 9.5, 10.5, 11.5, 12.5, 13.5, 14.5, 15.5, 16.5, 17.5);
	return NULL;
}

static void show(const char *what, void *fn)
{
	Dl_info info;

	printf("%s@%s\n", what, dladdr(fn, &info) ? strrchr(info.dli_fname, '/') + 1 : "?");
}

int main(void)
{
	pthread_t threads[40];
	double sums[40] = {0};

	printf("first call: %.1f\n",
		   cuLaunchHostFunc(1, 2, 3, 4, 5, 6, 7, 8, 9.5, 10.5, 11.5, 12.5, 13.5, 14.5, 15.5, 16.5, 17.5));
	for (int i = 0; i < 40; i++)
		pthread_create(&threads[i], NULL, call, &sums[i]);
	for (int i = 0; i < 40; i++) {
		pthread_join(threads[i], NULL);
		printf("thread %d: %.1f\n", i, sums[i]);
	}
	printf("cuInit: %d\n", cuInit(5));
	show("cuInit", (void *)cuInit);
	show("cuLaunchHostFunc", (void *)cuLaunchHostFunc);
	return 0;
}
