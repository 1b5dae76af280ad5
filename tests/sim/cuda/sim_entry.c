/*
 * sim_entry.c - what every exported function does first, and the sim_* functions
 * that tests use: call counters, injected failures, calls made in forked children.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim_internal.h"

struct sim_state sim = {
	.lock = PTHREAD_MUTEX_INITIALIZER, .stall_ended = PTHREAD_COND_INITIALIZER, .next_id = 1};
__thread struct sim_thread sim_thread;

/* Bounds of the section that SIM_ENTER fills; made by the linker. */
extern struct sim_symbol *const __start_sim_symbols[];
extern struct sim_symbol *const __stop_sim_symbols[];

/* Shared with forked children, so that the parent reads what they did. */
static uint64_t *child_calls;
/* 1 in the process that called cuInit; its page is zeroed in a forked child. */
static volatile unsigned char *own_process;

#define FAIL_MAX 32
#define FAIL_ALWAYS (-2)
#define FAIL_SPENT (-1)
static struct {
	char name[64];
	int nth; /* calls until it fires, or one of the two below */
	int code;
} fails[FAIL_MAX];
static int fail_count; /* atomic; the table is guarded by fail_lock */
static pthread_mutex_t fail_lock = PTHREAD_MUTEX_INITIALIZER;

void sim_complain(const char *fmt, ...)
{
	__atomic_fetch_add(&sim.errors, 1, __ATOMIC_RELAXED);
	if (sim_conf.quiet)
		return;
	char line[256];
	int n = snprintf(line, sizeof line, "sim: ");
	va_list ap;
	va_start(ap, fmt);
	n += vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof line - 2)
		n = (int)sizeof line - 2;
	line[n++] = '\n';
	ssize_t ignored = write(STDERR_FILENO, line, (size_t)n);
	(void)ignored;
}

struct sim_symbol *sim_symbol_find(const char *name)
{
	for (struct sim_symbol *const *p = __start_sim_symbols; p < __stop_sim_symbols; p++)
		if (!strcmp((*p)->name, name))
			return *p;
	return NULL;
}

/* A process that has called cuInit and then forked: the child has no driver. */
bool sim_in_child(void)
{
	return __atomic_load_n(&sim.inited, __ATOMIC_ACQUIRE) && !*own_process;
}

void sim_entry_mark_process(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *own = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *shared = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (own == MAP_FAILED || shared == MAP_FAILED || madvise(own, page, MADV_WIPEONFORK))
		abort();
	own_process = own;
	*own_process = 1;
	child_calls = shared;
}

__attribute__((destructor)) static void process_exits(void)
{
	__atomic_store_n(&sim.dead, true, __ATOMIC_RELEASE);
}

/* Errors after which the real driver refuses everything in the context. */
static bool fatal(CUresult code)
{
	switch (code) {
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED: return true;
	default: return false;
	}
}

static CUresult injected(const char *name)
{
	CUresult code = CUDA_SUCCESS;
	pthread_mutex_lock(&fail_lock);
	for (int i = 0; i < fail_count; i++) {
		if (strcmp(fails[i].name, name))
			continue;
		if (fails[i].nth == FAIL_SPENT || (fails[i].nth != FAIL_ALWAYS && --fails[i].nth > 0))
			continue;
		code = (CUresult)fails[i].code;
		if (fails[i].nth != FAIL_ALWAYS)
			fails[i].nth = FAIL_SPENT;
		break;
	}
	pthread_mutex_unlock(&fail_lock);
	return code;
}

static CUresult admit(const struct sim_symbol *symbol)
{
	struct sim_ctx *ctx = sim_current();
	if (__atomic_load_n(&fail_count, __ATOMIC_ACQUIRE)) {
		CUresult code = injected(symbol->name);
		if (code != CUDA_SUCCESS) {
			if (ctx && fatal(code))
				sim_ctx_stick(ctx, code);
			return code;
		}
	}
	if (symbol->flags & S_ANY)
		return CUDA_SUCCESS;
	if (sim_thread.in_host_func && !(symbol->flags & S_HOST))
		return CUDA_ERROR_NOT_PERMITTED;
	if (!__atomic_load_n(&sim.inited, __ATOMIC_ACQUIRE))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (symbol->flags & S_CTX) {
		if (!ctx)
			return CUDA_ERROR_INVALID_CONTEXT;
		CUresult sticky = __atomic_load_n(&ctx->sticky, __ATOMIC_ACQUIRE);
		if (sticky != CUDA_SUCCESS)
			return sticky;
	}
	if ((symbol->flags & S_UNSAFE) && __atomic_load_n(&sim.live_captures, __ATOMIC_ACQUIRE))
		return sim_capture_unsafe();
	return CUDA_SUCCESS;
}

