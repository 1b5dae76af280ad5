/* test_flight_fake.c - see flight_fixture.h. */
#include "flight_fixture.h"

#include "hooks.h"
#include "policy/nccl/act.h"
#include "policy/nccl/comms.h"
#include "policy/nccl/file.h"
#include "policy/nccl/flight_open.h"
#include "policy/nccl/flight_thread.h"
#include "policy/nccl/progress.h"
#include "policy/nccl/watch.h"
#include "capture.h"
#include "real.h"

struct fake fake;
struct followed followed[256];
unsigned launches, captures;
bool follow_none, capturing;
const void *tomb;

/* ---- NCCL ---- */

static void **late[64];
static __thread unsigned lates;

static void make(void **comm)
{
	if (fake.answer != 0 && fake.answer != 7)
		return;
	if (fake.late) {
		late[lates++] = comm;
		return;
	}
	*comm = fake.next;
	fake.next = (char *)fake.next + 4096;
}

static int init(void **comm, int ranks, unique_id id, int rank)
{
	(void)ranks, (void)id, (void)rank;
	make(comm);
	return fake.answer;
}

static int init_config(void **comm, int ranks, unique_id id, int rank, void *config)
{
	(void)config;
	if (fake.call_back)
		return ncclCommInitRank(comm, ranks, id, rank);
	return init(comm, ranks, id, rank);
}

static int init_scalable(void **comm, int ranks, int rank, int n, const unique_id *id, void *config)
{
	(void)ranks, (void)rank, (void)n, (void)id, (void)config;
	make(comm);
	return fake.answer;
}

static int init_all(void **comms, int ranks, const int *list)
{
	unique_id id = {""};

	(void)list;
	for (int i = 0; i < ranks; i++)
		if (fake.call_back)
			ncclCommInitRank(comms + i, ranks, id, i);
		else
			make(comms + i);
	return fake.answer;
}

static int split(void *comm, int colour, int key, void **made, void *config)
{
	(void)comm, (void)key, (void)config;
	*made = NULL;
	if (colour >= 0)
		make(made);
	return fake.answer;
}

static int shrink(void *comm, int *excluded, int n, void **made, void *config, int flags)
{
	(void)comm, (void)excluded, (void)n, (void)config, (void)flags;
	make(made);
	return fake.answer;
}

static int grow(void *comm, int ranks, const void *id, int rank, void **made, void *config)
{
	(void)comm, (void)ranks, (void)id, (void)rank, (void)config;
	make(made);
	return fake.answer;
}

static int ends(void *comm)
{
	(void)comm;
	fake.ended++;
	return fake.answer;
}

static int async_error(void *comm, int *error)
{
	(void)comm;
	*error = fake.async;
	return 0;
}

static const char *last_error(void *comm)
{
	(void)comm;
	return "NCCL's own";
}

static int user_rank(void *comm, int *rank)
{
	(void)comm;
	*rank = fake.rank;
	return 0;
}

static int comm_count(void *comm, int *ranks)
{
	(void)comm;
	*ranks = fake.ranks;
	return 0;
}

static int device_of(void *comm, int *device)
{
	(void)comm;
	*device = 5;
	return 0;
}

static int version(int *v)
{
	*v = 22809;
	return 0;
}

static int group_end(void)
{
	for (unsigned i = 0; i < lates; i++) {
		*late[i] = fake.next;
		fake.next = (char *)fake.next + 4096;
	}
	lates = 0;
	return fake.answer;
}

static int group_start(void)
{
	return 0;
}

