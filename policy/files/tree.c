/* tree.c - see tree.h. */
#include "tree.h"

#include <dirent.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../sys.h"
#include "where.h"

static bool grow(void **memory, size_t *room, size_t needed)
{
	size_t more = *room ? *room : 64 << 10;
	void *grown;

	if (needed <= *room)
		return true;
	while (more < needed)
		more *= 2;
	if (*memory)
		grown = mremap(*memory, *room, more, MREMAP_MAYMOVE);
	else
		grown = mmap(NULL, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (grown == MAP_FAILED)
		return false;
	madvise(grown, more, MADV_DONTFORK); /* a child of the program's has no use for it */
	*memory = grown;
	*room = more;
	return true;
}

static bool put_text(struct tree *t, const char *a, const char *b, const char *c, uint32_t *at)
{
	size_t na = strlen(a), nb = strlen(b), nc = strlen(c), n = na + nb + nc + 1;
	void *memory = t->text;

	if (t->text_used + n > TREE_NAME_BYTES || !grow(&memory, &t->text_room, t->text_used + n))
		return false;
	t->text = memory;
	*at = (uint32_t)t->text_used;
	memcpy(t->text + *at, a, na);
	memcpy(t->text + *at + na, b, nb);
	memcpy(t->text + *at + na + nb, c, nc);
	t->text[*at + n - 1] = '\0';
	t->text_used += n;
	return true;
}

static bool put_file(struct tree *t, const char *name, uint64_t inode, uint32_t dir)
{
	struct tree_file f = {.inode = inode, .dir = dir};
	void *memory = t->file;

	if (t->files >= TREE_FILES || !put_text(t, name, "", "", &f.name) ||
		!grow(&memory, &t->file_room, (t->files + 1) * sizeof(f)))
		return false;
	t->file = memory;
	t->file[t->files++] = f;
	return true;
}

static bool put_dir(struct tree *t, const char *above, const char *name)
{
	void *memory = t->dir;
	uint32_t at;

	if (t->dirs >= TREE_DIRS || !put_text(t, above, name, *name ? "/" : "", &at) ||
		!grow(&memory, &t->dir_room, (t->dirs + 1) * sizeof(at)))
		return false;
	t->dir = memory;
	t->dir[t->dirs++] = at;
	return true;
}

static int open_dir(int at, const char *path)
{
	static const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
	int fd = sys_openat(at, path, flags | O_NOATIME, 0);

	return fd >= 0 ? fd : sys_openat(at, path, flags, 0);
}

/* Directories at `depth` are noted down, to be read in their turn: no recursion. false: full. */
static bool read_dir(struct tree *t, const struct track_run *run, uint32_t dir, unsigned depth)
{
	_Alignas(8) static char buffer[32768];
	char path[PATH_MAX];
	struct stat st;
	ssize_t n;
	bool ok = true;
	size_t length = strlen(t->text + t->dir[dir]);
	int fd;

	if (length >= sizeof(path))
		return true;
	memcpy(path, t->text + t->dir[dir], length + 1);
	fd = open_dir(t->root, length ? path : ".");
	if (fd < 0)
		return true;
	if (sys_stat(fd, "", &st, AT_EMPTY_PATH) != 0 || st.st_dev != t->device) {
		sys_close(fd);
		return true;
	}
	while (ok && (n = sys_getdents(fd, buffer, sizeof(buffer))) > 0)
		for (ssize_t i = 0; ok && i < n;) {
			const struct sys_dirent *e = (const void *)(buffer + i);
			i += e->length;
			if (e->name[0] == '.')
				continue;
			if (e->type == DT_DIR)
				ok = depth >= run->depth || put_dir(t, path, e->name);
			else if ((e->type == DT_REG || e->type == DT_LNK || e->type == DT_UNKNOWN) &&
					 track_wants(run, e->name))
				ok = put_file(t, e->name, e->inode, dir);
		}
	sys_close(fd);
	return ok;
}

bool tree_read(struct tree *t, const struct track_run *run, bool network)
{
	uint32_t level = 0; /* the first directory of the level that is being read */
	struct stat st;
	enum where_kind kind;

	memset(t, 0, sizeof(*t));
	t->root = open_dir(AT_FDCWD, run->root);
	if (t->root < 0)
		return false;
	kind = where_kind(t->root);
	if (sys_stat(t->root, "", &st, AT_EMPTY_PATH) != 0 || kind == WHERE_NEVER ||
		(kind == WHERE_NETWORK && !network) || !put_dir(t, "", "")) {
		tree_free(t);
		return false;
	}
	t->device = st.st_dev;
	for (unsigned depth = 0; depth <= run->depth && !t->too_large; depth++) {
		uint32_t end = t->dirs;
		for (; level < end && !t->too_large; level++)
			t->too_large = !read_dir(t, run, level, depth);
	}
	if (t->files)
		return true;
	tree_free(t);
	return false;
}

/* ---- order: a heap sort, which needs no memory ---- */

typedef bool before_fn(const struct tree *t, const struct tree_file *a, const struct tree_file *b);

static bool before_by_inode(const struct tree *t, const struct tree_file *a, const struct tree_file *b)
{
	(void)t;
	return a->inode < b->inode;
}

static bool before_by_name(const struct tree *t, const struct tree_file *a, const struct tree_file *b)
{
	if (a->dir != b->dir)
		return strcmp(t->text + t->dir[a->dir], t->text + t->dir[b->dir]) < 0;
	return strcmp(t->text + a->name, t->text + b->name) < 0;
}

static void sink(struct tree *t, uint32_t from, uint32_t end, before_fn *before)
{
	struct tree_file moved = t->file[from];

	for (uint32_t child; (child = 2 * from + 1) < end; from = child) {
		if (child + 1 < end && before(t, &t->file[child], &t->file[child + 1]))
			child++;
		if (!before(t, &moved, &t->file[child]))
			break;
		t->file[from] = t->file[child];
	}
	t->file[from] = moved;
}

static void sort(struct tree *t, before_fn *before)
{
	for (uint32_t i = t->files / 2; i-- > 0;)
		sink(t, i, t->files, before);
	for (uint32_t end = t->files; end > 1;) {
		struct tree_file first = t->file[0];
		t->file[0] = t->file[--end];
		t->file[end] = first;
		sink(t, 0, end, before);
	}
}

void tree_sort_inodes(struct tree *t)
{
	sort(t, before_by_inode);
}

void tree_sort_names(struct tree *t)
{
	sort(t, before_by_name);
}

bool tree_path(const struct tree *t, uint32_t file, char *path, size_t size)
{
	const char *dir = t->text + t->dir[t->file[file].dir], *name = t->text + t->file[file].name;
	size_t d = strlen(dir), n = strlen(name);

	if (d + n >= size)
		return false;
	memcpy(path, dir, d);
	memcpy(path + d, name, n + 1);
	return true;
}

void tree_free(struct tree *t)
{
	if (t->root >= 0)
		sys_close(t->root);
	if (t->text)
		munmap(t->text, t->text_room);
	if (t->file)
		munmap(t->file, t->file_room);
	if (t->dir)
		munmap(t->dir, t->dir_room);
	memset(t, 0, sizeof(*t));
	t->root = -1;
}
