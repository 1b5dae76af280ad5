/*
 * trace.c - the recorder of TURBO_DEVMEM_TRACE: addresses become IDs, handles small numbers.
 *
 * An address that comes again is another block, a handle that comes again after its
 * destruction another stream. The order of the lines is the order in which calls took the lock.
 */
#include "trace.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture.h"
#include "glibc.h"
#include "log.h"
#include "options.h"
#include "real.h"
#include "stats.h"
#include "trace_out.h"
#include "trace_table.h"

#define DEVICE_BITS 6 /* as many devices as a trace can name */
#define EVENTS 4096
#define STOP_WAIT_S 1

bool devmem_trace_on;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Under the lock. */
static struct trace_table blocks;  /* address → ID and device */
static struct trace_table streams; /* key → number */
static uint64_t last_id, last_stream;
static struct {
	CUevent event;
	uint64_t stream;
} recorded_on[EVENTS]; /* by the event's hash; a later one takes the place of an earlier one */

/* ---- under the lock ---- */

static void off(void)
{
	__atomic_store_n(&devmem_trace_on, false, __ATOMIC_RELAXED);
}

/* Every line passes here: counts it, ends the recording when it cannot be written. */
#define LINE(...)                                   \
	do {                                            \
		if (!devmem_tracing())                      \
			break;                                  \
		if (trace_out_line(__VA_ARGS__))            \
			stats_add(STATS_DEVMEM_TRACE_LINES, 1); \
		else                                        \
			off();                                  \
	} while (0)

/* The default stream, by either of its names, is 0 in the table's place. */
static uint64_t stream_key(CUstream stream)
{
	if (!stream || stream == CU_STREAM_LEGACY)
		return 0;
	/* One for each thread; handles are aligned. */
	return stream == CU_STREAM_PER_THREAD ? (uint64_t)syscall(SYS_gettid) << 3 | 3
										  : (uint64_t)(uintptr_t)stream;
}

static void no_memory(void)
{
	log_warn("TURBO_DEVMEM_TRACE: no memory; recording ends");
	off();
}

static uint64_t stream_number(CUstream stream)
{
	uint64_t key = stream_key(stream), *known = key ? trace_table_find(&streams, key) : NULL;
	if (!key)
		return 0;
	if (known)
		return *known;
	if (!trace_table_add(&streams, key, ++last_stream))
		no_memory();
	return last_stream;
}

static void free_line(uint64_t block, uint64_t stream)
{
	uint64_t id = block >> DEVICE_BITS, device = block & ((1 << DEVICE_BITS) - 1);
	if (device)
		LINE("f %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", id, stream, device);
	else
		LINE("f %" PRIu64 " %" PRIu64 "\n", id, stream);
}

static bool begin(int *saved)
{
	*saved = errno;
	pthread_mutex_lock(&lock);
	if (devmem_tracing())
		return true;
	pthread_mutex_unlock(&lock);
	errno = *saved;
	return false;
}

static void end(int saved)
{
	pthread_mutex_unlock(&lock);
	errno = saved;
}

/* ---- blocks ---- */

void devmem_trace_alloc(CUdeviceptr ptr, size_t bytes, CUstream stream, int device)
{
	int saved;
	if (!ptr || !bytes || device < 0 || device >= 1 << DEVICE_BITS || !begin(&saved))
		return;
	uint64_t number = stream_number(stream), *old = trace_table_find(&blocks, ptr);
	if (old) { /* its end was not seen: a context went */
		free_line(*old, number);
		trace_table_remove(&blocks, ptr);
	}
	if (!trace_table_add(&blocks, ptr, ++last_id << DEVICE_BITS | (unsigned)device))
		no_memory();
	if (device)
		LINE("a %" PRIu64 " %zu %" PRIu64 " %d\n", last_id, bytes, number, device);
	else
		LINE("a %" PRIu64 " %zu %" PRIu64 "\n", last_id, bytes, number);
	end(saved);
}

