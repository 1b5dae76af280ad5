/*
 * sim_kernel.c - modules, functions, launches, and the kernels that exist.
 *
 * Any image loads; a function is found when it is one of the kernels below (their
 * parameters are documented in rt/simrt.h).
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim_kernel.h"

#include "sim_cost.h"

struct sim_kernel {
	const char *name;
	const char *params; /* one a parameter: its size in bytes; p: 8, an address */
	CUresult (*run)(struct sim_ctx *ctx, const uint64_t *arg);
};

#define CHUNK 4096

bool sim_kernel_touches(uintptr_t addr)
{
	bool ok = sim_range_find(addr) || sim_in_device_space(addr) || sim_conf.hmm;
	if (!ok)
		sim_complain("kernel touches pageable memory at %p", (void *)addr);
	return ok;
}

unsigned char *sim_kernel_reach(uintptr_t addr, size_t *n, struct sim_phys **phys)
{
	return sim_kernel_touches(addr) ? sim_translate(addr, n, phys) : NULL;
}

/* A kernel reads or writes memory that the device can reach: not pageable memory. */
static bool reach(uintptr_t dst, uintptr_t src, uintptr_t device_side, size_t n)
{
	sim_lock();
	bool ok = sim_kernel_touches(device_side);
	sim_unlock();
	return ok && sim_move(dst, src, n);
}
static bool load(void *to, uintptr_t from, size_t n)
{
	return reach((uintptr_t)to, from, from, n);
}
static bool store(uintptr_t to, const void *from, size_t n)
{
	return reach(to, (uintptr_t)from, to, n);
}

/* Runs fn over n 32-bit elements of ptr (and of ptr2 when given), in place. */
static CUresult each32(uintptr_t ptr, uintptr_t ptr2, uint64_t n,
					   uint32_t (*fn)(uint32_t, uint32_t, uint32_t), uint32_t value)
{
	uint32_t a[CHUNK], b[CHUNK];
	for (uint64_t i = 0; i < n;) {
		size_t k = n - i < CHUNK ? (size_t)(n - i) : CHUNK;
		if (!load(a, ptr + i * 4, k * 4) || (ptr2 && !load(b, ptr2 + i * 4, k * 4)))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		for (size_t j = 0; j < k; j++)
			a[j] = fn(a[j], ptr2 ? b[j] : 0, value);
		if (!store(ptr + i * 4, a, k * 4))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		i += k;
	}
	return CUDA_SUCCESS;
}

static uint32_t fill(uint32_t a, uint32_t b, uint32_t v)
{
	return (void)a, (void)b, v;
}
static uint32_t add(uint32_t a, uint32_t b, uint32_t v)
{
	return (void)b, a + v;
}
static uint32_t axpy(uint32_t y, uint32_t x, uint32_t a)
{
	float fy, fx, fa;
	memcpy(&fy, &y, 4);
	memcpy(&fx, &x, 4);
	memcpy(&fa, &a, 4);
	fy += fa * fx;
	memcpy(&y, &fy, 4);
	return y;
}

static CUresult k_fill32(struct sim_ctx *ctx, const uint64_t *arg)
{
	(void)ctx;
	return each32(arg[0], 0, arg[1], fill, (uint32_t)arg[2]);
}

static CUresult k_add32(struct sim_ctx *ctx, const uint64_t *arg)
{
	(void)ctx;
	return each32(arg[0], 0, arg[1], add, (uint32_t)arg[2]);
}

static CUresult k_saxpy(struct sim_ctx *ctx, const uint64_t *arg) /* y, x, n, a: y += a * x */
{
	(void)ctx;
	return each32(arg[0], arg[1], arg[2], axpy, (uint32_t)arg[3]);
}