CUresult sim_enter(struct sim_symbol *symbol, struct sim_call *call)
{
	call->tracer = NULL;
	if (sim_in_child()) {
		__atomic_fetch_add(child_calls, 1, __ATOMIC_RELAXED);
		return symbol->flags & S_ANY ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
	}
	__atomic_fetch_add(&symbol->calls, 1, __ATOMIC_RELAXED);
	if (__atomic_load_n(&sim.dead, __ATOMIC_ACQUIRE))
		return CUDA_ERROR_DEINITIALIZED;
	sim_trace_enter(call, symbol->name);
	return sim_result(call, admit(symbol));
}

/* ---- for tests ---- */

void sim_fail_set(const char *symbol, int nth, int code)
{
	pthread_mutex_lock(&fail_lock);
	if (fail_count < FAIL_MAX && strlen(symbol) < sizeof fails[0].name) {
		strcpy(fails[fail_count].name, symbol);
		fails[fail_count].nth = nth ? nth : FAIL_ALWAYS;
		fails[fail_count].code = code;
		__atomic_store_n(&fail_count, fail_count + 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&fail_lock);
}

void sim_fail_clear(void)
{
	pthread_mutex_lock(&fail_lock);
	__atomic_store_n(&fail_count, 0, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&fail_lock);
}

/* "name:nth=code;name:*=code" */
void sim_fail_parse(const char *text)
{
	while (text && *text) {
		char name[64], nth[16];
		int code, used = 0;
		if (sscanf(text, "%63[^:]:%15[^=]=%d%n", name, nth, &code, &used) == 3)
			sim_fail_set(name, nth[0] == '*' ? 0 : atoi(nth), code);
		else
			fprintf(stderr, "sim: SIM_FAIL not understood at: %s\n", text);
		text = strchr(text + used, ';');
		if (text)
			text++;
	}
}

uint64_t sim_calls(const char *symbol)
{
	struct sim_symbol *s = sim_symbol_find(symbol);
	return s ? __atomic_load_n(&s->calls, __ATOMIC_RELAXED) : 0;
}

uint64_t sim_calls_total(void)
{
	uint64_t total = 0;
	for (struct sim_symbol *const *p = __start_sim_symbols; p < __stop_sim_symbols; p++)
		total += __atomic_load_n(&(*p)->calls, __ATOMIC_RELAXED);
	return total;
}

uint64_t sim_calls_in_child(void)
{
	return child_calls ? __atomic_load_n(child_calls, __ATOMIC_RELAXED) : 0;
}

void sim_reset(void)
{
	for (struct sim_symbol *const *p = __start_sim_symbols; p < __stop_sim_symbols; p++)
		__atomic_store_n(&(*p)->calls, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&sim.errors, 0, __ATOMIC_RELAXED);
	sim_lock();
	sim.free_waits = sim.launch_delay_ns = 0;
	for (int i = 0; i < SIM_MAX_DEVICES; i++)
		sim.dev[i].peak = sim.dev[i].used;
	sim_unlock();
	if (child_calls)
		__atomic_store_n(child_calls, 0, __ATOMIC_RELAXED);
	sim_fail_clear();
}

static uint64_t locked(const uint64_t *counter)
{
	sim_lock();
	uint64_t value = *counter;
	sim_unlock();
	return value;
}

uint64_t sim_live_allocs(void)
{
	return locked(&sim.allocs);
}
uint64_t sim_live_events(void)
{
	return locked(&sim.events);
}
uint64_t sim_live_streams(void)
{
	return locked(&sim.streams);
}
uint64_t sim_host_registrations(void)
{
	return locked(&sim.registrations);
}
uint64_t sim_host_allocs(void)
{
	return locked(&sim.host_allocs);
}
uint64_t sim_live_bytes(int device)
{
	return device < 0 || device >= SIM_MAX_DEVICES ? 0 : locked(&sim.dev[device].used);
}
uint64_t sim_peak_bytes(int device)
{
	return device < 0 || device >= SIM_MAX_DEVICES ? 0 : locked(&sim.dev[device].peak);
}
uint64_t sim_free_waits(void)
{
	return locked(&sim.free_waits);
}
uint64_t sim_launch_delay_ns_max(void)
{
	return locked(&sim.launch_delay_ns);
}
uint64_t sim_errors(void)
{
	return __atomic_load_n(&sim.errors, __ATOMIC_RELAXED);
}