void devmem_trace_allocated(CUdeviceptr ptr, size_t bytes, CUstream stream)
{
	CUdevice device;
	if (!capture_live() && REAL(cuCtxGetDevice)(&device) == CUDA_SUCCESS)
		devmem_trace_alloc(ptr, bytes, stream, device);
}

void devmem_trace_free(CUdeviceptr ptr, CUstream stream)
{
	int saved;
	if (!ptr || !begin(&saved))
		return;
	uint64_t *block = trace_table_find(&blocks, ptr);
	if (block) {
		free_line(*block, stream_number(stream));
		trace_table_remove(&blocks, ptr);
	}
	end(saved);
}

/* ---- streams ---- */

static void wait_line(CUstream stream, uint64_t other)
{
	uint64_t number = stream_number(stream);
	if (number != other)
		LINE("w %" PRIu64 " %" PRIu64 "\n", number, other);
}

void devmem_trace_wait(CUstream stream, CUstream other)
{
	int saved;
	if (!begin(&saved))
		return;
	wait_line(stream, stream_number(other));
	end(saved);
}

/* A stream that no line has named needs no line. */
static bool known(CUstream stream)
{
	uint64_t key = stream_key(stream);
	return !key || trace_table_find(&streams, key);
}

void devmem_trace_sync(CUstream stream)
{
	int saved;
	if (!begin(&saved))
		return;
	if (known(stream))
		LINE("s %" PRIu64 "\n", stream_number(stream));
	end(saved);
}

void devmem_trace_destroy(CUstream stream)
{
	int saved;
	if (!stream_key(stream) || !begin(&saved))
		return;
	if (known(stream)) {
		LINE("d %" PRIu64 "\n", stream_number(stream));
		trace_table_remove(&streams, stream_key(stream));
	}
	end(saved);
}

static size_t event_place(CUevent event)
{
	return (size_t)(((uint64_t)(uintptr_t)event * 0x9e3779b97f4a7c15u) >> 32) % EVENTS;
}

void devmem_trace_event(CUevent event, CUstream stream)
{
	int saved;
	if (!event || !begin(&saved))
		return;
	size_t i = event_place(event);
	recorded_on[i].event = event;
	recorded_on[i].stream = stream_number(stream);
	end(saved);
}

void devmem_trace_wait_event(CUstream stream, CUevent event)
{
	int saved;
	if (!event || !begin(&saved))
		return;
	size_t i = event_place(event);
	if (recorded_on[i].event == event)
		wait_line(stream, recorded_on[i].stream);
	end(saved);
}

/* ---- the process ---- */

static void start(void)
{
	const char *path = option_text(OPT_DEVMEM_TRACE);
	if (path[0] && trace_out_start(path))
		__atomic_store_n(&devmem_trace_on, true, __ATOMIC_RELAXED);
}

/* The memory of a primary context that was reset is gone. */
static void context_gone(void *ctx, int device)
{
	int saved;
	if (ctx || !devmem_tracing() || !begin(&saved))
		return;
	for (size_t i = 0; i < blocks.room; i++)
		/* What removal moves to this place is looked at too. */
		while (blocks.cell[i].key && (int)(blocks.cell[i].value & ((1 << DEVICE_BITS) - 1)) == device) {
			free_line(blocks.cell[i].value, 0);
			trace_table_remove(&blocks, blocks.cell[i].key);
		}
	end(saved);
}

/* The lock may be held by a thread that the child does not have: it is not touched again. */
static void fork_child(void)
{
	off();
}

static void stop(void)
{
	struct timespec until;
	if (!devmem_tracing())
		return;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += STOP_WAIT_S;
	if ((glibc_has_threads() ? pthread_mutex_timedlock(&lock, &until) : pthread_mutex_lock(&lock)) != 0)
		return;
	if (devmem_tracing())
		trace_out_flush();
	off();
	pthread_mutex_unlock(&lock);
}

const struct policy devmem_trace_policy = {
	.name = "trace",
	.start = start,
	.context_gone = context_gone,
	.fork_child = fork_child,
	.stop = stop,
};
