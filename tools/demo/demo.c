/*
 * demo.c - a small program with the habits of a training job, over the driver
 * API alone: loader threads read batches from files into malloc'd buffers, each
 * step copies one to the device, runs kernels on it, brings the loss back, and
 * every few steps the state too, as a checkpoint does.
 *
 *   demo --probe             exit 0 when the installed driver has a GPU
 *   demo --make DIR BYTES    write the data files
 *   demo --run DIR BYTES STEPS
 *                            run; prints "machine", "step_us" and "checksum" lines
 *
 * Nothing here knows libturbo. All arithmetic is on integers, so two runs give
 * the same checksum unless a byte was wrong.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpu/kernels_ptx.h"

#define FILES 6
#define LOADERS 4
#define SLOTS 6      /* host buffers; FILES and SLOTS are independent */
#define CHECKPOINT 4 /* steps between checkpoints */

/* ---- the driver, as a runtime library finds it ---- */

/* clang-format off */
#define DRIVER(X) \
	X(cuInit) X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetName) X(cuGetErrorName) \
	X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease_v2) X(cuCtxSetCurrent) \
	X(cuModuleLoadData) X(cuModuleGetFunction) X(cuLaunchKernel) \
	X(cuStreamCreate) X(cuStreamSynchronize) X(cuStreamDestroy_v2) \
	X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuMemsetD8_v2) \
	X(cuMemcpyHtoDAsync_v2) X(cuMemcpyDtoHAsync_v2) X(cuMemcpyDtoDAsync_v2)
/* clang-format on */

static struct {
#define MEMBER(f) __typeof__(&f) f;
	DRIVER(MEMBER)
#undef MEMBER
} cu;

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "demo: %s: %s\n", what, why);
	exit(1);
}

static void check(CUresult r, const char *what)
{
	const char *name = "unknown error";
	if (r == CUDA_SUCCESS)
		return;
	cu.cuGetErrorName(r, &name);
	fail(what, name);
}
#define CU(f, ...) check(cu.f(__VA_ARGS__), #f)

/* NULL, or why there is no driver. */
static const char *open_driver(bool *simulated)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (!lib)
		return "no libcuda.so.1";
