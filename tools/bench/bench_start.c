/*
 * bench_start.c - what starting a program costs more that never uses CUDA.
 */
#include <spawn.h>
#include <sys/wait.h>

#include "bench.h"

#define STARTS 40

extern char **environ;

static double start_us(char *const *argv)
{
	pid_t pid;
	int status;
	double start = bench_now_ns();
	if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0 || waitpid(pid, &status, 0) != pid ||
		status != 0) {
		fprintf(stderr, "bench_start: cannot run %s\n", argv[0]);
		exit(1);
	}
	return (bench_now_ns() - start) / 1000;
}

static void measure(const char *key, int starts, char *const *argv)
{
	double us[STARTS];
	for (int i = 0; i < starts; i++)
		us[i] = start_us(argv);
	/* A quarter of the starts was this fast: the slower ones waited for a busy machine. */
	qsort(us, (size_t)starts, sizeof(*us), bench_by_value);
	printf("%s %.1f\n", key, us[starts / 4]);
}

/* The interpreter itself: python3 may be a script that looks for one. "" when there is none. */
static void find_python(char *buf, int size)
{
	FILE *f = popen("python3 -c 'import sys; print(sys.executable)' 2>/dev/null", "r");
	buf[0] = '\0';
	if (!f)
		return;
	if (fgets(buf, size, f))
		buf[strcspn(buf, "\n")] = '\0';
	pclose(f);
}

static int child(void)
{
	char python[4096];
	measure("true", STARTS, (char *[]){(char *)"true", NULL});
	measure("sh", STARTS, (char *[]){(char *)"sh", (char *)"-c", (char *)":", NULL});
	find_python(python, (int)sizeof(python));
	if (*python)
		measure("python3", STARTS, (char *[]){python, (char *)"-S", (char *)"-c", (char *)"pass", NULL});
	return 0;
}

int main(int argc, char **argv)
{
	static const struct bench_line line[] = {
		{"true", "true", 1000},
		{"sh", "sh -c :", 1000},
		{"python3", "python3 -S -c pass", 1000},
	};
	if (argc == 2 && !strcmp(argv[1], "--child"))
		return child();
	char python[4096];
	find_python(python, (int)sizeof(python)); /* without one its line, the last, is left out */
	return bench_compare("start of a program", "us", line, *python ? 3 : 2, 5);
}
