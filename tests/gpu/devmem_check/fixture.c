/*
 * fixture.c - context, streams, tags and other processes for the cases.
 */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PART 512 /* bytes read back of a block's head, and of its tail */
#define SLOTS 8192

struct check_fixture fx;

static CUdeviceptr slots;  /* SLOTS pairs of parts, on the device */
static uint32_t *slots_at; /* the same in pinned memory */
static uint32_t used;      /* atomic: slots taken; slot i expects tag_of(i) */
static bool held;          /* the primary context stays between cases: making one takes its time */

static uint32_t tag_of(uint32_t slot)
{
	return 0x51000000u + slot * 2654435761u;
}

/* The driver may load a kernel at its first launch, and wait for the device to do so: not
 * something to meet while another kernel spins. */
static const char *warm_kernels(void)
{
	CUstream s = fx.stream[STREAM_A];
	TRY(launch_fill(s, slots, 0, 0));
	TRY(launch_add(s, slots, 0, 0));
	TRY(launch_copy(s, slots, slots, 0));
	TRY(launch_spin(s, 0));
	*fx.flag = 1;
	TRY(launch_spin_on(s, fx.flag_dev));
	TRY(cu.cuCtxSynchronize());
	*fx.flag = 0;
	return NULL;
}

/* What an earlier context owned went with it: an open that fails half-way must not leave its
 * handles and pointers to fixture_close. */
static void forget(void)
{
	fx.ctx = NULL;
	fx.kernels = (struct kernels){0};
	memset(fx.stream, 0, sizeof(fx.stream));
	fx.flag = NULL;
	fx.flag_dev = 0;
	slots = 0;
	slots_at = NULL;
}

