/*
 * multi - all-gathers on as many GPUs as there are ranks, bare and with libturbo preloaded.
 *
 *   multi gathers [--ranks N] [--rounds N]     64 all-gathers of 1 KiB to 1 MiB a rank, in turns; each line has its limit
 *   multi trials [--ranks N] [--seed N] [--number N | --seconds S]
 *                                              random programs (common/trial.h): the same data, seen in the same order
 *
 * BUILD (libturbo.so is there); finds libnccl.so.2 as the loader does. With fewer GPUs than ranks these share them, and meet
 * over sockets: nothing that has to do with speed is judged. Exit: 0, 1 something is wrong, 2 usage, 77 no GPU, no NCCL, or
 * gathers with nothing to judge.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "multi.h"
#include "tests/gpu/common/cuda_dl.h"
#include "tests/gpu/common/nccl_dl.h"
#include "tests/gpu/common/util.h"

#define ENV_MAX 48

struct multi multi = {.rounds = 7, .number = 200};

/* A process that asks, so that the launcher never holds a GPU. */
static int devices(void)
{
	FILE *f;
	int n = 0;
	char self[4096], command[4200];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[length > 0 ? length : 0] = '\0';
	snprintf(command, sizeof(command), "exec '%s' devices", self);
	f = popen(command, "r");
	if (!f || fscanf(f, "%d", &n) != 1)
		n = 0;
	if (f)
		pclose(f);
	return n;
}

static int say_devices(void)
{
	int n = 0;

	if (!cuda_dl_open())
		cu.cuDeviceGetCount(&n);
	printf("%d\n", n);
	return 0;
}

/* The environment of a job's ranks; `more` ends with NULL. */
const char *const *multi_env(bool preloaded, const char *const *more)
{
	const char **env = calloc(ENV_MAX, sizeof(*env));
	const char *build = getenv("BUILD");
	char *line;
	int k = 0;

	if (asprintf(&line, "LD_PRELOAD=%s%s", preloaded ? build : "", preloaded ? "/libturbo.so" : "") < 0)
		abort();
	env[k++] = line;
	env[k++] = "NCCL_NVLS_ENABLE=0"; /* not on virtual machines */
	for (int r = 0; r < multi.ranks; r++) {
		if (asprintf(&line, "%d:LOCAL_RANK=%d", r, multi.shared ? 0 : r) < 0)
			abort();
		env[k++] = line;
		if (!multi.shared)
			continue;
		if (asprintf(&line, "%d:NCCL_HOSTID=host%d", r, r) < 0)
			abort();
		env[k++] = line;
	}
	if (multi.shared) {
		env[k++] = "NCCL_SOCKET_IFNAME=lo";
		env[k++] = "NCCL_IB_DISABLE=1";
		env[k++] = "NCCL_P2P_DISABLE=1";
	}
	for (; *more && k < ENV_MAX - 1; more++)
		env[k++] = *more;
	return env;
}

static int usage(void)
{
	fprintf(stderr,
			"usage: multi gathers|trials [--ranks N] [--rounds N] [--seed N] [--number N] [--seconds S]\n");
	return 2;
}

static bool options(int argc, char **argv)
{
	static const struct option known[] = {{"ranks", 1, NULL, 'r'},   {"rounds", 1, NULL, 'o'},
										  {"seed", 1, NULL, 's'},    {"number", 1, NULL, 'n'},
										  {"seconds", 1, NULL, 't'}, {NULL, 0, NULL, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		unsigned value = optarg ? (unsigned)strtoul(optarg, NULL, 10) : 0;
		switch (c) {
		case 'r': multi.ranks = (int)value; break;
		case 'o': multi.rounds = (int)value; break;
		case 's': multi.seed = value; break;
		case 'n': multi.number = value; break;
		case 't': multi.seconds = value; break;
		default: return false;
		}
	}
	return optind + 1 == argc;
}

int main(int argc, char **argv)
{
	int (*run)(void);
	const char *why;
	int n;

	if (ranks_is_rank(argc, argv))
		return ranks_main(argv, getenv("TRIAL_PAGE") ? trial_obey : gathers_obey);
	if (argc == 2 && !strcmp(argv[1], "devices"))
		return say_devices();
	multi.seed = (unsigned)(now_ns() / 1000 % 1000000) * 1000;
	if (!options(argc, argv))
		return usage();
	run = !strcmp(argv[optind], "gathers")  ? multi_gathers
		  : !strcmp(argv[optind], "trials") ? multi_trials
											: NULL;
	if (!run)
		return usage();
	if (!getenv("BUILD")) {
		fprintf(stderr, "BUILD is not set\n");
		return 2;
	}
	why = nccl_dl_open();
	n = why ? 0 : devices();
	if (!n) {
		printf("skipped: %s\n", why ? why : "no GPU");
		return 77;
	}
	if (!multi.ranks)
		multi.ranks = n > TRIAL_RANKS ? TRIAL_RANKS : n;
	if (multi.ranks > TRIAL_RANKS)
		return usage();
	multi.shared = multi.ranks > n;
	return run();
}
