/*
 * cupti_client.h - a CUPTI client for tests of all suites: buffers, and what was in them. It links libcupti.
 */
#ifndef CUPTI_CLIENT_H
#define CUPTI_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Not cupti.h: it has no place for __CUDA_API_VERSION_INTERNAL. */
#include <cupti_activity.h>
#include <cupti_version.h>

#define CT_BUFFER 65536

/* A record, with what the tests look at. */
struct ct_record {
	uint32_t kind, correlation, device, context, stream, id; /* id: callback, graph or external id */
	uint64_t start, end, bytes, node;
	uint32_t grid[3], block[3];
	uint8_t copy, from, to;
	char name[32];
	int buffer; /* number of the buffer that it came in */
};

/* Since ct_begin: records in the order in which buffers were completed. Not while buffers are being completed. */
extern struct ct_record ct_records[];
extern int ct_count, ct_buffers, ct_requests;
extern unsigned long ct_complete_thread, ct_request_thread; /* of the last callback, as pthread_self() says */
extern bool ct_refuse;                                      /* give no buffer */

/* Registers the callbacks, forgets what came before, enables the kinds (0 ends them). The first error. */
CUptiResult ct_begin(const uint32_t *kinds);
/* Flushes, disables the kinds of ct_begin. The first error. */
CUptiResult ct_end(void);
/* The nth record of a kind since ct_begin, from 0; NULL: there are not so many. */
const struct ct_record *ct_find(uint32_t kind, int nth);
int ct_number(uint32_t kind);

#endif