const char *fixture_open(void)
{
	forget();
	TRY(cu.cuDeviceGet(&fx.dev, 0));
	TRY(cu.cuDeviceTotalMem_v2(&fx.total, fx.dev));
	TRY(cu.cuDevicePrimaryCtxRetain(&fx.ctx, fx.dev));
	if (!held)
		TRY(cu.cuDevicePrimaryCtxRetain(&fx.ctx, fx.dev));
	held = true;
	TRY(cu.cuCtxSetCurrent(fx.ctx));
	STEP(kernels_load(&fx.kernels));
	kernels_current = &fx.kernels;
	fx.stream[STREAM_LEGACY] = CU_STREAM_LEGACY;
	fx.stream[STREAM_PER_THREAD] = CU_STREAM_PER_THREAD;
	TRY(cu.cuStreamCreate(&fx.stream[STREAM_A], CU_STREAM_DEFAULT));
	TRY(cu.cuStreamCreate(&fx.stream[STREAM_B], CU_STREAM_DEFAULT));
	TRY(cu.cuStreamCreate(&fx.stream[STREAM_NB], CU_STREAM_NON_BLOCKING));
	TRY(cu.cuStreamCreate(&fx.stream[STREAM_NB2], CU_STREAM_NON_BLOCKING));
	TRY(cu.cuMemAlloc_v2(&slots, (size_t)SLOTS * 2 * PART));
	TRY(cu.cuMemHostAlloc((void **)&slots_at, (size_t)SLOTS * 2 * PART, 0));
	TRY(cu.cuMemHostAlloc((void **)&fx.flag, 4096, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
	TRY(cu.cuMemHostGetDevicePointer_v2(&fx.flag_dev, fx.flag, 0));
	return warm_kernels();
}

void fixture_close(void)
{
	if (fx.flag)
		__atomic_store_n(fx.flag, 1, __ATOMIC_RELEASE);
	if (!fx.ctx)
		return;
	cu.cuCtxSetCurrent(fx.ctx);
	kernels_current = &fx.kernels;
	cu.cuMemFree_v2(slots); /* 0 is nothing to free */
	for (int i = STREAM_A; i < STREAMS; i++)
		if (fx.stream[i])
			cu.cuStreamDestroy_v2(fx.stream[i]);
	if (fx.kernels.module)
		cu.cuModuleUnload(fx.kernels.module);
	if (slots_at)
		cu.cuMemFreeHost(slots_at);
	if (fx.flag)
		cu.cuMemFreeHost(fx.flag);
	cu.cuDevicePrimaryCtxRelease_v2(fx.dev);
	forget();
}

void fixture_end_context(void)
{
	fixture_close();
	if (held)
		cu.cuDevicePrimaryCtxRelease_v2(fx.dev);
	held = false;
}

/* ---- tags ---- */

const char *tags_begin(void)
{
	__atomic_store_n(&used, 0, __ATOMIC_RELAXED);
	TRY(cu.cuMemsetD8_v2(slots, 0, (size_t)SLOTS * 2 * PART));
	TRY(cu.cuCtxSynchronize());
	return NULL;
}

CUresult tags_use(CUstream s, CUdeviceptr p, size_t bytes, uint64_t us)
{
	uint32_t slot = __atomic_fetch_add(&used, 1, __ATOMIC_RELAXED);
	if (slot >= SLOTS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUdeviceptr head = slots + (size_t)slot * 2 * PART;
	size_t part = bytes < PART ? bytes : PART;
	CUresult r = us ? launch_spin_us(s, us) : CUDA_SUCCESS;
	if (r == CUDA_SUCCESS)
		r = launch_fill(s, p, bytes / 4, tag_of(slot));
	if (r == CUDA_SUCCESS && us)
		r = launch_spin_us(s, us);
	if (r == CUDA_SUCCESS)
		r = launch_copy(s, head, p, part);
	if (r == CUDA_SUCCESS)
		r = launch_copy(s, head + PART, p + bytes - part, part);
	return r;
}

const char *tags_end(void)
{
	uint32_t n = __atomic_load_n(&used, __ATOMIC_RELAXED);
	TRY(cu.cuCtxSynchronize());
	if (n == 0)
		return case_fail("nothing was used");
	if (n > SLOTS)
		return case_fail("more uses than slots");
	TRY(cu.cuMemcpyDtoH_v2(slots_at, slots, (size_t)n * 2 * PART));
	for (uint32_t slot = 0; slot < n; slot++)
		for (int part = 0; part < 2; part++) {
			uint32_t got = slots_at[((size_t)slot * 2 + (size_t)part) * PART / 4];
			if (got != tag_of(slot))
				return case_fail("use %u of %u reads 0x%08x at its %s, not its own 0x%08x", slot, n, got,
								 part ? "tail" : "head", tag_of(slot));
		}
	return NULL;
}

const char *device_is(CUdeviceptr p, size_t words, uint32_t value)
{
	static uint32_t host[64 * 1024];
	TRY(cu.cuCtxSynchronize());
	for (size_t at = 0; at < words;) {
		size_t n = words - at < 64 * 1024 ? words - at : 64 * 1024;
		TRY(cu.cuMemcpyDtoH_v2(host, p + 4 * at, 4 * n));
		for (size_t i = 0; i < n; i++)
			if (host[i] != value)
				return case_fail("word %zu of %zu is 0x%08x, not 0x%08x", at + i, words, host[i], value);
		at += n;
	}
	return NULL;
}

/* ---- other processes ---- */

bool pipe_write(int fd, const void *data, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t k = write(fd, (const char *)data + at, n - at);
		if (k < 0 && errno != EINTR)
			return false;
		at += k > 0 ? (size_t)k : 0;
	}
	return true;
}

bool pipe_read(int fd, void *data, size_t n, unsigned ms)
{
	uint64_t until = now_ns() + (uint64_t)ms * 1000000u;
	for (size_t at = 0; at < n;) {
		uint64_t now = now_ns();
		struct pollfd p = {.fd = fd, .events = POLLIN};
		if (now >= until || poll(&p, 1, (int)((until - now) / 1000000u) + 1) < 0)
			return false;
		if (!p.revents)
			continue;
		ssize_t k = read(fd, (char *)data + at, n - at);
		if (k == 0 || (k < 0 && errno != EINTR))
			return false;
		at += k > 0 ? (size_t)k : 0;
	}
	return true;
}

bool child_start(struct child *c, const char *name, const char *arg, bool bare)
{
	int to[2], from[2];
	if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
		return false;
	fflush(stdout);
	c->pid = fork();
	if (c->pid == 0) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		if (bare)
			unsetenv("LD_PRELOAD");
		execl(case_self, case_self, "--child", name, arg, (char *)NULL);
		_exit(126);
	}
	close(to[0]);
	close(from[1]);
	c->to = to[1];
	c->from = from[0];
	return c->pid > 0;
}

bool child_write(const struct child *c, const void *data, size_t n)
{
	return pipe_write(c->to, data, n);
}

bool child_read(const struct child *c, void *data, size_t n, unsigned ms)
{
	return pipe_read(c->from, data, n, ms);
}

int child_end(struct child *c)
{
	int status = 0;
	close(c->to);
	close(c->from);
	if (waitpid(c->pid, &status, 0) != c->pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
