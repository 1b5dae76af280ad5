/*
 * main.c - the subcommand table of `turbo`.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "turbo.h"

const struct command commands[] = {
	{
		"run",
		cmd_run,
		"run [--preset P] [-o NAME=VALUE]... [--] CMD [ARG]...",
		"run CMD with libturbo loaded",
		"  --preset P       off, observe, safe or max; the same as -o TURBO=P\n"
		"  -o NAME=VALUE    set an option; TURBO_COPY=off, COPY=off and copy=off are the same\n"
		"\n"
		"Options come from the environment too; -o overrides. A name or value that libturbo does\n"
		"not know is refused here, with status 2, before CMD is started. Status 127 says that CMD\n"
		"was not found, 126 that it could not be started; otherwise the status is CMD's own.\n"
		"A program that used CUDA prints a short summary of what was sped up on stderr when it\n"
		"ends (TURBO_SUMMARY=off: none).\n",
	},
	{
		"options",
		cmd_options,
		"options [--markdown]",
		"list the options, their values and the value in force",
		"  --markdown       the table as README.md has it\n"
		"\n"
		"NOW is what a process started from this environment would use; * marks a value that the\n"
		"environment sets.\n",
	},
	{
		"doctor",
		cmd_doctor,
		"doctor [--json] [--quick] [--only SUBJECT,...] [--data DIR] [--deadline SECONDS] [-- CMD...]\n"
		"       turbo doctor --list [--json|--markdown]",
		"check GPU, driver, software and machine before the code is blamed",
		"  --json           one JSON object, for programs; its keys are in tools/doctor/README.md\n"
		"  --quick          measure nothing: no copies, no import of PyTorch\n"
		"  --only S,...     only these: gpu, software, measured, environment, machine, nccl, libturbo\n"
		"  --data DIR       also measure how fast the files below DIR can be read; of those that it\n"
		"                   reads it takes the cached pages away first\n"
		"  --deadline S     no question waits longer than so many seconds (5 to 150, by question)\n"
		"  --list           everything that is looked at\n"
		"  --root DIR       read /proc, /sys, /dev and /etc below DIR: a copy of another machine's, or a test's\n"
		"\n"
		"CMD is not started. Its interpreter is, to ask what it would load and how long that takes; so\n"
		"name CMD as you would start it: turbo doctor -- torchrun train.py. Without CMD that is python3.\n"
		"Each finding is ok, warn or fail; the end says what to do, worst first. Status 0: all is well, 1:\n"
		"something to look at, 2: something that stops or cripples a job (or a wrong argument).\n"
		"Works without a GPU, in containers and without root; what hangs is a finding.\n",
	},
	{
		"export",
		cmd_export,
		"export FILE|DIR... [-o OUT] [--format kineto|perfetto] [--window START..END]\n"
		"       [--rank N,...] [--kind KIND,...] [--integer-us]",
		"write timelines in formats that other tools read",
		"  -o OUT           the file, or the directory of the files; ends in .json, .json.gz or\n"
		"                   .pftrace, which decides the format (default: the working directory)\n"
		"  --format F       kineto    what torch.profiler writes, one rank a file: for Perfetto,\n"
		"                             chrome://tracing, TensorBoard, Holistic Trace Analysis\n"
		"                   perfetto  Perfetto's own format; smaller, several ranks in one file\n"
		"  --window S..E    only what runs from S to E after the beginning: 1.5..3, 200ms..1s, 10..\n"
		"  --rank N,...     only these ranks\n"
		"  --kind KIND,...  only these: kernel, copy, memset, graph, api, sync, overhead, event,\n"
		"                   collective, gap, counter\n"
		"  --integer-us     whole microseconds (kineto): Holistic Trace Analysis makes negative\n"
		"                   durations of kernels shorter than one\n"
		"\n"
		"DIR stands for the *.timeline files in it. Viewers take their time above some 500 MB:\n"
		"export a window then. A timeline that is still being recorded is written as far as it is.\n",
	},
	{
		"nccl",
		cmd_nccl,
		"nccl [PID|DIR] [--watch] [--json]",
		"show where the ranks of a job stand in their collectives, and who holds up the others",
		"  --watch          again every second, until Ctrl-C\n"
		"  --json           one JSON object, for programs; with --watch one a second\n"
		"\n"
		"PID is any of the job's ranks, or a process that has started them (torchrun). The record of a\n"
		"rank that was killed can be read for some minutes, or later from a folder DIR that the files\n"
		"/dev/shm/turbo-UID-PID.flight were copied to. Of a DIR with reports of the watchdog\n"
		"(TURBO_NCCL_DIR) the last is printed. Without either: all jobs of yours on this machine.\n"
		"\n"
		"Each communicator is a block: its verdict, if there is any, and a line a rank. CALL is the\n"
		"oldest call that is not done, else the last; +N stands for N more behind it. CALLED, STARTED\n"
		"and DONE say how long ago that was; `past' names the line of the call that a rank made last.\n"
		"Status 1 says that there is no such job.\n",
	},
	{
		"record",
		cmd_record,
		"record PID... [-d SECONDS] [-o DIR] [--launch]",
		"record what the GPU does in running processes",
		"  -d SECONDS       for so long (5); Ctrl-C ends it earlier\n"
		"  -o DIR           folder of the files, one a process (the working directory)\n"
		"  --launch         also the calls that launch and wait, as TURBO_TIMELINE=launch\n"
		"\n"
		"The processes must run with libturbo and have used CUDA; TURBO_TIMELINE need not be set. The\n"
		"names of the files are printed, for turbo report and turbo export. Status 1 says that a\n"
		"process could not be recorded, and why. The recording ends with this command, even when that\n"
		"is killed; one that is not answered takes back what it asked for.\n",
	},
	{
		"replay",
		cmd_replay,
		"replay TRACE... [--mode M]... [--limit BYTES] [--touch] [--sim] [--json]\n"
		"       turbo replay --generate SHAPE [--seed N] [--ops N] [-o FILE]\n"
		"       turbo replay --import SNAPSHOT [-o FILE]",
		"replay allocation traces against the driver",
		"  --mode M         bare      cuMemAlloc and cuMemFree, without libturbo\n"
		"                   cache, deferred   the same, with libturbo and TURBO_DEVMEM=M\n"
		"                   stream    cuMemAllocAsync and cuMemFreeAsync, with TURBO_DEVMEM=stream\n"
		"                   pool      the same, without libturbo: the driver's pool, keeping all\n"
		"                   may be given again; without it all but pool are replayed\n"
		"  --limit BYTES    so much of each device's memory may be used; K, M, G, T: powers of 1024\n"
		"  --touch          write to the beginning of every block, on its stream\n"
		"  --sim            on the simulated driver, where there is no GPU\n"
		"  --json           a list with one object for each trace and mode\n"
		"  --generate SHAPE write a trace: varlen, growing, moe, checkpoint, streams or oneshot;\n"
		"                   of at least --ops N operations (20000), the same for the same --seed (1)\n"
		"  --import FILE    write a trace from a memory snapshot of PyTorch\n"
		"  -o FILE          where to (standard output); compressed when it ends in .gz\n"
		"\n"
		"Each mode is replayed by a process of its own. NS/OP is the time of all operations by\n"
		"their number. RES is the most memory reserved: of a pool what it says itself, else what the\n"
		"driver's cuMemGetInfo has lost, looked at every 1024 operations and where the most that was\n"
		"live grows; what libturbo keeps is part of it, and other processes on the device would show.\n"
		"LIVE is the most that was allocated, RATIO their quotient. CALLS are calls that reached the\n"
		"driver, libturbo's short questions (cuCtxGetCurrent, say) included. OOM counts allocations\n"
		"for which there was no memory; they and their frees are left out.\n"
		"\n"
		"A trace is a text, gzip or not, in a file: it is read more than once, so a pipe will not do.\n"
		"Its first line is `turbo-alloc-trace 1`, then one line each:\n"
		"  a ID BYTES STREAM [DEVICE]   allocate block ID         s STREAM   wait for it\n"
		"  f ID STREAM [DEVICE]         free it                   d STREAM   destroy it\n"
		"  w STREAM STREAM              the first waits for the second    # a comment\n"
		"A bad line is named with its number, status 1. TURBO_DEVMEM_TRACE=FILE records one.\n",
	},
	{
		"report",
		cmd_report,
		"report FILE|DIR... [--json] [--html OUT] [--window START..END] [--rank N,N...] [--top N]",
		"say where the time of a recorded timeline goes, and what to do about it",
		"  --json           one JSON object, for programs; its keys are in tools/timeline/README.md\n"
		"  --html OUT       write a page that draws it all; it needs no network\n"
		"  --window S..E    only the time from S to E after the beginning: 1.5..3, 200ms..1s, 10..\n"
		"  --rank N,N...    only these ranks\n"
		"  --top N          so many kernels by name (20)\n"
		"\n"
		"A DIR stands for the *.timeline files in it; all files make one report, one row a process.\n"
		"A file may be of a process that still runs, or was killed. One that cannot be read is named,\n"
		"the others are reported, and the status is 1. Busy, idle, compute, communication and overlap\n"
		"are as Holistic Trace Analysis defines them. TURBO_TIMELINE=kernel and turbo record make\n"
		"timelines.\n",
	},
	{
		"stats",
		cmd_stats,
		"stats [PID] [--json] [--all]",
		"show what libturbo counts in a running process",
		"  --json           one JSON object, for programs\n"
		"  --all            counters at zero and every symbol too\n"
		"\n"
		"Without PID: list the processes that have counters. The counters of a killed process stay\n"
		"readable until another process of the same user removes them.\n",
	},
	{NULL, NULL, NULL, NULL, NULL},
};

const struct command *command_find(const char *name)
{
	for (const struct command *c = commands; c->name; c++)
		if (!strcmp(c->name, name))
			return c;
	return NULL;
}

void command_help(const struct command *cmd, FILE *to)
{
	fprintf(to, "usage: turbo %s\n\n", cmd->usage);
	fprintf(to, "turbo %s: %s.\n\n%s", cmd->name, cmd->summary, cmd->details);
}

static void help(FILE *to)
{
	fputs("usage: turbo COMMAND [ARG]...\n\ncommands:\n", to);
	for (const struct command *c = commands; c->name; c++)
		fprintf(to, "  %-10s %s\n", c->name, c->summary);
	fputs("\n  turbo help COMMAND    more about one command\n"
		  "  turbo help --man      all of it as a manual page\n"
		  "  turbo --version       version of this command\n",
		  to);
}

int usage_error(const char *name, const char *fmt, ...)
{
	va_list ap;
	fprintf(stderr, "turbo%s%s: ", *name ? " " : "", name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\nTry `turbo help%s%s`.\n", *name ? " " : "", name);
	return EXIT_ASKED_WRONGLY;
}

int failure(const char *name, const char *fmt, ...)
{
	va_list ap;
	fprintf(stderr, "turbo %s: ", name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return EXIT_FAILED;
}

int finish_output(const char *name)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return EXIT_OK;
	return failure(name, "cannot write the output: %s", strerror(errno));
}

static int cmd_help(int argc, char **argv)
{
	if (argc > 2)
		return usage_error("", "help takes one command, not %d", argc - 1);
	if (argc < 2) {
		help(stdout);
		return finish_output("help");
	}
	const struct command *cmd = command_find(argv[1]);
	if (cmd)
		command_help(cmd, stdout);
	else if (!strcmp(argv[1], "--man"))
		man_page();
	else
		return usage_error("", "no command '%s'", argv[1]);
	return finish_output("help");
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		help(stderr);
		return EXIT_ASKED_WRONGLY;
	}
	const char *name = argv[1];
	if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
		printf("turbo %s\n", TURBO_VERSION);
		return finish_output("--version");
	}
	if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help"))
		return cmd_help(argc - 1, argv + 1);

	const struct command *cmd = command_find(name);
	if (!cmd)
		return usage_error("", "no command '%s'", name);
	/* Only as the first argument: everything after CMD of `turbo run` is CMD's. */
	if (argc > 2 && (!strcmp(argv[2], "--help") || !strcmp(argv[2], "-h"))) {
		command_help(cmd, stdout);
		return finish_output(cmd->name);
	}
	return cmd->run(argc - 1, argv + 1);
}
