/*
 * engagement.c - a program that begins and ends in the ways programs do; test_engagement.sh runs it.
 *
 * It loads the driver as a runtime would and prints what it finds about its own stats
 * file. Everything it prints is the same bare and preloaded, but for "file=".
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int has_file(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/dev/shm/turbo-%u-%d.stats", (unsigned)geteuid(), (int)pid);
	return access(path, F_OK) == 0;
}

static void init(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	int (*cu_init)(unsigned) = lib ? (int (*)(unsigned))dlsym(lib, "cuInit") : NULL;

	printf("init=%d\n", cu_init ? cu_init(0) : -1);
}

static void say(const char *who)
{
	printf("%s file=%d\n", who, has_file(getpid()));
	fflush(stdout);
}

static void reap(pid_t pid)
{
	int status = 0;

	waitpid(pid, &status, 0);
	printf("child status=%d, my file=%d, its file=%d\n", status, has_file(getpid()), has_file(pid));
}

static void after_fork(int child_inits, int quick)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		say("child");
		if (child_inits) {
			init();
			say("child");
		}
		if (quick)
			_exit(0);
		exit(0);
	}
	reap(pid);
}

static void after_vfork(void)
{
	pid_t pid;

	fflush(stdout);
	pid = vfork();
	if (pid == 0) {
		execl("/proc/self/exe", "engagement", "plain", (char *)NULL);
		_exit(1);
	}
	reap(pid);
}

/* A child that no fork handler has heard of, and that runs destructors. */
static void after_clone(void)
{
	pid_t pid;

	fflush(stdout);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		exit(0);
	reap(pid);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "plain";

	if (strcmp(how, "plain") == 0) {
		say("plain");
		return 0;
	}
	if (strcmp(how, "mark") == 0) {
		const char *mark = getenv("TURBO_ENGAGED");
		printf("%s\n", mark ? mark : "none");
		return 0;
	}
	if (strcmp(how, "fork-first") == 0) {
		after_fork(1, 0);
		return 0;
	}
	init();
	say(how);
	if (strcmp(how, "fork") == 0)
		after_fork(1, 0);
	else if (strcmp(how, "fork-quick") == 0)
		after_fork(0, 1);
	else if (strcmp(how, "vfork") == 0)
		after_vfork();
	else if (strcmp(how, "clone") == 0)
		after_clone();
	else if (strcmp(how, "exec") == 0)
		execl("/proc/self/exe", "engagement", "plain", (char *)NULL);
	else if (strcmp(how, "_exit") == 0)
		_exit(3);
	else if (strcmp(how, "kill") == 0)
		raise(SIGKILL);
	else if (strcmp(how, "closed") == 0)
		for (int fd = 0; fd < 64; fd++)
			close(fd);
	return 0;
}
