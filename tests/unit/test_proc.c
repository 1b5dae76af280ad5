/* NATIVE: valgrind knows no pidfd_open. */
/* test_proc.c - processes that do something, and such that do not. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "policy/nccl/proc.h"

#define S 1000000000ull

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * S + (uint64_t)t.tv_nsec;
}

static void nap(unsigned ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

	nanosleep(&t, NULL);
}

static pid_t start(void (*run)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run();
		_exit(0);
	}
	assert_true(pid > 0);
	nap(30);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static struct proc proc_of(pid_t pid)
{
	struct proc p;
	struct proc_stat stat;
	char dir[32];

	snprintf(dir, sizeof(dir), "/proc/%d", (int)pid);
	assert_true(proc_stat_read_in(dir, &stat));
	proc_start(&p, pid, stat.start_ticks, now_ns());
	return p;
}

static void sleeping(void)
{
	pause();
}

static void busy(void)
{
	for (;;)
		__asm__ volatile("");
}

static void reading(void)
{
	static char buffer[1 << 16];
	int fd = open("/proc/self/exe", O_RDONLY);

	for (;;) {
		if (pread(fd, buffer, sizeof(buffer), 0) <= 0)
			return;
		nap(1);
	}
}

static void with_busy_grandchild(void)
{
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			busy();
		}
		pause();
	}
	pause();
}

static void with_program(void)
{
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/bin/sleep", "sleep", "30", (char *)NULL);
		_exit(1);
	}
	pause();
}

static void waits_for_child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
	}
	waitpid(pid, NULL, 0);
}

static void with_worker(void)
{
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
	}
	pause();
}

static char lock_path[64];

static void waits_for_lock(void)
{
	int fd = open(lock_path, O_RDWR);

	flock(fd, LOCK_EX);
}

static pthread_mutex_t *shared;

static void waits_for_mutex(void)
{
	pthread_mutex_lock(shared);
}

static pthread_mutex_t private = PTHREAD_MUTEX_INITIALIZER;

static void waits_for_itself(void)
{
	pthread_mutex_lock(&private);
	pthread_mutex_lock(&private);
}

/* A thread that looks around, by its name, as libturbo's and PyTorch's do. */
static void *look_around(void *arg)
{
	prctl(PR_SET_NAME, "turbo-watch");
	busy();
	return arg;
}

static void looking_around(void)
{
	pthread_t t;

	pthread_create(&t, NULL, look_around, NULL);
	pause();
}

static void wakes_now_and_then(void)
{
	for (;;)
		nap(20);
}

/* ---- */

