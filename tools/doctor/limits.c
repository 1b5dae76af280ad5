/*
 * limits.c - what this shell's limits and /dev/shm allow.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "doctor.h"
#include "tools/timeline/units.h"

#define FILES_LEAST 4096u
#define MEMLOCK_LEAST (64u << 20)
#define PROCESSES_LEAST 4096u
#define SHM_LEAST (1024.0 * 1048576)
#define SHM_NOTHING (16.0 * 1048576)

static struct units_text amount(rlim_t value)
{
	return value == RLIM_INFINITY ? (struct units_text){"unlimited"} : units_count(value);
}

static struct units_text bytes(rlim_t value)
{
	return value == RLIM_INFINITY ? (struct units_text){"unlimited"} : units_bytes((double)value);
}

/* libturbo raises the soft limit itself, unless TURBO_FILES is off. */
static void files(struct doctor *d, const struct rlimit *l)
{
	const char *set = getenv("TURBO_FILES");
	bool raised = l->rlim_cur < FILES_LEAST && l->rlim_max >= FILES_LEAST && !(set && !strcmp(set, "off"));
	struct finding *f =
		doctor_say(d, F_nofile, l->rlim_cur < FILES_LEAST && !raised ? DOCTOR_WARN : DOCTOR_OK, NULL,
				   "%s%s; may be raised to %s", amount(l->rlim_cur).s,
				   raised ? ", which libturbo raises" : "", amount(l->rlim_max).s);
	doctor_value(f, "soft", (double)l->rlim_cur);
	doctor_value(f, "hard", (double)l->rlim_max);
}

static void limits(struct doctor *d)
{
	struct rlimit l;
	if (getrlimit(RLIMIT_NOFILE, &l) == 0)
		files(d, &l);
	if (getrlimit(RLIMIT_MEMLOCK, &l) == 0) {
		bool needed = doctor_entries(d, "/sys/class/infiniband", NULL, NULL) > 0;
		doctor_say(d, F_memlock, needed && l.rlim_cur < MEMLOCK_LEAST ? DOCTOR_FAIL : DOCTOR_OK, NULL, "%s%s",
				   bytes(l.rlim_cur).s,
				   needed ? ", and there is InfiniBand" : "; CUDA itself does not need it");
	}
	if (getrlimit(RLIMIT_AS, &l) == 0)
		doctor_say(d, F_address_space, l.rlim_cur == RLIM_INFINITY ? DOCTOR_OK : DOCTOR_FAIL, NULL, "%s",
				   bytes(l.rlim_cur).s);
	if (getrlimit(RLIMIT_NPROC, &l) == 0 && getuid() != 0)
		doctor_say(d, F_pids, l.rlim_cur < PROCESSES_LEAST ? DOCTOR_WARN : DOCTOR_OK, NULL,
				   "%s for this user", amount(l.rlim_cur).s);
}

static void shm(struct doctor *d)
{
	double size, available;
	char path[512];
	if (!doctor_space(d, "/dev/shm", &size, &available)) {
		doctor_say(d, F_shm, DOCTOR_FAIL, NULL, "is not there");
		return;
	}
	doctor_path(d, path, sizeof(path), "/dev/shm");
	enum doctor_level level = DOCTOR_OK;
	const char *more = "";
	if (access(path, W_OK) != 0) {
		level = DOCTOR_FAIL;
		more = ", and may not be written";
	} else if (available < SHM_NOTHING) {
		level = DOCTOR_FAIL;
		more = ", full";
	} else if (size < SHM_LEAST || available < SHM_LEAST / 4) {
		level = DOCTOR_WARN;
	}
	struct finding *f = doctor_say(d, F_shm, level, NULL, "%s, %s free%s", units_bytes(size).s,
								   units_bytes(available).s, more);
	doctor_value(f, "bytes", size);
	doctor_value(f, "free_bytes", available);
}

void probe_limits(struct doctor *d)
{
	limits(d);
	shm(d);
}
