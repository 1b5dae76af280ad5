/* world.c - see world.h. */
#include "world.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "entries.h"
#include "stats_leftovers.h"

#define ENTRIES 4096 /* of a folder that are looked at */
/* Of a process that has died nobody is waiting any more. */
#define STUCK_FRESH 2000000000ull

struct world *world_new(const struct flight_page *own)
{
	struct world *w =
		mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (w == MAP_FAILED)
		return NULL;
	madvise(w, sizeof(*w), MADV_DONTFORK);
	w->own = own;
	w->all = own == NULL;
	w->pid_ns = stats_pid_namespace();
	w->changed = true;
	if (own) {
		w->file[0] = (struct world_file){.memory = own, .fd = -1, .pid = getpid()};
		w->files = 1;
	}
	return w;
}

void world_free(struct world *w)
{
	for (unsigned i = 0; w && i < w->files; i++)
		world_close(&w->file[i]);
	if (w)
		munmap(w, sizeof(*w));
}

/* ---- names ---- */

const char *world_dir(unsigned i)
{
	const char *tmp = getenv("TMPDIR");

	switch (i) {
	case 0: return "/dev/shm";
	case 1: return tmp && tmp[0] == '/' ? tmp : "/tmp";
	case 2: return tmp && tmp[0] == '/' ? "/tmp" : NULL;
	}
	return NULL;
}

/* The name is ours, whole: %n tells where the match ended. */
static pid_t pid_of(const char *name)
{
	unsigned uid;
	int pid, end = 0;

	if (sscanf(name, FLIGHT_FILE_FORMAT "%n", &uid, &pid, &end) != 2 || end == 0 || name[end] != '\0')
		return 0;
	return uid == geteuid() && pid > 0 ? pid : 0;
}

static bool is_known(const struct world *w, pid_t pid)
{
	for (unsigned i = 0; i < w->files; i++)
		if (w->file[i].pid == pid)
			return true;
	return false;
}

static void forget(struct world *w, unsigned i)
{
	unsigned last = --w->files;

	world_close(&w->file[i]);
	if (i == last)
		return;
	w->file[i] = w->file[last];
	memcpy(w->place[i], w->place[last], sizeof(w->place[i]));
	memcpy((void *)&w->page[i], &w->page[last], offsetof(struct flight_page, sites));
}

/* ---- reading ---- */

static bool is_live(const struct world_place *p)
{
	return p->state == FLIGHT_LIVE || p->state == FLIGHT_MAKING;
}

static void read_place(struct world *w, unsigned i, unsigned k, uint64_t now)
{
	struct world_place *is = &w->place[i][k], was = *is;

	if (!world_read_place(&w->file[i], k, is)) {
		*is = was;
		return;
	}
	if (is->life != was.life || is->state != was.state)
		w->changed = true;
	if (is->issued <= is->done || !is_live(is))
		is->stuck = 0;
	else if (was.stuck && is->life == was.life && is->done == was.done)
		is->stuck = was.stuck;
	else
		is->stuck = now;
}

/* The file of a process that lives may have been lost and made anew, and what is open be closed by the program. What is
 * left of one that has ended is kept as long as it is open. */
static void open_again(struct world *w, unsigned i)
{
	struct world_file *f = &w->file[i], again = *f;
	char dir[sizeof(f->path)];

	memcpy(dir, f->path, sizeof(dir));
	*strrchr(dir, '/') = '\0';
	if (!world_open(&again, dir, f->pid))
		return;
	if (world_is_open(f) && again.dev == f->dev && again.ino == f->ino) {
		world_close(&again);
		return;
	}
	world_close(f);
	*f = again;
}

static bool read_head(struct world *w, unsigned i, uint64_t now, bool others)
{
	struct world_file *f = &w->file[i];
	uint64_t ticks = f->read ? w->page[i].start_ticks : 0;
	uint32_t places = f->places;

	if (!f->memory && (!world_is_open(f) || (others && f->proc.life != LIFE_DEAD)))
		open_again(w, i);
	if (!world_is_open(f) || !world_read_page(f, &w->page[i]))
		return false;
	if (!f->read || ticks != w->page[i].start_ticks) {
		f->near = f->pid_ns == w->pid_ns;
		proc_start(&f->proc, f->pid, w->page[i].start_ticks, now);
		f->asks = w->page[i].asks;
		f->read = true;
		w->changed = true;
	}
	if (f->places != places)
		w->changed = true;
	return true;
}

