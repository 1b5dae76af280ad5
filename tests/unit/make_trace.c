/*
 * make_trace.c - writes timelines of a training job that never ran, as large as is asked for; for tests and
 * benchmarks. The same arguments give the same files.
 *
 *     make_trace [--ranks N] [--records N] [--seed N] [--layers N] [--straggler RANK] [--chunks N] [--launches]
 *                [--killed] DIR
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "make_trace.h"

static int usage(void)
{
	fputs(
		"usage: make_trace [--ranks N] [--records N] [--seed N] [--layers N] [--straggler RANK] [--chunks N]\n"
		"                  [--launches] [--killed] DIR\n",
		stderr);
	return 2;
}

int main(int argc, char **argv)
{
	struct job job = {.ranks = 1, .records = 100000, .seed = 1, .straggler = -1, .layers = 24};
	for (int i = 1; i < argc; i++) {
		const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
		if (!strcmp(name, "--launches")) {
			job.launches = true;
		} else if (!strcmp(name, "--killed")) {
			job.killed = true;
		} else if (name[0] != '-' && !job.dir) {
			job.dir = name;
		} else if (name[0] == '-' && value) {
			unsigned long long n = strtoull(value, NULL, 10);
			i++;
			if (!strcmp(name, "--ranks"))
				job.ranks = (unsigned)n;
			else if (!strcmp(name, "--records"))
				job.records = n;
			else if (!strcmp(name, "--seed"))
				job.seed = n;
			else if (!strcmp(name, "--layers"))
				job.layers = (unsigned)n;
			else if (!strcmp(name, "--straggler"))
				job.straggler = (int)n;
			else if (!strcmp(name, "--chunks"))
				job.chunks = (uint32_t)n;
			else
				return usage();
		} else {
			return usage();
		}
	}
	if (!job.dir || !job.ranks || job.ranks > 512 || !job.layers)
		return usage();
	mkdir(job.dir, 0700);
	printf("%u steps\n", job_run(&job));
	return 0;
}
