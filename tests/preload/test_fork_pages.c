/* ENV: TURBO=max TURBO_RUN=1 XDG_CACHE_HOME=/proc/nonexistent
 * test_fork_pages.c - what a fork costs: the child of a process that has not used CUDA touches few pages more than it does
 * bare. Each is a fault, a copy and some 3 us, for every worker of a loader and every program that is started.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORKS 20
#define MORE 80 /* 53 when this was written; 173 while tables that nobody had used were cleared */

extern char **environ;

static long faults_of_a_child(void)
{
	struct rusage before, after;
	int status;

	getrusage(RUSAGE_CHILDREN, &before);
	for (int i = 0; i < FORKS; i++) {
		pid_t pid = fork();
		if (pid == 0)
			_exit(0);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			return -1;
	}
	getrusage(RUSAGE_CHILDREN, &after);
	return (after.ru_minflt - before.ru_minflt) / FORKS;
}

/* The same in a process of its own without libturbo. */
static long bare(char **argv)
{
	char text[32] = "", *again[] = {argv[0], (char *)"bare", NULL};
	int out[2], status;
	posix_spawn_file_actions_t actions;
	pid_t pid;

	if (pipe(out) != 0)
		return -1;
	unsetenv("LD_PRELOAD");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	if (posix_spawn(&pid, "/proc/self/exe", &actions, NULL, again, environ) != 0)
		return -1;
	close(out[1]);
	ssize_t n = read(out[0], text, sizeof(text) - 1);
	close(out[0]);
	posix_spawn_file_actions_destroy(&actions);
	return n > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? atol(text) : -1;
}

int main(int argc, char **argv)
{
	long with, without;

	with = faults_of_a_child();
	if (argc > 1) {
		printf("%ld\n", with);
		return with < 0;
	}
	if (getenv("SAN") && *getenv("SAN")) {
		puts("the pages of a sanitizer's own are many");
		return 77;
	}
	without = bare(argv);
	printf("faults of a forked child: %ld, bare %ld\n", with, without);
	return with < 0 || without < 0 || with > without + MORE;
}
