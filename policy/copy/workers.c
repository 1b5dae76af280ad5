#define _GNU_SOURCE
#include "workers.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cpus.h"
#include "guard.h"
#include "log.h"
#include "move.h"
#include "pause.h"
#include "thread.h"

#define JOBS 32

unsigned workers_wanted;

static struct copy_job jobs[JOBS];

/* Which workers a job is for; also the bits by which parked ones are woken. */
enum { CREW_FEW = 1, CREW_ALL = 2 };

static struct {
	_Atomic int started;            /* 0 no, 1 being started, 2 running; CAS by the first caller */
	_Atomic uint32_t bell;          /* futex word; bumped (seq_cst) after work appeared */
	_Atomic int parked;             /* workers in futex_wait or about to; seq_cst against `bell` */
	_Atomic int idle[CREW_ALL + 1]; /* by crew: workers that spin and have found nothing */
	_Atomic unsigned top;           /* jobs[0..top) have ever been used; only grows */
} pool;

static int crew_of(struct copy_job *job)
{
	return atomic_load_explicit(&job->crew, memory_order_relaxed);
}

/* The crews that worker number `i` belongs to. */
static int crews(unsigned i)
{
	return i < COPY_D2H_WORKERS ? CREW_FEW | CREW_ALL : CREW_ALL;
}

static void futex_wake(int n, int crew)
{
	syscall(SYS_futex, &pool.bell, FUTEX_WAKE_BITSET_PRIVATE, n, NULL, NULL, crew);
}

static void futex_park(uint32_t seen, int mine)
{
	syscall(SYS_futex, &pool.bell, FUTEX_WAIT_BITSET_PRIVATE, seen, NULL, NULL, mine);
}

/*
 * `pieces` have become claimable. Wakes nobody while enough workers spin: one of them
 * that parks at this moment looks for work once more after it is counted as parked, and
 * sees it. Otherwise wakes two, each of which wakes two more: one thread waking eight in
 * a row would spend longer in the kernel than a small copy takes.
 */
static void ring_bell(uint64_t pieces, int crew)
{
	atomic_fetch_add_explicit(&pool.bell, 1, memory_order_seq_cst);
	int idle = atomic_load_explicit(&pool.idle[crew], memory_order_seq_cst);
	if (atomic_load_explicit(&pool.parked, memory_order_seq_cst) > 0 &&
		pieces > (uint64_t)(idle > 0 ? idle : 0))
		futex_wake(2, crew);
}

bool workers_job_help(struct copy_job *job)
{
	uint64_t c = atomic_load_explicit(&job->next, memory_order_relaxed);
	do {
		/* Acquire: the cell of a chunk below limit is filled in. */
		if (c >= atomic_load_explicit(&job->limit, memory_order_acquire))
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&job->next, &c, c + 1, memory_order_relaxed,
													memory_order_relaxed));
	struct copy_cell *cell = &job->cell[c % COPY_CELLS];
	unsigned char *user = job->host + cell->offset;
	if (job->to_device)
		move_in(cell->ring, user, cell->bytes, job->past_caches);
	else
		move_out(user, cell->ring, cell->bytes, job->fresh);
	atomic_store_explicit(&cell->moved, c + 1, memory_order_release);
	return true;
}

/* One pass over the jobs; true if a piece was moved. */
static bool work_once(int mine)
{
	bool moved = false;
	unsigned top = atomic_load_explicit(&pool.top, memory_order_acquire);
	for (unsigned i = 0; i < top; i++) {
		struct copy_job *job = &jobs[i];
		if (!atomic_load_explicit(&job->active, memory_order_relaxed))
			continue;
		atomic_fetch_add_explicit(&job->visitors, 1, memory_order_seq_cst);
		/* Only now: what the job is must not change under us. */
		if (atomic_load_explicit(&job->active, memory_order_seq_cst) && (crew_of(job) & mine))
			while (workers_job_help(job))
				moved = true;
		/* Release: the caller that reads zero sees all our reads of user memory done. */
		atomic_fetch_sub_explicit(&job->visitors, 1, memory_order_release);
	}
	return moved;
}

/* A crew of `mine` for which pieces are waiting, or 0. A job that ends and begins anew
 * meanwhile may be taken for one of another crew: a worker then looks once too often, or
 * parks where the caller, who sees it parked, wakes it. */
static int work_waits(int mine)
{
	unsigned top = atomic_load_explicit(&pool.top, memory_order_acquire);
	for (unsigned i = 0; i < top; i++)
		if (atomic_load_explicit(&jobs[i].active, memory_order_seq_cst) && (crew_of(&jobs[i]) & mine) &&
			atomic_load_explicit(&jobs[i].next, memory_order_relaxed) <
				atomic_load_explicit(&jobs[i].limit, memory_order_seq_cst))
			return crew_of(&jobs[i]);
	return 0;
}

