/*
 * answers.c - what the program is told about memory that the policy holds.
 *
 * The driver knows whole driver allocations only: it says that memory is live which the program
 * has freed, and tells the size that the first owner got. So its answer is corrected for
 * blocks of the table, found by the base that the driver itself names. About memory that
 * the program has freed the driver is asked again, with an address that is nobody's: what it
 * says then, in status and values, is what it says about freed memory.
 *
 * The cost for memory that is not ours is the lookup. The plural query asks for the base along with the rest.
 */
#include <cuda.h>
#include <stdint.h>
#include <string.h>

#include "answers_peers.h"
#include "block.h"
#include "devmem.h"
#include "real.h"
#include "stream.h"
#include "stream_device.h"

enum whose {
	WHOSE_OTHER, /* the driver's answer stands */
	WHOSE_LIVE,  /* the program's, from us */
	WHOSE_FREED, /* ours: the program has freed it, or was never given so much */
};
struct owner {
	enum whose whose;
	CUdeviceptr base;
	size_t bytes;                 /* that the program asked for */
	unsigned long long buffer_id; /* 0: the driver's */
};
static const struct owner others = {.whose = WHOSE_OTHER}, freed = {.whose = WHOSE_FREED};

/* Devices, asked for once. */
static int device_count(void)
{
	static int known; /* relaxed: every thread finds the same */
	int count = __atomic_load_n(&known, __ATOMIC_RELAXED);

	if (__builtin_expect(!count, 0) && REAL(cuDeviceGetCount)(&count) == CUDA_SUCCESS)
		__atomic_store_n(&known, count, __ATOMIC_RELAXED);
	return count;
}

/* Memory of the stream-ordered heap, which the driver knows as a mapping of ours. No driver call. */
static struct owner owner_in_heap(CUdeviceptr ptr)
{
	struct heap_view_of view;

	if (__atomic_load_n(&stream_state, __ATOMIC_RELAXED) != STREAM_SERVING)
		return others;
	for (int i = 0, n = device_count(); i < n; i++) {
		struct stream_device *dev = stream_device_at(i);
		struct heap *heap = dev ? atomic_load_explicit(&dev->heap, memory_order_acquire) : NULL;
		if (!heap || !heap_owns(heap, ptr))
			continue;
		return heap_look(heap, ptr, &view) ? (struct owner){WHOSE_LIVE, view.base, view.asked, view.id}
										   : freed;
	}
	return others;
}

/* `base` is what the driver says. */
static struct owner owner_at(CUdeviceptr ptr, CUdeviceptr base)
{
	struct block_view view;

	if (!base || !block_look(base, &view))
		return others;
	if (view.state != BLOCK_LIVE || ptr - base >= view.asked)
		return freed;
	return (struct owner){WHOSE_LIVE, base, view.asked, view.buffer_id};
}

/* The allocation around `ptr`, as the driver has it; *base 0: it knows of none. The plural call, because the
 * singular one raises an error that a debugger or profiler would show. Needs no context. */
static CUresult allocation_at(CUdeviceptr ptr, CUdeviceptr *base, size_t *bytes)
{
	CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
	void *where[] = {base, bytes};

	*base = 0;
	*bytes = 0;
	return REAL(cuPointerGetAttributes)(2, what, where, ptr);
}

/* What is known without a call: most pointers are the base. */
static struct owner owner_near(CUdeviceptr ptr)
{
	struct owner owner = owner_in_heap(ptr);

	return owner.whose != WHOSE_OTHER ? owner : owner_at(ptr, ptr);
}

static struct owner owner_of(CUdeviceptr ptr)
{
	struct owner owner = owner_near(ptr);
	CUdeviceptr base;
	size_t bytes;

	if (owner.whose != WHOSE_OTHER)
		return owner;
	return allocation_at(ptr, &base, &bytes) == CUDA_SUCCESS ? owner_at(ptr, base) : others;
}

/* ---- ranges ---- */

CUresult devmem_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr ptr)
{
	struct owner owner = owner_in_heap(ptr);
	CUdeviceptr start = 0;
	size_t size = 0;
	CUresult status;

	if (owner.whose == WHOSE_FREED)
		return REAL(cuMemGetAddressRange_v2)(base, bytes, DEVMEM_NOBODYS);
	if (!base && !bytes)
		return REAL(cuMemGetAddressRange_v2)(base, bytes, devmem_asked(ptr));
	status = REAL(cuMemGetAddressRange_v2)(&start, &size, ptr);
	if (status != CUDA_SUCCESS)
		return status;
	if (owner.whose == WHOSE_OTHER)
		owner = owner_at(ptr, start);
	if (owner.whose == WHOSE_FREED)
		return REAL(cuMemGetAddressRange_v2)(base, bytes, DEVMEM_NOBODYS);
	if (base)
		*base = owner.whose == WHOSE_LIVE ? owner.base : start;
	if (bytes)
		*bytes = owner.whose == WHOSE_LIVE ? owner.bytes : size;
	return CUDA_SUCCESS;
}

/* ---- attributes ---- */

static void correct(CUpointer_attribute attribute, void *value, const struct owner *owner)
{
	if (!value || owner->whose != WHOSE_LIVE)
		return;
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: memcpy(value, &owner->base, sizeof(owner->base)); break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE: memcpy(value, &owner->bytes, sizeof(owner->bytes)); break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		if (owner->buffer_id)
			memcpy(value, &owner->buffer_id, sizeof(owner->buffer_id));
		break;
	default: break;
	}
}

