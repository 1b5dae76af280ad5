/* record_target.c - see record_target.h. */
#include "record_target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "proc_stat.h"

#define LIFE_MS 100     /* between two looks whether the process lives */
#define MAPS_MS 500     /* and at what it has mapped, which is dear */
#define STOPPED_MS 1000 /* one that is stopped so long is not waited for */

uint64_t target_now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint32_t load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* A text of the page, terminated and printable. */
static void take_text(char *to, const char *text, size_t size)
{
	memcpy(to, text, size);
	to[size - 1] = '\0';
	for (char *c = to; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
}

static bool refused(uint32_t pid, const char *why)
{
	failure("record", "process %u: %s", pid, why);
	return false;
}

/* ---- finding the page ---- */

static bool no_page(uint32_t pid)
{
	char path[40], why[80];
	struct stat st;
	struct proc_stat s;
	int error = kill((pid_t)pid, 0) == 0 ? 0 : errno;
	if (error == ESRCH)
		return refused(pid, "there is no such process");
	snprintf(path, sizeof(path), "/proc/%u", pid);
	if (error == EPERM && stat(path, &st) == 0 && st.st_uid != geteuid()) {
		snprintf(why, sizeof(why), "it belongs to user %u, not to you", (unsigned)st.st_uid);
		return refused(pid, why);
	}
	if (error == EPERM)
		return refused(pid, "it is not yours");
	if (proc_stat_read(pid, &s) && proc_stat_dead(&s))
		return refused(pid, "it has ended");
	return refused(pid, "libturbo is not loaded in it, or it has not used CUDA yet");
}

/* Whether the page is one that can be asked, of this very process. */
static bool check_page(const struct target *t, const struct stats_file *f)
{
	if (f->head.pid != t->pid)
		return refused(t->pid, "its stats page is damaged: it says that it is another process's");
	if (f->life == STATS_ELSEWHERE)
		return refused(t->pid, "it runs in another pid namespace, probably a container: record it there");
	if (f->life != STATS_RUNNING)
		return refused(t->pid,
					   proc_life(t->pid, f->head.start_ticks) == PROC_OTHER
						   ? "the process with libturbo that had this number has ended; in the one that "
							 "has it now libturbo is not loaded, or it has not used CUDA yet"
						   : "it has ended");
	if (proc_maps(t->pid, strrchr(t->path, '/')) == 0)
		return refused(t->pid,
					   "it has started another program (exec), in which libturbo is not loaded, or which "
					   "has not used CUDA yet");
	if (f->head.record.ready != 1)
		return refused(t->pid, "it cannot record: its libturbo is older, or another tool watches it "
							   "(TURBO_LOG=info in its environment would say which)");
	return true;
}

static bool map_page(struct target *t)
{
	struct stat st;
	int fd = open(t->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return refused(t->pid, errno == ENOENT ? "it has ended" : strerror(errno));
	bool fine = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 077) == 0 &&
				(st.st_uid == geteuid() || geteuid() == 0) && st.st_size >= STATS_HEADER_BYTES;
	void *page =
		fine ? mmap(NULL, STATS_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
	close(fd);
	if (page == MAP_FAILED)
		return refused(t->pid, "its stats page is not of this user alone");
	t->page = page;
	t->dev = st.st_dev;
	t->ino = st.st_ino;
	return true;
}

static bool find_page(struct target *t)
{
	char why[256];
	struct stats_file f;
	if (!stats_file_find(t->pid, t->path, sizeof(t->path)))
		return no_page(t->pid);
	if (!stats_file_read(t->path, &f, why, sizeof(why)))
		return refused(t->pid, why);
	t->start_ticks = f.head.start_ticks;
	bool fine = check_page(t, &f);
	stats_file_free(&f);
	return fine && map_page(t);
}

/* ---- who asks ---- */

static uint64_t own_word(void)
{
	struct proc_stat s;
	uint32_t pid = (uint32_t)getpid();
	proc_stat_read(pid, &s);
	return STATS_RECORD_OWNER(pid, s.start_ticks);
}

static bool owner_gone(uint64_t owner)
{
	enum proc_life life = proc_life(STATS_RECORD_OWNER_PID(owner), STATS_RECORD_OWNER_TICKS(owner));
	return life == PROC_ENDED || life == PROC_OTHER;
}

static bool own(struct target *t)
{
	uint64_t *word = &t->page->record.owner, owner = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	char why[64];
	/* One of several that find the same owner gone moves it; the others find that one. */
	while (owner == 0 || owner_gone(owner))
		if (__atomic_compare_exchange_n(word, &owner, own_word(), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return true;
	snprintf(why, sizeof(why), "process %u is recording it already", STATS_RECORD_OWNER_PID(owner));
	return refused(t->pid, why);
}

static void unmap(struct target *t)
{
	if (t->page)
		munmap(t->page, STATS_HEADER_BYTES);
	t->page = NULL;
}

bool target_open(struct target *t)
{
	if (!find_page(t) || !own(t)) {
		unmap(t);
		return false;
	}
	t->state = TARGET_IDLE;
	return true;
}

void target_leave(struct target *t)
{
	uint64_t me = own_word();
	if (t->page)
		__atomic_compare_exchange_n(&t->page->record.owner, &me, 0, false, __ATOMIC_RELEASE,
									__ATOMIC_RELAXED);
	unmap(t);
}

/* ---- asking ---- */

/* The number of what is asked. */
static uint32_t ask(struct stats_header *page, uint32_t command)
{
	__atomic_store_n(&page->record.command, command, __ATOMIC_RELAXED);
	uint32_t number = __atomic_add_fetch(&page->record.asked, 1, __ATOMIC_RELEASE);
	__atomic_fetch_add(&page->request, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &page->request, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	return number;
}

void target_ask(struct target *t, const struct target_wish *wish)
{
	struct stats_record *r = &t->page->record;
	snprintf(r->dir, sizeof(r->dir), "%s", wish->dir);
	r->mode = wish->mode;
	r->ms = wish->ms;
	t->number = ask(t->page, STATS_RECORD_START);
	t->state = TARGET_ASKED;
}

/* The end is told with the number of the beginning. */
void target_stop(struct target *t)
{
	ask(t->page, STATS_RECORD_STOP);
}

void target_refuse(struct target *t, const char *why)
{
	if (t->state == TARGET_ASKED)
		target_stop(t);
	target_leave(t);
	t->state = TARGET_NONE;
	refused(t->pid, why);
}

/* ---- what comes back ---- */

/* The page is of a program that is no more: another has its place, or the process has it mapped no longer. */
static bool page_left(const struct target *t)
{
	struct stat st;
	if (stat(t->path, &st) == 0 && (st.st_dev != t->dev || st.st_ino != t->ino))
		return true;
	return proc_maps(t->pid, strrchr(t->path, '/')) == 0;
}

/* Why nothing is to be expected any more; NULL: it may come. Looks now and then. */
static const char *why_lost(struct target *t)
{
	uint64_t now = target_now_ms();
	enum proc_life life;
	if (now - t->looked_ms < LIFE_MS)
		return NULL;
	t->looked_ms = now;
	life = proc_life(t->pid, t->start_ticks);
	if (life == PROC_ENDED || life == PROC_OTHER)
		return "it has ended";
	if (now - t->mapped_ms < MAPS_MS)
		return NULL;
	t->mapped_ms = now;
	return page_left(t) ? "it has started another program (exec)" : NULL;
}

static bool stopped_long(struct target *t)
{
	struct proc_stat s;
	bool stopped = proc_stat_read(t->pid, &s) && (s.state == 'T' || s.state == 't');
	uint64_t now = target_now_ms();
	if (!stopped)
		t->stopped_ms = 0;
	else if (!t->stopped_ms)
		t->stopped_ms = now;
	return stopped && now - t->stopped_ms >= STOPPED_MS;
}

void target_hear(struct target *t)
{
	const struct stats_record *r = &t->page->record;
	struct stat st;
	/* Before the answer: what was said before the end counts. */
	const char *lost = why_lost(t);
	if (load(&r->answered) == t->number) {
		take_text(t->file, r->text, sizeof(t->file));
		if (r->answer == STATS_RECORD_STARTED) {
			t->state = TARGET_RECORDING;
			t->seen = stat(t->file, &st) == 0;
		} else {
			t->state = TARGET_IDLE; /* there is nothing to take back */
			target_refuse(t, t->file);
		}
	} else if (lost) {
		target_refuse(t, lost);
	} else if (stopped_long(t)) {
		target_refuse(t, "it is stopped (by a signal or a debugger); nothing is recorded when it goes on");
	}
}

void target_watch(struct target *t)
{
	const struct stats_record *r = &t->page->record;
	const char *lost = why_lost(t);
	if (load(&r->ended) == t->number) {
		take_text(t->end_text, r->end_text, sizeof(t->end_text));
		t->state = TARGET_ENDED;
	} else if (lost) {
		t->lost = lost;
		t->state = TARGET_LOST;
	}
}

bool target_file_gone(const struct target *t)
{
	struct stat st;
	return t->seen && stat(t->file, &st) != 0 && (errno == ENOENT || errno == ENOTDIR);
}
