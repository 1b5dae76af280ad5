/*
 * coexist_exec.c - 16 threads start 40 programs each, by vfork and by posix_spawn, while others open, allocate and look up names.
 * Prints how many ended well.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 16
#define STARTS 40
#define BUSY 4

extern char **environ;
static int well, stop;

static pid_t start(int how)
{
	static char *const argv[] = {"true", NULL};
	pid_t pid = -1;

	if (how % 2) {
		posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ);
		return pid;
	}
	pid = vfork();
	if (pid == 0) {
		execv("/bin/true", argv);
		_exit(127);
	}
	return pid;
}

static void *starts(void *arg)
{
	(void)arg;
	for (int i = 0; i < STARTS; i++) {
		int status = -1;
		pid_t pid = start(i);
		if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0)
			__atomic_fetch_add(&well, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void *busy(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		char *big = malloc((size_t)40 << 20);
		int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
		if (big)
			big[1] = 1;
		dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
		free(big);
		close(fd);
	}
	return NULL;
}

int main(void)
{
	pthread_t thread[THREADS], other[BUSY];

	for (int i = 0; i < BUSY; i++)
		pthread_create(&other[i], NULL, busy, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, starts, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < BUSY; i++)
		pthread_join(other[i], NULL);
	printf("%d of %d\n", well, THREADS * STARTS);
	return 0;
}
