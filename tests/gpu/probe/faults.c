/*
 * faults.c - what a copy answers when the host address is bad: an error, or a signal.
 */
#include "probe.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum place { PROT_NONE_PAGES, UNMAPPED, HALF_UNMAPPED, READ_ONLY, NULL_POINTER, DEVICE_POINTER, PLACES };
static const char *const place_names[] = {"prot_none", "unmapped", "half_unmapped",
										  "read_only", "null",     "device_pointer"};
enum form { H2D_SYNC, H2D_ASYNC, D2H_SYNC, D2H_ASYNC, FORMS };
static const char *const form_names[] = {"h2d_sync", "h2d_async", "d2h_sync", "d2h_async"};
static const size_t sizes[] = {4096, 4 * MIB, 16 * MIB};

static void *bad_block(enum place place, size_t n)
{
	if (place == NULL_POINTER)
		return NULL;
	if (place == DEVICE_POINTER)
		return (void *)(uintptr_t)(probe_block + PROBE_BYTES / 2);
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	memset(p, 1, n);
	if (place == PROT_NONE_PAGES)
		mprotect(p, n, PROT_NONE);
	else if (place == READ_ONLY)
		mprotect(p, n, PROT_READ);
	else if (place == UNMAPPED)
		munmap(p, n);
	else
		munmap(p + n / 2, n - n / 2);
	return p;
}

/* name is FORM.PLACE.SIZE by their numbers. Prints the fact itself, unless it dies first. */
int probe_fault_child(const char *name)
{
	unsigned form, place, size;
	struct rlimit none = {0, 0};
	if (sscanf(name, "%u.%u.%u", &form, &place, &size) != 3 || form >= FORMS || place >= PLACES || size >= 3)
		return 2;
	setrlimit(RLIMIT_CORE, &none);
	alarm(20);
	size_t n = sizes[size];
	void *p = bad_block((enum place)place, n);
	CUresult r = form == H2D_SYNC    ? cu.cuMemcpyHtoD_v2(probe_block, p, n)
				 : form == H2D_ASYNC ? cu.cuMemcpyHtoDAsync_v2(probe_block, p, n, probe_a)
				 : form == D2H_SYNC  ? cu.cuMemcpyDtoH_v2(p, probe_block, n)
									 : cu.cuMemcpyDtoHAsync_v2(p, probe_block, n, probe_a);
	CUresult later = cu.cuCtxSynchronize();
	char text[96];
	snprintf(text, sizeof(text), "%s.%s.%zuK", form_names[form], place_names[place], n / 1024);
	fact(text, "%s, then %s", r ? cuda_dl_error(r) : "CUDA_SUCCESS",
		 later ? cuda_dl_error(later) : "CUDA_SUCCESS");
	return 0;
}

static pid_t start_child(const char *self, unsigned form, unsigned place, unsigned size)
{
	char name[32];
	snprintf(name, sizeof(name), "%u.%u.%u", form, place, size);
	pid_t pid = fork();
	if (pid == 0) {
		execl(self, self, "--child", name, (char *)NULL);
		_exit(127);
	}
	return pid;
}

static void wait_child(pid_t pid, unsigned form, unsigned place, unsigned size)
{
	int status = 0;
	char text[96];
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status == 0)
		return;
	snprintf(text, sizeof(text), "%s.%s.%zuK", form_names[form], place_names[place], sizes[size] / 1024);
	if (WIFSIGNALED(status))
		fact(text, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		fact(text, "exit status %d", WEXITSTATUS(status));
}

/* Children run a few at a time: each sets up a context. */
void probe_faults(const char *self)
{
	fflush(stdout);
	for (unsigned size = 0; size < 3; size++)
		for (unsigned place = 0; place < PLACES; place++) {
			pid_t pid[FORMS];
			for (unsigned form = 0; form < FORMS; form++)
				pid[form] = start_child(self, form, place, size);
			for (unsigned form = 0; form < FORMS; form++)
				wait_child(pid[form], form, place, size);
		}
}
