/* LINK: nccl
 *
 * test_sim_nccl_profiler.c - what a profiler plugin hears. This program is the plugin.
 */
#include <pthread.h>
#include <unistd.h>

#include "common/simjob.h"
#include "nccl/profiler.h"
#include "sim_nccl.h"

#define nccl_ok(call) assert_int_equal((call), ncclSuccess)
#define EVENTS 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct heard {
	struct profile_event event;
	bool stopped;
	uint64_t end;
} heard[EVENTS];            /* lock */
static int count, contexts; /* lock */
static int comm_context;

static ncclResult_t init(void **context, uint64_t comm, int *mask, const char *name, int nodes, int ranks,
						 int rank, profile_log_fn *log)
{
	(void)name;
	assert_true(comm != 0 && nodes == 1 && ranks == 2 && rank < 2 && log);
	*context = &comm_context;
	*mask = PROFILE_GROUP | PROFILE_COLL | PROFILE_P2P | PROFILE_KERNEL_CH;
	pthread_mutex_lock(&lock);
	contexts++;
	pthread_mutex_unlock(&lock);
	return ncclSuccess;
}
static ncclResult_t start(void *context, void **handle, struct profile_event *event)
{
	assert_ptr_equal(context, &comm_context);
	pthread_mutex_lock(&lock);
	assert_in_range(count, 0, EVENTS - 1);
	heard[count].event = *event;
	*handle = &heard[count++];
	pthread_mutex_unlock(&lock);
	return ncclSuccess;
}
static ncclResult_t stop(void *handle)
{
	pthread_mutex_lock(&lock);
	((struct heard *)handle)->stopped = true;
	pthread_mutex_unlock(&lock);
	return ncclSuccess;
}
static ncclResult_t record(void *handle, int state, union profile_state *args)
{
	assert_int_equal(state, PROFILE_KERNEL_CH_STOP);
	pthread_mutex_lock(&lock);
	((struct heard *)handle)->end = args->kernel.timer;
	pthread_mutex_unlock(&lock);
	return ncclSuccess;
}
static ncclResult_t finalize(void *context)
{
	assert_ptr_equal(context, &comm_context);
	pthread_mutex_lock(&lock);
	contexts--;
	pthread_mutex_unlock(&lock);
	return ncclSuccess;
}

__attribute__((visibility("default")))
const struct profiler_v5 ncclProfiler_v5 = {"test", init, {start, stop, record, finalize}};

static int number_of(uint64_t type, bool stopped)
{
	int n = 0;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < count; i++)
		n += heard[i].event.type == type && (!stopped || heard[i].stopped);
	pthread_mutex_unlock(&lock);
	return n;
}

static void operations_and_their_kernels(void **state)
{
	(void)state;
	ncclComm_t comm[2];
	const int devices[] = {0, 0};
	CUstream stream[2] = {st_stream(CU_STREAM_NON_BLOCKING), st_stream(CU_STREAM_NON_BLOCKING)};
	CUdeviceptr data[2] = {st_device(64), st_device(64)};
	struct st_gate gate;
	nccl_ok(ncclCommInitAll(comm, 2, devices));
	assert_int_equal(contexts, 2);
	st_gate_close(&gate, stream[1]);
	nccl_ok(ncclGroupStart());
	for (int i = 0; i < 2; i++)
		nccl_ok(
			ncclAllReduce((void *)data[i], (void *)data[i], 16, ncclFloat32, ncclSum, comm[i], stream[i]));
	nccl_ok(ncclGroupEnd());
	assert_int_equal(number_of(PROFILE_GROUP, true), 2);
	assert_int_equal(number_of(PROFILE_COLL, true), 2);
	usleep(JOB_HANG_MS * 1000);
	assert_int_equal(number_of(PROFILE_KERNEL_CH, false), 1); /* rank 1's is behind the gate */
	assert_int_equal(number_of(PROFILE_KERNEL_CH, true), 0);
	st_gate_open(&gate);
	for (int i = 0; i < 2; i++)
		ok(cuStreamSynchronize(stream[i]));
	assert_int_equal(number_of(PROFILE_KERNEL_CH, true), 2);
	for (int i = 0; i < count; i++) {
		const struct profile_event *e = &heard[i].event;
		if (e->type == PROFILE_COLL) {
			assert_string_equal(e->coll.func, "AllReduce");
			assert_string_equal(e->coll.type, "ncclFloat32");
			assert_int_equal(e->coll.count, 16);
			assert_int_equal(e->coll.sequence, 0);
		}
		if (e->type == PROFILE_KERNEL_CH) {
			assert_int_equal(((struct heard *)e->parent)->event.type, PROFILE_COLL);
			assert_in_range(heard[i].end, e->kernel.timer, UINT64_MAX);
		}
	}
	nccl_ok(ncclGroupStart());
	nccl_ok(ncclSend((void *)data[0], 4, ncclInt8, 1, comm[0], stream[0]));
	nccl_ok(ncclRecv((void *)data[1], 4, ncclInt8, 0, comm[1], stream[1]));
	nccl_ok(ncclGroupEnd());
	for (int i = 0; i < 2; i++)
		ok(cuStreamSynchronize(stream[i]));
	assert_int_equal(number_of(PROFILE_P2P, true), 2);
	assert_int_equal(number_of(PROFILE_KERNEL_CH, true), 4);
	for (int i = 0; i < 2; i++)
		nccl_ok(ncclCommDestroy(comm[i]));
	assert_int_equal(contexts, 0);
	st_gate_free(&gate);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(operations_and_their_kernels)};
	setenv("NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN", 1);
	simtest_only_sim();
	return cmocka_run_group_tests(tests, simtest_setup, simtest_teardown);
}
