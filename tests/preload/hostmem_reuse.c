/*
 * hostmem_reuse.c - what test_hostmem.sh asks about.
 *
 *   hostmem_reuse reuse     faults a page of a block that has been freed and allocated again: prints them
 *   hostmem_reuse sparse G  resident MiB of G GiB from calloc, of which a page of each quarter is touched; -1: no memory
 *   hostmem_reuse idle S    resident MiB before, with, and S seconds after 256 MiB that were freed
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static long faults(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return u.ru_minflt;
}

static long resident_mib(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%*s %ld", &pages) != 1)
		pages = -1;
	if (f)
		fclose(f);
	return pages * 4096 / (long)MIB;
}

static void touch(volatile char *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 4096)
		p[i] = 1;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "reuse")) {
		long before = 0;
		for (int i = 0; i < 6; i++) {
			if (i == 1)
				before = faults();
			char *volatile p = malloc(64 * MIB);
			touch(p, 64 * MIB);
			free(p);
		}
		printf("%ld\n", (faults() - before) / 5);
	} else if (argc > 2 && !strcmp(argv[1], "sparse")) {
		size_t gib = (size_t)atoi(argv[2]);
		char *volatile p = calloc(gib * 1024, MIB);
		for (size_t i = 0; p && i < gib * 4; i++)
			p[i << 28] = 1;
		printf("%ld\n", p ? resident_mib() : -1);
		free(p);
	} else if (argc > 2 && !strcmp(argv[1], "idle")) {
		long before = resident_mib();
		char *volatile p = malloc(256 * MIB);
		touch(p, 256 * MIB);
		free(p);
		long with = resident_mib();
		sleep((unsigned)atoi(argv[2]));
		printf("%ld %ld %ld\n", before, with, resident_mib());
	} else {
		return 2;
	}
	return 0;
}
