/* ENV: TURBO_LOG=warn BARE
 * test_fork.c - forks while other threads are inside libturbo or the loader: no child hangs.
 *
 * First, threads keep looking up hooked names and calling counted functions; each child does
 * the same, loads a library, and leaves by exit() or _exit(). Then a thread of the program holds
 * the loader's list while it forks: the lock is stuck in the child, where dlsym() must work
 * nevertheless, as it does bare.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORKS 60

/* LeakSanitizer's check at exit() takes what the parent's other threads had for lost, and
 * may wait for their locks, bare as well. */
#ifdef __has_feature
#define LEAVE_BY_EXIT !__has_feature(address_sanitizer)
#else
#define LEAVE_BY_EXIT 1
#endif
#define THREADS 3

static void *driver;
static int stop;

static int (*get_version)(int *);

/* What a program does all day; returns 0 when every answer was right. The driver does not
 * work in a forked child, but a call of it returns. */
static int use_library(int times, int in_child)
{
	for (int i = 0; i < times; i++) {
		int version = 0;
		if (!dlsym(driver, "cuMemAlloc_v2") || !dlsym(RTLD_DEFAULT, "strlen") ||
			dlsym(driver, "cuNoSuchThing"))
			return 1;
		if ((get_version(&version) != 0 || version < 11000) && !in_child)
			return 2;
	}
	return 0;
}

static void *busy(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		if (use_library(10, 0) != 0)
			return (void *)1;
	return NULL;
}

static int child(int number)
{
	void *lib;
	int rc;

	alarm(20);
	rc = use_library(5, 1);
	if (rc != 0)
		return rc;
	lib = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
	if (!lib || !dlsym(lib, "cos"))
		return 3;
	if (number % 2 && LEAVE_BY_EXIT)
		exit(0);
	return 0;
}

/* ---- a stuck list ---- */

static int holding, let_go;

static int hold(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)info;
	(void)size;
	(void)arg;
	__atomic_store_n(&holding, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&let_go, __ATOMIC_ACQUIRE))
		usleep(1000);
	return 1;
}

static void *hold_list(void *arg)
{
	dl_iterate_phdr(hold, NULL);
	return arg;
}

static int fork_with_stuck_list(void)
{
	pthread_t holder;
	int status = -1;
	pid_t pid;

	if (pthread_create(&holder, NULL, hold_list, NULL) != 0)
		return 1;
	while (!__atomic_load_n(&holding, __ATOMIC_ACQUIRE))
		usleep(1000);
	pid = fork();
	if (pid == 0) {
		alarm(20);
		_exit(use_library(5, 1));
	}
	waitpid(pid, &status, 0);
	__atomic_store_n(&let_go, 1, __ATOMIC_RELEASE);
	pthread_join(holder, NULL);
	printf("child of a walk: status %#x\n", status);
	return status != 0;
}

int main(void)
{
	pthread_t threads[THREADS];
	int failures = 0;

	driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!driver) {
		puts(dlerror());
		return 1;
	}
	int (*cu_init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
	get_version = (int (*)(int *))dlsym(driver, "cuDriverGetVersion");
	if (!cu_init || !get_version || cu_init(0) != 0) {
		puts("no driver");
		return 1;
	}
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, busy, NULL) != 0)
			return 1;
	for (int i = 0; i < FORKS; i++) {
		int status = -1;
		pid_t pid;
		pid = fork();
		if (pid == 0)
			_exit(child(i));
		waitpid(pid, &status, 0);
		if (status != 0) {
			printf("child %d: status %#x\n", i, status);
			failures++;
		}
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++) {
		void *wrong;
		pthread_join(threads[i], &wrong);
		if (wrong) {
			puts("a thread got a wrong answer");
			failures++;
		}
	}
	failures += fork_with_stuck_list();
	printf("%d forks, %d failures\n", FORKS, failures);
	return failures != 0;
}
