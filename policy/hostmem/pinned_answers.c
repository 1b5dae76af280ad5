/*
 * pinned_answers.c - what the program is told about pinned memory that was handed out again or that it has freed.
 *
 * The driver knows whole blocks of its own: it calls memory pinned that the program has freed, and tells the size that
 * the first owner got. About freed memory the driver is asked with an address that is nobody's instead: what it
 * says then, in status and values, is what it says about freed memory.
 */
#define _GNU_SOURCE
#include <string.h>

#include "pinned.h"
#include "pinned_table.h"
#include "real.h"

#define NOBODYS ((CUdeviceptr)4096)

static bool freed(const struct pinned_view *v, CUdeviceptr at)
{
	return v->state != PINNED_LIVE || at - v->base >= v->asked;
}

CUdeviceptr pinned_asked(CUdeviceptr at)
{
	struct pinned_view v;
	return pinned_look(at, &v) && freed(&v, at) ? NOBODYS : at;
}

bool pinned_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr at, CUresult *status)
{
	struct pinned_view v;
	if (!pinned_look(at, &v))
		return false;
	*status = REAL(cuMemGetAddressRange_v2)(base, bytes, freed(&v, at) ? NOBODYS : at);
	if (*status == CUDA_SUCCESS && bytes && *bytes == v.size)
		*bytes = v.asked;
	return true;
}

static void correct(CUpointer_attribute attribute, void *value, const struct pinned_view *v)
{
	if (value && attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
		memcpy(value, &v->asked, sizeof(v->asked));
	else if (value && attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID && v->buffer_id)
		memcpy(value, &v->buffer_id, sizeof(v->buffer_id));
}

bool pinned_attribute(void *value, CUpointer_attribute attribute, CUdeviceptr at, CUresult *status)
{
	struct pinned_view v;
	if (!pinned_look(at, &v))
		return false;
	bool gone = freed(&v, at);
	*status = REAL(cuPointerGetAttribute)(value, attribute, gone ? NOBODYS : at);
	if (*status == CUDA_SUCCESS && !gone)
		correct(attribute, value, &v);
	return true;
}

/* An unknown address is called a host pointer to itself. */
static void name_itself(CUpointer_attribute attribute, void *value, CUdeviceptr at)
{
	CUdeviceptr named;
	if (attribute != CU_POINTER_ATTRIBUTE_HOST_POINTER && attribute != CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
		return;
	memcpy(&named, value, sizeof(named));
	if (named == NOBODYS)
		memcpy(value, &at, sizeof(at));
}

bool pinned_attributes(unsigned count, CUpointer_attribute *attributes, void **values, CUdeviceptr at,
					   CUresult *status)
{
	struct pinned_view v;
	if (!pinned_look(at, &v))
		return false;
	bool gone = freed(&v, at);
	*status = REAL(cuPointerGetAttributes)(count, attributes, values, gone ? NOBODYS : at);
	for (unsigned i = 0; i < count && *status == CUDA_SUCCESS; i++)
		if (gone)
			name_itself(attributes[i], values[i], at);
		else
			correct(attributes[i], values[i], &v);
	return true;
}

/* A setting stays with the block: it is not for the next owner. */
bool pinned_set_attribute(const void *value, CUpointer_attribute attribute, CUdeviceptr at, CUresult *status)
{
	struct pinned_view v;
	if (!pinned_look(at, &v))
		return false;
	*status = REAL(cuPointerSetAttribute)(value, attribute, freed(&v, at) ? NOBODYS : at);
	if (*status != CUDA_SUCCESS)
		return true;
	pthread_mutex_lock(&pinned_lock);
	struct pinned_block *b = pinned_find(at);
	if (b)
		b->keep_out = true;
	pthread_mutex_unlock(&pinned_lock);
	return true;
}
