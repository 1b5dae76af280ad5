/*
 * trace_build.h - timeline files made by hand, valid or broken, for tests of what reads them.
 *
 * Written from cupti/record.h alone and without the recorder's code, so that the two check each other. Any
 * failure (a full disk, a table without room) ends the test. Not thread-safe.
 *
 *     struct trace_build *b = trace_build_open(path, &(struct trace_build_setup){.rank = 2, .ranks = 4});
 *     uint16_t stream = trace_build_stream(b, 0, 7);
 *     trace_build_kernel(b, stream, trace_build_kernel_entry(b, "_Z4axpyifPfS_", 64, 256), 1000, 250, 17);
 *     trace_build_close(b);
 *
 * To break a file: change trace_build_header(b) before the close, put nonsense with trace_build_put(), or
 * trace_build_poke() the closed file.
 */
#ifndef TURBO_TEST_TRACE_BUILD_H
#define TURBO_TEST_TRACE_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti/record.h"

struct trace_build;

/* What is 0 gets a default. */
struct trace_build_setup {
	int rank, ranks;         /* default: -1, where both are 0 */
	uint32_t chunks;         /* of the ring (16); when they are full, the oldest is overwritten */
	uint32_t names;          /* bytes of the name table (64 KiB) */
	uint32_t entries;        /* (4096) */
	uint32_t lanes;          /* (256) */
	uint32_t clocks;         /* (64) */
	uint64_t start_ns;       /* (TRACE_BUILD_START) */
	uint32_t devices;        /* filled with an H200's figures (1) */
	enum timeline_mode mode; /* (kernel) */
	bool packed;             /* tables one behind the other, without room between them: small files */
};

/* 2026-01-01 00:00:00 UTC: times of records are best a little behind it. */
#define TRACE_BUILD_START 1767225600000000000ull

struct trace_build *trace_build_open(const char *path, const struct trace_build_setup *setup);
/* Good order: end_ns is set. */
void trace_build_close(struct trace_build *b);
/* As a process that is killed leaves it: end_ns is 0. */
void trace_build_kill(struct trace_build *b);

/* In the file: changes are there at once. */
struct timeline_header *trace_build_header(struct trace_build *b);

/* Elements are interned as the recorder does: the same again has the same index. */
uint32_t trace_build_name(struct trace_build *b, const char *name);
uint32_t trace_build_entry(struct trace_build *b, const struct timeline_entry *e, const char *name);
uint16_t trace_build_lane(struct trace_build *b, const struct timeline_lane *l, const char *name);
void trace_build_clock(struct trace_build *b, uint64_t cupti, uint64_t realtime, uint64_t raw);
void trace_build_put(struct trace_build *b, const struct timeline_record *r);
/* The next record begins a chunk of its own. */
void trace_build_next_chunk(struct trace_build *b);

/* ---- in a line ---- */

uint16_t trace_build_stream(struct trace_build *b, uint32_t device, uint32_t stream);
uint16_t trace_build_thread(struct trace_build *b, uint32_t thread);
/* An entry with nothing but a kind and a name. */
uint32_t trace_build_plain(struct trace_build *b, enum timeline_kind kind, const char *name);
uint32_t trace_build_kernel_entry(struct trace_build *b, const char *name, uint32_t grid, uint32_t block);
/* CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind: 1 HtoD, 2 DtoH, 8 DtoD; 1 pageable, 2 pinned, 3 device */
uint32_t trace_build_copy_entry(struct trace_build *b, uint32_t direction, uint32_t from, uint32_t to);
uint32_t trace_build_collective_entry(struct trace_build *b, const char *name, uint32_t communicator,
									  uint32_t rank, uint32_t ranks);
/* Times in ns; start counts from TRACE_BUILD_START (or setup's start_ns). A duration of more than 32 bits is
 * put in microseconds. */
void trace_build_add(struct trace_build *b, uint16_t lane, uint32_t entry, uint64_t start, uint64_t duration,
					 uint32_t correlation, uint64_t value);
static inline void trace_build_kernel(struct trace_build *b, uint16_t lane, uint32_t entry, uint64_t start,
									  uint64_t duration, uint32_t correlation)
{
	trace_build_add(b, lane, entry, start, duration, correlation, 0);
}

/* ---- closed files ---- */

void trace_build_poke(const char *path, uint64_t offset, const void *bytes, size_t n);
void trace_build_truncate(const char *path, uint64_t size);

#endif