static void park(int mine)
{
	uint32_t seen = atomic_load_explicit(&pool.bell, memory_order_seq_cst);
	atomic_fetch_add_explicit(&pool.parked, 1, memory_order_seq_cst);
	/* Look once more: a caller that rang before we were counted woke nobody, but
	 * then its work, published before the bell, is seen here. */
	if (!work_waits(mine))
		futex_park(seen, mine);
	atomic_fetch_sub_explicit(&pool.parked, 1, memory_order_seq_cst);
	int crew = work_waits(mine);
	if (crew && atomic_load_explicit(&pool.parked, memory_order_relaxed) > 0)
		futex_wake(2, crew);
}

static void idle_add(int mine, int n)
{
	for (int crew = CREW_FEW; crew <= CREW_ALL; crew++)
		if (crew & mine)
			atomic_fetch_add_explicit(&pool.idle[crew], n, memory_order_seq_cst);
}

static void *worker_main(void *arg)
{
	int mine = crews((unsigned)(uintptr_t)arg);
	cpus_widen();
	guard_enter(); /* never leaves: whatever this thread calls is ours */
	for (;;) {
		while (work_once(mine))
			;
		uint64_t since = clock_ns();
		idle_add(mine, 1);
		while (!work_waits(mine) && clock_ns() - since < COPY_SPIN_US * 1000ull)
			pause_spin(8);
		idle_add(mine, -1);
		if (!work_waits(mine))
			park(mine);
	}
	return NULL;
}

static void threads_start(void)
{
	int none = 0;
	if (!atomic_compare_exchange_strong(&pool.started, &none, 1))
		return;
	unsigned got = 0;
	while (got < workers_wanted && thread_start("turbo-copy", worker_main, (void *)(uintptr_t)got))
		got++;
	if (got < workers_wanted)
		log_once(LOG_WARN, "copy: %u of %u worker threads started; callers move the rest", got,
				 workers_wanted);
	atomic_store(&pool.started, 2);
}

struct copy_job *workers_job_get(void)
{
	for (unsigned i = 0; i < JOBS; i++) {
		bool no = false;
		if (!atomic_load_explicit(&jobs[i].taken, memory_order_relaxed) &&
			atomic_compare_exchange_strong_explicit(&jobs[i].taken, &no, true, memory_order_acquire,
													memory_order_relaxed)) {
			unsigned top = atomic_load_explicit(&pool.top, memory_order_relaxed);
			while (top < i + 1 && !atomic_compare_exchange_weak_explicit(
									  &pool.top, &top, i + 1, memory_order_release, memory_order_relaxed))
				;
			return &jobs[i];
		}
	}
	return NULL;
}

uint64_t workers_job_start(struct copy_job *job)
{
	/* Nobody claims while next == limit. */
	uint64_t first = atomic_load_explicit(&job->next, memory_order_relaxed);
	atomic_store_explicit(&job->limit, first, memory_order_relaxed);
	atomic_store_explicit(&job->crew, job->to_device || job->fresh ? CREW_ALL : CREW_FEW,
						  memory_order_relaxed);
	atomic_store_explicit(&job->active, true, memory_order_seq_cst);
	if (atomic_load_explicit(&pool.started, memory_order_relaxed) == 0)
		threads_start();
	return first;
}

void workers_job_allow(struct copy_job *job, uint64_t limit)
{
	/* seq_cst: work_waits() of a worker that is about to park must see it, or the
	 * bell below must see that worker as parked. */
	atomic_store_explicit(&job->limit, limit, memory_order_seq_cst);
	ring_bell(limit - atomic_load_explicit(&job->next, memory_order_relaxed), crew_of(job));
}

void workers_job_end(struct copy_job *job)
{
	atomic_store_explicit(&job->active, false, memory_order_seq_cst);
	/* The visitor may be waiting for a page, or for this very core, which a caller of higher
	 * priority must give away. */
	uint64_t since = clock_ns();
	while (atomic_load_explicit(&job->visitors, memory_order_seq_cst) != 0)
		pause_poll(since);
	atomic_store_explicit(&job->taken, false, memory_order_release);
}

void workers_fork_child(void)
{
	for (unsigned i = 0; i < JOBS; i++) {
		atomic_store(&jobs[i].active, false);
		atomic_store(&jobs[i].visitors, 0);
		atomic_store(&jobs[i].taken, false);
	}
	atomic_store(&pool.started, 0);
	atomic_store(&pool.parked, 0);
	atomic_store(&pool.idle[CREW_FEW], 0);
	atomic_store(&pool.idle[CREW_ALL], 0);
}
