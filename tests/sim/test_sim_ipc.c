/*
 * test_sim_ipc.c - events that two processes share.
 *
 * The other process is this program again, which does what single letters on a pipe tell it to
 * and answers each with a CUresult.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/simtest.h"

#define SHARED (CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)
#define GATES 8
#define LATE_US 60000

/* ---- the other process ---- */

enum order {
	MAKE = 'm',    /* an event; its handle follows the answer */
	OPEN = 'o',    /* the event of the handle that follows */
	DESTROY = 'd', /* the event */
	HOLD = 'h',    /* the stream, by a new gate */
	RELEASE = 'r', /* the oldest gate that is closed */
	RECORD = 'e',
	RECORD_ALL = 'a', /* cuCtxRecordEvent */
	WAIT = 'w',       /* the stream for the event */
	QUERY = 'q',      /* the event */
	STREAM = 's',     /* query the stream */
	SYNC = 'y',       /* the stream */
};

struct other {
	CUstream stream;
	CUevent event;
	CUipcEventHandle handle;
	struct st_gate gate[GATES];
	int closed, opened;
};

static CUresult obey(struct other *o, char order, int in)
{
	switch (order) {
	case MAKE: return cuEventCreate(&o->event, SHARED) ?: cuIpcGetEventHandle(&o->handle, o->event);
	case OPEN:
		if (read(in, &o->handle, sizeof o->handle) != sizeof o->handle)
			return CUDA_ERROR_UNKNOWN;
		return cuIpcOpenEventHandle(&o->event, o->handle);
	case DESTROY: return cuEventDestroy_v2(o->event);
	case HOLD:
		assert_true(o->closed < GATES);
		st_gate_close(&o->gate[o->closed++], o->stream);
		return CUDA_SUCCESS;
	case RELEASE: st_gate_open(&o->gate[o->opened++]); return CUDA_SUCCESS;
	case RECORD: return cuEventRecord(o->event, o->stream);
	case RECORD_ALL: return cuCtxRecordEvent(st_ctx, o->event);
	case WAIT: return cuStreamWaitEvent(o->stream, o->event, 0);
	case QUERY: return cuEventQuery(o->event);
	case STREAM: return cuStreamQuery(o->stream);
	case SYNC: return cuStreamSynchronize(o->stream);
	default: return CUDA_ERROR_UNKNOWN;
	}
}

static int other_main(int in, int out)
{
	struct other o = {0};
	char order;
	if (simtest_setup(NULL))
		return 1;
	o.stream = st_stream(CU_STREAM_NON_BLOCKING);
	while (read(in, &order, 1) == 1) {
		CUresult r = obey(&o, order, in);
		if (write(out, &r, sizeof r) != sizeof r)
			return 1;
		if (order == MAKE && write(out, &o.handle, sizeof o.handle) != sizeof o.handle)
			return 1;
	}
	for (; o.opened < o.closed; o.opened++) /* the test has failed */
		st_gate_open(&o.gate[o.opened]);
	if (cuStreamSynchronize(o.stream))
		return 1;
	for (int i = 0; i < o.closed; i++)
		st_gate_free(&o.gate[i]);
	return cuStreamDestroy_v2(o.stream) || simtest_teardown(NULL);
}

static pid_t other;
static int to_other, from_other;
static CUstream stream;
static bool simulated;

