/*
 * doctor.h - what the parts of `turbo doctor` share.
 *
 * A probe looks at one subject and says findings. It runs in a child process of its own, because drivers and file
 * systems hang: at its deadline it is killed and what it has said by then counts. Everything that leaves a
 * probe is therefore in memory shared with the command (struct doctor_board). Probes run one after another.
 */
#ifndef TURBO_DOCTOR_H
#define TURBO_DOCTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Worst last. */
enum doctor_level { DOCTOR_NOT_HERE, DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

enum doctor_subject {
	DOCTOR_GPU,
	DOCTOR_SOFTWARE,
	DOCTOR_MEASURED,
	DOCTOR_ENVIRONMENT,
	DOCTOR_MACHINE,
	DOCTOR_NCCL,
	DOCTOR_LIBTURBO,
	DOCTOR_SUBJECTS
};

enum doctor_id {
#define FINDING(id, ...) F_##id,
#define VARIABLE FINDING
#include "doctor.def"
	DOCTOR_FINDINGS
};

struct doctor_row {
	const char *name, *title, *why, *todo;
	const char *variable, *values; /* of a VARIABLE */
	enum doctor_subject subject;
	unsigned levels; /* bits 1 << enum doctor_level, DOCTOR_WARN and DOCTOR_FAIL */
};
extern const struct doctor_row doctor_table[DOCTOR_FINDINGS];
extern const char *const doctor_subjects[DOCTOR_SUBJECTS];      /* "Machine" */
extern const char *const doctor_subject_names[DOCTOR_SUBJECTS]; /* "machine", for --only */
extern const char *const doctor_levels[];                       /* "not here", "ok", "warn", "fail" */

#define DOCTOR_VALUES 8
#define DOCTOR_MOST 512

struct finding {
	enum doctor_id id;
	enum doctor_level level;
	enum doctor_subject subject;
	char where[64]; /* "GPU 0"; "" */
	char seen[700];
	char todo[400]; /* in the place of the row's; "" */
	unsigned values;
	struct {
		char name[28];
		double value;
	} value[DOCTOR_VALUES];
};

enum doctor_kind { KIND_CUDA, KIND_CUDART, KIND_CUDNN, KIND_NCCL, KIND_CUPTI, DOCTOR_KINDS };

struct doctor_gpu {
	char bus[32];               /* 0000:3b:00.0, lower case */
	unsigned node;              /* NUMA node + 1; 0 not known */
	unsigned generation, width; /* the most that GPU and slot can; 0 not known */
	unsigned capability;        /* 90 is 9.0; 0 not known */
};

/* What one probe has found out and another needs. Written by one probe at a time. */
struct doctor_facts {
	bool expected;      /* there is a GPU, or at least a driver */
	char module[64];    /* the kernel module's release; "" */
	unsigned cuda_most; /* the driver's CUDA: 13000; 0 not known */
	unsigned gpus;
	struct doctor_gpu gpu[32];
	char python[1024];       /* the interpreter that answered; "" */
	char torch_folder[1024]; /* "" */
	char torch_cuda[32];     /* "13.0" */
	char torch_archs[512];   /* "sm_80 sm_90 compute_90" */
	bool import_done;        /* `libraries` is what torch's import has loaded */
	unsigned libraries;      /* of the program, in the loader's order */
	struct doctor_library {
		enum doctor_kind kind;
		char path[1024];
	} library[48];
	unsigned wheels; /* libraries in the interpreter's packages, loaded or not */
	struct doctor_library wheel[48];
};

struct doctor_board {
	atomic_uint findings; /* release: the finding below it is complete */
	struct finding finding[DOCTOR_MOST];
	struct doctor_facts facts;
};

struct doctor {
	const char *root; /* put before /proc, /sys, /dev and /etc; "" */
	const char *data; /* --data; NULL */
	char **cmd;       /* NULL terminated; NULL: none was named */
	bool quick;
	double deadline;   /* seconds that replace each probe's own; 0 */
	uint32_t subjects; /* bits 1 << enum doctor_subject */
	struct doctor_board *board;
};

/* ---- say.c: findings; for probes. The finding stays where it is. ---- */
struct finding *doctor_say(struct doctor *d, enum doctor_id id, enum doctor_level level, const char *where,
						   const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void doctor_do(struct finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void doctor_value(struct finding *f, const char *name, double value);
/* The worst that was said so far, DOCTOR_OK at least. */
enum doctor_level doctor_worst(const struct doctor *d);

/* ---- read.c: small files, below the root ---- */
void doctor_path(const struct doctor *d, char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* The file's beginning without blanks at its end; false when it cannot be read, and buf is "". */
bool doctor_read(const struct doctor *d, char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Its first number; -1: none, INT64_MAX: "max" or too large. */
int64_t doctor_number(const struct doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool doctor_exists(const struct doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Calls `each` for the entries of a folder but . and .., in any order, until it returns false; their number. */
typedef bool doctor_entry(void *arg, const char *name);
unsigned doctor_entries(const struct doctor *d, const char *folder, doctor_entry *each, void *arg);

/* ---- mounts.c ---- */
struct doctor_mount {
	char type[64], at[512], options[512];
	bool network;
};
/* The mount that `path` is on; false when it is not known. */
bool doctor_mount_of(const struct doctor *d, const char *path, struct doctor_mount *m);
/* Size and free bytes of the file system at `path`, a tmpfs' size option included. */
bool doctor_space(const struct doctor *d, const char *path, double *size, double *available);

/* ---- start.c: programs that probes start. Their output ends up line by line in `line`. ---- */
typedef void doctor_line(void *arg, char *text);
struct doctor_start {
	char *const *argv;
	const char *preload;    /* LD_PRELOAD of the program; NULL: as it is here */
	bool clean;             /* without LD_PRELOAD and TURBO_* */
	doctor_line *out, *err; /* NULL: thrown away */
	void *arg;
};
/* Its exit status, 128 and more for a signal, -1 when it could not be started. */
int doctor_start(const struct doctor_start *s);
/* Cuts a line at tabs into at most `most` fields; their number. The others are "". */
unsigned doctor_fields(char *line, char **field, unsigned most);

/* ---- the probes: one file a subject, listed in probes.c ---- */
typedef void doctor_probe(struct doctor *d);
doctor_probe probe_devices, probe_nvml, probe_python, probe_import, probe_libraries, probe_copies,
	probe_bandwidth, probe_data, probe_environment, probe_limits, probe_cgroup, probe_machine, probe_cpu,
	probe_folders, probe_nccl, probe_libturbo, probe_calls;

/* environment.c: says those variables of a subject's rows that cost speed, counts them in `found`, and returns how many it knows. */
unsigned doctor_variables(struct doctor *d, enum doctor_subject subject, unsigned *found);

/* python.c: the interpreter of CMD, or of this shell, as the beginning of an argv; NULL: there is none. */
char **doctor_python(struct doctor *d);
/* Runs look.py there: MODE is find, import or loaded. Its status as doctor_start() gives it. */
int doctor_look(struct doctor *d, const char *mode, const char *preload, doctor_line *out, doctor_line *err,
				void *arg);
/* Which kind of library a path is by its name; DOCTOR_KINDS: another. */
enum doctor_kind doctor_kind_of(const char *path);
extern const char *const doctor_kind_names[DOCTOR_KINDS];
void doctor_library_add(struct doctor_library *list, unsigned *count, unsigned most, const char *path);

/* copy_worker.c: measures copies in this process and says so on stdout; of `turbo doctor --worker`. */
int doctor_worker(const char *what);
/* The command itself as a worker: argv of doctor_start(). */
char *const *doctor_self(const char *worker);
/* LD_PRELOAD with libturbo for a worker; false: there is none that could be named. */
bool doctor_preload(char *buf, size_t size);

/* ---- probes.c, show.c, show_json.c, list.c: for the command ---- */
void doctor_run(struct doctor *d, void (*progress)(const char *what));
struct doctor_look {
	FILE *to;
	bool colour;
	unsigned columns;
};
void doctor_show(const struct doctor *d, const struct doctor_look *look);
void doctor_show_json(const struct doctor *d, FILE *to);
void doctor_list(FILE *to, unsigned columns);
void doctor_list_markdown(FILE *to);
void doctor_list_json(FILE *to);
/* 0 all is well, 1 there is a warning, 2 something fails. */
int doctor_status(const struct doctor *d);

#endif
