/*
 * internal.h - types shared by the files of the simulated CUPTI.
 *
 * cu.lock guards everything unless a field says otherwise; it is never held while a callback of
 * the client runs or the driver is called. cu.control is held by the functions that change what is
 * recorded and while a buffer is requested, as a lock of the real one is: a client that takes a lock of its own
 * in there and elsewhere around such calls hangs here too.
 */
#ifndef SIM_CUPTI_INTERNAL_H
#define SIM_CUPTI_INTERNAL_H

#include <cupti.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../cuda/sim_trace.h"
#include "../sim_cupti.h"

#define KINDS 64
#define CBIDS 1024
#define RECORD_MAX 512 /* bytes, with what SIM_CUPTI_GROW adds */

/* ---- configuration (conf.c): faults are relaxed atomics, the rest constant after the constructor ---- */
#define FAULTS(F)                                                                            \
	F(DROP)     /* one record in so many is lost, and counted */                             \
	F(ZERO)     /* one record in so many has no timestamps */                                \
	F(KEEP)     /* every so many-th buffer is never given back */                            \
	F(AT_EXIT)  /* what is left is delivered when the process is exiting */                  \
	F(SETTLE)   /* ms from the first record on in which the clock of the device is off */    \
	F(SLOW)     /* us that the worker sleeps before it gives a buffer back */                \
	F(SLOW_API) /* us that each traced call takes longer */                                  \
	F(DENY)     /* subscribing and enabling answer CUPTI_ERROR_INSUFFICIENT_PRIVILEGES */    \
	F(SILENT)   /* after so many records nothing is recorded any more */                     \
	F(STALE)    /* names of kernels are gone when the callback that got them has returned */ \
	F(STRICT)   /* flushing before a buffer was ever requested is a mistake */               \
	F(LOSE)     /* cuptiFinalize does not give buffers back */                               \
	F(BACKWARD) /* one record in so many ends before it starts */                            \
	F(UNKNOWN)  /* one record in so many is followed by one of a kind that no version knows */

enum fault {
#define F(name) FAULT_##name,
	FAULTS(F)
#undef F
		FAULT_COUNT
};

struct conf {
	uint32_t version; /* as cuptiGetVersion says it */
	uint32_t toolkit; /* xxyyzz */
	unsigned grow;    /* bytes by which all records are longer, as in a later version */
	uint64_t fault[FAULT_COUNT];
	bool quiet;
};
extern struct conf conf;

static inline uint64_t fault(enum fault which)
{
	return __atomic_load_n(&conf.fault[which], __ATOMIC_RELAXED);
}
/* True for one in fault(which), from the seed; never when that is 0. */
bool fault_strikes(enum fault which);
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool foreign_present(void);

/* ---- the library's state (state.c) ---- */
struct buffer;
struct item;

/* A thread's buffer; or, without PER_THREAD_ACTIVITY_BUFFER, everybody's. Never freed. */
struct slot {
	struct buffer *buffer;
	bool taken; /* by a living thread */
	struct slot *next;
};

struct subscriber {
	CUpti_CallbackFunc callback;
	void *user;
	char name[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN];
	bool live;
	bool enabled[CUPTI_CB_DOMAIN_SIZE][CBIDS];
};

struct setting { /* of a kind in one context */
	uint32_t context;
	uint32_t kind;
	bool on;
	struct setting *next;
};

struct cu {
	pthread_mutex_t lock, control;
	const struct sim_trace_driver *driver; /* NULL: not found */
	bool attached, in_exit;
	unsigned generation; /* + 1 at each cuptiFinalize; atomic */
	uint32_t correlation;

	CUpti_BuffersCallbackRequestFunc request;
	CUpti_BuffersCallbackCompleteFunc complete;
	CUpti_TimestampCallbackFunc clock;   /* atomic */
	uint64_t clock_real_ns, clock_began; /* when it was registered, in both clocks; written before it */
	bool on[KINDS];                      /* relaxed atomics */
	struct setting *settings;
	bool driver_on[CBIDS], runtime_on[CBIDS]; /* by kind or one by one */
	bool zeroed, per_thread;
	size_t attribute[16];
	uint32_t flush_ms;

	struct subscriber *subscriber; /* NULL: none. Kept when gone, so that stale handles are recognised. */

	struct slot *slots, common;
	struct buffer *full, **full_tail;   /* waiting for records that have not run */
	struct buffer *ready, **ready_tail; /* for the worker */
	struct buffer *kept;                /* SIM_CUPTI_KEEP, SIM_CUPTI_LOSE */
	pthread_cond_t work, delivered;
	bool has_worker, delivering, ever_asked;
	pthread_t worker;
	uint64_t queued, done; /* buffers handed to the worker, and those it is through with */

