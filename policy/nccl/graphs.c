/* graphs.c - see graphs.h. */
#define _GNU_SOURCE
#include "graphs.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "capture.h"
#include "log.h"
#include "progress.h"
#include "real.h"

#define NOTES 1024
#define SETS 512
#define WAYS 8

#define NCCL_SUCCESS 0
#define NCCL_UNHANDLED_CUDA_ERROR 1

/* What a graph holds of one communicator. */
struct part {
	struct flight_comm *comm;
	uint32_t life, calls; /* of the place; collective calls */
	uint64_t bytes;       /* of these */
};

struct content {
	unsigned n;
	struct part part[GRAPH_COMMS];
};

/* Under the lock. */
static struct note {
	enum { UNUSED, CAPTURE, GRAPH } of;
	uint64_t key;
	struct content content;
} notes[NOTES];
static unsigned notes_high; /* rows ever used */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * Written under the lock, read by launches without it: `exec` is stored last (release). A row changes only when its
 * executable graph is made, updated or destroyed, which a program does not do while it launches it.
 */
static struct runnable {
	_Atomic(CUgraphExec) exec;
	struct content content;
} execs[SETS][WAYS];

_Atomic unsigned graphs_notes, graphs_execs;

/* ---- notes; the lock is held ---- */

static struct note *note_find(int of, uint64_t key)
{
	for (unsigned i = 0; i < notes_high; i++)
		if ((int)notes[i].of == of && notes[i].key == key)
			return &notes[i];
	return NULL;
}

static struct note *note_get(int of, uint64_t key)
{
	struct note *n = note_find(of, key);

	for (unsigned i = 0; !n && i < NOTES; i++)
		if (notes[i].of == UNUSED) {
			n = &notes[i];
			*n = (struct note){.of = of, .key = key};
			if (i >= notes_high)
				notes_high = i + 1;
			atomic_fetch_add_explicit(&graphs_notes, 1, memory_order_relaxed);
		}
	if (!n)
		log_once(LOG_INFO, "nccl: more than %d graphs with collectives; the others are not followed", NOTES);
	return n;
}

static void note_drop(struct note *n)
{
	if (!n)
		return;
	n->of = UNUSED;
	atomic_fetch_sub_explicit(&graphs_notes, 1, memory_order_relaxed);
}

static void add(struct content *to, const struct part *part)
{
	unsigned i = 0;

	while (i < to->n && (to->part[i].comm != part->comm || to->part[i].life != part->life))
		i++;
	if (i == GRAPH_COMMS) {
		log_once(LOG_INFO, "nccl: a graph with more than %d communicators; the others are not followed",
				 GRAPH_COMMS);
		return;
	}
	if (i == to->n)
		to->part[to->n++] = (struct part){.comm = part->comm, .life = part->life};
	to->part[i].calls += part->calls;
	to->part[i].bytes += part->bytes;
}

static void add_all(struct content *to, const struct content *from)
{
	for (unsigned i = 0; i < from->n; i++)
		add(to, &from->part[i]);
}

static uint64_t key_of(CUgraph graph)
{
	return (uint64_t)(uintptr_t)graph;
}

/* ---- captures ---- */

