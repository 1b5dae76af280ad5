/* list.c - see list.h. Its own memory, because it grows large and goes away whole. */
#define _GNU_SOURCE
#include "list.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "seen.h"

struct entry { /* linux_dirent64 */
	uint64_t inode;
	int64_t offset;
	uint16_t length;
	uint8_t type;
	char name[];
};

static bool grow(void **memory, size_t *room, size_t needed, size_t each)
{
	size_t more = *room ? *room * 2 : 1 << 16;

	if (needed <= *room)
		return true;
	while (more < needed)
		more *= 2;
	void *grown = *memory
					  ? mremap(*memory, *room * each, more * each, MREMAP_MAYMOVE)
					  : mmap(NULL, more * each, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (grown == MAP_FAILED)
		return false;
	*memory = grown;
	*room = more;
	return true;
}

static bool put_text(struct list *list, const char *text, size_t length, uint32_t *at)
{
	void *memory = list->texts;

	if (list->used + length + 1 > UINT32_MAX || !grow(&memory, &list->room, list->used + length + 1, 1))
		return false;
	list->texts = memory;
	memcpy(list->texts + list->used, text, length);
	list->texts[list->used + length] = 0;
	*at = (uint32_t)list->used;
	list->used += length + 1;
	return true;
}

static bool ends_alike(const char *name, const char *like)
{
	const char *a = strrchr(name, '.'), *b = strrchr(like, '.');

	return a && b ? !strcmp(a, b) : !a && !b;
}

static bool put_file(struct list *list, const struct entry *e, uint32_t folder)
{
	void *memory = list->file;
	uint32_t name;
	size_t length = strlen(e->name);

	if (list->files >= LIST_FILES_MOST || !put_text(list, e->name, length, &name) ||
		!grow(&memory, &list->files_room, list->files + 1, sizeof(struct list_file)))
		return false;
	list->file = memory;
	list->file[list->files++] = (struct list_file){
		.inode = e->inode, .hash = seen_hash(e->name, length), .name = name, .folder = folder};
	return true;
}

struct walk {
	struct list *list;
	const char *like;
	dev_t device;
	bool tree;
};

static bool walk_folder(struct walk *walk, int above, const char *name, const char *folder, int depth);

static bool walk_entry(struct walk *walk, int fd, const struct entry *e, const char *folder, uint32_t at,
					   int depth)
{
	char below[4096];

	if (e->type == DT_REG)
		return !ends_alike(e->name, walk->like) || put_file(walk->list, e, at);
	if (e->type != DT_DIR || !walk->tree || depth >= LIST_DEPTH || e->name[0] == '.' ||
		snprintf(below, sizeof(below), "%s%s/", folder, e->name) >= (int)sizeof(below))
		return true;
	return walk_folder(walk, fd, e->name, below, depth + 1);
}

/* false: there is no more memory. A folder that cannot be read is left out. */
static bool walk_folder(struct walk *walk, int above, const char *name, const char *folder, int depth)
{
	_Alignas(8) char buffer[16384];
	struct stat st;
	uint32_t at;
	bool ok = true;
	int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NOATIME);

	if (fd < 0)
		fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return true;
	if (depth == 0 && fstat(fd, &st) == 0)
		walk->device = st.st_dev;
	ok = fstat(fd, &st) == 0 && st.st_dev == walk->device ? put_text(walk->list, folder, strlen(folder), &at)
														  : true;
	for (long n;
		 ok && st.st_dev == walk->device && (n = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0;)
		for (long i = 0; ok && i < n;) {
			const struct entry *e = (const struct entry *)(void *)(buffer + i);
			if (strcmp(e->name, ".") && strcmp(e->name, ".."))
				ok = walk_entry(walk, fd, e, folder, at, depth);
			i += e->length;
		}
	close(fd);
	return ok;
}

bool list_read(struct list *list, const char *root, bool tree, const char *like)
{
	struct walk walk = {.list = list, .like = like, .tree = tree};

	*list = (struct list){.root = root};
	if (walk_folder(&walk, AT_FDCWD, root, "", 0) && list->files)
		return true;
	list_free(list);
	return false;
}

static int by_inode(const void *a, const void *b)
{
	const struct list_file *x = a, *y = b;

	return x->inode < y->inode ? -1 : x->inode > y->inode;
}

static int by_name(const void *a, const void *b, void *texts)
{
	const struct list_file *x = a, *y = b;

	if (x->folder != y->folder)
		return strcmp((char *)texts + x->folder, (char *)texts + y->folder);
	return strcmp((char *)texts + x->name, (char *)texts + y->name);
}

void list_by_inode(struct list *list)
{
	qsort(list->file, list->files, sizeof(struct list_file), by_inode);
}

void list_by_name(struct list *list)
{
	qsort_r(list->file, list->files, sizeof(struct list_file), by_name, list->texts);
}

bool list_path(const struct list *list, size_t i, char *path, size_t size)
{
	return snprintf(path, size, "%s%s%s", list->root, list->texts + list->file[i].folder,
					list->texts + list->file[i].name) < (int)size;
}

void list_free(struct list *list)
{
	if (list->file)
		munmap(list->file, list->files_room * sizeof(struct list_file));
	if (list->texts)
		munmap(list->texts, list->room);
	*list = (struct list){.root = list->root};
}
