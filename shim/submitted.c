/* submitted.c - see submitted.h. */
#include "submitted.h"

#include <stdbool.h>
#include <string.h>

#include "stats.h"

static const char *const submitting[] = {
	"cuLaunch",
	"cuGraphLaunch",
	"cuGraphUpload",
	"cuMemcpy",
	"cuMemset",
	"cuStreamWaitValue",
	"cuStreamWriteValue",
	"cuStreamBatch",
	"cuStreamAddCall",
	"cuStreamWaitEvent",
	"cuEventRecord",
	"cuMemPrefetch",
	"cuMemAllocAsync",
	"cuMemAllocFromPool",
	"cuMemFreeAsync",
	"cuMemMapArrayAsync",
	"cuSignalExternal",
	"cuWaitExternal",
	"cuMemBatchDecomp",
	"cuMemDiscard",
	"cuGraphicsMap",
	"cuGraphicsUnmap",
	"cuGLMap",
	"cuGLUnmap",
	"cuEGLStream",
	"cuCtxWaitEvent",
	"cuGreenCtxWaitEvent",
	"nccl",
};

/* Constant after submitted_start(). */
static uint16_t cells[HOOK_COUNT];
static unsigned cell_count;

static bool submits(const struct hook_row *row)
{
	if (row->how == HOOK_HOW_PASS)
		return false;
	for (unsigned p = 0; p < sizeof(submitting) / sizeof(submitting[0]); p++)
		if (!strncmp(row->name, submitting[p], strlen(submitting[p])))
			return true;
	return false;
}

void submitted_start(void)
{
	if (cell_count)
		return;
	for (unsigned i = 0; i < HOOK_COUNT; i++)
		if (submits(&hook_table[i]))
			cells[cell_count++] = (uint16_t)i;
}

uint64_t submitted(void)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < cell_count; i++)
		sum += stats_cell_sum(cells[i]);
	return sum;
}
