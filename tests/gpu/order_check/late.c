/*
 * late.c - the source may change until the copy's turn, by whatever the stream waits for.
 *
 * The driver reads at most the first 2 MiB of a pageable source at once, the rest when the stream
 * has done its earlier work. So whoever holds up the stream may still write the source, and the
 * device must get the new bytes beyond 2 MiB.
 */
#include "order.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define N (20 * MIB + 4)
#define OLD 901
#define NEW 902

static const char *check_late(CUdeviceptr p)
{
	const char *why = NULL;
	uint32_t *got = malloc(N);
	if (!got)
		return case_skip("no memory");
	why = device_read(got, p, N);
	for (size_t i = 0; !why && i < EARLY_BYTES / 4; i++)
		if (got[i] != pattern_word(i, OLD) && got[i] != pattern_word(i, NEW))
			why = case_fail("device word %zu is neither the old nor the new one", i);
	int64_t off = why ? -1 : pattern_check_from(got + EARLY_BYTES / 4, EARLY_BYTES / 4, N - EARLY_BYTES, NEW);
	if (off >= 0)
		why = case_fail("device byte %zu was read before the copy's turn", EARLY_BYTES + (size_t)off);
	free(got);
	return why;
}

/* Copies `block` on every kind of stream with `hold` queued before it. */
static const char *with_late(CUstream s, struct late *l, const char *(*hold)(CUstream, struct late *))
{
	*l = (struct late){.block = pages_new(N), .bytes = N, .seed = NEW, .raise = true};
	if (!l->block)
		return case_skip("no memory");
	pattern_fill(l->block, N, OLD);
	__atomic_store_n(fx.flag, 0, __ATOMIC_RELEASE);
	TRY(cu.cuMemsetD8_v2(fx.buf, 0, N));
	TRY(cu.cuCtxSynchronize());
	const char *why = hold(s, l);
	if (!why) {
		CUresult r = cu.cuMemcpyHtoDAsync_v2(fx.buf, l->block, N, s);
		if (r != CUDA_SUCCESS)
			why = case_fail("%s", cuda_dl_error(r));
	}
	if (l->thread)
		late_join(l);
	if (!why)
		why = check_late(fx.buf);
	munmap(l->block, N);
	return why;
}

static const char *on_each_stream(const char *(*hold)(CUstream, struct late *))
{
	CUstream streams[] = {fx.a, fx.nb, NULL, CU_STREAM_PER_THREAD};
	for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
		struct late l;
		STEP(with_late(streams[i], &l, hold));
	}
	return NULL;
}

static void CUDA_CB write_late(void *arg)
{
	struct late *l = arg;
	sleep_ms(LATE_MS);
	pattern_fill(l->block, l->bytes, l->seed);
}

static const char *hold_host_func(CUstream s, struct late *l)
{
	TRY(cu.cuLaunchHostFunc(s, write_late, l));
	return NULL;
}

static const char *host_callback_writes_source(void)
{
	NEED(cuLaunchHostFunc);
	return on_each_stream(hold_host_func);
}