static int start(void **state)
{
	int to[2], from[2];
	char in[16], out[16];
	(void)state;
	if (pipe(to) || pipe(from))
		return -1;
	snprintf(in, sizeof in, "%d", to[0]);
	snprintf(out, sizeof out, "%d", from[1]);
	other = fork();
	if (other == 0) {
		close(to[1]);
		close(from[0]);
		execl("/proc/self/exe", "test_sim_ipc", in, out, (char *)NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	to_other = to[1];
	from_other = from[0];
	stream = st_stream(CU_STREAM_NON_BLOCKING);
	return other < 0 ? -1 : 0;
}

static int stop(void **state)
{
	int status = -1;
	(void)state;
	close(to_other);
	close(from_other);
	if (other && (waitpid(other, &status, 0) != other || status))
		return -1;
	return cuStreamDestroy_v2(stream) ? -1 : 0;
}

static CUresult answer(void)
{
	CUresult r;
	assert_int_equal(read(from_other, &r, sizeof r), sizeof r);
	return r;
}

static CUresult ask(enum order order)
{
	char byte = (char)order;
	assert_int_equal(write(to_other, &byte, 1), 1);
	return answer();
}

/* An event of the other process, and its handle. */
static CUevent import(CUipcEventHandle *handle)
{
	CUevent e;
	ok(ask(MAKE));
	assert_int_equal(read(from_other, handle, sizeof *handle), sizeof *handle);
	ok(cuIpcOpenEventHandle(&e, *handle));
	return e;
}

/* ---- tests ---- */

static void errors(void **state)
{
	(void)state;
	CUevent e, plain = st_event(), none = NULL;
	CUipcEventHandle handle, empty;
	memset(&empty, 0, sizeof empty);
	fails(cuEventCreate(&e, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
	fails(cuIpcGetEventHandle(&handle, plain), CUDA_ERROR_INVALID_HANDLE);
	fails(cuIpcGetEventHandle(&handle, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_not_equal(cuIpcOpenEventHandle(&none, empty), CUDA_SUCCESS);
	ok(cuEventCreate(&e, SHARED));
	ok(cuIpcGetEventHandle(&handle, e));
	fails(cuIpcOpenEventHandle(&none, handle), CUDA_ERROR_INVALID_CONTEXT);
	float ms;
	ok(cuEventRecord(e, stream));
	ok(cuEventSynchronize(e));
	fails(cuEventElapsedTime(&ms, e, e), CUDA_ERROR_INVALID_HANDLE);
	ok(cuEventDestroy_v2(e));
	ok(cuEventDestroy_v2(plain));
}

static void a_record_is_seen_by_the_other_process(void **state)
{
	static const enum order record[] = {RECORD, RECORD_ALL};
	CUipcEventHandle handle;
	CUevent done = st_event(), e = import(&handle);
	(void)state;
	ok(cuEventQuery(e)); /* never recorded: complete */
	ok(cuStreamWaitEvent(stream, e, 0));
	ok(cuStreamSynchronize(stream));
	for (int i = 0; i < 2; i++) {
		ok(ask(HOLD));
		ok(ask(record[i]));
		fails(cuEventQuery(e), CUDA_ERROR_NOT_READY);
		fails(ask(QUERY), CUDA_ERROR_NOT_READY);
		ok(cuStreamWaitEvent(stream, e, 0));
		ok(cuEventRecord(done, stream));
		usleep(LATE_US);
		fails(cuEventQuery(done), CUDA_ERROR_NOT_READY);
		ok(ask(RELEASE));
		ok(cuEventSynchronize(done));
		ok(cuEventQuery(e));
		ok(ask(QUERY));
	}
	ok(cuEventDestroy_v2(done));
	ok(cuEventDestroy_v2(e));
}

static void a_wait_is_for_the_newest_record_of_its_time(void **state)
{
	CUipcEventHandle handle;
	CUevent e = import(&handle);
	(void)state;
	ok(ask(HOLD));
	ok(ask(RECORD));
	ok(cuStreamWaitEvent(stream, e, 0));
	ok(ask(HOLD));
	ok(ask(RECORD));
	ok(ask(RELEASE));
	ok(cuStreamSynchronize(stream)); /* the second record does not move it */
	fails(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	ok(cuStreamWaitEvent(stream, e, 0));
	fails(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	ok(ask(RELEASE));
	ok(cuStreamSynchronize(stream));
	ok(cuEventDestroy_v2(e));
}

static void both_sides_may_record(void **state)
{
	CUipcEventHandle handle;
	CUevent e;
	struct st_gate gate;
	char order = OPEN;
	(void)state;
	ok(cuEventCreate(&e, SHARED));
	ok(cuIpcGetEventHandle(&handle, e));
	assert_int_equal(write(to_other, &order, 1), 1);
	assert_int_equal(write(to_other, &handle, sizeof handle), sizeof handle);
	ok(answer());
	st_gate_close(&gate, stream);
	ok(cuEventRecord(e, stream));
	fails(ask(QUERY), CUDA_ERROR_NOT_READY);
	ok(ask(WAIT));
	fails(ask(STREAM), CUDA_ERROR_NOT_READY);
	st_gate_open(&gate);
	ok(ask(SYNC));
	/* And the one that opened it. */
	ok(ask(HOLD));
	ok(ask(RECORD));
	fails(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	ok(ask(RELEASE));
	ok(cuEventSynchronize(e));
	ok(ask(DESTROY));
	ok(cuEventDestroy_v2(e));
	ok(cuStreamSynchronize(stream));
	st_gate_free(&gate);
}

static int let_go; /* atomic */

static void *release_later(void *done)
{
	ok(cuCtxSetCurrent(st_ctx));
	usleep(LATE_US);
	ok(cuEventRecord(done, CU_STREAM_LEGACY)); /* the driver answers others meanwhile */
	ok(cuEventSynchronize(done));
	__atomic_store_n(&let_go, 1, __ATOMIC_SEQ_CST);
	ok(ask(RELEASE));
	return NULL;
}

static void a_host_wait_holds_nobody_up(void **state)
{
	CUipcEventHandle handle;
	CUevent e = import(&handle), done = st_event();
	pthread_t thread;
	(void)state;
	ok(ask(HOLD));
	ok(ask(RECORD));
	assert_int_equal(pthread_create(&thread, NULL, release_later, done), 0);
	ok(cuEventSynchronize(e));
	assert_int_equal(__atomic_load_n(&let_go, __ATOMIC_SEQ_CST), 1);
	pthread_join(thread, NULL);
	ok(cuEventDestroy_v2(e));
	ok(cuEventDestroy_v2(done));
}

/* A wait that a graph makes is for the newest record when the graph runs. */
static void external_nodes(void **state)
{
	CUipcEventHandle handle;
	CUevent e = import(&handle);
	CUgraph graph;
	CUgraphExec exec;
	(void)state;
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	ok(cuStreamWaitEvent(stream, e, CU_EVENT_WAIT_EXTERNAL));
	ok(cuEventRecordWithFlags(e, stream, CU_EVENT_RECORD_EXTERNAL));
	ok(cuStreamEndCapture(stream, &graph));
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(ask(HOLD));
	ok(ask(RECORD));
	ok(cuGraphLaunch(exec, stream));
	usleep(LATE_US);
	fails(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	ok(ask(RELEASE));
	ok(cuStreamSynchronize(stream));
	ok(ask(QUERY));
	ok(ask(HOLD));
	ok(ask(RECORD));
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	fails(cuStreamWaitEvent(stream, e, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	CUgraph broken;
	fails(cuStreamEndCapture(stream, &broken), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ok(ask(RELEASE));
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
	ok(cuEventDestroy_v2(e));
}

static int descriptors(void)
{
	int n = 0;
	DIR *dir = opendir("/proc/self/fd");
	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* A real driver leaves undefined what becomes of an event whose creator is gone. */
static void waits_survive_the_event(void **state)
{
	(void)state;
	if (!simulated) {
		print_message("needs the simulated driver\n");
		skip();
	}
	CUipcEventHandle handle;
	CUevent e = import(&handle), again = NULL;
	ok(ask(HOLD));
	ok(ask(RECORD));
	ok(cuStreamWaitEvent(stream, e, 0));
	ok(cuEventDestroy_v2(e));
	ok(ask(DESTROY));
	fails(cuIpcOpenEventHandle(&again, handle), CUDA_ERROR_MAP_FAILED);
	fails(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	ok(ask(RELEASE));
	ok(cuStreamSynchronize(stream));
	int before = descriptors();
	ok(cuEventCreate(&again, SHARED));
	ok(cuEventDestroy_v2(again));
	assert_int_equal(descriptors(), before);
}

static void a_killed_process_ends_the_waits(void **state)
{
	(void)state;
	if (!simulated) {
		print_message("needs the simulated driver\n");
		skip();
	}
	CUipcEventHandle handle;
	CUevent e = import(&handle), again = NULL;
	int status;
	ok(ask(HOLD));
	ok(ask(RECORD));
	ok(cuStreamWaitEvent(stream, e, 0));
	fails(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	kill(other, SIGKILL);
	ok(cuStreamSynchronize(stream)); /* nobody has waited for the process yet */
	ok(cuEventQuery(e));
	assert_int_equal(waitpid(other, &status, 0), other);
	other = 0;
	fails(cuIpcOpenEventHandle(&again, handle), CUDA_ERROR_MAP_FAILED);
	ok(cuEventDestroy_v2(e));
}

#define TWO(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(int argc, char **argv)
{
	if (argc == 3)
		return other_main(atoi(argv[1]), atoi(argv[2]));
	simulated = dlsym(RTLD_DEFAULT, "sim_calls") != NULL;
	const struct CMUnitTest tests[] = {
		TWO(errors),
		TWO(a_record_is_seen_by_the_other_process),
		TWO(a_wait_is_for_the_newest_record_of_its_time),
		TWO(both_sides_may_record),
		TWO(a_host_wait_holds_nobody_up),
		TWO(external_nodes),
		TWO(waits_survive_the_event),
		TWO(a_killed_process_ends_the_waits),
	};
	return cmocka_run_group_tests(tests, simtest_setup, simtest_teardown);
}
