/*
 * sim_user_object.c - objects of the program that live as long as graphs which hold them.
 *
 * An object is a command that no stream runs: its destructor runs when the last reference goes, which the
 * program, graphs, executable graphs and their launches under way hold.
 */
#include <stdlib.h>

#include "sim_graph.h"
#include "sim_user_object.h"

void sim_objects_clear(struct sim_objects *list)
{
	for (int i = 0; i < list->count; i++)
		sim_cmd_put(list->cmds[i]);
	free(list->cmds);
	*list = (struct sim_objects){NULL, 0};
}

static bool objects_add(struct sim_objects *list, struct sim_cmd *object)
{
	struct sim_cmd **cmds = realloc(list->cmds, (size_t)(list->count + 1) * sizeof(*cmds));
	if (!cmds)
		return false;
	list->cmds = cmds;
	cmds[list->count++] = object;
	object->refs++;
	return true;
}

bool sim_objects_copy(struct sim_objects *to, const struct sim_objects *from)
{
	struct sim_objects copy = {NULL, 0};
	for (int i = 0; i < from->count; i++) {
		if (!objects_add(&copy, from->cmds[i])) {
			sim_objects_clear(&copy);
			return false;
		}
	}
	sim_objects_clear(to);
	*to = copy;
	return true;
}

struct sim_cmd *sim_objects_keep(const struct sim_objects *list)
{
	struct sim_objects copy = {NULL, 0};
	if (!list->count || !sim_objects_copy(&copy, list))
		return NULL;
	struct sim_cmd *keep = sim_cmd_new(CMD_GRAPH_KEEP);
	keep->keep.cmds = copy.cmds;
	keep->keep.count = copy.count;
	return keep;
}

static CUresult create(CUuserObject *out, void *ptr, CUhostFn destroy, unsigned count, unsigned flags)
{
	if (!out || !destroy || !count || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_cmd *object = sim_cmd_new(CMD_USER_OBJECT);
	object->refs = (int)count;
	object->object.ptr = ptr;
	object->object.destroy = destroy;
	*out = (CUuserObject)object;
	return CUDA_SUCCESS;
}
SIM_FN(cuUserObjectCreate, S_DEV,
	   (CUuserObject * out, void *ptr, CUhostFn destroy, unsigned count, unsigned flags),
	   create(out, ptr, destroy, count, flags))

static CUresult count_by(CUuserObject handle, unsigned count, bool up)
{
	struct sim_cmd *object = (struct sim_cmd *)handle;
	if (!object || object->kind != CMD_USER_OBJECT || !count)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (up)
		object->refs += (int)count;
	for (; !up && count; count--)
		sim_cmd_put(object);
	sim_unlock();
	return CUDA_SUCCESS;
}
SIM_FN(cuUserObjectRetain, S_DEV, (CUuserObject o, unsigned count), count_by(o, count, true))
SIM_FN(cuUserObjectRelease, S_DEV, (CUuserObject o, unsigned count), count_by(o, count, false))

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject handle, unsigned count, unsigned flags)
{
	SIM_ENTER(cuGraphRetainUserObject, S_DEV);
	struct sim_graph *g = (struct sim_graph *)graph;
	struct sim_cmd *object = (struct sim_cmd *)handle;
	if (!g || g->magic != SIM_MAGIC_GRAPH || !object || object->kind != CMD_USER_OBJECT || !count ||
		flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = CUDA_SUCCESS;
	sim_lock();
	for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++) {
		if (!objects_add(&g->objects, object))
			result = CUDA_ERROR_OUT_OF_MEMORY;
		else if (flags & CU_GRAPH_USER_OBJECT_MOVE) /* the program's reference is now the graph's */
			sim_cmd_put(object);
	}
	sim_unlock();
	return result;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject handle, unsigned count)
{
	SIM_ENTER(cuGraphReleaseUserObject, S_DEV);
	struct sim_graph *g = (struct sim_graph *)graph;
	if (!g || g->magic != SIM_MAGIC_GRAPH || !count)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_objects *list = &g->objects;
	for (int i = list->count - 1; i >= 0 && count; i--) {
		if (list->cmds[i] != (struct sim_cmd *)handle)
			continue;
		sim_cmd_put(list->cmds[i]);
		list->cmds[i] = list->cmds[--list->count];
		count--;
	}
	sim_unlock();
	return count ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