static void test_lives_and_dies(void **state)
{
	pid_t pid = start(sleeping);
	struct proc p = proc_of(pid);
	(void)state;

	assert_true(proc_lives(&p, 1));
	kill(pid, SIGKILL);
	while (proc_lives(&p, 2))
		nap(1);
	/* A zombie: its signal is there to be read. */
	assert_int_equal(p.life, LIFE_DEAD);
	assert_int_equal(p.life_since, 2);
	assert_int_equal(p.exit_signal, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_false(proc_lives(&p, 3));
	assert_int_equal(p.life_since, 2);

	proc_start(&p, pid, 0, 4); /* gone without a trace */
	assert_false(proc_lives(&p, 5));
	assert_int_equal(p.exit_signal, -1);
}

static void test_number_of_another(void **state)
{
	pid_t pid = start(sleeping);
	struct proc p = proc_of(pid);
	(void)state;

	p.start_ticks--;
	proc_measure(&p, NULL, 0, now_ns());
	assert_int_equal(p.life, LIFE_DEAD);
	end(pid);
}

static void test_stopped(void **state)
{
	pid_t pid = start(sleeping);
	struct proc p = proc_of(pid);
	uint64_t now = now_ns();
	(void)state;

	kill(pid, SIGSTOP);
	nap(20);
	proc_measure(&p, NULL, 0, now + 1);
	assert_int_equal(p.life, LIFE_STOPPED);
	proc_measure(&p, NULL, 0, now + 2);
	assert_int_equal(p.life_since, now + 1);
	kill(pid, SIGCONT);
	nap(20);
	proc_measure(&p, NULL, 0, now + 3);
	assert_int_equal(p.life, LIFE_RUNS);
	assert_int_equal(p.life_since, now + 3);
	end(pid);
}

static void test_traced(void **state)
{
	pid_t pid = start(sleeping);
	struct proc p = proc_of(pid);
	(void)state;

	if (ptrace(PTRACE_SEIZE, pid, 0, 0) != 0) {
		end(pid);
		skip();
	}
	proc_measure(&p, NULL, 0, now_ns());
	assert_int_equal(p.life, LIFE_TRACED);
	end(pid);
}

/* Measures twice; what changed between the two? */
static void measure(void (*run)(void), unsigned ms, bool *cpu, bool *io, struct proc *p)
{
	pid_t pid = start(run);
	uint64_t first = now_ns(), second;

	*p = proc_of(pid);
	proc_measure(p, NULL, 0, first);
	assert_int_equal(p->cpu_changed, first);
	assert_int_equal(p->io_changed, first);
	nap(ms);
	second = now_ns();
	proc_measure(p, NULL, 0, second);
	*cpu = p->cpu_changed == second;
	*io = p->io_changed == second;
	end(pid);
}

static void test_use(void **state)
{
	static const struct {
		const char *what;
		void (*run)(void);
		bool cpu, io, children, locked;
	} rows[] = {
		{"sleeping", sleeping, false, false, false, false},
		{"busy", busy, true, false, false, false},
		{"reading", reading, true, true, false, false},
		{"a busy grandchild", with_busy_grandchild, true, false, false, false},
		{"another program", with_program, false, false, true, false},
		{"waits for its child", waits_for_child, false, false, true, false},
		{"an idle worker", with_worker, false, false, false, false},
		{"a file's lock", waits_for_lock, false, false, false, true},
		{"a lock between processes", waits_for_mutex, false, false, false, true},
		{"a lock of its own", waits_for_itself, false, false, false, false},
		{"a thread that looks around", looking_around, false, false, false, false},
		{"a main thread that wakes up", wakes_now_and_then, true, false, false, false},
	};
	pthread_mutexattr_t attr;
	int fd;
	(void)state;

	snprintf(lock_path, sizeof(lock_path), "/tmp/turbo-test-proc-%d", (int)getpid());
	fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(shared, &attr);
	pthread_mutex_lock(shared);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct proc p;
		bool cpu, io, right = false;
		/* On a busy machine it may take a while until one has done anything. */
		for (unsigned ms = 150; !right && ms <= 2400; ms *= 2) {
			measure(rows[i].run, ms, &cpu, &io, &p);
			right = cpu == rows[i].cpu && io == rows[i].io && p.children == rows[i].children &&
					p.locked == rows[i].locked;
		}
		if (!right)
			fail_msg("%s: cpu %d, io %d, children %d, locked %d", rows[i].what, cpu, io, p.children,
					 p.locked);
	}
	unlink(lock_path);
	close(fd);
}

/* A few ticks in many seconds do not count as doing something; many small ones do in the end. */
static void test_threshold(void **state)
{
	pid_t pid = start(sleeping);
	struct proc p = proc_of(pid);
	uint64_t t = 100 * S;
	(void)state;

	proc_measure(&p, NULL, 0, t);
	for (int i = 1; i <= 40; i++) {
		p.use.cpu--; /* as if one tick had been used, every other second */
		proc_measure(&p, NULL, 0, t + (uint64_t)i * 2 * S);
	}
	assert_int_equal(p.cpu_changed, t);
	p.use.cpu -= 200;
	proc_measure(&p, NULL, 0, t + 90 * S);
	assert_int_equal(p.cpu_changed, t + 90 * S);
	p.use.io -= 1u << 20;
	proc_measure(&p, NULL, 0, t + 92 * S);
	assert_int_equal(p.io_changed, t + 92 * S);
	proc_resume(&p, t + 200 * S);
	assert_int_equal(p.cpu_changed, 0);
	proc_measure(&p, NULL, 0, t + 200 * S);
	assert_int_equal(p.cpu_changed, t + 200 * S);
	end(pid);
}

static void test_names(void **state)
{
	struct proc_stat stat;
	(void)state;

	prctl(PR_SET_NAME, "a) R (b 1 2");
	assert_true(proc_stat_read_in("/proc/self", &stat));
	assert_string_equal(stat.name, "a) R (b 1 2");
	assert_int_equal(stat.state, 'R');
	assert_int_equal(stat.parent, getppid());
	assert_false(proc_stat_read_in("/proc/nobody", &stat));
	assert_int_equal(proc_read_io("/proc/nobody"), 0);
	assert_true(proc_read_io("/proc/self") > 0);
	assert_false(proc_is_traced(getpid()));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lives_and_dies),
		cmocka_unit_test(test_number_of_another),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_traced),
		cmocka_unit_test(test_use),
		cmocka_unit_test(test_threshold),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
