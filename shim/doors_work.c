/* doors_work.c - counters of submissions by stream, and the last records of events. */
#include "doors_work.h"

#include <stdatomic.h>

#include "capture.h"
#include "doors.h"
#include "real.h"

static unsigned hash(const void *handle, unsigned bits)
{
	return (unsigned)((uint64_t)(uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15) >> (64 - bits));
}

/* ---- submissions ---- */

#define COUNTER_BITS 6
struct counter {
	_Atomic uint64_t n; /* relaxed: doors_work.h */
} __attribute__((aligned(64)));
static struct counter counters[1 << COUNTER_BITS]; /* of non-blocking streams */
static struct counter blocking;                    /* of all others */
static struct counter anywhere;

/* Streams that were made non-blocking: each is in one of PROBES places after its hash, or has found none and counts as
 * blocking. Relaxed: who uses a stream has been told of it by who made it. */
#define STREAM_BITS 9
#define PROBES 8
static CUstream _Atomic streams[(1 << STREAM_BITS) + PROBES];

static bool is_non_blocking(CUstream stream)
{
	CUstream _Atomic *home = &streams[hash(stream, STREAM_BITS)];

	if ((uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD) /* the default streams */
		return false;
	for (unsigned i = 0; i < PROBES; i++)
		if (atomic_load_explicit(&home[i], memory_order_relaxed) == stream)
			return true;
	return false;
}

void doors_work_stream(CUstream stream, bool non_blocking)
{
	CUstream _Atomic *home = &streams[hash(stream, STREAM_BITS)];

	for (unsigned i = 0; i < PROBES; i++) {
		CUstream there = stream;
		atomic_compare_exchange_strong_explicit(&home[i], &there, NULL, memory_order_relaxed,
												memory_order_relaxed);
	}
	for (unsigned i = 0; non_blocking && i < PROBES; i++) {
		CUstream there = NULL;
		if (atomic_compare_exchange_strong_explicit(&home[i], &there, stream, memory_order_relaxed,
													memory_order_relaxed))
			return;
	}
}

void doors_work_forget_streams(void)
{
	for (unsigned i = 0; i < sizeof(streams) / sizeof(streams[0]); i++)
		atomic_store_explicit(&streams[i], NULL, memory_order_relaxed);
}

static struct counter *counter_of(CUstream stream)
{
	return is_non_blocking(stream) ? &counters[hash(stream, COUNTER_BITS)] : &blocking;
}

void doors_work_submitted(CUstream stream)
{
	atomic_fetch_add_explicit(&counter_of(stream)->n, 1, memory_order_relaxed);
}

void doors_work_submitted_anywhere(void)
{
	atomic_fetch_add_explicit(&anywhere.n, 1, memory_order_relaxed);
}

/* A sum of two that only grow: equal sums are of equal parts. Below it is whose sum it is: a stream that is no longer known
 * to be non-blocking has another counter. */
uint64_t doors_submissions(CUstream stream)
{
	const struct counter *counter = counter_of(stream);
	uint64_t sum = atomic_load_explicit(&counter->n, memory_order_relaxed) +
				   atomic_load_explicit(&anywhere.n, memory_order_relaxed);

	return sum << (COUNTER_BITS + 1) | (counter == &blocking ? 1 : (uint64_t)(counter - counters + 2));
}

/* ---- records ---- */

/*
 * One place an event may be in, by its hash; a later event takes it. `version` is odd while a thread writes. A thread that
 * finds another one writing leaves a mark instead, and what is written meanwhile counts for nothing. Written with release, read
 * with acquire: whoever sees a word of a writer sees that it was writing.
 */
struct record {
	_Atomic uint64_t version;
	_Atomic uint64_t disturbed, undisturbed; /* equal: nobody was in the way of the writer */
	_Atomic uint64_t epoch;
	_Atomic uintptr_t event, stream, ctx;
	_Atomic uint64_t before, after;
} __attribute__((aligned(128)));
#define RECORD_BITS 10
static struct record records[1 << RECORD_BITS];
/* What was recorded before this grew is forgotten. */
static _Atomic uint64_t epoch = 1;

#define GET(field) atomic_load_explicit(&(field), memory_order_acquire)
#define PUT(field, value) atomic_store_explicit(&(field), (value), memory_order_release)

/* `last` NULL: nothing is known of it any more. */
static void write_record(CUevent event, const struct doors_last *last, uint64_t now)
{
	struct record *r = &records[hash(event, RECORD_BITS)];
	uint64_t version = GET(r->version), disturbed = GET(r->disturbed);

	if (version & 1 || !atomic_compare_exchange_strong_explicit(&r->version, &version, version + 1,
																memory_order_acq_rel, memory_order_relaxed)) {
		atomic_fetch_add_explicit(&r->disturbed, 1, memory_order_acq_rel);
		return;
	}
	if (last || GET(r->event) == (uintptr_t)event) {
		PUT(r->event, last ? (uintptr_t)event : 0);
		PUT(r->epoch, now);
		PUT(r->undisturbed, disturbed);
	}
	if (last) {
		PUT(r->stream, (uintptr_t)last->stream);
		PUT(r->ctx, (uintptr_t)last->ctx);
		PUT(r->before, last->before);
		PUT(r->after, last->after);
	}
	PUT(r->version, version + 2);
}

void doors_work_recorded(CUevent event, CUstream stream, bool per_thread, uint64_t before)
{
	struct doors_last last = {.stream = stream, .before = before, .after = doors_submissions(stream)};
	uint64_t now = GET(epoch);

	/* A thread's own stream has no name; what is captured happens when a graph is launched; a default stream is its
	 * context's. */
	if (stream == CU_STREAM_PER_THREAD || (!stream && per_thread) || capture_live() ||
		((!stream || stream == CU_STREAM_LEGACY) && REAL(cuCtxGetCurrent)(&last.ctx) != CUDA_SUCCESS))
		doors_work_forget_record(event);
	else
		write_record(event, &last, now);
}

void doors_work_forget_record(CUevent event)
{
	const struct record *r = &records[hash(event, RECORD_BITS)];

	if (GET(r->event) == (uintptr_t)event || GET(r->version) & 1)
		write_record(event, NULL, 0);
}

void doors_work_forget_records(void)
{
	atomic_fetch_add_explicit(&epoch, 1, memory_order_acq_rel);
}

bool doors_last_record(CUevent event, struct doors_last *last)
{
	const struct record *r = &records[hash(event, RECORD_BITS)];
	uint64_t version = GET(r->version);
	bool known = !(version & 1) && GET(r->event) == (uintptr_t)event && GET(r->epoch) == GET(epoch) &&
				 GET(r->disturbed) == GET(r->undisturbed);

	last->stream = (CUstream)GET(r->stream);
	last->ctx = (CUcontext)GET(r->ctx);
	last->before = GET(r->before);
	last->after = GET(r->after);
	return known && GET(r->version) == version;
}
