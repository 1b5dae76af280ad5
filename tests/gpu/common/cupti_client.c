/*
 * cupti_client.c - a CUPTI client for tests (cupti_client.h).
 */
#if __has_include(<cupti.h>)
#include "cupti_client.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RECORDS 20000
#define MAX_KINDS 16

struct ct_record ct_records[MAX_RECORDS];
int ct_count, ct_buffers, ct_requests;
unsigned long ct_complete_thread, ct_request_thread;
bool ct_refuse;

static uint32_t kinds_on[MAX_KINDS];

static void requested(uint8_t **buffer, size_t *size, size_t *max)
{
	__atomic_fetch_add(&ct_requests, 1, __ATOMIC_RELAXED);
	ct_request_thread = (unsigned long)pthread_self();
	*buffer = ct_refuse ? NULL : aligned_alloc(64, CT_BUFFER);
	*size = ct_refuse ? 0 : CT_BUFFER;
	*max = 0;
}

static void kernel(const CUpti_ActivityKernel9 *k, struct ct_record *r)
{
	*r = (struct ct_record){
		.kind = r->kind,
		.correlation = k->correlationId,
		.device = k->deviceId,
		.context = k->contextId,
		.stream = k->streamId,
		.id = k->graphId,
		.start = k->start,
		.end = k->end,
		.node = k->graphNodeId,
		.grid = {(uint32_t)k->gridX, (uint32_t)k->gridY, (uint32_t)k->gridZ},
		.block = {(uint32_t)k->blockX, (uint32_t)k->blockY, (uint32_t)k->blockZ},
		.buffer = r->buffer,
	};
	strncpy(r->name, k->name, sizeof r->name - 1);
}

static void copy(const CUpti_ActivityMemcpy5 *c, struct ct_record *r)
{
	r->correlation = c->correlationId;
	r->device = c->deviceId;
	r->context = c->contextId;
	r->stream = c->streamId;
	r->start = c->start;
	r->end = c->end;
	r->bytes = c->bytes;
	r->copy = c->copyKind;
	r->from = c->srcKind;
	r->to = c->dstKind;
}

static void memset_(const CUpti_ActivityMemset4 *s, struct ct_record *r)
{
	r->correlation = s->correlationId;
	r->stream = s->streamId;
	r->start = s->start;
	r->end = s->end;
	r->bytes = s->bytes;
	r->to = (uint8_t)s->memoryKind;
}

static void api(const CUpti_ActivityAPI *a, struct ct_record *r)
{
	r->correlation = a->correlationId;
	r->id = a->cbid;
	r->start = a->start;
	r->end = a->end;
	r->bytes = a->returnValue;
}

static void synchronization(const CUpti_ActivitySynchronization *s, struct ct_record *r)
{
	r->correlation = s->correlationId;
	r->context = s->contextId;
	r->stream = s->streamId;
	r->id = s->type;
	r->start = s->start;
	r->end = s->end;
}

static void graph(const CUpti_ActivityGraphTrace *g, struct ct_record *r)
{
	r->correlation = g->correlationId;
	r->stream = g->streamId;
	r->id = g->graphId;
	r->start = g->start;
	r->end = g->end;
}

static void external(const CUpti_ActivityExternalCorrelation *x, struct ct_record *r)
{
	r->correlation = x->correlationId;
	r->id = x->externalKind;
	r->bytes = x->externalId;
}

static void take(const CUpti_Activity *record)
{
	if (ct_count == MAX_RECORDS)
		return;
	struct ct_record *r = &ct_records[ct_count++];
	*r = (struct ct_record){.kind = record->kind, .buffer = ct_buffers};
	switch (record->kind) {
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
	case CUPTI_ACTIVITY_KIND_KERNEL: kernel((const CUpti_ActivityKernel9 *)record, r); break;
	case CUPTI_ACTIVITY_KIND_MEMCPY: copy((const CUpti_ActivityMemcpy5 *)record, r); break;
	case CUPTI_ACTIVITY_KIND_MEMSET: memset_((const CUpti_ActivityMemset4 *)record, r); break;
	case CUPTI_ACTIVITY_KIND_DRIVER:
	case CUPTI_ACTIVITY_KIND_RUNTIME: api((const CUpti_ActivityAPI *)record, r); break;
	case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
		synchronization((const CUpti_ActivitySynchronization *)record, r);
		break;
	case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: graph((const CUpti_ActivityGraphTrace *)record, r); break;
	case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
		external((const CUpti_ActivityExternalCorrelation *)record, r);
		break;
	default: break;
	}
}

static void completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	CUpti_Activity *record = NULL;
	(void)context;
	(void)stream;
	(void)size;
	ct_complete_thread = (unsigned long)pthread_self();
	while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
		take(record);
	ct_buffers++;
	free(buffer);
}

CUptiResult ct_begin(const uint32_t *kinds)
{
	ct_count = ct_buffers = ct_requests = 0;
	ct_refuse = false;
	CUptiResult result = cuptiActivityRegisterCallbacks(requested, completed);
	memset(kinds_on, 0, sizeof kinds_on);
	for (int i = 0; kinds[i] && i < MAX_KINDS - 1 && result == CUPTI_SUCCESS; i++) {
		result = cuptiActivityEnable((CUpti_ActivityKind)kinds[i]);
		kinds_on[i] = kinds[i];
	}
	return result;
}

CUptiResult ct_end(void)
{
	CUptiResult result = cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	for (int i = 0; kinds_on[i]; i++) {
		CUptiResult disabled = cuptiActivityDisable((CUpti_ActivityKind)kinds_on[i]);
		if (result == CUPTI_SUCCESS)
			result = disabled;
	}
	return result;
}

const struct ct_record *ct_find(uint32_t kind, int nth)
{
	for (int i = 0; i < ct_count; i++)
		if (ct_records[i].kind == kind && nth-- == 0)
			return &ct_records[i];
	return NULL;
}

int ct_number(uint32_t kind)
{
	int number = 0;
	while (ct_find(kind, number))
		number++;
	return number;
}
#endif
