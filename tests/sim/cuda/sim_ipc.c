/*
 * sim_ipc.c - events that processes share.
 *
 * An interprocess event is a page of shared memory: a memfd, which the handle names by process
 * and descriptor, so that nothing is left behind however the creator ends. Every record takes a
 * ticket; a wait is for the newest ticket of its time. Who waits polls the page without the lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim_ipc.h"

#define MAGIC 0x746e657663706973u
#define SLOTS 4096
#define POLL_US 20
#define POLLS_A_LOOK 64 /* polls between looks whether the recording process lives */

/* Shared by the processes; all but the first two fields by atomics. */
struct page {
	uint64_t magic;
	uint64_t nonce;  /* a descriptor that was used again is another page */
	uint64_t newest; /* ticket of the newest record; 0: none yet */
	/* Ticket t uses slot t % SLOTS. A record that so many later ones have passed counts as done
	 * with the one that took its slot. */
	struct {
		uint64_t done;  /* newest ticket that is done; release: what was done before it */
		uint64_t owner; /* low half of the ticket, and the process that records it */
	} slot[SLOTS];
};

struct sim_ipc {
	int refs; /* sim.lock */
	int fd;   /* of the creator, as long as the event lives; else -1 */
	struct page *page;
};

struct handle {
	uint64_t magic, nonce;
	int32_t pid, fd;
};
_Static_assert(sizeof(struct handle) <= sizeof(CUipcEventHandle), "a handle holds it");

/* Takes over fd, also when it fails. */
static struct sim_ipc *ipc_map(int fd)
{
	struct sim_ipc *ipc = calloc(1, sizeof *ipc);
	void *page = MAP_FAILED;
	if (ipc && fd >= 0)
		page = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		free(ipc);
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	ipc->refs = 1;
	ipc->fd = fd;
	ipc->page = page;
	return ipc;
}

struct sim_ipc *sim_ipc_new(void)
{
	int fd = memfd_create("sim_ipc_event", MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, sizeof(struct page))) {
		close(fd);
		fd = -1;
	}
	struct sim_ipc *ipc = ipc_map(fd);
	if (ipc) {
		ipc->page->magic = MAGIC;
		if (getrandom(&ipc->page->nonce, sizeof ipc->page->nonce, 0) < 0)
			ipc->page->nonce = sim_now_ns();
	}
	return ipc;
}

struct sim_ipc *sim_ipc_get(struct sim_ipc *ipc)
{
	ipc->refs++;
	return ipc;
}

void sim_ipc_put(struct sim_ipc *ipc)
{
	if (!ipc || --ipc->refs)
		return;
	sim_ipc_close(ipc);
	munmap(ipc->page, sizeof(struct page));
	free(ipc);
}

void sim_ipc_close(struct sim_ipc *ipc)
{
	if (ipc->fd >= 0)
		close(ipc->fd);
	ipc->fd = -1;
}

/* ---- tickets ---- */

uint64_t sim_ipc_newest(const struct sim_ipc *ipc)
{
	return __atomic_load_n(&ipc->page->newest, __ATOMIC_ACQUIRE);
}

static uint64_t owner_of(uint64_t ticket, pid_t pid)
{
	return ticket << 32 | (uint32_t)pid;
}

uint64_t sim_ipc_record(struct sim_ipc *ipc)
{
	uint64_t ticket = __atomic_add_fetch(&ipc->page->newest, 1, __ATOMIC_ACQ_REL);
	__atomic_store_n(&ipc->page->slot[ticket % SLOTS].owner, owner_of(ticket, getpid()), __ATOMIC_RELEASE);
	return ticket;
}