/* ptr, n 32-bit words, out: *out += sum of ptr[i] * (2 i + 1) */
static CUresult k_checksum64(struct sim_ctx *ctx, const uint64_t *arg)
{
	(void)ctx;
	uint32_t a[CHUNK];
	uint64_t sum;
	if (!load(&sum, arg[2], 8))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	for (uint64_t i = 0; i < arg[1];) {
		size_t k = arg[1] - i < CHUNK ? (size_t)(arg[1] - i) : CHUNK;
		if (!load(a, arg[0] + i * 4, k * 4))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		for (size_t j = 0; j < k; j++)
			sum += a[j] * (2 * (i + j) + 1);
		i += k;
	}
	return store(arg[2], &sum, 8) ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static CUresult k_copy(struct sim_ctx *ctx, const uint64_t *arg) /* dst, src, bytes */
{
	(void)ctx;
	unsigned char bytes[CHUNK];
	for (uint64_t i = 0; i < arg[2];) {
		size_t k = arg[2] - i < CHUNK ? (size_t)(arg[2] - i) : CHUNK;
		if (!load(bytes, arg[1] + i, k) || !store(arg[0] + i, bytes, k))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		i += k;
	}
	return CUDA_SUCCESS;
}

static CUresult k_spin_us(struct sim_ctx *ctx, const uint64_t *arg)
{
	uint64_t end = sim_now_ns() + arg[0] * 1000;
	while (sim_now_ns() < end && __atomic_load_n(&ctx->sticky, __ATOMIC_ACQUIRE) == CUDA_SUCCESS)
		usleep(end - sim_now_ns() > 200000 ? 100 : 10);
	return CUDA_SUCCESS;
}

static CUresult k_spin_flag(struct sim_ctx *ctx, const uint64_t *arg)
{
	for (uint32_t flag = 0; !flag && __atomic_load_n(&ctx->sticky, __ATOMIC_ACQUIRE) == CUDA_SUCCESS;) {
		if (!load(&flag, arg[0], 4))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		if (!flag)
			usleep(20);
	}
	sim_see(arg[0]);
	return CUDA_SUCCESS;
}

static CUresult k_empty(struct sim_ctx *ctx, const uint64_t *arg)
{
	(void)ctx;
	(void)arg;
	return CUDA_SUCCESS;
}

static CUresult k_trap(struct sim_ctx *ctx, const uint64_t *arg)
{
	(void)ctx;
	(void)arg;
	return CUDA_ERROR_LAUNCH_FAILED;
}

static const struct sim_kernel kernels[] = {
	{"fill32", "p84", k_fill32},
	{"add32", "p84", k_add32},
	{"saxpy", "pp84", k_saxpy},
	{"checksum64", "p8p", k_checksum64},
	{"copy", "pp8", k_copy},
	{"spin_us", "8", k_spin_us},
	{"spin_flag", "p", k_spin_flag},
	{"empty", "", k_empty},
	{"trap", "", k_trap},
	{"tag_fill", "p88", sim_k_tag_fill},
	{"tag_check", "p88p", sim_k_tag_check},
	SIM_CALL_KERNELS,
};

#define KERNELS (sizeof kernels / sizeof kernels[0])

CUresult sim_kernel_run(struct sim_ctx *ctx, const struct sim_launch *launch)
{
	sim_thread.kernel = ctx;
	CUresult result = launch->kernel->run(ctx, launch->arg);
	sim_thread.kernel = NULL;
	return result;
}

const char *sim_kernel_name(const struct sim_launch *launch)
{
	return launch->kernel->name;
}

bool sim_kernel_names(const struct sim_launch *launch, uintptr_t base, size_t size)
{
	for (int i = 0; launch->kernel->params[i]; i++)
		if (launch->kernel->params[i] == 'p' && launch->arg[i] - base < size)
			return true;
	return false;
}

/* ---- modules ---- */

#define MODULE_MAGIC 0x646f6d73u
struct module {
	uint32_t magic;
	struct sim_ctx *ctx;
	struct module *next;
	struct function {
		const struct sim_kernel *kernel;
		struct module *module;
	} functions[KERNELS];
};

/* All modules ever loaded; unloaded ones keep their place, so that stale functions are
 * recognised. Guarded by sim.lock. */
static struct module *modules;

static CUresult module_load(CUmodule *out, const void *image)
{
	if (!out || !image)
		return CUDA_ERROR_INVALID_VALUE;
	struct module *m = calloc(1, sizeof *m);
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->magic = MODULE_MAGIC;
	m->ctx = sim_current();
	for (size_t i = 0; i < KERNELS; i++)
		m->functions[i] = (struct function){&kernels[i], m};
	sim_lock();
	sim_ctx_drain(m->ctx); /* as the real one does */
	m->next = modules;
	modules = m;
	sim_unlock();
	*out = (CUmodule)m;
	return CUDA_SUCCESS;
}
SIM_FN(cuModuleLoadData, S_CTX, (CUmodule * out, const void *image), module_load(out, image))

CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int count, CUjit_option *options,
							void **values)
{
	SIM_ENTER(cuModuleLoadDataEx, S_CTX);
	(void)count;
	(void)options;
	(void)values;
	return module_load(out, image);
}

