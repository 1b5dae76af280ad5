/*
 * probes.c - runs the probes, each in a process of its own with a deadline.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "doctor.h"

#define BIT(subject) (1u << DOCTOR_##subject)

/* In the order in which they need each other's facts. */
static const struct probe {
	const char *what; /* asked, for the line about no answer */
	doctor_probe *run;
	enum doctor_subject subject; /* of that line */
	uint32_t wanted;             /* run when one of these subjects is */
	unsigned seconds;
	bool slow; /* left out by --quick */
} probes[] = {
	{"the kernel about its devices", probe_devices, DOCTOR_GPU, ~0u, 5, false},
	{"NVML about the GPUs", probe_nvml, DOCTOR_GPU,
	 BIT(GPU) | BIT(SOFTWARE) | BIT(MEASURED) | BIT(MACHINE) | BIT(LIBTURBO), 20, false},
	{"the interpreter about its packages", probe_python, DOCTOR_SOFTWARE,
	 BIT(SOFTWARE) | BIT(MEASURED) | BIT(LIBTURBO), 30, false},
	{"the time of import torch", probe_import, DOCTOR_MEASURED, BIT(SOFTWARE) | BIT(MEASURED), 150, true},
	{"libraries about their versions", probe_libraries, DOCTOR_SOFTWARE, BIT(SOFTWARE), 20, false},
	{"search paths about copies of CUDA", probe_copies, DOCTOR_SOFTWARE, BIT(SOFTWARE), 10, false},
	{"the environment", probe_environment, DOCTOR_ENVIRONMENT, BIT(ENVIRONMENT), 5, false},
	{"limits and /dev/shm", probe_limits, DOCTOR_MACHINE, BIT(MACHINE), 5, false},
	{"the control group", probe_cgroup, DOCTOR_MACHINE, BIT(MACHINE), 5, false},
	{"the machine's memory", probe_machine, DOCTOR_MACHINE, BIT(MACHINE), 5, false},
	{"the machine's processors", probe_cpu, DOCTOR_MACHINE, BIT(MACHINE), 5, false},
	{"home and temporary folders", probe_folders, DOCTOR_MACHINE, BIT(MACHINE), 5, false},
	{"NCCL's settings", probe_nccl, DOCTOR_NCCL, BIT(NCCL), 5, false},
	{"libturbo itself", probe_libturbo, DOCTOR_LIBTURBO, BIT(LIBTURBO), 20, false},
	{"libraries about their functions", probe_calls, DOCTOR_LIBTURBO, BIT(LIBTURBO), 10, false},
	{"the driver about the speed of copies", probe_bandwidth, DOCTOR_MEASURED, BIT(MEASURED) | BIT(LIBTURBO),
	 90, true},
	{"the data folder", probe_data, DOCTOR_MEASURED, BIT(MEASURED), 40, true},
};

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The probe's output must not keep a pipe open that somebody reads to its end: what hangs in the kernel stays. */
static void child(struct doctor *d, const struct probe *p)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	for (int fd = 0; fd <= 2; fd++)
		dup2(null, fd);
	signal(SIGPIPE, SIG_IGN);
	p->run(d);
	_exit(0);
}

/* True when it has ended by itself. It is not reaped: its number, and its group's, stay its own. */
static bool wait_for(pid_t pid, double seconds)
{
	double end = now() + seconds, pause = 0.0002;
	for (;;) {
		siginfo_t info = {.si_pid = 0};
		if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno != EINTR)
			return false;
		if (info.si_pid == pid)
			return true;
		if (now() > end)
			return false;
		struct timespec t = {0, (long)(pause * 1e9)};
		nanosleep(&t, NULL);
		pause = pause < 0.02 ? pause * 1.5 : pause;
	}
}

static void unanswered(struct doctor *d, const struct probe *p, const char *how)
{
	struct finding *f = doctor_say(d, F_unanswered, DOCTOR_FAIL, NULL, "asked %s: %s", p->what, how);
	f->subject = p->subject;
}

static void run(struct doctor *d, const struct probe *p)
{
	double seconds = d->deadline > 0 ? d->deadline : p->seconds;
	char how[96];
	int status = 0;
	fflush(NULL);
	pid_t pid = fork();
	if (pid < 0) {
		snprintf(how, sizeof(how), "no process for it (%s)", strerror(errno));
		unanswered(d, p, how);
		return;
	}
	if (pid == 0)
		child(d, p);
	setpgid(pid, pid);
	bool ended = wait_for(pid, seconds);
	kill(-pid, SIGKILL); /* and what it has started */
	/* What hangs in the kernel is left behind. */
	if (ended || wait_for(pid, 0.5))
		waitpid(pid, &status, 0);
	if (!ended) {
		snprintf(how, sizeof(how), "nothing came within %g s", seconds);
		unanswered(d, p, how);
	} else if (WIFEXITED(status) && WEXITSTATUS(status)) {
		snprintf(how, sizeof(how), "it ended with status %d", WEXITSTATUS(status));
		unanswered(d, p, how);
	} else if (WIFSIGNALED(status)) {
		snprintf(how, sizeof(how), "it ended with signal %d, %s", WTERMSIG(status),
				 strsignal(WTERMSIG(status)));
		unanswered(d, p, how);
	}
}

void doctor_run(struct doctor *d, void (*progress)(const char *what))
{
	for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
		const struct probe *p = &probes[i];
		if (!(p->wanted & d->subjects) || (p->slow && d->quick))
			continue;
		if (progress)
			progress(p->what);
		run(d, p);
	}
	if (progress)
		progress(NULL);
}
