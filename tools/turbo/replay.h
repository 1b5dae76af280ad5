/*
 * replay.h - what the files of `turbo replay` share.
 *
 * Each trace and mode is replayed by a process of its own, this command again ("the worker"), so
 * that libturbo is loaded by the worker only, with the mode's options, and nothing of one run is left for the
 * next.
 */
#ifndef TURBO_REPLAY_H
#define TURBO_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "trace_file.h"

struct replay_mode {
	const char *name;
	bool preload; /* with libturbo.so and TURBO_DEVMEM=name */
	bool async;   /* cuMemAllocAsync and cuMemFreeAsync */
	bool usual;   /* replayed when no --mode is given */
};
extern const struct replay_mode replay_modes[]; /* ends with a NULL name */
const struct replay_mode *replay_mode_find(const char *name);
/* This build's libturbo obeys it. */
bool replay_mode_exists(const struct replay_mode *mode);

struct replay_request {
	const char *trace;
	const struct replay_mode *mode;
	uint64_t limit; /* bytes of each device that may be used; 0: all */
	bool sim, touch;
	struct trace_facts facts;
};

struct replay_result {
	uint64_t ops, ns, peak_reserved, peak_live, driver_calls, oom;
};

/* replay_child.c: runs a worker. False after saying on stderr why there is no result. */
bool replay_in_child(const struct replay_request *q, struct replay_result *result);
/* Folder of the simulated driver beside this command; false when there is none. */
bool replay_sim_find(char *buf, size_t size);

/* replay_worker.c: the worker's main; its arguments are replay_child.c's. */
#define REPLAY_WORKER "--worker"
#define REPLAY_RESULT_FD 3
int replay_worker(int argc, char **argv);

/* generate.c and trace_import.c: --generate and --import. */
struct replay_make {
	const char *shape, *snapshot; /* one of them */
	const char *output;           /* NULL: standard output */
	uint64_t seed, ops;
};
int replay_generate(const struct replay_make *m);
int replay_import(const struct replay_make *m);

#endif