CUresult cuModuleUnload(CUmodule module)
{
	SIM_ENTER(cuModuleUnload, S_CTX);
	struct module *m = (struct module *)module;
	if (!m || m->magic != MODULE_MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	sim_lock();
	sim_ctx_drain(m->ctx);
	m->magic = 0;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
	SIM_ENTER(cuModuleGetFunction, S_CTX);
	struct module *m = (struct module *)module;
	if (!out || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!m || m->magic != MODULE_MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	for (size_t i = 0; i < KERNELS; i++) {
		if (!strcmp(kernels[i].name, name)) {
			*out = (CUfunction)&m->functions[i];
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_NOT_FOUND;
}

/* ---- launches ---- */

/* Lock held. */
static const struct function *function_get(CUfunction f)
{
	const struct function *fn = (const struct function *)f;
	for (struct module *m = modules; m; m = m->next)
		if (fn >= m->functions && fn < m->functions + KERNELS)
			return m->magic == MODULE_MAGIC ? fn : NULL;
	return NULL;
}

/* CU_LAUNCH_PARAM_BUFFER_POINTER ...: parameters packed with their natural alignment. */
static const unsigned char *packed_params(void **extra)
{
	for (int i = 0; extra && extra[i] != CU_LAUNCH_PARAM_END; i += 2)
		if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			return extra[i + 1];
	return NULL;
}

static bool read_params(struct sim_launch *l, void **params, void **extra)
{
	const unsigned char *packed = params ? NULL : packed_params(extra);
	size_t off = 0;
	for (int i = 0; l->kernel->params[i]; i++) {
		size_t size = l->kernel->params[i] == 'p' ? 8 : (size_t)(l->kernel->params[i] - '0');
		off = (off + size - 1) / size * size;
		const void *from = params ? params[i] : packed ? packed + off : NULL;
		if (!from)
			return false;
		memcpy(&l->arg[i], from, size);
		off += size;
	}
	return true;
}

struct shape {
	unsigned grid[3], block[3], shared;
};

/* 0: a dimension is. */
static uint64_t volume(const unsigned side[3])
{
	return (uint64_t)side[0] * side[1] * side[2];
}

static CUresult launch(bool per_thread, CUfunction f, struct shape shape, CUstream stream, void **params,
					   void **extra)
{
	struct sim_stream *s;
	struct sim_launch l = {.kernel = NULL, .shared = shape.shared};
	memcpy(l.grid, shape.grid, sizeof l.grid);
	memcpy(l.block, shape.block, sizeof l.block);
	sim_cost(COST_LAUNCH, 0, 1);
	sim_lock();
	const struct function *fn = function_get(f);
	CUresult result = fn ? sim_stream_get(stream, per_thread, &s) : CUDA_ERROR_INVALID_HANDLE;
	if (result == CUDA_SUCCESS && fn->module->ctx != s->ctx)
		result = CUDA_ERROR_INVALID_HANDLE;
	if (result == CUDA_SUCCESS) {
		l.kernel = fn->kernel;
		uint64_t threads = volume(shape.block);
		if (!volume(shape.grid) || !threads || threads > 1024 || !read_params(&l, params, extra))
			result = CUDA_ERROR_INVALID_VALUE;
	}
	if (result == CUDA_SUCCESS) {
		struct sim_cmd *cmd = sim_cmd_new(CMD_KERNEL);
		cmd->launch = l;
		result = sim_submit(s, cmd, NULL);
	}
	sim_unlock();
	return result;
}

#define SHAPE ((struct shape){{gx, gy, gz}, {bx, by, bz}, shared})
#define LAUNCH_PARAMS                                                                            \
	(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
	 unsigned shared, CUstream s, void **params, void **extra)
SIM_TWIN(cuLaunchKernel, _ptsz, S_DEV, LAUNCH_PARAMS, launch, f, SHAPE, s, params, extra)

#define COOPERATIVE_PARAMS                                                                       \
	(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
	 unsigned shared, CUstream s, void **params)
SIM_TWIN(cuLaunchCooperativeKernel, _ptsz, S_DEV, COOPERATIVE_PARAMS, launch, f, SHAPE, s, params, NULL)

static CUresult launch_ex(bool per_thread, const CUlaunchConfig *c, CUfunction f, void **params, void **extra)
{
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	struct shape shape = {{c->gridDimX, c->gridDimY, c->gridDimZ},
						  {c->blockDimX, c->blockDimY, c->blockDimZ},
						  c->sharedMemBytes};
	return launch(per_thread, f, shape, c->hStream, params, extra);
}
SIM_TWIN(cuLaunchKernelEx, _ptsz, S_DEV, (const CUlaunchConfig *c, CUfunction f, void **params, void **extra),
		 launch_ex, c, f, params, extra)

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute which, CUfunction f)
{
	SIM_ENTER(cuFuncGetAttribute, S_CTX);
	if (!value || which < 0 || which >= CU_FUNC_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	bool known = function_get(f) != NULL;
	sim_unlock();
	if (!known)
		return CUDA_ERROR_INVALID_HANDLE;
	*value = which == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
	return CUDA_SUCCESS;
}