/* What only the driver's allocation tells, or what has a consequence. */
static bool needs_base(CUpointer_attribute attribute)
{
	return attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
		   attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE || attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
		   attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS;
}

/*
 * Of the other attributes one is true of any owner, and only freed memory is to be told. That is looked
 * for at the very address: a pointer into the middle of freed memory is not worth a second call of
 * the driver at every question.
 */
CUresult devmem_attribute(void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	CUresult status = REAL(cuPointerGetAttribute)(value, attribute, ptr);
	struct owner owner;

	if (status != CUDA_SUCCESS)
		return status;
	owner = needs_base(attribute) ? owner_of(ptr) : owner_near(ptr);
	if (owner.whose == WHOSE_FREED)
		return REAL(cuPointerGetAttribute)(value, attribute, DEVMEM_NOBODYS);
	correct(attribute, value, &owner);
	/* The tokens open the memory to other devices. */
	if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS && owner.whose == WHOSE_LIVE)
		devmem_keep_out(ptr, 1);
	return status;
}

/* All attributes that there are, and one. */
#define ATTRIBUTES_MAX 32

/* What the driver leaves alone when it knows nothing of an address. */
static bool is_left_alone(CUpointer_attribute attribute)
{
	return attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR || attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE;
}

/* An unknown address is called a host pointer to itself. */
static CUresult freed_attributes(unsigned count, CUpointer_attribute *attributes, void **values,
								 CUdeviceptr ptr)
{
	CUresult status = REAL(cuPointerGetAttributes)(count, attributes, values, DEVMEM_NOBODYS);
	CUdeviceptr named;

	for (unsigned i = 0; i < count && status == CUDA_SUCCESS; i++) {
		if (attributes[i] != CU_POINTER_ATTRIBUTE_HOST_POINTER &&
			attributes[i] != CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
			continue;
		memcpy(&named, values[i], sizeof(named));
		if (named == DEVMEM_NOBODYS)
			memcpy(values[i], &ptr, sizeof(ptr));
	}
	return status;
}

/* The question with one attribute more, the base; `owner` is set when it has an answer. Of memory that
 * the program has freed what the driver would have left alone is put back. */
static CUresult asked_with_base(unsigned count, CUpointer_attribute *attributes, void **values,
								CUdeviceptr ptr, struct owner *owner)
{
	CUpointer_attribute what[ATTRIBUTES_MAX];
	void *where[ATTRIBUTES_MAX];
	uint64_t before[ATTRIBUTES_MAX];
	CUdeviceptr base = 0;
	CUresult status;

	for (unsigned i = 0; i < count; i++) {
		what[i] = attributes[i];
		where[i] = values[i];
		if (is_left_alone(what[i]) && where[i])
			memcpy(&before[i], where[i], sizeof(before[i]));
	}
	what[count] = CU_POINTER_ATTRIBUTE_RANGE_START_ADDR;
	where[count] = &base;
	status = REAL(cuPointerGetAttributes)(count + 1, what, where, ptr);
	if (status != CUDA_SUCCESS) /* the program's mistake, or a driver of before 2019, which has no ranges */
		return REAL(cuPointerGetAttributes)(count, attributes, values, ptr);
	*owner = owner_at(ptr, base);
	for (unsigned i = 0; i < count && owner->whose == WHOSE_FREED; i++)
		if (is_left_alone(what[i]))
			memcpy(where[i], &before[i], sizeof(before[i]));
	return status;
}

CUresult devmem_attributes(unsigned count, CUpointer_attribute *attributes, void **values, CUdeviceptr ptr)
{
	struct owner owner = others;
	CUresult status;

	if (!count || count >= ATTRIBUTES_MAX || !attributes || !values)
		return REAL(cuPointerGetAttributes)(count, attributes, values, ptr);
	owner = owner_in_heap(ptr);
	if (owner.whose == WHOSE_OTHER)
		status = asked_with_base(count, attributes, values, ptr, &owner);
	else if (owner.whose == WHOSE_LIVE)
		status = REAL(cuPointerGetAttributes)(count, attributes, values, ptr);
	else
		status = CUDA_SUCCESS;
	if (status != CUDA_SUCCESS)
		return status;
	if (owner.whose == WHOSE_FREED)
		return freed_attributes(count, attributes, values, ptr);
	for (unsigned i = 0; i < count; i++)
		correct(attributes[i], values[i], &owner);
	return status;
}

/* ---- memory that is shown to others ---- */

CUdeviceptr devmem_asked(CUdeviceptr ptr)
{
	return owner_of(ptr).whose == WHOSE_FREED ? DEVMEM_NOBODYS : ptr;
}

bool devmem_is_heap(CUdeviceptr ptr)
{
	return owner_in_heap(ptr).whose != WHOSE_OTHER;
}

void devmem_keep_out(CUdeviceptr ptr, size_t bytes)
{
	CUdeviceptr end = ptr + bytes, base;
	size_t size;

	do {
		/* Memory that others see must not be missed: there is a second way to ask. */
		if (allocation_at(ptr, &base, &size) != CUDA_SUCCESS &&
			REAL(cuMemGetAddressRange_v2)(&base, &size, ptr) != CUDA_SUCCESS)
			base = ptr;
		block_flag(base, BLOCK_KEEP_OUT);
		ptr = base + size;
	} while (size && ptr < end);
}

/* ---- peer access ---- */

void devmem_peer(CUcontext owner, bool enabled)
{
	CUcontext current = NULL;

	if (REAL(cuCtxGetCurrent)(&current) == CUDA_SUCCESS)
		peers_set(owner, current, enabled);
}