/* As NCCL does it. */
static int bcast(void *buffer, size_t count, int type, int root, void *comm, void *stream)
{
	atomic_fetch_add(&fake.real_calls, 1);
	return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

static int moves(void)
{
	atomic_fetch_add(&fake.real_calls, 1);
	return fake.answer;
}

/* In place of the library's, which looks for a loaded NCCL. */
void *real_resolve_lazy(enum hook_id id, const void *caller)
{
	(void)caller;
	switch (id) {
	case HOOK_ncclCommInitRank: return (void *)init;
	case HOOK_ncclCommInitRankConfig:
	case HOOK_pncclCommInitRankConfig: return (void *)init_config;
	case HOOK_ncclCommInitRankScalable: return (void *)init_scalable;
	case HOOK_ncclCommInitAll: return (void *)init_all;
	case HOOK_ncclCommSplit: return (void *)split;
	case HOOK_ncclCommShrink: return (void *)shrink;
	case HOOK_ncclCommGrow: return (void *)grow;
	case HOOK_ncclCommFinalize:
	case HOOK_ncclCommDestroy:
	case HOOK_ncclCommAbort:
	case HOOK_ncclCommRevoke: return (void *)ends;
	case HOOK_ncclCommGetAsyncError: return (void *)async_error;
	case HOOK_ncclGetLastError: return (void *)last_error;
	case HOOK_ncclCommUserRank: return (void *)user_rank;
	case HOOK_ncclCommCount: return (void *)comm_count;
	case HOOK_ncclCommCuDevice: return (void *)device_of;
	case HOOK_ncclGetVersion: return (void *)version;
	case HOOK_ncclGroupStart: return (void *)group_start;
	case HOOK_ncclGroupEnd:
	case HOOK_ncclGroupSimulateEnd: return (void *)group_end;
	case HOOK_ncclBcast: return (void *)bcast;
	default: return (void *)moves;
	}
}

/* ---- the rest of the library ---- */

uint32_t progress_before(struct flight_comm *comm, void *stream)
{
	if (follow_none || launches == 255)
		return 0;
	followed[++launches] = (struct followed){.comm = comm, .stream = stream};
	return launches;
}

void progress_after(uint32_t launch, uint64_t index)
{
	followed[launch].index = index;
}

void progress_captured(struct flight_comm *comm, void *stream, bool collective, uint64_t bytes)
{
	(void)comm, (void)stream, (void)collective, (void)bytes;
	captures++;
}

void progress_start(void) {}
void progress_stop(void) {}
void progress_fork_child(void) {}

void progress_context_gone(void *ctx, int device)
{
	(void)ctx, (void)device;
}

void progress_quiet(bool on)
{
	(void)on;
}

bool capture_live(void)
{
	return capturing;
}

bool capture_on(CUstream stream, bool per_thread)
{
	(void)stream, (void)per_thread;
	return capturing;
}

void flight_file_start(struct flight_page *page)
{
	(void)page;
}

void flight_file_hurry(bool wait)
{
	(void)wait;
}

void nccl_watch_start(bool acts, uint64_t timeout)
{
	(void)acts, (void)timeout;
}

int act_async_error(const void *comm)
{
	return comm == tomb ? 6 : 0;
}

const char *act_last_error(const void *comm)
{
	return comm == tomb ? "ours" : NULL;
}

bool act_tombstone(const void *comm)
{
	return comm == tomb;
}

/* ---- tests ---- */

/* Not flight_page(), nor anything else that progress_fixture.c stands in for: it would be linked. */
struct flight_page *the_page(void)
{
	return flight_open(NULL);
}

int flight_setup(void **state)
{
	struct flight_page *page = the_page();

	(void)state;
	fake = (struct fake){.next = (void *)0x7f1200000000, .ranks = 4, .rank = 1};
	launches = captures = lates = 0;
	follow_none = capturing = false;
	tomb = (void *)1;
	memset(followed, 0, sizeof(followed));
	flight_switch(true);
	for (unsigned i = 0; i < FLIGHT_COMMS; i++) {
		const void *caller;
		void *handle = flight_comm_handle(comms_at(page, i), &caller);
		if (handle)
			ncclCommDestroy(handle);
	}
	fake.ended = 0;
	return 0;
}

void *make_comm(char id)
{
	/* In a group NCCL fills it in at the end. */
	static void *made[256];
	static unsigned next;
	void **comm = &made[next++ % 256];
	unique_id u;

	*comm = NULL;
	memset(&u, id, sizeof(u));
	assert_int_equal(ncclCommInitRank(comm, 4, u, 1), 0);
	return *comm;
}

struct flight_op *op_at(void *comm, uint64_t index)
{
	struct flight_comm *c = flight_comm_of(comm);

	assert_non_null(c);
	struct flight_op *op = &c->op[index % FLIGHT_OPS];
	assert_int_equal(op->index, index);
	assert_int_equal(op->version % 2, 0);
	return op;
}

struct flight_op *last_op(void *comm)
{
	struct flight_comm *c = flight_comm_of(comm);

	assert_non_null(c);
	return op_at(comm, c->issued);
}
