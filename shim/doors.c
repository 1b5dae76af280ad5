/* doors.c - calls of the program on their way past pending all-gathers. */
#include "doors.h"

#include <errno.h>

#include "doors_work.h"
#include "inside.h"
#include "lookup.h"
#include "real.h"

/* ---- the table, and that it is right ---- */

#define DOOR_TYPE(symbol, types)                                                         \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), CUresult(*) types), \
				   #symbol " has not the parameters that doors.awk has read");
/* Not passed in two registers, in memory or as a floating-point number (8: gcc's real_type_class). */
#define DOOR_WORD(type)                                                           \
	_Static_assert(sizeof(type) <= 8 && __builtin_classify_type(*(type *)0) != 8, \
				   "an argument before the stream is not one integer: " #type);
#define DOOR_ROW(symbol, class, first, second, per_thread)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "door_table.inc"
#pragma GCC diagnostic pop
#undef DOOR_TYPE
#undef DOOR_WORD
#undef DOOR_ROW

#define DOOR_TYPE(symbol, types)
#define DOOR_WORD(type)
#define DOOR_ROW(symbol, class, first, second, per_thread) \
	[HOOK_##symbol] = {DOOR_##class, first, second, per_thread},
const struct door door_table[HOOK_COUNT] = {
#include "door_table.inc"
};

/* The stubs look at one byte. */
_Static_assert(sizeof(coalesce_on) == 1, "coalesce_on");

#ifdef __aarch64__
#define IN_REGISTERS 8
#else
#define IN_REGISTERS 6
#endif

/* ---- who is told ---- */

/*
 * Calls come from few places. A word is a return address, below it the number of unloaded objects, modulo 2^15, at the time of the
 * answer, and the answer: is that NCCL's code? Relaxed: a word says all.
 */
#define CALLER_BITS 8
static _Atomic uint64_t callers[1 << CALLER_BITS];

static bool is_nccls(const void *caller)
{
	uint64_t place = (uint64_t)(uintptr_t)caller << 16 | (real_unloads() & 0x7fff) << 1;
	_Atomic uint64_t *known = &callers[place * UINT64_C(0x9e3779b97f4a7c15) >> (64 - CALLER_BITS)];
	uint64_t answer = atomic_load_explicit(known, memory_order_relaxed);

	if ((answer & ~UINT64_C(1)) != place) {
		answer = place | lookup_is_nccl(caller);
		atomic_store_explicit(known, answer, memory_order_relaxed);
	}
	return answer & 1;
}

/* A call of the program's own: neither libturbo's nor NCCL's. */
static bool is_programs(const void *caller)
{
	return !guard_inside() && !is_nccls(caller);
}

/* Something is pending, and the call may wait for whoever launches it. */
static bool is_heard(const void *caller)
{
	return atomic_load_explicit(&coalesce_pending, memory_order_relaxed) && is_programs(caller);
}

#define TELL(call)                   \
	do {                             \
		int saved_ = inside_begin(); \
		call;                        \
		inside_end(saved_);          \
	} while (0)

void doors_stream(enum hook_id id, CUstream stream, const void *caller)
{
	doors_work_submitted(stream);
	if (is_heard(caller))
		TELL(coalesce_before_stream(stream, door_table[id].per_thread, id));
}

void doors_wait(const void *caller)
{
	doors_work_submitted_anywhere();
	if (is_heard(caller))
		TELL(coalesce_before_wait());
}

void doors_unnamed(enum hook_id id, const void *caller)
{
	doors_work_submitted_anywhere();
	if (is_heard(caller))
		TELL(coalesce_before_stream(NULL, door_table[id].per_thread, id));
}

void doors_stream_sync(enum hook_id id, CUstream stream, const void *caller)
{
	doors_work_submitted_anywhere();
	if (is_heard(caller))
		TELL(coalesce_before_stream_sync(stream, door_table[id].per_thread));
}

void doors_event_sync(CUevent event, const void *caller)
{
	doors_work_submitted_anywhere();
	if (is_heard(caller))
		TELL(coalesce_before_event_sync(event));
}

void doors_graph_launch(enum hook_id id, CUstream stream, const void *caller)
{
	doors_work_forget_records();
	doors_stream(id, stream, caller);
}

/* ---- events ---- */

static void event_shown(CUevent event, const void *caller)
{
	if (is_heard(caller))
		TELL(coalesce_event_gone(event, false));
}

static void event_destroyed(CUevent event, const void *caller)
{
	doors_work_forget_record(event);
	if (is_programs(caller))
		TELL(coalesce_event_gone(event, true));
}

void doors_event_made(CUevent event, unsigned flags, const void *caller)
{
	if (is_programs(caller))
		TELL(coalesce_event_made(event, flags));
}

bool doors_record(enum hook_id id, CUevent event, CUstream stream, unsigned flags, const void *caller,
				  CUresult *status, uint64_t *before)
{
	bool taken = false;

	if (is_heard(caller))
		TELL(taken = coalesce_record(event, stream, door_table[id].per_thread, flags, status));
	if (taken)
		doors_work_forget_record(event);
	*before = doors_submissions(stream);
	return taken;
}

void doors_recorded(enum hook_id id, CUevent event, CUstream stream, uint64_t before, const void *caller)
{
	if (!is_programs(caller))
		return;
	/* What another process may have recorded since is not known. */
	if (coalesce_event_is_ours(event))
		TELL(doors_work_recorded(event, stream, door_table[id].per_thread, before));
	else
		doors_work_forget_record(event);
}

bool doors_event_query(CUevent event, const void *caller)
{
	return is_heard(caller) && coalesce_event_query(event);
}

/* ---- streams ---- */

bool doors_stream_query(enum hook_id id, CUstream stream, const void *caller)
{
	return is_heard(caller) && coalesce_stream_query(stream, door_table[id].per_thread);
}

void doors_stream_wait(enum hook_id id, CUstream stream, CUevent event, const void *caller)
{
	doors_work_submitted(stream);
	if (is_heard(caller))
		TELL(coalesce_before_stream_wait(stream, door_table[id].per_thread, event));
}

void doors_stream_waited(enum hook_id id, CUstream stream, CUevent event, const void *caller)
{
	if (is_programs(caller))
		TELL(coalesce_stream_waited(stream, door_table[id].per_thread, event));
}

void doors_stream_made(CUstream stream, unsigned flags)
{
	doors_work_stream(stream, flags & CU_STREAM_NON_BLOCKING);
}

void doors_stream_gone(CUstream stream, const void *caller)
{
	doors_wait(caller);
	if (is_programs(caller))
		TELL(coalesce_stream_gone(stream));
	doors_work_stream(stream, false);
}

void doors_context_gone(void)
{
	doors_work_forget_streams();
	doors_work_forget_records();
}

/* ---- counted functions ---- */

void doors_counted(enum hook_id id, const uint64_t *in_registers, const uint64_t *on_stack,
				   const void *caller)
{
	const struct door *door = &door_table[id];
#define WORD(n) ((void *)(uintptr_t)((n) < IN_REGISTERS ? in_registers[n] : on_stack[(n)-IN_REGISTERS]))

	switch ((enum door_class)door->class) {
	case DOOR_STREAMS:
		doors_stream(id, WORD(door->second), caller);
		doors_stream(id, WORD(door->first), caller);
		break;
	case DOOR_STREAM: doors_stream(id, WORD(door->first), caller); break;
	case DOOR_EVENTS:
		event_shown(WORD(door->second), caller);
		event_shown(WORD(door->first), caller);
		break;
	case DOOR_EVENT: event_shown(WORD(door->first), caller); break;
	case DOOR_RECORDED:
		doors_work_forget_record(WORD(door->first));
		doors_event_sync(WORD(door->first), caller);
		break;
	case DOOR_GONE: event_destroyed(WORD(door->first), caller); break;
	case DOOR_WAIT: doors_wait(caller); break;
	case DOOR_UNNAMED: doors_unnamed(id, caller); break;
	case DOOR_NONE:
	case DOOR_OWN: break;
	}
#undef WORD
}