	uint64_t dropped; /* since cuptiActivityGetNumDroppedRecords */
	uint64_t dropped_all, zeroed_all, records[KINDS], held, in_flight;
	uint64_t first_record_ns;
};
extern struct cu cu;

enum inside { INSIDE_NOTHING, INSIDE_REQUEST, INSIDE_COMPLETE, INSIDE_ENTER, INSIDE_EXIT };
struct thread {
	enum inside inside; /* which of the client's callbacks runs on this thread */
	struct slot *slot;
	int depth[8]; /* of external correlation, by kind */
	uint64_t external[8][16];
};
extern __thread struct thread me;
uint32_t thread_number(void); /* as records say it */

/* The locks are as they were in the parent, and so is everything else: to be left alone. */
bool forked_child(void);
/* First in every function: counts the call. False: this is a forked child; the call must fail. */
bool entered(const char *function);
#define ENTER()                                 \
	do {                                        \
		if (!entered(__func__))                 \
			return CUPTI_ERROR_NOT_INITIALIZED; \
	} while (0)
/* ENTER, finds the driver and attaches. CUPTI_ERROR_UNKNOWN without a driver, as the real one. */
CUptiResult attach(void);
/* Locks cu.control; attaches again if the library was finalized meanwhile. */
void control_take(void);
#define NEED_DRIVER()                     \
	do {                                  \
		ENTER();                          \
		CUptiResult attached_ = attach(); \
		if (attached_ != CUPTI_SUCCESS)   \
			return attached_;             \
	} while (0)
/* Not from a buffer callback, which would hang a real one. */
#define NOT_INSIDE(where)                                                 \
	do {                                                                  \
		if (me.inside == (where)) {                                       \
			complain("%s inside a buffer callback would hang", __func__); \
			return CUPTI_ERROR_INVALID_OPERATION;                         \
		}                                                                 \
	} while (0)
uint64_t now_ns(void); /* CLOCK_REALTIME */

/* ---- records (record.c) ---- */
/* Room for a record of any kind and what SIM_CUPTI_GROW adds. */
#define RECORD(type, name)       \
	union {                      \
		type r;                  \
		uint8_t all[RECORD_MAX]; \
	} name = {.r = {0}};         \
	memset(&name, 0, sizeof name)
/* Bytes of a record of that kind in this version; 0: the kind is unknown. */
size_t record_size(uint32_t kind);
bool kind_known(uint32_t kind);
bool kind_on(uint32_t kind, uint32_t context); /* lock held */

/* ---- buffers and the worker (buffer.c) ---- */
/* A record that is in a buffer and waits to have run. */
struct item {
	struct sim_trace_item base;
	struct sim_trace_op op;
	uint32_t correlation;
	unsigned generation;
	int refs;         /* operations that have not run, and the call that submits them */
	bool whole_graph; /* a launch of a graph is one record */
	uint64_t start, end;
	struct buffer *buffer; /* NULL: not in one, or no longer */
	size_t at;
	struct item *next; /* of the buffer */
};

/*
 * Puts a record of that generation into the calling thread's buffer, which may call the client for a new one.
 * `item`: it is incomplete until item_finish; NULL: it is complete. Neither lock held.
 */
void record_put(const void *record, uint32_t kind, unsigned generation, struct item *item);
void item_finish(struct item *item); /* writes its times; lock held */
/* Hands all that is complete (forced: everything) to the worker. Lock held. */
void buffers_queue(bool forced);
void buffers_wait(void); /* until the worker is through with what is queued now; lock held */
CUptiResult flush(bool forced);
/* cuptiFinalize: ends the generation, the worker, and what was registered and enabled (state_forget). */
void buffers_forget(void);
void state_forget(void); /* lock held */

/* ---- what calls submit (item.c) ---- */
struct sim_trace_item *item_submitted(struct sim_call *call, const struct sim_trace_op *op);
void items_put(struct sim_call *call); /* when the call ends; neither lock held */

/* ---- calls (call.c, callback.c) ---- */
extern const struct sim_tracer tracer;
void callback_run(const struct sim_call *call, CUpti_ApiCallbackSite site);
const char *cbid_name(CUpti_CallbackDomain domain, uint32_t id);
int cbid_of(const char *symbol, bool runtime); /* 0: none */

#endif
