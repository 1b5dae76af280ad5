/*
 * stats_file.c - find a process's stats page and read it.
 *
 * The page belongs to another process, which may be of another version, or no
 * libturbo at all: every number in it is checked against the file's size
 * before use. It is read, not mapped, so a file that shrinks cannot fault us.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc_stat.h"
#include "turbo.h"

#define FILE_MAX (64u << 20) /* far above any page; bounds what a hostile file makes us allocate */
#define LANES_MAX 65536u
#define CELLS_MAX 65536u

static bool refuse(char *why, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool refuse(char *why, size_t size, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why, size, fmt, ap);
	va_end(ap);
	return false;
}

/* Nothing from the file may steer the terminal or break a line. */
static void make_printable(char *s)
{
	for (; *s; s++)
		if (!isprint((unsigned char)*s))
			*s = '?';
}

static bool check_owner(const struct stat *st, char *why, size_t why_size)
{
	if (!S_ISREG(st->st_mode))
		return refuse(why, why_size, "it is not a regular file");
	if (st->st_uid != geteuid() && st->st_uid != 0 && geteuid() != 0)
		return refuse(why, why_size, "it belongs to user %u, not to you", (unsigned)st->st_uid);
	if (st->st_size < STATS_HEADER_BYTES)
		return refuse(why, why_size, "it is truncated (%lld bytes)", (long long)st->st_size);
	if (st->st_size > FILE_MAX)
		return refuse(why, why_size, "it is too large (%lld bytes)", (long long)st->st_size);
	return true;
}

/* The whole file in fresh memory with a NUL after it, or NULL. */
static char *read_whole(const char *path, size_t *size, char *why, size_t why_size)
{
	struct stat st;
	char *buf = NULL;
	size_t have = 0;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		refuse(why, why_size, "%s", errno == ELOOP ? "it is a symbolic link" : strerror(errno));
		return NULL;
	}
	if (fstat(fd, &st) == 0 && check_owner(&st, why, why_size)) {
		*size = (size_t)st.st_size;
		buf = malloc(*size + 1);
		if (!buf)
			refuse(why, why_size, "no memory for %zu bytes", *size);
	}
	while (buf && have < *size) {
		ssize_t n = read(fd, buf + have, *size - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			refuse(why, why_size, "it shrank while it was read");
			free(buf);
			buf = NULL;
		} else {
			have += (size_t)n;
		}
	}
	close(fd);
	if (buf)
		buf[*size] = '\0';
	return buf;
}

/* [off, off + n) lies behind the header and inside the file. */
static bool inside(uint64_t off, uint64_t n, size_t size)
{
	return off >= STATS_HEADER_BYTES && off <= size && n <= size - off;
}

static bool check_header(const struct stats_header *h, size_t size, char *why, size_t why_size)
{
	if (memcmp(h->magic, STATS_MAGIC, sizeof(h->magic)))
		return refuse(why, why_size, "it is not a libturbo stats page");
	if (h->version != STATS_VERSION)
		return refuse(why, why_size,
					  "it has format %u, this command reads format %u; use the `turbo` of that version",
					  h->version, STATS_VERSION);
	if (h->lanes == 0 || h->lanes > LANES_MAX || h->cells == 0 || h->cells > CELLS_MAX || h->calls > h->cells)
		return refuse(why, why_size, "it is damaged (%u lanes, %u cells, %u calls)", h->lanes, h->cells,
					  h->calls);
	if (h->lane_bytes % 8 || h->lane_bytes / 8 < h->cells)
		return refuse(why, why_size, "it is damaged (%u cells do not fit %u bytes)", h->cells, h->lane_bytes);
	if (h->lanes_off % 8 || !inside(h->lanes_off, (uint64_t)h->lanes * h->lane_bytes, size))
		return refuse(why, why_size, "it is damaged or truncated (counters reach past its %zu bytes)", size);
	if (!inside(h->names_off, h->names_bytes, size))
		return refuse(why, why_size, "it is damaged or truncated (names reach past its %zu bytes)", size);
	return true;
}

/* Cuts the field that starts at *s at `end` (a character that must be there). */
static char *take_field(char **s, char end)
{
	char *field = *s, *stop = strchr(field, end);
	if (!stop)
		return NULL;
	*stop = '\0';
	*s = stop + 1;
	make_printable(field);
	return field;
}

static bool read_names(struct stats_file *f)
{
	char *s = f->text;
	for (uint32_t i = 0; i < f->head.cells; i++) {
		char *eol = strchr(s, '\n'), *line = s;
		if (!eol)
			return false;
		s = eol + 1;
		*eol = '\0';
		char *name = take_field(&line, '\t'), *unit = name ? take_field(&line, '\t') : NULL;
		if (!unit || !*name)
			return false;
		make_printable(line);
		f->cell[i] = (struct stats_cell){.name = name, .unit = unit, .text = line};
	}
	return true;
}

