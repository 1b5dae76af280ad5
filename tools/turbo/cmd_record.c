/*
 * cmd_record.c - `turbo record`: recording in running processes, asked for through their stats pages.
 *
 * A page is mapped when it is a plain file of mode 0600 of this user (root: of anybody), and is what stats_file.c takes
 * for a page of a running process. All that is read from it is checked, because its process may write what it likes.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "turbo.h"
#include "cupti/record.h"

#define SECONDS 5
#define SECONDS_MOST 86400
#define ANSWER_MS 10000 /* the first use of CUPTI and a file on a slow disk take their time */
#define END_MS 10000
#define POLL_MS 20

struct target {
	uint32_t pid;
	struct stats_header *page; /* mapped; NULL: given up */
	uint32_t number;           /* of what was asked */
	bool started, done;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	(void)number;
	interrupted = 1;
}

static void nap(void)
{
	struct timespec t = {0, POLL_MS * 1000000L};
	nanosleep(&t, NULL);
}

static uint64_t now_ms(void)
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
static const char *text_of(const char *text, size_t size, char *buf)
{
	memcpy(buf, text, size);
	buf[size - 1] = '\0';
	for (char *c = buf; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	return buf;
}

static bool gone(uint32_t pid)
{
	return kill((pid_t)pid, 0) == -1 && errno == ESRCH;
}

/* ---- finding the page ---- */

static bool refused(uint32_t pid, const char *why)
{
	failure("record", "process %u: %s", pid, why);
	return false;
}

static bool map_page(struct target *t, const char *path)
{
	struct stat st;
	int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return refused(t->pid, strerror(errno));
	bool fine = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 077) == 0 &&
				(st.st_uid == geteuid() || geteuid() == 0) && st.st_size >= STATS_HEADER_BYTES;
	void *page =
		fine ? mmap(NULL, STATS_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
	close(fd);
	if (page == MAP_FAILED)
		return refused(t->pid, "its stats page is not of this user alone");
	t->page = page;
	return true;
}

static bool open_page(struct target *t)
{
	char path[4096], why[256];
	struct stats_file f;
	if (!stats_file_find(t->pid, path, sizeof(path)))
		return refused(t->pid, gone(t->pid) ? "there is no such process"
											: "libturbo is not loaded in it, or it has not used CUDA yet");
	if (!stats_file_read(path, &f, why, sizeof(why)))
		return refused(t->pid, why);
	bool running = f.life == STATS_RUNNING, ready = f.head.record.ready == 1;
	stats_file_free(&f);
	if (!running)
		return refused(t->pid, "it has ended");
	if (!ready)
		return refused(t->pid,
					   "it cannot record: its libturbo is older, or another tool watches it (TURBO_LOG=info "
					   "in its environment would say which)");
	return map_page(t, path);
}

/* ---- asking ---- */

static void ring_bell(struct stats_header *page)
{
	__atomic_fetch_add(&page->request, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &page->request, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool own(struct target *t)
{
	uint32_t owner = load(&t->page->record.owner), me = (uint32_t)getpid();
	if ((owner != 0 && owner != me && !gone(owner)) ||
		!__atomic_compare_exchange_n(&t->page->record.owner, &owner, me, false, __ATOMIC_ACQ_REL,
									 __ATOMIC_RELAXED)) {
		char why[64];
		snprintf(why, sizeof(why), "process %u is recording it already", owner);
		return refused(t->pid, why);
	}
	return true;
}

static void leave(struct target *t)
{
	uint32_t me = (uint32_t)getpid();
	if (!t->page)
		return;
	__atomic_compare_exchange_n(&t->page->record.owner, &me, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	munmap(t->page, STATS_HEADER_BYTES);
	t->page = NULL;
}

static void ask(struct target *t, uint32_t command)
{
	t->page->record.command = command;
	t->number = __atomic_add_fetch(&t->page->record.asked, 1, __ATOMIC_RELEASE);
	ring_bell(t->page);
}

static void ask_start(struct target *t, const char *dir, uint32_t mode, uint32_t ms)
{
	struct stats_record *r = &t->page->record;
	snprintf(r->dir, sizeof(r->dir), "%s", dir);
	r->mode = mode;
	r->ms = ms;
	ask(t, STATS_RECORD_START);
}

/* ---- what comes back ---- */

/* Waits until word() of each target that is `waiting` has come, or the time is over. */
static void hear_start(struct target *t, unsigned n)
{
	uint64_t until = now_ms() + ANSWER_MS;
	for (unsigned i = 0; i < n; i++) {
		const struct stats_record *r = t[i].page ? &t[i].page->record : NULL;
		char text[sizeof(r->text)];
		while (r && load(&r->answered) != t[i].number && !gone(t[i].pid) && now_ms() < until)
			nap();
		if (!r)
			continue;
		if (load(&r->answered) != t[i].number)
			refused(t[i].pid, gone(t[i].pid) ? "it has ended" : "it does not answer: is it stopped?");
		else if (r->answer != STATS_RECORD_STARTED)
			refused(t[i].pid, text_of(r->text, sizeof(r->text), text));
		else
			t[i].started = true;
		if (!t[i].started)
			leave(&t[i]);
	}
}

static bool any_recording(const struct target *t, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (t[i].started && load(&t[i].page->record.ended) != t[i].number && !gone(t[i].pid))
			return true;
	return false;
}

/* Until all have ended by themselves, or somebody wants it to end. */
static void wait_for_end(struct target *t, unsigned n, uint64_t ms)
{
	uint64_t until = now_ms() + ms + END_MS;
	while (!interrupted && now_ms() < until && any_recording(t, n))
		nap();
	if (!interrupted)
		return;
	uint32_t asked[n];
	for (unsigned i = 0; i < n; i++) {
		asked[i] = t[i].number;
		if (t[i].started)
			ask(&t[i], STATS_RECORD_STOP);
		t[i].number = asked[i]; /* the end is told with the number of the beginning */
	}
	until = now_ms() + END_MS;
	while (now_ms() < until && any_recording(t, n))
		nap();
}

/* One line a process; false: one has not ended as it should. */
static bool print_end(struct target *t, unsigned n)
{
	bool fine = true;
	for (unsigned i = 0; i < n; i++) {
		const struct stats_record *r = t[i].page ? &t[i].page->record : NULL;
		char text[sizeof(r->text)], end[sizeof(r->end_text)];
		if (!t[i].started)
			continue;
		text_of(r->text, sizeof(r->text), text);
		if (load(&r->ended) == t[i].number) {
			printf("%s\n", text);
			if (*text_of(r->end_text, sizeof(r->end_text), end))
				fprintf(stderr, "turbo record: process %u: %s\n", t[i].pid, end);
		} else if (gone(t[i].pid)) {
			printf("%s\n", text);
			fprintf(stderr, "turbo record: process %u has ended meanwhile; up to a second may be missing\n",
					t[i].pid);
		} else {
			refused(t[i].pid, "it does not stop; what it has recorded is in the file below");
			printf("%s\n", text);
			fine = false;
		}
	}
	return fine;
}

/* ---- the command ---- */

static bool parse_pid(const char *text, uint32_t *pid)
{
	char *end;
	errno = 0;
	unsigned long value = strtoul(text, &end, 10);
	*pid = (uint32_t)value;
	return *text >= '0' && *text <= '9' && !*end && !errno && value > 0 && value <= INT_MAX;
}

static bool parse_seconds(const char *text, uint32_t *ms)
{
	char *end;
	double value = strtod(text, &end);
	*ms = (uint32_t)(value * 1000 + 0.5);
	return *text >= '0' && *text <= '9' && !*end && value >= 0.001 && value <= SECONDS_MOST;
}

static int record(struct target *t, unsigned n, const char *dir, uint32_t mode, uint32_t ms)
{
	unsigned started = 0;
	struct sigaction action = {.sa_handler = on_signal};
	for (unsigned i = 0; i < n; i++)
		if (open_page(&t[i]) && !own(&t[i]))
			leave(&t[i]);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	for (unsigned i = 0; i < n; i++)
		if (t[i].page)
			ask_start(&t[i], dir, mode, ms);
	hear_start(t, n);
	for (unsigned i = 0; i < n; i++)
		started += t[i].started;
	if (started && isatty(STDERR_FILENO))
		fprintf(stderr, "recording %u process%s for %g s; Ctrl-C ends it earlier\n", started,
				started == 1 ? "" : "es", (double)ms / 1000);
	if (started)
		wait_for_end(t, n, ms);
	bool fine = print_end(t, n);
	for (unsigned i = 0; i < n; i++)
		leave(&t[i]);
	int status = finish_output("record");
	return fine && started == n ? status : EXIT_FAILED;
}

static int bad(const char *what, const char *value)
{
	return usage_error("record", "%s '%s'", what, value ? value : "");
}

int cmd_record(int argc, char **argv)
{
	struct target *t = calloc((size_t)argc, sizeof(*t));
	uint32_t mode = TIMELINE_MODE_KERNEL, ms = SECONDS * 1000;
	const char *where = ".";
	char dir[PATH_MAX];
	unsigned n = 0;
	int status = EXIT_FAILED;
	if (!t)
		return failure("record", "no memory");
	for (int i = 1; i < argc; i++) {
		const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
		if (!strcmp(a, "--launch")) {
			mode = TIMELINE_MODE_LAUNCH;
		} else if (!strcmp(a, "-d") || !strcmp(a, "-o")) {
			if (!value || (a[1] == 'd' && !parse_seconds(value, &ms))) {
				status = bad(a[1] == 'd' ? "-d wants seconds, 0.001 to 86400, not" : "-o wants a folder, not",
							 value);
				goto out;
			}
			where = a[1] == 'o' ? value : where;
			i++;
		} else if (!parse_pid(a, &t[n].pid)) {
			status = bad(a[0] == '-' ? "unknown option" : "not a process number:", a);
			goto out;
		} else {
			n++;
		}
	}
	if (!n)
		status = usage_error("record", "which process?");
	else if (!realpath(where, dir) || access(dir, X_OK) != 0)
		status = failure("record", "%s: %s", where, strerror(errno));
	else if (strlen(dir) >= sizeof(t->page->record.dir))
		status = failure("record", "%s: its path is too long", where);
	else
		status = record(t, n, dir, mode, ms);
out:
	free(t);
	return status;
}
