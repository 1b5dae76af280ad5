/* ENV: TURBO_DEVMEM=cache TURBO_COPY=off SIM_DEVICES=1 SIM_MEM_MB=1000 BARE */
/*
 * Two processes hand most of a device's memory to and fro, as a trainer and its inference server do: what
 * one has freed, the other gets, at once and in one piece, though both keep freed memory. What they keep
 * together stays below 2 % of the device. One that is killed leaves nothing behind.
 *
 * The simulated driver lets processes share a device when SIM_SHARED says so; a real one always does.
 */
#include "common/devmem_fixture.h"
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECES 30

static int to_child, from_child;
static pid_t child;

/* ---- the other process: obeys "a" (allocate), "f" (free), "k" (keep some), "i" (kept bytes) ---- */

static CUdeviceptr mine[PIECES];
static size_t share; /* bytes: 90 % of the device */

static CUresult take_all(void)
{
	CUresult r = CUDA_SUCCESS;
	for (int i = 0; i < PIECES && r == CUDA_SUCCESS; i++)
		r = cu.cuMemAlloc_v2(&mine[i], share / PIECES);
	return r;
}

static CUresult free_all(void)
{
	CUresult r = CUDA_SUCCESS;
	for (int i = 0; i < PIECES && r == CUDA_SUCCESS; i++)
		r = cu.cuMemFree_v2(mine[i]);
	return r;
}

/* Frees so many small blocks that all the room is used that there is. */
static CUresult keep_some(void)
{
	CUdeviceptr p[60];
	CUresult r = CUDA_SUCCESS;
	for (int i = 0; i < 60 && r == CUDA_SUCCESS; i++)
		r = cu.cuMemAlloc_v2(&p[i], 512 * KIB);
	for (int i = 0; i < 60 && r == CUDA_SUCCESS; i++)
		r = cu.cuMemFree_v2(p[i]);
	return r;
}

static uint64_t kept(void)
{
	return counter("devmem.cache.bytes");
}

static uint64_t obey(char order)
{
	switch (order) {
	case 'a': return take_all();
	case 'f': return free_all();
	case 'k': return keep_some();
	default: return kept();
	}
}

static int child_main(int in, int out)
{
	char order;
	devmem_open();
	size_t available, total;
	OK(cu.cuMemGetInfo_v2(&available, &total));
	share = total / 10 * 9;
	while (read(in, &order, 1) == 1) {
		uint64_t answer = obey(order);
		if (write(out, &answer, sizeof(answer)) != sizeof(answer))
			return 1;
	}
	return 0;
}

static uint64_t ask(char order)
{
	uint64_t answer = ~0ull;
	assert_int_equal(write(to_child, &order, 1), 1);
	assert_int_equal(read(from_child, &answer, sizeof(answer)), sizeof(answer));
	return answer;
}

static void child_start(const char *self)
{
	int in[2], out[2];
	char a[12], b[12];
	if (pipe(in) || pipe(out))
		exit(1);
	child = fork();
	if (child == 0) {
		snprintf(a, sizeof(a), "%d", in[0]);
		snprintf(b, sizeof(b), "%d", out[1]);
		close(in[1]);
		close(out[0]);
		execl("/proc/self/exe", self, a, b, (char *)NULL);
		_exit(126);
	}
	close(in[0]);
	close(out[1]);
	to_child = in[1];
	from_child = out[0];
}

/* ---- tests ---- */

static void memory_goes_to_and_fro(void **state)
{
	(void)state;
	for (int round = 0; round < 6; round++) {
		OK(take_all());
		OK(keep_some());
		OK(free_all());
		OK((CUresult)ask('a'));
		OK((CUresult)ask('k'));
		OK((CUresult)ask('f'));
	}
}

static void the_bound_is_shared(void **state)
{
	(void)state;
	size_t bound = share / 90 * 2; /* 2 % */
	OK(keep_some());
	OK((CUresult)ask('k'));
	OK(keep_some());
	if (!fx.preloaded)
		return;
	assert_in_range(kept() + ask('i'), 1, bound);
}

/* What a killed process kept is not counted for ever. */
static void a_killed_process_leaves_its_share(void **state)
{
	(void)state;
	OK((CUresult)ask('k'));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	if (!fx.preloaded)
		return;
	/* The dead are looked for once a second. Others on this machine may keep something, too. */
	for (int i = 0; i < 100 && kept() < share / 90 * 3 / 2; i++) {
		sleep_ms(100);
		OK(keep_some());
	}
	assert_in_range(kept(), share / 90 * 3 / 2, share / 90 * 2);
}

int main(int argc, char **argv)
{
	char name[40];
	if (argc > 2)
		return child_main(atoi(argv[1]), atoi(argv[2]));
	snprintf(name, sizeof(name), "share-%d", (int)getpid());
	if (!getenv("SIM_SHARED")) { /* it is read when the driver is loaded */
		setenv("SIM_SHARED", name, 1);
		execv("/proc/self/exe", argv);
		return 1;
	}
	child_start(argv[0]);
	devmem_open();
	size_t available, total;
	OK(cu.cuMemGetInfo_v2(&available, &total));
	share = total / 10 * 9;
	const struct CMUnitTest tests[] = {
		EITHER(memory_goes_to_and_fro),
		EITHER(the_bound_is_shared),
		EITHER(a_killed_process_leaves_its_share),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	kill(child, SIGKILL);
	return failed;
}