/* Tickets may be done out of order, on different streams: a slot never goes back. */
void sim_ipc_complete(struct sim_ipc *ipc, uint64_t ticket)
{
	uint64_t *done = &ipc->page->slot[ticket % SLOTS].done;
	uint64_t seen = __atomic_load_n(done, __ATOMIC_RELAXED);
	while (seen < ticket &&
		   !__atomic_compare_exchange_n(done, &seen, ticket, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

bool sim_ipc_is_done(const struct sim_ipc *ipc, uint64_t ticket)
{
	return __atomic_load_n(&ipc->page->slot[ticket % SLOTS].done, __ATOMIC_ACQUIRE) >= ticket;
}

/* True when the process that records the ticket has ended, also as a zombie: its record will
 * never be done. False when that is not known. */
static bool is_orphan(const struct sim_ipc *ipc, uint64_t ticket)
{
	uint64_t owner = __atomic_load_n(&ipc->page->slot[ticket % SLOTS].owner, __ATOMIC_ACQUIRE);
	pid_t pid = (pid_t)(uint32_t)owner;
	if (owner != owner_of(ticket, pid) || pid == getpid())
		return false;
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return errno == ESRCH;
	struct pollfd ended = {.fd = fd, .events = POLLIN};
	bool orphan = poll(&ended, 1, 0) == 1;
	close(fd);
	return orphan;
}

void sim_ipc_wait(struct sim_ipc *ipc, uint64_t ticket, const struct sim_ctx *ctx)
{
	for (unsigned polls = 1; ticket && !sim_ipc_is_done(ipc, ticket); polls++) {
		if (__atomic_load_n(&ctx->sticky, __ATOMIC_ACQUIRE) != CUDA_SUCCESS)
			return;
		if (polls % POLLS_A_LOOK == 0 && is_orphan(ipc, ticket))
			sim_ipc_complete(ipc, ticket);
		usleep(POLL_US);
	}
}

struct sim_cmd *sim_ipc_cmd(enum sim_cmd_kind kind, struct sim_ipc *ipc, uint64_t ticket)
{
	struct sim_cmd *cmd = sim_cmd_new(kind);
	cmd->ipc.event = sim_ipc_get(ipc);
	cmd->ipc.ticket = ticket;
	return cmd;
}

/* ---- handles ---- */

CUresult cuIpcGetEventHandle(CUipcEventHandle *out, CUevent event)
{
	SIM_ENTER(cuIpcGetEventHandle, S_CTX);
	if (!out || !event)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_event *e;
	sim_lock();
	CUresult result = sim_event_get(event, &e);
	if (result == CUDA_SUCCESS && !(e->flags & CU_EVENT_INTERPROCESS))
		result = CUDA_ERROR_INVALID_HANDLE; /* an imported one has not that flag */
	if (result == CUDA_SUCCESS) {
		struct handle h = {MAGIC, e->ipc->page->nonce, getpid(), e->ipc->fd};
		memset(out, 0, sizeof *out);
		memcpy(out, &h, sizeof h);
	}
	sim_unlock();
	return result;
}

/* NULL: the event is gone, or was never there. */
static struct sim_ipc *ipc_open(const struct handle *h)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)h->pid, (int)h->fd);
	/* Whatever took the descriptor's number since must not be disturbed by being opened. */
	if (stat(path, &st) || !S_ISREG(st.st_mode) || st.st_size != sizeof(struct page))
		return NULL;
	struct sim_ipc *ipc = ipc_map(open(path, O_RDWR | O_CLOEXEC));
	if (!ipc)
		return NULL;
	sim_ipc_close(ipc);
	if (ipc->page->magic != MAGIC || ipc->page->nonce != h->nonce) {
		sim_ipc_put(ipc);
		return NULL;
	}
	return ipc;
}

CUresult cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle)
{
	SIM_ENTER(cuIpcOpenEventHandle, S_CTX);
	struct handle h;
	memcpy(&h, &handle, sizeof h);
	if (!out || h.magic != MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	if (h.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	struct sim_ipc *ipc = ipc_open(&h);
	if (!ipc)
		return CUDA_ERROR_MAP_FAILED;
	return sim_event_new(CU_EVENT_DISABLE_TIMING, ipc, out);
}