static void read_places(struct world *w, unsigned i, uint64_t now)
{
	for (unsigned k = 0; k < w->file[i].places; k++)
		read_place(w, i, k, now);
}

/* ---- who belongs together ---- */

/* `b` is in a communicator that `a` has not left. */
static bool shares(const struct world *w, unsigned a, unsigned b)
{
	for (unsigned i = 0; i < w->file[a].places; i++) {
		const struct world_place *p = &w->place[a][i];
		if (!is_live(p))
			continue;
		for (unsigned k = 0; k < w->file[b].places; k++)
			if (w->place[b][k].state != FLIGHT_FREE &&
				memcmp(p->key, w->place[b][k].key, sizeof(p->key)) == 0)
				return true;
	}
	return false;
}

static void join(struct world *w)
{
	uint8_t list[JUDGE_PROCESSES];
	unsigned count = 0;

	for (unsigned i = 0; i < w->files; i++) {
		w->file[i].joined = w->file[i].memory != NULL;
		if (w->file[i].joined)
			list[count++] = (uint8_t)i;
	}
	for (unsigned at = 0; at < count; at++)
		for (unsigned i = 0; i < w->files; i++)
			if (!w->file[i].joined && w->file[i].read && shares(w, list[at], i)) {
				w->file[i].joined = true;
				list[count++] = (uint8_t)i;
			}
}

/* `whole`: all counters are of this moment, not only this process's own. */
static void count_stuck(struct world *w, uint64_t now, bool whole)
{
	w->stuck = 0;
	w->stuck_new = w->stuck_old = w->stuck_own = 0;
	for (unsigned i = 0; i < w->files; i++)
		for (unsigned k = 0; world_counts(w, i) && (whole || w->file[i].memory) && k < w->file[i].places;
			 k++) {
			uint64_t since = w->place[i][k].stuck;
			if (!since || since >= now)
				continue;
			w->stuck++;
			if (since > w->stuck_new)
				w->stuck_new = since;
			if (!w->stuck_old || since < w->stuck_old)
				w->stuck_old = since;
			if (w->file[i].memory && (!w->stuck_own || since < w->stuck_own))
				w->stuck_own = since;
		}
}

/* A process that goes on says that something is stuck. */
static bool says_stuck(const struct world *w, unsigned i, uint64_t now)
{
	return w->page[i].stuck && w->page[i].heartbeat + STUCK_FRESH > now;
}

void world_read(struct world *w, uint64_t now, bool others)
{
	bool whole = others || w->all;

	for (unsigned i = 0; i < w->files; i++)
		if ((others || world_counts(w, i)) && read_head(w, i, now, others)) {
			if (w->file[i].memory)
				read_places(w, i, now);
			else
				whole = whole || says_stuck(w, i, now);
		}
	count_stuck(w, now, false);
	whole = whole || w->changed || w->stuck;
	for (unsigned i = 0; whole && i < w->files; i++)
		if (w->file[i].read && !w->file[i].memory && (others || world_counts(w, i)))
			read_places(w, i, now);
	if (w->changed) {
		if (!w->all)
			join(w);
		memset(w->skipped, 0, sizeof(w->skipped)); /* new communicators may be in these, too */
		w->changed = false;
	}
	for (unsigned i = w->files; others && !w->all && i-- > 0;)
		if (!world_counts(w, i) && !w->file[i].memory)
			forget(w, i);
	count_stuck(w, now, whole);
	w->last = now;
}

/* ---- finding ---- */

/* What was looked into and has nothing to do with us, as long as nobody writes to it. */
static bool is_skipped(struct world *w, const struct stat *st)
{
	const struct world_skipped *k = &w->skipped[st->st_ino % WORLD_SKIPPED];

	return k->ino == st->st_ino && k->written.tv_sec == st->st_mtim.tv_sec &&
		   k->written.tv_nsec == st->st_mtim.tv_nsec;
}