/* The host function runs on another stream, which the copy's stream waits for. */
static const char *hold_behind_event(CUstream s, struct late *l)
{
	CUevent e;
	TRY(cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	TRY(cu.cuLaunchHostFunc(fx.b, write_late, l));
	TRY(cu.cuEventRecord(e, fx.b));
	TRY(cu.cuStreamWaitEvent(s, e, 0));
	TRY(cu.cuEventDestroy_v2(e));
	return NULL;
}

static const char *callback_behind_event(void)
{
	NEED(cuLaunchHostFunc);
	return on_each_stream(hold_behind_event);
}

static const char *graph_host_node(void)
{
	NEED(cuGraphInstantiateWithFlags);
	CUgraph graph;
	CUgraphExec exec;
	struct late l = {.block = pages_new(N), .bytes = N, .seed = NEW};
	if (!l.block)
		return case_skip("no memory");
	TRY(cu.cuStreamBeginCapture_v2(fx.a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	TRY(cu.cuLaunchHostFunc(fx.a, write_late, &l));
	TRY(cu.cuStreamEndCapture(fx.a, &graph));
	TRY(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	pattern_fill(l.block, N, OLD);
	TRY(cu.cuGraphLaunch(exec, fx.a));
	TRY(cu.cuMemcpyHtoDAsync_v2(fx.buf, l.block, N, fx.a));
	STEP(check_late(fx.buf));
	munmap(l.block, N);
	TRY(cu.cuGraphExecDestroy(exec));
	TRY(cu.cuGraphDestroy(graph));
	return NULL;
}

static const char *hold_wait_value(CUstream s, struct late *l)
{
	TRY(cu.cuStreamWaitValue32_v2(s, fx.flag_dev, 1, CU_STREAM_WAIT_VALUE_EQ));
	return late_start(l) ? NULL : case_skip("no thread");
}

static const char *wait_value(void)
{
	NEED(cuStreamWaitValue32_v2);
	return on_each_stream(hold_wait_value);
}

static const char *hold_spin_flag(CUstream s, struct late *l)
{
	TRY(launch_spin_flag(s));
	return late_start(l) ? NULL : case_skip("no thread");
}

static const char *kernel_spins_on_flag(void)
{
	return on_each_stream(hold_spin_flag);
}

/* A synchronous copy on the legacy stream behind a blocking stream that is held up. */
static const char *synchronous_behind_flag(void)
{
	struct late l = {.block = pages_new(N), .bytes = N, .seed = NEW, .raise = true};
	if (!l.block)
		return case_skip("no memory");
	pattern_fill(l.block, N, OLD);
	STEP(hold_spin_flag(fx.a, &l));
	CUresult r = cu.cuMemcpyHtoD_v2(fx.buf, l.block, N);
	late_join(&l);
	TRY(r);
	STEP(check_late(fx.buf));
	munmap(l.block, N);
	return NULL;
}

/* ---- an event of another process -------------------------------------------------------- */

struct ipc_page {
	CUipcEventHandle handle;
	int supported;
};

/* The other process: fds are the shared block (source, then a struct ipc_page), a pipe to read
 * and a pipe to write. */
static const char *ipc_child(unsigned char *block, int in, int out)
{
	char byte = 'r';
	CUevent e;
	struct ipc_page *page = (struct ipc_page *)(void *)(block + (N + 4095) / 4096 * 4096);
	STEP(fixture_open());
	TRY(cu.cuEventCreate(&e, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	TRY(launch_spin_flag(fx.nb));
	TRY(cu.cuEventRecord(e, fx.nb));
	page->supported = cu.cuIpcGetEventHandle(&page->handle, e) == CUDA_SUCCESS;
	if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1)
		return case_fail("the first process is gone");
	sleep_ms(LATE_MS);
	pattern_fill(block, N, NEW);
	__atomic_store_n(fx.flag, 1, __ATOMIC_RELEASE);
	TRY(cu.cuStreamSynchronize(fx.nb));
	if (read(in, &byte, 1) != 1) /* until the first process has finished with the event */
		return case_fail("the first process is gone");
	TRY(cu.cuEventDestroy_v2(e));
	fixture_close();
	return NULL;
}

static size_t ipc_bytes(void)
{
	return (N + 4095) / 4096 * 4096 + 4096;
}

int ipc_child_main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	void *block = mmap(NULL, ipc_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[0]), 0);
	const char *why = block == MAP_FAILED ? "mmap" : cuda_dl_open();
	if (!why)
		why = ipc_child(block, atoi(argv[1]), atoi(argv[2]));
	if (why)
		printf("info ipc_event other_process %s\n", why);
	return why != NULL;
}

static pid_t spawn_ipc_child(int fd, int in, int out)
{
	char text[3][16];
	snprintf(text[0], 16, "%d", fd);
	snprintf(text[1], 16, "%d", in);
	snprintf(text[2], 16, "%d", out);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		fcntl(in, F_SETFD, 0);
		fcntl(out, F_SETFD, 0);
		execl(case_self, case_self, "--ipc-child", text[0], text[1], text[2], (char *)NULL);
		_exit(127);
	}
	return pid;
}

/* Copies behind the other process's event; `to` and `from` are pipes to it. */
static const char *ipc_copy(unsigned char *block, int to, int from)
{
	CUevent e;
	char byte = 'g';
	struct ipc_page *page = (struct ipc_page *)(void *)(block + ipc_bytes() - 4096);
	if (read(from, &byte, 1) != 1)
		return case_fail("the other process did not get ready");
	if (!page->supported)
		return case_skip("no interprocess events here");
	TRY(cu.cuIpcOpenEventHandle(&e, page->handle));
	TRY(cu.cuStreamWaitEvent(fx.a, e, 0));
	if (write(to, &byte, 1) != 1)
		return case_fail("the other process is gone");
	TRY(cu.cuMemcpyHtoDAsync_v2(fx.buf, block, N, fx.a));
	STEP(check_late(fx.buf));
	TRY(cu.cuEventDestroy_v2(e));
	return NULL;
}

static const char *ipc_event(void)
{
	NEED(cuIpcOpenEventHandle);
	int to[2], from[2], status = 0;
	char path[64];
	snprintf(path, sizeof(path), "/dev/shm/order_check.ipc.%d", (int)getpid());
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || unlink(path) || ftruncate(fd, (off_t)ipc_bytes()) || pipe2(to, O_CLOEXEC) ||
		pipe2(from, O_CLOEXEC))
		return case_skip("no shared memory or pipes");
	unsigned char *block = mmap(NULL, ipc_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (block == MAP_FAILED)
		return case_skip("no shared memory");
	pattern_fill(block, N, OLD);
	pid_t pid = spawn_ipc_child(fd, to[0], from[1]);
	close(to[0]);
	close(from[1]);
	close(fd);
	const char *why = pid < 0 ? case_skip("no process") : ipc_copy(block, to[1], from[0]);
	if (write(to[1], "e", 1) != 1 && !why)
		why = case_fail("the other process is gone");
	close(to[1]); /* an early failure here must not leave it waiting */
	close(from[0]);
	if (pid > 0 && waitpid(pid, &status, 0) == pid && status && !why)
		why = case_fail("the other process ends with status %d", status);
	munmap(block, ipc_bytes());
	return why;
}

const struct gpu_case late_cases[] = {
	{"host_callback_writes_source", host_callback_writes_source},
	{"callback_behind_event", callback_behind_event},
	{"graph_host_node", graph_host_node},
	{"wait_value", wait_value},
	{"kernel_spins_on_flag", kernel_spins_on_flag},
	{"synchronous_behind_flag", synchronous_behind_flag},
	{"ipc_event", ipc_event},
	{NULL, NULL},
};
