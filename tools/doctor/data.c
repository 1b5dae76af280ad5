/*
 * data.c - how fast the files of --data can be read, from the disk: one reader, then several.
 *
 * A sample of the folder's files, in a random order, whose cached pages are given up first (POSIX_FADV_DONTNEED); where the
 * file system ignores that, memory is measured, and the figures show it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "doctor.h"
#include "tools/timeline/units.h"

#define FILES_MOST 4000
#define READERS 8
#define SECONDS 3.0
#define BYTES_MOST 1e9
#define SLOW 200e6 /* bytes a second */
#define CRAWLING 20e6
#define FILES_A_SECOND 1000
#define JUDGED_SECONDS 0.3

struct sample {
	char *file[FILES_MOST];
	unsigned files, seen; /* seen: all that were met, each as likely to be among the files */
	unsigned folders;
	uint32_t seed;
};

struct result {
	double bytes, seconds;
	unsigned files, errors;
	int error; /* the first's errno */
	char at[300];
};

static uint32_t random_of(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

static void keep(struct sample *s, const char *path)
{
	unsigned at = s->files < FILES_MOST ? s->files++ : random_of(&s->seed) % (s->seen + 1);
	s->seen++;
	if (at >= FILES_MOST)
		return;
	free(s->file[at]);
	s->file[at] = strdup(path);
}

/* Not through symbolic links to folders; at most 100,000 files are looked at. */
static void walk(struct sample *s, const char *path, unsigned depth)
{
	DIR *dir = opendir(path);
	s->folders++;
	for (struct dirent *e; dir && s->seen < 100000 && (e = readdir(dir));) {
		char full[PATH_MAX];
		struct stat st;
		if (e->d_name[0] == '.')
			continue;
		snprintf(full, sizeof(full), "%s/%s", path, e->d_name);
		unsigned char type = e->d_type;
		if ((type == DT_UNKNOWN || type == DT_LNK) && stat(full, &st) == 0)
			type = S_ISREG(st.st_mode)                         ? DT_REG
				   : type == DT_UNKNOWN && S_ISDIR(st.st_mode) ? DT_DIR
															   : DT_UNKNOWN;
		if (type == DT_REG)
			keep(s, full);
		else if (type == DT_DIR && depth < 16)
			walk(s, full, depth + 1);
	}
	if (dir)
		closedir(dir);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void shuffle(struct sample *s)
{
	for (unsigned i = s->files; i > 1; i--) {
		unsigned k = random_of(&s->seed) % i;
		char *file = s->file[i - 1];
		s->file[i - 1] = s->file[k];
		s->file[k] = file;
	}
}

static void read_file(const char *path, double end, struct result *r)
{
	static char buf[1 << 20];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t n = fd < 0 ? -1 : 1;
	for (unsigned k = 0; n > 0 && r->bytes < BYTES_MOST && (k % 16 || now() < end); k++) {
		n = read(fd, buf, sizeof(buf));
		if (n > 0)
			r->bytes += (double)n;
	}
	if (n < 0 && r->errors++ == 0) {
		r->error = errno;
		snprintf(r->at, sizeof(r->at), "%s", path);
	}
	r->files++;
	if (fd >= 0)
		close(fd);
}

/* Every `step`-th file from `first`, until the time is over. */
static void read_some(const struct sample *s, unsigned first, unsigned step, struct result *r)
{
	double start = now(), end = start + SECONDS;
	for (unsigned i = first; i < s->files && now() < end && r->bytes < BYTES_MOST; i += step)
		read_file(s->file[i], end, r);
	r->seconds = now() - start;
}

static void forget(const struct sample *s, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		int fd = open(s->file[i], O_RDONLY | O_CLOEXEC | O_NOCTTY);
		if (fd < 0)
			continue;
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		close(fd);
	}
}

/* The sample's second half by several readers at once, each a process. */
static void read_beside(const struct sample *s, unsigned from, struct result *sum)
{
	struct result *each =
		mmap(NULL, READERS * sizeof(*each), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid[READERS];
	double start = now();
	if (each == MAP_FAILED)
		return;
	for (unsigned i = 0; i < READERS; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			read_some(s, from + i, READERS, &each[i]);
			_exit(0);
		}
	}
	for (unsigned i = 0; i < READERS; i++)
		while (pid[i] > 0 && waitpid(pid[i], NULL, 0) < 0 && errno == EINTR) {
		}
	sum->seconds = now() - start;
	for (unsigned i = 0; i < READERS; i++) {
		sum->bytes += each[i].bytes;
		sum->files += each[i].files;
		if (each[i].errors && !sum->errors)
			memcpy(sum->at, each[i].at, sizeof(sum->at));
		sum->error = sum->error ? sum->error : each[i].error;
		sum->errors += each[i].errors;
	}
	munmap(each, READERS * sizeof(*each));
}

static double rate(const struct result *r)
{
	return r->seconds > 0 ? r->bytes / r->seconds : 0;
}

static void judge(struct doctor *d, const struct sample *s, const struct result *one,
				  const struct result *many)
{
	struct doctor_mount m = {.type = "unknown"};
	doctor_mount_of(d, d->data, &m);
	const struct result *best = rate(many) > rate(one) ? many : one;
	/* Small files are slow in bytes, and a folder that is read in no time is no load. */
	bool judged = best->seconds > JUDGED_SECONDS && best->files / best->seconds < FILES_A_SECOND;
	enum doctor_level level = judged && rate(best) < CRAWLING              ? DOCTOR_FAIL
							  : m.network || (judged && rate(best) < SLOW) ? DOCTOR_WARN
																		   : DOCTOR_OK;
	double files[] = {one->files / (one->seconds > 0 ? one->seconds : 1),
					  many->files / (many->seconds > 0 ? many->seconds : 1)};
	struct finding *f = doctor_say(
		d, F_data, level, NULL,
		"%s file%s (%s), in random order: %s/s, %s files/s with one reader; %s/s, %s files/s with %d",
		units_count(s->seen).s, s->seen == 1 ? "" : "s", m.type, units_bytes(rate(one)).s,
		units_short(files[0]).s, units_bytes(rate(many)).s, units_short(files[1]).s, READERS);
	doctor_value(f, "bytes_per_second_1", rate(one));
	doctor_value(f, "bytes_per_second_8", rate(many));
	doctor_value(f, "files_per_second_1", files[0]);
	doctor_value(f, "files_per_second_8", files[1]);
}

void probe_data(struct doctor *d)
{
	static struct sample s = {.seed = 2463534242u};
	struct result one = {.bytes = 0}, many = {.bytes = 0};
	struct stat st;
	if (!d->data) {
		doctor_say(d, F_data, DOCTOR_NOT_HERE, NULL, "none was named; --data DIR measures one");
		return;
	}
	if (stat(d->data, &st) != 0) {
		doctor_say(d, F_data, DOCTOR_FAIL, NULL, "%s: %s", d->data, strerror(errno));
		return;
	}
	if (S_ISREG(st.st_mode))
		keep(&s, d->data);
	else
		walk(&s, d->data, 0);
	if (!s.files) {
		doctor_say(d, F_data, DOCTOR_FAIL, NULL, "%s: no file that can be seen", d->data);
		return;
	}
	shuffle(&s);
	unsigned half = s.files > 1 ? s.files / 2 : 0;
	forget(&s, 0, s.files);
	read_some(&s, 0, 1, &one);
	forget(&s, 0, s.files);
	read_beside(&s, half, &many);
	const struct result *bad = one.errors ? &one : &many;
	if (bad->errors)
		doctor_say(d, F_data, DOCTOR_FAIL, NULL, "%u file%s cannot be read: %s: %s", bad->errors,
				   bad->errors == 1 ? "" : "s", bad->at, strerror(bad->error));
	else
		judge(d, &s, &one, &many);
}