static void sum_lanes(struct stats_file *f, const char *file)
{
	for (uint32_t lane = 0; lane < f->head.lanes; lane++) {
		const char *base = file + f->head.lanes_off + (uint64_t)lane * f->head.lane_bytes;
		for (uint32_t i = 0; i < f->head.cells; i++) {
			uint64_t value;
			memcpy(&value, base + 8 * (size_t)i, sizeof(value));
			f->cell[i].value += value;
		}
	}
}

static enum stats_life life_of(const struct stats_header *h)
{
	struct stat st;
	if (h->pid_ns && stat("/proc/self/ns/pid", &st) == 0 && (uint64_t)st.st_ino != h->pid_ns)
		return STATS_ELSEWHERE;
	return proc_life(h->pid, h->start_ticks) == PROC_RUNS ? STATS_RUNNING : STATS_ENDED;
}

static void take_texts(struct stats_header *h)
{
	h->version_text[sizeof(h->version_text) - 1] = '\0';
	h->command[sizeof(h->command) - 1] = '\0';
	make_printable(h->version_text);
	make_printable(h->command);
}

bool stats_file_read(const char *path, struct stats_file *f, char *why, size_t why_size)
{
	size_t size = 0;
	memset(f, 0, sizeof(*f));
	snprintf(f->path, sizeof(f->path), "%s", path);
	char *file = read_whole(path, &size, why, why_size);
	if (!file)
		return false;
	memcpy(&f->head, file, sizeof(f->head));
	bool ok = check_header(&f->head, size, why, why_size);
	if (ok) {
		f->text = strndup(file + f->head.names_off, f->head.names_bytes);
		f->cell = calloc(f->head.cells, sizeof(*f->cell));
		ok = f->text && f->cell ? read_names(f) || refuse(why, why_size, "it is damaged (its table of names)")
								: refuse(why, why_size, "no memory for %u counters", f->head.cells);
	}
	if (ok) {
		take_texts(&f->head);
		f->life = life_of(&f->head);
		sum_lanes(f, file);
	}
	free(file);
	if (!ok)
		stats_file_free(f);
	return ok;
}

void stats_file_free(struct stats_file *f)
{
	free(f->cell);
	free(f->text);
	f->cell = NULL;
	f->text = NULL;
}

/* Folders in the order in which the library tries them. */
static int folders(const char *dir[3])
{
	int n = 0;
	const char *tmp = getenv("TMPDIR");
	dir[n++] = "/dev/shm";
	if (tmp && *tmp)
		dir[n++] = tmp;
	dir[n++] = "/tmp";
	return n;
}

/* "turbo-UID-PID.stats" of a user whose pages we may read. */
static bool parse_name(const char *name, uint32_t *pid)
{
	unsigned uid = 0, p = 0;
	int end = 0;
	if (sscanf(name, "turbo-%u-%u.stats%n", &uid, &p, &end) != 2 || !end || name[end])
		return false;
	*pid = p;
	return uid == geteuid() || geteuid() == 0;
}

static int is_page(const struct dirent *e)
{
	uint32_t pid;
	return parse_name(e->d_name, &pid);
}

int stats_file_list(stats_file_each *each, void *arg)
{
	const char *dir[3];
	int found = 0, n = folders(dir);
	for (int i = 0; i < n; i++) {
		struct dirent **entry = NULL;
		bool again = i && !strcmp(dir[i], dir[i - 1]);
		int entries = again ? 0 : scandir(dir[i], &entry, is_page, versionsort);
		for (int k = 0; k < entries; k++) {
			char path[4096];
			uint32_t pid;
			if (parse_name(entry[k]->d_name, &pid)) {
				snprintf(path, sizeof(path), "%s/%s", dir[i], entry[k]->d_name);
				each(arg, pid, path);
				found++;
			}
			free(entry[k]);
		}
		free(entry);
	}
	return found;
}

struct wanted {
	uint32_t pid;
	char *buf;
	size_t size;
	bool found;
};

static void take_wanted(void *arg, uint32_t pid, const char *path)
{
	struct wanted *w = arg;
	if (w->found || pid != w->pid || strlen(path) >= w->size)
		return;
	strcpy(w->buf, path);
	w->found = true;
}

bool stats_file_find(uint32_t pid, char *buf, size_t size)
{
	struct wanted w = {.pid = pid, .buf = buf, .size = size};
	stats_file_list(take_wanted, &w);
	return w.found;
}
