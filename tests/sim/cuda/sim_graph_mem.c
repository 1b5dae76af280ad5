/*
 * sim_graph_mem.c - allocation and free nodes.
 *
 * The address is the graph's from the capture on, and so are the bytes here: until the graph and
 * all that was made of it are gone. A free, by a node or by the program, does nothing more.
 */
#include <stdlib.h>

#include "sim_graph.h"
#include "sim_graph_mem.h"

CUresult sim_graph_mem_alloc(struct sim_device *dev, size_t size, struct sim_stream *s, uintptr_t *out)
{
	CUresult result = sim_device_alloc(dev, s->ctx, size, out);
	if (result != CUDA_SUCCESS)
		return result;
	struct sim_range *r = sim_range_find(*out);
	r->async = true;
	r->graph = s->capture->graph;
	dev->graph_used += r->phys->size;
	if (dev->graph_used > dev->graph_high)
		dev->graph_high = dev->graph_used;
	struct sim_cmd *cmd = sim_cmd_new(CMD_GRAPH_ALLOC);
	cmd->free = *out;
	return sim_submit(s, cmd, NULL); /* a failure ends the allocation with cmd */
}

CUresult sim_graph_mem_free(struct sim_range *r, struct sim_stream *s)
{
	if (s->capture && r->graph != s->capture->graph)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_submit(s, sim_cmd_new(s->capture ? CMD_GRAPH_FREE : CMD_NOP), NULL);
}

void sim_graph_mem_end(uintptr_t base)
{
	struct sim_range *r = sim_range_find(base);
	if (r && r->graph) /* else its context has ended */
		sim_release_range(r);
}

struct sim_cmd *sim_graph_mem_keep(struct sim_cmd *const *cmds, int count)
{
	int n = 0;
	for (int i = 0; i < count; i++)
		n += cmds[i]->kind == CMD_GRAPH_ALLOC;
	if (!n)
		return NULL;
	struct sim_cmd *keep = sim_cmd_new(CMD_GRAPH_KEEP);
	keep->keep.cmds = calloc((size_t)n, sizeof(struct sim_cmd *));
	if (!keep->keep.cmds)
		abort();
	for (int i = 0; i < count; i++) {
		if (cmds[i]->kind != CMD_GRAPH_ALLOC)
			continue;
		cmds[i]->refs++;
		keep->keep.cmds[keep->keep.count++] = cmds[i];
	}
	return keep;
}

/* ---- questions; nothing is kept beyond what graphs have ---- */

static CUresult attribute_get(struct sim_device *dev, CUgraphMem_attribute which, cuuint64_t *value)
{
	switch (which) {
	case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT: *value = dev->graph_used; return CUDA_SUCCESS;
	case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: *value = dev->graph_high; return CUDA_SUCCESS;
	default: return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute which, void *value)
{
	SIM_ENTER(cuDeviceGetGraphMemAttribute, S_DEV);
	struct sim_device *dev = sim_device_get(device);
	if (!dev)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	CUresult result = attribute_get(dev, which, value);
	sim_unlock();
	return result;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute which, void *value)
{
	SIM_ENTER(cuDeviceSetGraphMemAttribute, S_DEV);
	struct sim_device *dev = sim_device_get(device);
	if (!dev)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value || *(cuuint64_t *)value ||
		(which != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH && which != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	dev->graph_high = dev->graph_used;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	SIM_ENTER(cuDeviceGraphMemTrim, S_DEV);
	return sim_device_get(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
