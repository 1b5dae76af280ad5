/*
 * stacks_signal.c - see stacks_signal.h.
 *
 * The handler runs on the thread that is asked, at any instruction. It calls libunwind (loaded before; it does not
 * allocate, and without its cache waits for no lock of its own), the kernel (peek.h), PyGILState_GetThisThreadState,
 * and nothing else.
 *
 * Signals that the program may not have: never sent to a thread that blocks it, and the disposition is the default
 * only again when each that was sent has been handled.
 */
#include "stacks_signal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "python.h"
#include "unwind.h"

/* A place is IDLE, or SENT (request's number << 2 | SENT) until its thread takes it (TAKEN), which makes it IDLE
 * again. One that is not answered in time is CANCELLED: its signal is still to come, and does nothing then. */
enum { IDLE, SENT, TAKEN, CANCELLED };
static struct place {
	_Atomic uint32_t state;
	struct stacks_answer answer;
} places[SIGNAL_THREADS];
static uint32_t request; /* number of the present one; below 1 << 24 */
static int in_use;       /* the signal whose handler is ours; 0: none */
static struct sigaction before;

static void *pc_of(const ucontext_t *c)
{
#if defined(__x86_64__)
	return (void *)(uintptr_t)c->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return (void *)(uintptr_t)c->uc_mcontext.pc;
#else
	(void)c;
	return NULL;
#endif
}

static void take_native(struct stacks_answer *a, const ucontext_t *context)
{
	void *raw[SIGNAL_FRAMES + 8], *pc = pc_of(context);
	int n = unwind_stack(raw, SIGNAL_FRAMES + 8), skip = 0;
	/* The handler's frames are above the interrupted instruction. */
	while (skip < n && raw[skip] != pc)
		skip++;
	a->frame[0] = pc;
	a->frames = 1;
	for (int i = skip + 1; i < n && a->frames < SIGNAL_FRAMES; i++)
		a->frame[a->frames++] = raw[i];
}

static void take_python(struct stacks_answer *a)
{
	const struct python *p = python_get();
	struct python_frame frame[PYTHON_FRAMES];
	struct lines out;
	if (!p || !python_readable(p) || !python_alive(p))
		return;
	lines_begin(&out, a->text, sizeof(a->text));
	unsigned n = python_frames(p, p->api.this_state(), frame, PYTHON_FRAMES);
	for (unsigned i = 0; i < n; i++) {
		unsigned start = out.used;
		lines_string(&out, "  python ");
		if (!python_describe(p, &frame[i], &out) || !lines_end(&out, start)) {
			out.used = start;
			break;
		}
	}
	a->bytes = out.used;
}

