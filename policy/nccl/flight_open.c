/*
 * flight_open.c - the memory of the flight record, made when the first communicator is.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "comms.h"
#include "file.h"
#include "flight_open.h"
#include "flight_thread.h"
#include "log.h"
#include "options.h"
#include "progress.h"
#include "real.h"
#include "stats_file.h"
#include "stats_leftovers.h"
#include "watch.h"

#define NCCL_TESTED 2 /* major version */

/* In the order of options.def. */
enum { WATCHDOG_OFF, WATCHDOG_REPORT, WATCHDOG_ABORT };

/* Release when its header is filled. */
static struct flight_page *_Atomic the_page;

struct flight_page *flight_page(void)
{
	return atomic_load_explicit(&the_page, memory_order_acquire);
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int32_t number_of(const char *name)
{
	const char *text = getenv(name);
	char *end;
	long n;

	if (!text || !*text)
		return -1;
	n = strtol(text, &end, 10);
	return *end == '\0' && n >= 0 && n < INT32_MAX ? (int32_t)n : -1;
}

static uint64_t nccl_version(const void *caller)
{
	int version = 0;

	if (((int (*)(int *))real_resolve_lazy(HOOK_ncclGetVersion, caller))(&version) != 0 || version < 0)
		return 0;
	return (uint64_t)version;
}

static void fill(struct flight_page *page, const void *caller)
{
	page->version = FLIGHT_VERSION;
	page->pid = (uint32_t)getpid();
	page->start_ticks = stats_start_ticks(getpid());
	page->pid_ns = stats_pid_namespace();
	page->made = clock_ns(CLOCK_MONOTONIC);
	page->made_real = clock_ns(CLOCK_REALTIME);
	page->comms = FLIGHT_COMMS;
	page->ops = FLIGHT_OPS;
	page->comm_off = COMMS_OFF;
	page->comm_bytes = sizeof(struct flight_comm);
	if (gethostname(page->host, sizeof(page->host) - 1) != 0)
		page->host[0] = '\0';
	stats_read_command(page->command, sizeof(page->command));
	page->rank = number_of("RANK");
	page->local_rank = number_of("LOCAL_RANK");
	page->world = number_of("WORLD_SIZE");
	page->nccl = nccl_version(caller);
	memcpy(page->magic, FLIGHT_MAGIC, sizeof(page->magic));
}

/* One of a version that was never tested is only looked at. */
static bool may_act(const struct flight_page *page)
{
	if (option_get(OPT_NCCL_WATCHDOG) != WATCHDOG_ABORT)
		return false;
	if (page->nccl / 10000 == NCCL_TESTED)
		return true;
	log_warn("nccl: version %u is not known here; what is stuck is reported, nothing is aborted",
			 (unsigned)page->nccl);
	return false;
}

static void page_made(struct flight_page *page)
{
	int64_t seconds = option_get(OPT_NCCL_TIMEOUT_S);

	flight_file_start(page);
	progress_start();
	/* Coalescing keeps the record, too. */
	if (option_get(OPT_NCCL_WATCHDOG) != WATCHDOG_OFF)
		nccl_watch_start(may_act(page), seconds == OPTION_AUTO ? 0 : (uint64_t)seconds * 1000000000u);
}

struct flight_page *flight_open(const void *caller)
{
	struct flight_page *page = flight_page(), *none = NULL;

	if (page)
		return page;
	/* Touched page by page as communicators come. */
	page =
		mmap(NULL, COMMS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (page == MAP_FAILED) {
		flight_switch(false);
		log_once(LOG_INFO, "collectives are not recorded: no memory");
		return NULL;
	}
	fill(page, caller);
	if (!atomic_compare_exchange_strong_explicit(&the_page, &none, page, memory_order_acq_rel,
												 memory_order_acquire)) {
		munmap(page, COMMS_BYTES);
		return none;
	}
	page_made(page);
	return page;
}

void flight_switch(bool on)
{
	atomic_store_explicit(&flight_on, on, memory_order_relaxed);
}

void flight_fork_child(void)
{
	flight_switch(false);
	atomic_store_explicit(&the_page, NULL, memory_order_relaxed);
	flight_thread = (struct flight_thread){0};
}
