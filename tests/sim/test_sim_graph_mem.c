/*
 * test_sim_graph_mem.c - stream-ordered allocations in a capture: memory that belongs to a graph.
 */
#include <dlfcn.h>

#include "common/simtest.h"

#define MIB ((size_t)1 << 20)
#define NODES 16

static int count(CUgraph graph, CUgraphNodeType type)
{
	CUgraphNode nodes[NODES];
	size_t n = NODES;
	int found = 0;
	ok(cuGraphGetNodes(graph, nodes, &n));
	for (size_t i = 0; i < n; i++) {
		CUgraphNodeType is;
		ok(cuGraphNodeGetType(nodes[i], &is));
		found += is == type;
	}
	return found;
}

static void nodes_allocate_and_free(void **state)
{
	(void)state;
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	uint32_t *host = st_pinned(64);
	CUgraph graph;
	CUgraphExec exec;
	CUdeviceptr p;
	ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuMemAllocAsync(&p, 4 * MIB, s));
	st_fill(p, MIB, 3, s);
	st_add(p, MIB, 4, s);
	ok(cuMemcpyAsync((CUdeviceptr)host, p + 4 * MIB - 4, 4, s));
	ok(cuMemFreeAsync(p, s));
	ok(cuStreamEndCapture(s, &graph));
	assert_int_equal(count(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC), 1);
	assert_int_equal(count(graph, CU_GRAPH_NODE_TYPE_MEM_FREE), 1);
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 3; i++) {
		host[0] = 0;
		ok(cuGraphLaunch(exec, s));
		ok(cuStreamSynchronize(s));
		assert_int_equal(host[0], 7);
	}
	ok(cuGraphDestroy(graph));
	ok(cuGraphLaunch(exec, s));
	ok(cuStreamSynchronize(s));
	ok(cuGraphExecDestroy(exec));
	ok(cuStreamDestroy_v2(s));
	ok(cuMemFreeHost(host));
}

static void only_memory_of_the_graph_is_freed_in_it(void **state)
{
	(void)state;
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	CUgraph graph = NULL;
	CUdeviceptr p;
	ok(cuMemAllocAsync(&p, MIB, s));
	ok(cuStreamSynchronize(s));
	ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	fails(cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
	if (cuStreamEndCapture(s, &graph) == CUDA_SUCCESS)
		ok(cuGraphDestroy(graph));
	ok(cuMemFreeAsync(p, s));
	ok(cuStreamSynchronize(s));
	ok(cuStreamDestroy_v2(s));
}

/* The memory is counted as the graph's, and goes with it; not before a launch under way ends. */
static void memory_goes_with_the_graph(void **state)
{
	(void)state;
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	uint32_t *host = st_pinned(64);
	uint64_t (*live)(int), (*errors)(void), before, mistakes;
	CUgraph graph;
	CUgraphExec exec;
	CUdeviceptr p;
	struct st_gate gate;
	*(void **)&live = dlsym(RTLD_DEFAULT, "sim_live_bytes");
	*(void **)&errors = dlsym(RTLD_DEFAULT, "sim_errors");
	before = live ? live(0) : 0;
	mistakes = errors ? errors() : 0;
	gate.flag = st_pinned(64);
	ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuMemAllocAsync(&p, 4 * MIB, s));
	ok(cuStreamWaitValue32_v2(s, (CUdeviceptr)gate.flag, 1, CU_STREAM_WAIT_VALUE_EQ));
	st_fill(p, 16, 9, s);
	ok(cuMemcpyAsync((CUdeviceptr)host, p, 4, s));
	ok(cuMemFreeAsync(p, s));
	ok(cuStreamEndCapture(s, &graph));
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphLaunch(exec, s));
	ok(cuGraphDestroy(graph));
	ok(cuGraphExecDestroy(exec));
	st_gate_open(&gate);
	ok(cuStreamSynchronize(s));
	assert_int_equal(host[0], 9);
	ok(cuStreamDestroy_v2(s));
	ok(cuMemFreeHost(host));
	st_gate_free(&gate);
	if (live) {
		assert_int_equal(live(0), before);
		assert_int_equal(errors(), mistakes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes_allocate_and_free),
		cmocka_unit_test(only_memory_of_the_graph_is_freed_in_it),
		cmocka_unit_test(memory_goes_with_the_graph),
	};
	return cmocka_run_group_tests(tests, simtest_setup, simtest_teardown);
}