static uint64_t capture_of(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	cuuint64_t id = 0;

	if (REAL(cuStreamGetCaptureInfo)(stream, &status, &id) != CUDA_SUCCESS ||
		status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return 0;
	return id;
}

static void capture_add(uint64_t capture, const struct content *what)
{
	pthread_mutex_lock(&lock);
	struct note *n = capture ? note_get(CAPTURE, capture) : NULL;
	if (n)
		add_all(&n->content, what);
	pthread_mutex_unlock(&lock);
}

void progress_captured(struct flight_comm *comm, void *stream, bool collective, uint64_t bytes)
{
	uint32_t life = atomic_load_explicit(&comm->life, memory_order_relaxed);
	struct content what = {1, {{comm, life, collective, collective ? bytes : 0}}};

	capture_add(capture_of(stream), &what);
}

uint64_t graphs_capture_ending(CUstream stream)
{
	return capture_of(stream);
}

/* Numbers of captures are not used again, so notes of one that broke only take room. */
static void drop_broken(void)
{
	for (unsigned i = 0; i < notes_high; i++)
		if (notes[i].of == CAPTURE)
			note_drop(&notes[i]);
}

void graphs_capture_ended(uint64_t capture, CUgraph graph)
{
	pthread_mutex_lock(&lock);
	struct note *n = capture ? note_find(CAPTURE, capture) : NULL, *to = NULL;
	if (graph && n) {
		/* A capture into a graph that is there already adds to it. */
		to = note_find(GRAPH, key_of(graph));
		if (to) {
			add_all(&to->content, &n->content);
		} else {
			n->of = GRAPH;
			n->key = key_of(graph);
			n = NULL;
		}
	}
	note_drop(n);
	if (!graph && !capture && !capture_live())
		drop_broken();
	pthread_mutex_unlock(&lock);
}

/* ---- graphs ---- */

static void copy_notes(CUgraph graph, CUgraph of, bool fresh)
{
	pthread_mutex_lock(&lock);
	struct note *from = note_find(GRAPH, key_of(of)), *to;
	if (fresh)
		note_drop(note_find(GRAPH, key_of(graph)));
	to = from ? note_get(GRAPH, key_of(graph)) : NULL;
	if (to)
		add_all(&to->content, &from->content);
	pthread_mutex_unlock(&lock);
}

void graphs_cloned(CUgraph graph, CUgraph of)
{
	copy_notes(graph, of, true);
}

void graphs_child(CUgraph graph, CUgraph child)
{
	copy_notes(graph, child, false);
}

void graphs_destroyed(CUgraph graph)
{
	pthread_mutex_lock(&lock);
	note_drop(note_find(GRAPH, key_of(graph)));
	pthread_mutex_unlock(&lock);
}

/* ---- executable graphs ---- */

static struct runnable *set_of(CUgraphExec exec)
{
	uint64_t hash = ((uint64_t)(uintptr_t)exec >> 4) * 0x9e3779b97f4a7c15u;
	return execs[hash >> 32 & (SETS - 1)];
}

static struct runnable *exec_find(CUgraphExec exec)
{
	struct runnable *set = set_of(exec);

	for (unsigned i = 0; i < WAYS; i++)
		if (atomic_load_explicit(&set[i].exec, memory_order_acquire) == exec)
			return &set[i];
	return NULL;
}

/* The lock is held. */
static void exec_drop(CUgraphExec exec)
{
	struct runnable *x = exec ? exec_find(exec) : NULL;

	if (!x)
		return;
	atomic_store_explicit(&x->exec, NULL, memory_order_release);
	atomic_fetch_sub_explicit(&graphs_execs, 1, memory_order_relaxed);
}

/* The lock is held. */
static void exec_put(CUgraphExec exec, const struct content *content)
{
	struct runnable *set = set_of(exec);
	unsigned i = 0;

	while (i < WAYS && atomic_load_explicit(&set[i].exec, memory_order_relaxed))
		i++;
	if (i == WAYS) {
		log_once(LOG_INFO, "nccl: too many executable graphs with collectives; some are not followed");
		return;
	}
	set[i].content = *content;
	atomic_store_explicit(&set[i].exec, exec, memory_order_release);
	atomic_fetch_add_explicit(&graphs_execs, 1, memory_order_relaxed);
}

void graphs_instantiated(CUgraphExec exec, CUgraph graph)
{
	pthread_mutex_lock(&lock);
	/* Also of one whose end we have not seen. */
	exec_drop(exec);
	struct note *n = exec ? note_find(GRAPH, key_of(graph)) : NULL;
	if (n)
		exec_put(exec, &n->content);
	pthread_mutex_unlock(&lock);
}

void graphs_exec_destroyed(CUgraphExec exec)
{
	pthread_mutex_lock(&lock);
	exec_drop(exec);
	pthread_mutex_unlock(&lock);
}

/* ---- launches ---- */

static bool same_life(const struct part *p)
{
	return atomic_load_explicit(&p->comm->life, memory_order_acquire) == p->life;
}

bool graphs_launch_begin(struct graph_launch *launch, CUgraphExec exec, CUstream stream)
{
	const struct runnable *x = exec ? exec_find(exec) : NULL;

	if (!x)
		return false;
	*launch = (struct graph_launch){.exec = exec};
	/* Captured, it becomes a child of the graph to be. */
	if (capture_live() && capture_on(stream, false)) {
		launch->capture = capture_of(stream);
		return launch->capture != 0;
	}
	for (unsigned i = 0; i < x->content.n; i++) {
		const struct part *p = &x->content.part[i];
		if (same_life(p))
			flight_graph_begin(&launch->ticket[launch->n++], p->comm, p->life, p->calls, p->bytes, stream);
	}
	return launch->n != 0;
}

void graphs_launch_end(struct graph_launch *launch, CUresult status)
{
	const struct runnable *x = launch->capture && status == CUDA_SUCCESS ? exec_find(launch->exec) : NULL;

	if (x)
		capture_add(launch->capture, &x->content);
	for (unsigned i = launch->n; i-- > 0;)
		flight_end(&launch->ticket[i], status == CUDA_SUCCESS ? NCCL_SUCCESS : NCCL_UNHANDLED_CUDA_ERROR);
}

void graphs_fork_child(void)
{
	pthread_mutex_init(&lock, NULL);
	atomic_store(&graphs_notes, 0);
	atomic_store(&graphs_execs, 0);
}