/* value: number of the request << 8 | place << 1 | with Python */
static void answer(const siginfo_t *info, const ucontext_t *context)
{
	uint32_t value = (uint32_t)info->si_value.sival_int;
	struct place *p = &places[(value >> 1) % SIGNAL_THREADS];
	uint32_t expected = (value >> 8) << 2 | SENT;
	if (!atomic_compare_exchange_strong(&p->state, &expected, TAKEN)) {
		expected = (value >> 8) << 2 | CANCELLED;
		atomic_compare_exchange_strong(&p->state, &expected, IDLE);
		return;
	}
	take_native(&p->answer, context);
	if (value & 1)
		take_python(&p->answer);
	atomic_store_explicit(&p->state, IDLE, memory_order_release);
	syscall(SYS_futex, &p->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	int saved = errno;
	(void)sig;
	if (info->si_code == SI_QUEUE && info->si_pid == getpid())
		answer(info, context);
	errno = saved;
}

/* A real-time signal whose disposition is the default gets our handler; 0: there is none. */
static int install(void)
{
	struct sigaction ours = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
	if (in_use)
		return in_use;
	sigfillset(&ours.sa_mask);
	for (int sig = SIGRTMAX; sig >= SIGRTMIN && !in_use; sig--) {
		if (sigaction(sig, NULL, &before) != 0 || (before.sa_flags & SA_SIGINFO) ||
			before.sa_handler != SIG_DFL)
			continue;
		if (sigaction(sig, &ours, &before) != 0)
			continue;
		if ((before.sa_flags & SA_SIGINFO) || before.sa_handler != SIG_DFL)
			sigaction(sig, &before, NULL); /* the program was faster */
		else
			in_use = sig;
	}
	return in_use;
}

void stacks_signal_settle(void)
{
	for (unsigned i = 0; i < SIGNAL_THREADS; i++)
		if (atomic_load(&places[i].state) != IDLE)
			return;
	if (!in_use)
		return;
	struct sigaction now;
	if (sigaction(in_use, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_signal)
		sigaction(in_use, &before, NULL);
	in_use = 0;
}

static const char deaf[] = "it blocks signals", busy[] = "an earlier question was not answered";

/* NULL: the thread can be asked. */
static const char *why_not(uint32_t thread, int sig)
{
	char path[64], text[2048];
	snprintf(path, sizeof(path), "/proc/self/task/%u/status", thread);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return "it is gone";
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	const char *state = strstr(text, "\nState:\t"), *blocked = strstr(text, "\nSigBlk:\t");
	if (!state || !blocked)
		return "its state cannot be read";
	if (strchr("ZX", state[8]))
		return "it has ended";
	if (strchr("Tt", state[8]))
		return "it is stopped";
	if (state[8] == 'D')
		return "it is in an uninterruptible wait";
	if (strtoull(blocked + 9, NULL, 16) >> (sig - 1) & 1)
		return deaf;
	return NULL;
}

static bool send(uint32_t thread, int sig, uint32_t value)
{
	siginfo_t info = {.si_signo = sig, .si_code = SI_QUEUE};
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_int = (int)value;
	return syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, sig, &info) == 0;
}

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Until the place is answered, or `until`. */
static void wait_for(struct place *p, uint64_t until)
{
	for (;;) {
		uint32_t seen = atomic_load_explicit(&p->state, memory_order_acquire);
		uint64_t now = now_ns();
		if (seen == IDLE)
			return;
		if (now >= until) {
			/* TAKEN: it is at it, which takes some microseconds; if not, the place is lost until it is done. */
			if ((seen & 3) == SENT &&
				!atomic_compare_exchange_strong(&p->state, &seen, (seen & ~3u) | CANCELLED))
				continue;
			return;
		}
		struct timespec rest = {(time_t)((until - now) / 1000000000u), (long)((until - now) % 1000000000u)};
		syscall(SYS_futex, &p->state, FUTEX_WAIT_PRIVATE, seen, &rest, NULL, 0);
	}
}

/* NULL: it was asked. */
static const char *ask(uint32_t thread, unsigned i, bool python, int sig)
{
	struct place *p = &places[i];
	if (!sig)
		return "no real-time signal is free";
	if (atomic_load(&p->state) != IDLE)
		return busy;
	const char *why = why_not(thread, sig);
	if (why)
		return why;
	p->answer.frames = p->answer.bytes = 0;
	atomic_store_explicit(&p->state, request << 2 | SENT, memory_order_release);
	if (send(thread, sig, request << 8 | i << 1 | python))
		return NULL;
	atomic_store(&p->state, IDLE);
	return "it cannot be asked";
}

/* A thread also blocks signals while it starts another, and at the end of our handler: asked again for a while. */
static void ask_again(const uint32_t *thread, unsigned count, bool python, int sig, uint64_t until,
					  struct stacks_reply *reply)
{
	for (bool again = true; again && now_ns() < until;) {
		again = false;
		for (unsigned i = 0; i < count; i++)
			if (reply[i].why == deaf || reply[i].why == busy) {
				reply[i].why = ask(thread[i], i, python, sig);
				again = again || reply[i].why;
			}
		if (again)
			usleep(2000);
	}
}

void stacks_signal_ask(const uint32_t *thread, unsigned count, bool python, unsigned ms,
					   struct stacks_reply *reply)
{
	void *frame[1];
	uint64_t since = now_ns(), until = since + ms * UINT64_C(1000000);
	unwind_stack(frame, 1); /* libunwind is loaded here, not in the handler */
	int sig = install();
	request = request % 0x7fffff + 1;
	if (count > SIGNAL_THREADS)
		count = SIGNAL_THREADS;
	for (unsigned i = 0; i < count; i++)
		reply[i] = (struct stacks_reply){.why = ask(thread[i], i, python, sig)};
	ask_again(thread, count, python, sig, since + (until - since) / 2, reply);
	for (unsigned i = 0; i < count; i++) {
		if (reply[i].why)
			continue;
		wait_for(&places[i], until);
		if (atomic_load_explicit(&places[i].state, memory_order_acquire) == IDLE)
			reply[i].answer = &places[i].answer;
		else
			reply[i].why = "it did not answer";
	}
	stacks_signal_settle();
}

/* The parent's handler, if there was one, and its questions are the parent's. */
void stacks_signal_fork_child(void)
{
	for (unsigned i = 0; request && i < SIGNAL_THREADS; i++)
		atomic_store_explicit(&places[i].state, IDLE, memory_order_relaxed);
	if (in_use)
		sigaction(in_use, &before, NULL);
	in_use = 0;
}
