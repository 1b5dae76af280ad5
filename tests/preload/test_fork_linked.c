/* LINK: cuda ENV: TURBO_LOG=warn BARE
 * test_fork_linked.c - a program that is linked with the driver, forks before it has called it,
 * and uses it in the child: every call reaches the driver, whatever libturbo can find out there.
 *
 * Several threads of the child call first at the same time; the loader's list is stuck because
 * another thread of the parent walked it at the fork; no thread can be made to find that out.
 */
#include <cuda.h>
#include <errno.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 30, THREADS = 4 };

/* Counted and hooked calls; 0 when all were answered by the driver. */
static int use_driver(void)
{
	int version = 0, count = 0;

	if (cuDriverGetVersion(&version) != CUDA_SUCCESS || version < 11000)
		return 1;
	if (cuInit(0) != CUDA_SUCCESS)
		return 2;
	return cuDeviceGetCount(&count) != CUDA_SUCCESS || count < 1 ? 3 : 0;
}

/* ---- threads of the child ---- */

static pthread_barrier_t start;

static void *use_at_once(void *arg)
{
	(void)arg;
	pthread_barrier_wait(&start);
	return use_driver() ? &start : NULL;
}

static int several_threads(void)
{
	pthread_t t[THREADS];
	int wrong = 0;

	pthread_barrier_init(&start, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, use_at_once, NULL) != 0)
			return 10;
	for (int i = 0; i < THREADS; i++) {
		void *result = NULL;
		pthread_join(t[i], &result);
		wrong += result != NULL;
	}
	return wrong;
}

/* ---- no bare thread ---- */

/* clone() fails from here on; the thread library has clone3(). */
static int without_clone(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {4, filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		return 0; /* nothing to be seen here */
	return use_driver();
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

/* ---- the forks ---- */

static int failures;

static void in_child(const char *what, int (*test)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(30);
		_exit(test());
	}
	waitpid(pid, &status, 0);
	if (status != 0) {
		printf("%s: status %#x\n", what, (unsigned)status);
		failures++;
	}
}

int main(void)
{
	const char *san = getenv("SAN");
	pthread_t holder;

	for (int i = 0; i < FORKS; i++)
		in_child("threads of a child", several_threads);
	in_child("no clone()", without_clone);
	/* ThreadSanitizer's own walks wait for ever in such a child. */
	if (!san || !*san) {
		if (pthread_create(&holder, NULL, hold_list, NULL) != 0)
			return 1;
		while (!__atomic_load_n(&holding, __ATOMIC_ACQUIRE))
			usleep(1000);
		in_child("child of a walk", use_driver);
		__atomic_store_n(&let_go, 1, __ATOMIC_RELEASE);
		pthread_join(holder, NULL);
	}
	printf("%d failures\n", failures);
	return failures != 0;
}
