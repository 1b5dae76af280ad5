/* NATIVE: the simulated driver reserves more than valgrind has. */
/* test_nccl_waits.c - which threads wait for the GPU is seen, from their first wait until they end. */
#include "common/progress_fixture.h"

#include <errno.h>
#include <sys/syscall.h>

/* ---- a thread that makes one call ---- */

struct caller {
	pthread_t thread;
	CUcontext ctx;
	CUstream stream;
	void (*call)(struct caller *c);
	_Atomic int tid;
};

static void *caller_main(void *arg)
{
	struct caller *c = arg;
	OK(REAL(cuCtxSetCurrent)(c->ctx));
	atomic_store(&c->tid, (int)syscall(SYS_gettid));
	errno = 77;
	c->call(c);
	assert_int_equal(errno, 77);
	return NULL;
}

static struct flight_wait *row_of(int tid)
{
	for (unsigned i = 0; i < FLIGHT_WAITS; i++)
		if (tid && (int)rig_page.wait[i].thread == tid)
			return &rig_page.wait[i];
	return NULL;
}

static unsigned rows(void)
{
	unsigned n = 0;
	for (unsigned i = 0; i < FLIGHT_WAITS; i++)
		n += rig_page.wait[i].thread != 0;
	return n;
}

static void start(struct caller *c, void (*call)(struct caller *))
{
	*c = (struct caller){.call = call, .stream = c->stream};
	OK(REAL(cuCtxGetCurrent)(&c->ctx));
	assert_int_equal(pthread_create(&c->thread, NULL, caller_main, c), 0);
	EVENTUALLY(atomic_load(&c->tid));
}

static bool waits(int tid)
{
	struct flight_wait *w = row_of(tid);
	return w && w->kind;
}

/* The call waits for a kernel on c->stream, is seen in it, and afterwards the thread is gone from the table. */
static void is_seen_as(enum flight_wait_kind kind, void (*call)(struct caller *), CUstream stream)
{
	struct caller c = {.stream = stream};
	gate_close(0);
	launch_gate(stream, 0);
	uint64_t since = progress_now();
	start(&c, call);
	EVENTUALLY(waits(c.tid));
	struct flight_wait *w = row_of(c.tid);
	assert_int_equal(w->kind, kind);
	assert_in_range(w->since, since - 20000000, progress_now()); /* the clock is a coarse one */
	gate_open(0);
	pthread_join(c.thread, NULL);
	assert_null(row_of(c.tid));
	assert_int_equal(w->kind, FLIGHT_WAIT_NONE);
	assert_int_equal(w->since, 0);
}

static void is_seen_in(void (*call)(struct caller *), CUstream stream)
{
	is_seen_as(FLIGHT_WAIT_GPU, call, stream);
}

/* ---- the calls ---- */

static CUdeviceptr device;
static char host[64];
static void *pinned, *registered;
static CUevent event;

#define CALL(name, call)               \
	static void name(struct caller *c) \
	{                                  \
		(void)c;                       \
		OK(call);                      \
	}
CALL(stream_sync, cuStreamSynchronize(c->stream))
CALL(stream_sync_ptsz, cuStreamSynchronize_ptsz(c->stream))
CALL(event_sync, cuEventSynchronize(event))
CALL(ctx_sync, cuCtxSynchronize())
CALL(d2h, cuMemcpyDtoH_v2(host, device, 8))
CALL(h2d, cuMemcpyHtoD_v2(device, host, 8))
CALL(d2h_async, cuMemcpyDtoHAsync_v2(host, device, 8, c->stream))
CALL(free_device, cuMemFree_v2(device))
CALL(free_host, cuMemFreeHost(pinned))
CALL(unregister, cuMemHostUnregister(registered))

/* The outermost call is the one that is shown. */
static void nested(struct caller *c)
{
	bool outer = progress_wait_begin(FLIGHT_WAIT_NCCL);
	progress_wait_end(progress_wait_begin(FLIGHT_WAIT_GPU));
	OK(cuStreamSynchronize(c->stream));
	progress_wait_end(outer);
}

static void calls_that_wait_are_seen(void **state)
{
	CUstream s = stream_new(), blocking;
	(void)state;
	OK(REAL(cuStreamCreate)(&blocking, 0));
	OK(REAL(cuEventCreate)(&event, 0));
	OK(REAL(cuMemAlloc_v2)(&device, 4096));
	OK(REAL(cuMemAllocHost_v2)(&pinned, 4096));
	registered = aligned_alloc(4096, 4096);
	OK(REAL(cuMemHostRegister_v2)(registered, 4096, 0));
	is_seen_in(stream_sync, s);
	is_seen_in(stream_sync_ptsz, s);
	gate_close(0);
	launch_gate(s, 0);
	OK(REAL(cuEventRecord)(event, s));
	is_seen_in(event_sync, s);
	is_seen_in(ctx_sync, s);
	is_seen_as(FLIGHT_WAIT_NCCL, nested, s);
	is_seen_in(d2h, blocking);
	is_seen_in(d2h_async, s);
	is_seen_in(free_device, s);
	is_seen_in(free_host, s);
	is_seen_in(unregister, s);
	free(registered);
	OK(REAL(cuMemAlloc_v2)(&device, 4096));
	is_seen_in(h2d, blocking);
	OK(REAL(cuMemFree_v2)(device));
}

/* Before there is a communicator a call costs a load. */
static void nothing_is_shown_without_a_communicator(void **state)
{
	CUstream s = stream_new();
	struct caller c = {.stream = s};
	(void)state;
	atomic_store(&progress_waits_shown, false);
	launch_gate(s, 0);
	start(&c, stream_sync);
	sleep_ms(20);
	assert_null(row_of(c.tid));
	atomic_store(&progress_waits_shown, true); /* in the middle of the call */
	gate_open(0);
	pthread_join(c.thread, NULL);
	assert_null(row_of(c.tid));
	is_seen_in(stream_sync, s);
}

static void more_threads_than_rows(void **state)
{
	static struct caller c[FLIGHT_WAITS + 20];
	CUstream s = stream_new();
	unsigned before = rows();
	(void)state;
	launch_gate(s, 0);
	for (unsigned i = 0; i < FLIGHT_WAITS + 20; i++) {
		c[i].stream = s;
		start(&c[i], stream_sync);
	}
	EVENTUALLY(rows() == FLIGHT_WAITS);
	gate_open(0);
	for (unsigned i = 0; i < FLIGHT_WAITS + 20; i++)
		pthread_join(c[i].thread, NULL);
	assert_int_equal(rows(), before);
	is_seen_in(stream_sync, s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(calls_that_wait_are_seen),
		CASE(nothing_is_shown_without_a_communicator),
		CASE(more_threads_than_rows),
	};
	return cmocka_run_group_tests_name("nccl_waits", tests, rig_open, NULL);
}
