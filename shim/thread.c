/* thread.c - see thread.h. */
#include "thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>

#include "glibc.h"

/* Room for a fault handler of the program's. A stack also takes in all thread-local storage of the program: where that
 * is large, pthread_create refuses (EINVAL), and gets more. */
#define STACK_BYTES ((size_t)256 << 10)
#define STACK_BYTES_MOST ((size_t)256 << 20)

static void block_signals(sigset_t *old)
{
	static const int stay[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
	sigset_t set;
	sigfillset(&set);
	for (unsigned i = 0; i < sizeof(stay) / sizeof(stay[0]); i++)
		sigdelset(&set, stay[i]);
	pthread_sigmask(SIG_SETMASK, &set, old);
}

bool thread_start(const char *name, void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t old;
	int r = EINVAL;

	if (!glibc_has_threads())
		return false;
	block_signals(&old);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (size_t stack = STACK_BYTES; r == EINVAL && stack <= STACK_BYTES_MOST; stack *= 2) {
		pthread_attr_setstacksize(&attr, stack);
		r = pthread_create(&thread, &attr, run, arg);
	}
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r == 0)
		pthread_setname_np(thread, name);
	return r == 0;
}