static bool belongs(struct world *w, unsigned i)
{
	for (unsigned k = 0; k < i; k++)
		if ((w->file[k].joined || w->file[k].memory) && shares(w, k, i))
			return true;
	return false;
}

/* Into the next place, if it is wanted. */
static bool take(struct world *w, const char *dir, pid_t pid, uint64_t now)
{
	unsigned i = w->files;
	struct world_file *f = &w->file[i];
	struct stat st;

	if (i == JUDGE_PROCESSES || is_known(w, pid) || (w->own && pid == getpid()))
		return false;
	memset(f, 0, sizeof(*f));
	if (!world_open(f, dir, pid))
		return false;
	memset(w->place[i], 0, sizeof(w->place[0]));
	if (!w->all) {
		if (read_head(w, i, now, false))
			read_places(w, i, now);
		if (!f->read || !belongs(w, i)) {
			if (f->read && fstat(f->fd, &st) == 0)
				w->skipped[st.st_ino % WORLD_SKIPPED] = (struct world_skipped){st.st_ino, st.st_mtim};
			world_close(f);
			return false;
		}
		f->joined = true;
		memset(w->skipped, 0, sizeof(w->skipped)); /* they may have to do with it */
	}
	w->files++;
	w->changed = true;
	return true;
}

/* Those of a folder that were written last: there is not room for all that killed jobs have left. */
struct newest {
	unsigned count;
	pid_t pid[JUDGE_PROCESSES];
	struct timespec written[JUDGE_PROCESSES];
};

static void add_newest(struct newest *n, pid_t pid, const struct timespec *written)
{
	unsigned at = n->count;

	while (at > 0 &&
		   (n->written[at - 1].tv_sec != written->tv_sec ? n->written[at - 1].tv_sec < written->tv_sec
														 : n->written[at - 1].tv_nsec < written->tv_nsec))
		at--;
	if (at == JUDGE_PROCESSES)
		return;
	n->count += n->count < JUDGE_PROCESSES;
	for (unsigned i = n->count - 1; i > at; i--) {
		n->pid[i] = n->pid[i - 1];
		n->written[i] = n->written[i - 1];
	}
	n->pid[at] = pid;
	n->written[at] = *written;
}

static unsigned find_in(struct world *w, const char *dir, pid_t only, uint64_t now)
{
	struct newest newest = {0};
	struct entries e;
	const char *name;
	unsigned found = 0;

	if (only)
		return take(w, dir, only, now);
	if (!entries_open(&e, dir))
		return 0;
	for (unsigned i = 0; i < ENTRIES && (name = entries_next(&e)); i++) {
		pid_t pid = pid_of(name);
		struct stat st;
		if (!pid || fstatat(e.fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		if (w->all)
			add_newest(&newest, pid, &st.st_mtim);
		else if (!is_skipped(w, &st))
			found += take(w, dir, pid, now);
	}
	entries_close(&e);
	for (unsigned i = 0; i < newest.count; i++)
		found += take(w, dir, newest.pid[i], now);
	return found;
}

unsigned world_find(struct world *w, const char *dir, pid_t pid, bool quick)
{
	uint64_t now = w->last;
	unsigned found = 0;

	if (dir)
		return find_in(w, dir, pid, now);
	for (unsigned i = 0; world_dir(i) && (i == 0 || !quick); i++)
		found += find_in(w, world_dir(i), pid, now);
	return found;
}

/* Of a communicator that one of them is in. */
static bool lacks(const struct world *w, const struct world_place *of)
{
	int32_t here = 0;

	for (unsigned i = 0; i < w->files; i++)
		for (unsigned k = 0; k < w->file[i].places; k++)
			here += w->place[i][k].state != FLIGHT_FREE &&
					memcmp(of->key, w->place[i][k].key, sizeof(of->key)) == 0;
	return here < of->ranks;
}

bool world_lacks(const struct world *w, uint64_t since)
{
	for (unsigned i = 0; i < w->files; i++)
		for (unsigned k = 0; world_counts(w, i) && k < w->file[i].places; k++)
			if (is_live(&w->place[i][k]) && w->place[i][k].made >= since && lacks(w, &w->place[i][k]))
				return true;
	return false;
}