#define LOOKUP(f)                                   \
	if (!(cu.f = (__typeof__(cu.f))dlsym(lib, #f))) \
		return "libcuda.so.1 lacks " #f;
	DRIVER(LOOKUP)
#undef LOOKUP
	*simulated = dlsym(lib, "sim_calls") != NULL;
	int n = 0;
	if (cu.cuInit(0) != CUDA_SUCCESS || cu.cuDeviceGetCount(&n) != CUDA_SUCCESS || n == 0)
		return "no device";
	return NULL;
}

/* ---- data files and the threads that read them ---- */

struct loader {
	const char *dir;
	size_t bytes; /* of one batch */
	int steps;
	pthread_mutex_t lock; /* guards ready and taken */
	pthread_cond_t moved; /* one of them changed */
	int ready[SLOTS];     /* batch number in the slot + 1; 0: empty */
	int taken;            /* batches that the training loop is done with */
	unsigned char *slot[SLOTS];
};

static void path_of(char *buf, size_t size, const char *dir, int file)
{
	snprintf(buf, size, "%s/data-%d.bin", dir, file);
}

static void read_file(const char *dir, int file, unsigned char *buf, size_t bytes)
{
	char path[4096];
	path_of(path, sizeof(path), dir, file);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	for (size_t have = 0; have < bytes;) {
		ssize_t n = fd < 0 ? -1 : read(fd, buf + have, bytes - have);
		if (n <= 0)
			fail(path, "cannot read it whole");
		have += (size_t)n;
	}
	close(fd);
}

static int make_files(const char *dir, size_t bytes)
{
	uint32_t *words = malloc(bytes), x = 12345;
	for (int file = 0; words && file < FILES; file++) {
		char path[4096];
		path_of(path, sizeof(path), dir, file);
		for (size_t i = 0; i < bytes / 4; i++) {
			x = x * 1664525u + 1013904223u;
			words[i] = x;
		}
		FILE *f = fopen(path, "w");
		if (!f || fwrite(words, 1, bytes, f) != bytes || fclose(f) != 0)
			fail(path, "cannot write it");
	}
	free(words);
	return words ? 0 : 1;
}

struct worker {
	pthread_t thread;
	struct loader *loader;
	int first; /* reads batches first, first + LOADERS, … */
};

static void *load_batches(void *arg)
{
	struct worker *w = arg;
	struct loader *l = w->loader;
	for (int batch = w->first; batch < l->steps; batch += LOADERS) {
		pthread_mutex_lock(&l->lock);
		while (l->taken + SLOTS <= batch)
			pthread_cond_wait(&l->moved, &l->lock);
		pthread_mutex_unlock(&l->lock);
		read_file(l->dir, batch % FILES, l->slot[batch % SLOTS], l->bytes);
		pthread_mutex_lock(&l->lock);
		l->ready[batch % SLOTS] = batch + 1;
		pthread_cond_broadcast(&l->moved);
		pthread_mutex_unlock(&l->lock);
	}
	return NULL;
}

static const unsigned char *next_batch(struct loader *l, int batch)
{
	pthread_mutex_lock(&l->lock);
	while (l->ready[batch % SLOTS] != batch + 1)
		pthread_cond_wait(&l->moved, &l->lock);
	pthread_mutex_unlock(&l->lock);
	return l->slot[batch % SLOTS];
}

static void batch_done(struct loader *l, int batch)
{
	pthread_mutex_lock(&l->lock);
	l->taken = batch + 1;
	pthread_cond_broadcast(&l->moved);
	pthread_mutex_unlock(&l->lock);
}

/* ---- training ---- */

struct job {
	size_t bytes;
	CUstream stream;
	CUfunction add32, checksum64;
	CUdeviceptr batch, state, loss;
	unsigned char *checkpoint; /* malloc'd, as state_dict().cpu() is */
	uint64_t sum;              /* of everything that came back */
};

static void launch(struct job *j, CUfunction f, void **args)
{
	CU(cuLaunchKernel, f, 256, 1, 1, 256, 1, 1, 0, j->stream, args, NULL);
}

static void add_to(struct job *j, CUdeviceptr p, uint32_t v)
{
	uint64_t n = j->bytes / 4;
	launch(j, j->add32, (void *[]){&p, &n, &v});
}

static void mix(struct job *j, uint64_t v)
{
	j->sum = (j->sum ^ v) * 0x9e3779b97f4a7c15u;
	j->sum ^= j->sum >> 29;
}

static void take_step(struct job *j, int step, const unsigned char *host)
{
	uint64_t n = j->bytes / 4, loss = 0;
	CU(cuMemsetD8_v2, j->loss, 0, sizeof(loss));
	CU(cuMemcpyHtoDAsync_v2, j->batch, host, j->bytes, j->stream);
	if (step == 0) /* so that no two words of the state are alike */
		CU(cuMemcpyDtoDAsync_v2, j->state, j->batch, j->bytes, j->stream);
	add_to(j, j->batch, (uint32_t)step);
	launch(j, j->checksum64, (void *[]){&j->batch, &n, &j->loss});
	CU(cuMemcpyDtoHAsync_v2, &loss, j->loss, sizeof(loss), j->stream);
	CU(cuStreamSynchronize, j->stream);
	add_to(j, j->state, (uint32_t)loss);
	mix(j, loss);
	if (step % CHECKPOINT == CHECKPOINT - 1) {
		CU(cuMemcpyDtoHAsync_v2, j->checkpoint, j->state, j->bytes, j->stream);
		CU(cuStreamSynchronize, j->stream);
	}
}

/* Outside the timed part: every word of the checkpoint counts. */
static void mix_checkpoint(struct job *j)
{
	uint64_t word, sum = 0;
	for (size_t i = 0; i < j->bytes; i += sizeof(word)) {
		memcpy(&word, j->checkpoint + i, sizeof(word));
		sum = sum * 31 + word;
	}
	mix(j, sum);
}

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void set_up(struct job *j, size_t bytes, bool simulated)
{
	CUdevice dev;
	CUcontext ctx;
	CUmodule module;
	char name[128] = "";
	j->bytes = bytes;
	CU(cuDeviceGet, &dev, 0);
	CU(cuDeviceGetName, name, sizeof(name) - 1, dev);
	CU(cuDevicePrimaryCtxRetain, &ctx, dev);
	CU(cuCtxSetCurrent, ctx);
	CU(cuModuleLoadData, &module, kernels_ptx);
	CU(cuModuleGetFunction, &j->add32, module, "add32");
	CU(cuModuleGetFunction, &j->checksum64, module, "checksum64");
	CU(cuStreamCreate, &j->stream, CU_STREAM_DEFAULT);
	CU(cuMemAlloc_v2, &j->batch, bytes);
	CU(cuMemAlloc_v2, &j->state, bytes);
	CU(cuMemAlloc_v2, &j->loss, 8);
	j->checkpoint = malloc(bytes);
	if (!j->checkpoint)
		fail("malloc", "no memory");
	printf("machine %s %s\n", simulated ? "simulated" : "gpu", name);
}

static void tear_down(struct job *j)
{
	CUdevice dev;
	CU(cuStreamDestroy_v2, j->stream);
	CU(cuMemFree_v2, j->batch);
	CU(cuMemFree_v2, j->state);
	CU(cuMemFree_v2, j->loss);
	CU(cuDeviceGet, &dev, 0);
	CU(cuDevicePrimaryCtxRelease_v2, dev);
	free(j->checkpoint);
}

static void start_loading(struct loader *l, struct worker *w)
{
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->moved, NULL);
	for (int i = 0; i < SLOTS; i++)
		if (!(l->slot[i] = malloc(l->bytes)))
			fail("malloc", "no memory");
	for (int i = 0; i < LOADERS; i++) {
		w[i].loader = l;
		w[i].first = i;
		if (pthread_create(&w[i].thread, NULL, load_batches, &w[i]) != 0)
			fail("pthread_create", "no thread");
	}
}

static int run(const char *dir, size_t bytes, int steps)
{
	static struct job job;
	static struct loader loader;
	struct worker worker[LOADERS];
	bool simulated = false;
	const char *why = open_driver(&simulated);
	double us = 0;
	if (why)
		fail("no CUDA", why);
	set_up(&job, bytes, simulated);
	loader.dir = dir;
	loader.bytes = bytes;
	loader.steps = steps;
	start_loading(&loader, worker);
	for (int step = 0; step < steps; step++) {
		const unsigned char *batch = next_batch(&loader, step);
		double start = now_us();
		take_step(&job, step, batch);
		us += now_us() - start;
		batch_done(&loader, step);
		if (step % CHECKPOINT == CHECKPOINT - 1)
			mix_checkpoint(&job);
	}
	for (int i = 0; i < LOADERS; i++)
		pthread_join(worker[i].thread, NULL);
	printf("step_us %.1f\nchecksum %016llx\n", us / steps, (unsigned long long)job.sum);
	tear_down(&job);
	for (int i = 0; i < SLOTS; i++)
		free(loader.slot[i]);
	return 0;
}

int main(int argc, char **argv)
{
	bool simulated = false;
	if (argc == 2 && !strcmp(argv[1], "--probe"))
		return open_driver(&simulated) || simulated ? 1 : 0;
	if (argc == 4 && !strcmp(argv[1], "--make"))
		return make_files(argv[2], strtoul(argv[3], NULL, 10));
	if (argc == 5 && !strcmp(argv[1], "--run") && atoi(argv[4]) > 0)
		return run(argv[2], strtoul(argv[3], NULL, 10), atoi(argv[4]));
	fprintf(stderr, "usage: demo --probe | --make DIR BYTES | --run DIR BYTES STEPS\n");
	return 2;
}
