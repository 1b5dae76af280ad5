/* NATIVE: the simulated driver reserves more than valgrind has. */
/* test_nccl_graphs.c - captured collectives are found again in what is launched of them, and nowhere else. */
#include "common/progress_fixture.h"

#include "nccl/graphs.h"

#define COMM (&rig_comm[0])
#define OTHER (&rig_comm[1])

static void captured(struct flight_comm *comm, CUstream s, bool collective, uint64_t bytes)
{
	guard_enter();
	progress_captured(comm, s, collective, bytes);
	guard_leave();
}

static void begin(CUstream s)
{
	OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
}

static CUgraph end(CUstream s)
{
	CUgraph graph;
	OK(cuStreamEndCapture(s, &graph));
	return graph;
}

/* A graph with one collective of COMM, of `bytes`. */
static CUgraph graph_with(CUstream s, uint64_t bytes)
{
	begin(s);
	captured(COMM, s, true, bytes);
	return end(s);
}

static CUgraphExec exec_of(CUgraph graph)
{
	CUgraphExec exec;
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

/* Launches; how many operations came of it. */
static unsigned launched(CUgraphExec exec, CUstream s)
{
	rig_graph_count = rig_graph_ends = 0;
	OK(cuGraphLaunch(exec, s));
	assert_int_equal(rig_graph_ends, rig_graph_count);
	return rig_graph_count;
}

static void destroy(CUgraph graph, CUgraphExec exec)
{
	if (graph)
		OK(cuGraphDestroy(graph));
	if (exec)
		OK(cuGraphExecDestroy(exec));
}

static int clean(void **state)
{
	if (graphs_notes || graphs_execs)
		printf("%u notes and %u executable graphs are left\n", graphs_notes, graphs_execs);
	return rig_end(state) || graphs_notes || graphs_execs;
}
#define GRAPHS(f) cmocka_unit_test_setup_teardown(f, rig_begin, clean)

static void a_launch_is_one_operation_a_communicator(void **state)
{
	CUstream s = stream_new();
	(void)state;
	begin(s);
	captured(COMM, s, true, 100);
	captured(OTHER, s, false, 5000);
	captured(COMM, s, true, 20);
	captured(COMM, s, false, 7);
	CUgraph graph = end(s);
	CUgraphExec exec = exec_of(graph);
	destroy(graph, NULL); /* what was made of it stays */
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(launched(exec, s), 2);
		assert_ptr_equal(rig_graphs[0].comm, COMM);
		assert_int_equal(rig_graphs[0].calls, 2);
		assert_int_equal(rig_graphs[0].bytes, 120);
		assert_ptr_equal(rig_graphs[0].stream, s);
		assert_ptr_equal(rig_graphs[1].comm, OTHER);
		assert_int_equal(rig_graphs[1].calls, 0);
		assert_int_equal(rig_graphs[1].bytes, 0);
		assert_int_equal(rig_graph_result, 0);
	}
	OK(cuGraphLaunch_ptsz(exec, NULL));
	assert_ptr_equal(rig_graphs[3].stream, CU_STREAM_PER_THREAD);
	rig_sim_fail_set("cuGraphLaunch", 1, CUDA_ERROR_OUT_OF_MEMORY);
	rig_graph_count = rig_graph_ends = 0;
	assert_int_equal(cuGraphLaunch(exec, s), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(rig_graph_ends, 2);
	assert_int_not_equal(rig_graph_result, 0);
	/* A communicator that is gone is not looked for. */
	atomic_fetch_add(&COMM->life, 1);
	assert_int_equal(launched(exec, s), 1);
	assert_ptr_equal(rig_graphs[0].comm, OTHER);
	destroy(NULL, exec);
}

/* One capture is not another's, nor is a handle that is used again. */
static void a_graph_without_collectives_has_none(void **state)
{
	CUstream s = stream_new(), t = stream_new();
	(void)state;
	begin(s);
	begin(t);
	captured(COMM, s, true, 1);
	CUgraph without = end(t), with = end(s);
	CUgraphExec a = exec_of(without), b = exec_of(with);
	assert_int_equal(launched(a, s), 0);
	assert_int_equal(launched(b, s), 1);
	destroy(with, b);
	for (unsigned i = 0; i < 20; i++) {
		begin(s);
		CUgraph g = end(s);
		CUgraphExec x = exec_of(g);
		assert_int_equal(launched(x, s), 0);
		destroy(g, x);
	}
	destroy(without, a);
}

static void a_capture_that_breaks_leaves_nothing(void **state)
{
	CUstream s = stream_new(), t = stream_new();
	CUgraph graph = NULL;
	CUevent event;
	(void)state;
	begin(s);
	captured(COMM, s, true, 1);
	assert_int_not_equal(REAL(cuStreamSynchronize)(s), CUDA_SUCCESS);
	assert_int_not_equal(cuStreamEndCapture(s, &graph), CUDA_SUCCESS);
	/* Joined by another stream that does not come back. */
	begin(s);
	captured(COMM, s, true, 1);
	OK(REAL(cuEventCreate)(&event, 0));
	OK(REAL(cuEventRecord)(event, s));
	OK(REAL(cuStreamWaitEvent)(t, event, 0));
	launch_gate(t, 0);
	captured(OTHER, t, true, 1); /* on a stream that has joined */
	assert_int_equal(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	OK(REAL(cuEventDestroy_v2)(event));
}

static void graphs_are_made_of_graphs(void **state)
{
	CUstream s = stream_new();
	CUgraph graph = graph_with(s, 3), clone, parent, deep;
	CUgraphNode node;
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
	(void)state;
	OK(cuGraphClone(&clone, graph));
	OK(REAL(cuGraphCreate)(&parent, 0));
	OK(cuGraphAddChildGraphNode(&node, parent, NULL, 0, graph));
	OK(cuGraphAddChildGraphNode(&node, parent, NULL, 0, clone));
	OK(REAL(cuGraphCreate)(&deep, 0));
	params.graph.graph = parent;
	OK(cuGraphAddNode_v2(&node, deep, NULL, NULL, 0, &params));
	params.graph.graph = clone;
	OK(cuGraphAddNode(&node, deep, NULL, 0, &params));
	destroy(graph, NULL);
	destroy(clone, NULL);
	destroy(parent, NULL);
	CUgraphExec exec = exec_of(deep);
	assert_int_equal(launched(exec, s), 1);
	assert_int_equal(rig_graphs[0].calls, 3);
	assert_int_equal(rig_graphs[0].bytes, 9);
	destroy(deep, exec);
}

static void all_ways_to_instantiate(void **state)
{
	CUstream s = stream_new();
	CUgraph graph = graph_with(s, 3);
	CUgraphExec exec[5];
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
	(void)state;
	OK(cuGraphInstantiate(&exec[0], graph, NULL, NULL, 0));
	OK(cuGraphInstantiate_v2(&exec[1], graph, NULL, NULL, 0));
	OK(cuGraphInstantiateWithFlags(&exec[2], graph, 0));
	OK(cuGraphInstantiateWithParams(&exec[3], graph, &params));
	OK(cuGraphInstantiateWithParams_ptsz(&exec[4], graph, &params));
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(launched(exec[i], s), 1);
		destroy(NULL, exec[i]);
	}
	destroy(graph, NULL);
}

static void an_update_replaces_what_is_held(void **state)
{
	CUstream s = stream_new();
	CUgraph first = graph_with(s, 3), second = graph_with(s, 50), none;
	CUgraphExec exec = exec_of(first);
	CUgraphExecUpdateResultInfo info;
	(void)state;
	OK(cuGraphExecUpdate_v2(exec, second, &info));
	assert_int_equal(launched(exec, s), 1);
	assert_int_equal(rig_graphs[0].bytes, 50);
	begin(s);
	none = end(s);
	OK(cuGraphExecUpdate_v2(exec, none, &info));
	assert_int_equal(launched(exec, s), 0);
	OK(cuGraphExecUpdate_v2(exec, first, &info));
	assert_int_equal(launched(exec, s), 1);
	rig_sim_fail_set("cuGraphExecUpdate_v2", 1, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	assert_int_not_equal(cuGraphExecUpdate_v2(exec, none, &info), CUDA_SUCCESS);
	assert_int_equal(launched(exec, s), 1);
	destroy(first, exec);
	destroy(second, NULL);
	destroy(none, NULL);
}

static void a_capture_into_a_graph_adds_to_it(void **state)
{
	CUstream s = stream_new();
	CUgraph graph = graph_with(s, 3), same;
	(void)state;
	OK(cuStreamBeginCaptureToGraph(s, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
	captured(COMM, s, true, 30);
	OK(cuStreamEndCapture(s, &same));
	assert_ptr_equal(same, graph);
	CUgraphExec exec = exec_of(graph);
	assert_int_equal(launched(exec, s), 1);
	assert_int_equal(rig_graphs[0].calls, 2);
	assert_int_equal(rig_graphs[0].bytes, 33);
	destroy(graph, exec);
}

/* A driver that takes a launch into a capture, as a child. */
static CUresult launch_taken(CUgraphExec exec, CUstream stream)
{
	(void)exec, (void)stream;
	return CUDA_SUCCESS;
}

static void a_captured_launch_becomes_a_part(void **state)
{
	CUstream s = stream_new();
	CUgraph graph = graph_with(s, 3);
	CUgraphExec inner = exec_of(graph);
	void *real = (void *)REAL(cuGraphLaunch);
	(void)state;
	begin(s);
	__atomic_store_n(&real_fn[HOOK_cuGraphLaunch], (void *)launch_taken, __ATOMIC_RELEASE);
	assert_int_equal(launched(inner, s), 0);
	assert_int_equal(launched(inner, s), 0);
	__atomic_store_n(&real_fn[HOOK_cuGraphLaunch], real, __ATOMIC_RELEASE);
	CUgraph outer = end(s);
	CUgraphExec exec = exec_of(outer);
	assert_int_equal(launched(exec, s), 1);
	assert_int_equal(rig_graphs[0].calls, 2);
	destroy(graph, inner);
	destroy(outer, exec);
}

/* More than there is room for: some are not followed, and none is taken for another. */
static void too_many_are_told_apart(void **state)
{
	enum { MANY = 6000 };
	static CUgraphExec exec[MANY];
	CUstream s = stream_new();
	CUgraph graph = graph_with(s, 3);
	unsigned followed = 0;
	(void)state;
	for (unsigned i = 0; i < MANY; i++)
		exec[i] = exec_of(graph);
	for (unsigned i = 0; i < MANY; i++)
		followed += launched(exec[i], s);
	assert_in_range(followed, 2000, 4096);
	for (unsigned i = 0; i < MANY; i++)
		destroy(NULL, exec[i]);
	destroy(graph, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GRAPHS(a_launch_is_one_operation_a_communicator),
		GRAPHS(a_graph_without_collectives_has_none),
		GRAPHS(a_capture_that_breaks_leaves_nothing),
		GRAPHS(graphs_are_made_of_graphs),
		GRAPHS(all_ways_to_instantiate),
		GRAPHS(an_update_replaces_what_is_held),
		GRAPHS(a_capture_into_a_graph_adds_to_it),
		GRAPHS(a_captured_launch_becomes_a_part),
		GRAPHS(too_many_are_told_apart),
	};
	return cmocka_run_group_tests_name("nccl_graphs", tests, rig_open, NULL);
}
