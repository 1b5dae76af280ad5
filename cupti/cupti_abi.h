/*
 * cupti_abi.h - what the recorder uses of CUPTI, declared by ourselves.
 *
 * The library is built where no CUPTI header is, and runs with whichever CUPTI the process has. NVIDIA
 * only appends to a record's structure, so the beginnings below fit every version from 12.0 on;
 * tests/unit/test_timeline_layout.c compares each offset with the installed header. A record's size is never
 * taken from here: cuptiActivityGetNextRecord() alone knows it.
 */
#ifndef TURBO_CUPTI_ABI_H
#define TURBO_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int cupti_result;

enum {
	CUPTI_OK = 0,
	CUPTI_END_OF_BUFFER = 12, /* CUPTI_ERROR_MAX_LIMIT_REACHED */
	CUPTI_NO_MORE_KINDS = 21, /* CUPTI_ERROR_INVALID_KIND: the record's, or one that is not supported */
	CUPTI_NOT_SUPPORTED = 27,
	CUPTI_NO_PRIVILEGE = 35,
	CUPTI_OTHER_CLIENT = 39, /* CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED */
	CUPTI_NO_PRIVILEGE_VIRTUAL = 40
};

/* CUpti_ActivityKind */
enum {
	CUPTI_MEMCPY = 1,
	CUPTI_MEMSET = 2,
	CUPTI_DRIVER = 4,
	CUPTI_RUNTIME = 5,
	CUPTI_CONCURRENT_KERNEL = 10,
	CUPTI_OVERHEAD = 17,
	CUPTI_MEMCPY2 = 22,
	CUPTI_SYNCHRONIZATION = 38,
	CUPTI_GRAPH_TRACE = 51
};

enum {
	CUPTI_FLUSH_FORCED = 1,
	CUPTI_ATTR_ZEROED_OUT = 5, /* uint8_t */
	CUPTI_THREAD_ID_SYSTEM = 1,
	CUPTI_MEMCPY_ASYNC = 1,
	CUPTI_DOMAIN_DRIVER = 1, /* CUPTI_CB_DOMAIN_DRIVER_API */
	CUPTI_DOMAIN_RUNTIME = 2,
	CUPTI_SITE_EXIT = 1 /* CUPTI_API_EXIT */
};

/* CUPTI packs its records to 8 bytes; so do these without being told. */
struct cupti_record {
	uint32_t kind;
};

struct cupti_kernel { /* CUpti_ActivityKernel9 and later */
	uint32_t kind;
	uint8_t cache_config, shared_config;
	uint16_t registers;
	uint32_t unused_8, unused_12;
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	int32_t grid[3], block[3];
	int32_t static_shared, dynamic_shared;
	uint32_t local_a_thread, local_total;
	uint32_t correlation;
	int64_t grid_id;
	const char *name;
	void *unused_112;
	uint64_t queued, submitted;
	uint8_t unused_136[4];
	uint32_t shared_executed;
	uint64_t graph_node;
	uint32_t shared_limit;
	uint32_t graph;
	void *access_policy;
	uint32_t channel, channel_type;
	uint32_t cluster[3];
};

struct cupti_memcpy { /* CUpti_ActivityMemcpy5 and later */
	uint32_t kind;
	uint8_t direction, from, to, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream;
	uint32_t correlation, runtime_correlation, unused_52;
	void *unused_56;
	uint64_t graph_node;
	uint32_t graph;
};

struct cupti_memcpy2 { /* CUpti_ActivityMemcpyPtoP4 */
	uint32_t kind;
	uint8_t direction, from, to, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream;
	uint32_t from_device, from_context, to_device, to_context;
	uint32_t correlation;
	void *unused_64;
	uint64_t graph_node;
	uint32_t graph;
};

struct cupti_memset { /* CUpti_ActivityMemset4 */
	uint32_t kind, value;
	uint64_t bytes, start, end;
	uint32_t device, context, stream;
	uint32_t correlation;
	uint16_t flags, memory_kind;
	uint32_t unused_52;
	void *unused_56;
	uint64_t graph_node;
	uint32_t graph;
};

struct cupti_call { /* CUpti_ActivityAPI */
	uint32_t kind, callback;
	uint64_t start, end;
	uint32_t process, thread, correlation, returned;
};

struct cupti_wait { /* CUpti_ActivitySynchronization, 2 */
	uint32_t kind, type;
	uint64_t start, end;
	uint32_t correlation, context, stream, event;
};

struct cupti_overhead { /* CUpti_ActivityOverhead2 and later */
	uint32_t kind, overhead, object_kind;
	uint32_t object[3];
	uint64_t start, end;
};

struct cupti_graph { /* CUpti_ActivityGraphTrace, 2 */
	uint32_t kind, correlation;
	uint64_t start, end;
	uint32_t device, graph, context, stream;
};

/* CUpti_CallbackData, its first member. */
struct cupti_callback_data {
	uint32_t site;
};

typedef void cupti_requested(uint8_t **buffer, size_t *size, size_t *most_records);
typedef void cupti_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
typedef void cupti_callback(void *arg, uint32_t domain, uint32_t callback, const void *data);
typedef uint64_t cupti_timestamp(void);

/* CUpti_SubscriberParams */
struct cupti_subscriber_params {
	size_t size;
	const char *name;
	char *old_name;
	size_t old_name_size;
};

#endif
