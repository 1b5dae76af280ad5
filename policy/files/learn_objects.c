/* learn_objects.c - see learn_objects.h. */
#include "learn_objects.h"

#include <limits.h>
#include <string.h>
#include <sys/mman.h>

#include "elfsym.h"
#include "../sys.h"

#define OBJECTS 1024u
#define SEGMENTS 4u
#define PAGE ((uint64_t)1 << 12)
#define PRESENT ((uint64_t)3 << 62) /* in memory, or in swap */

struct object {
	char path[512];
	unsigned segments;
	struct {
		uintptr_t at;
		uint64_t offset, bytes; /* of the file */
	} segment[SEGMENTS];
};

struct objects {
	unsigned count;
	struct object object[OBJECTS];
};

/* The names and places only: what is unloaded afterwards is looked for in vain. */
static int note(struct elfsym_object *o, unsigned index, void *arg)
{
	struct objects *all = arg;
	struct object *to = &all->object[all->count];
	const char *path = o->path;

	if (all->count == OBJECTS)
		return 1;
	if (index == 0 && !*path) {
		ssize_t n = readlink("/proc/self/exe", to->path, sizeof(to->path) - 1);
		to->path[n > 0 ? n : 0] = '\0';
	} else if (strlen(path) < sizeof(to->path)) {
		strcpy(to->path, path);
	}
	if (to->path[0] != '/')
		return 0;
	for (unsigned i = 0; i < o->segment_count && to->segments < SEGMENTS; i++) {
		const ElfW(Phdr) *p = &o->segments[i];
		if (p->p_type != PT_LOAD || p->p_filesz == 0)
			continue;
		to->segment[to->segments].at = o->base + p->p_vaddr;
		to->segment[to->segments].offset = p->p_offset;
		to->segment[to->segments++].bytes = p->p_filesz;
	}
	all->count += to->segments > 0;
	return 0;
}

static void touched(int pagemap, const struct object *o, unsigned segment, struct learn_record *r)
{
	static uint64_t page[4096];
	uint64_t first = o->segment[segment].at & ~(PAGE - 1),
			 end = o->segment[segment].at + o->segment[segment].bytes;
	uint64_t offset = o->segment[segment].offset & ~(PAGE - 1);

	for (uint64_t at = first; at < end;) {
		uint64_t want = (end - at + PAGE - 1) / PAGE;
		if (want > sizeof(page) / sizeof(page[0]))
			want = sizeof(page) / sizeof(page[0]);
		ssize_t n = sys_pread(pagemap, page, want * sizeof(page[0]), (off_t)(at / PAGE * sizeof(page[0])));
		if (n < (ssize_t)sizeof(page[0]))
			return;
		for (uint64_t i = 0; i < (uint64_t)n / sizeof(page[0]); i++)
			if (page[i] & PRESENT)
				learn_range_add(r, offset + (at - first) + i * PAGE, offset + (at - first) + (i + 1) * PAGE);
		at += (uint64_t)n / sizeof(page[0]) * PAGE;
	}
}

void learn_objects(learn_object_fn *put, void *arg)
{
	struct objects *all =
		mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int pagemap = sysconf(_SC_PAGESIZE) == (long)PAGE
					  ? sys_openat(AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0)
					  : -1;

	if (all != MAP_FAILED && pagemap >= 0) {
		elfsym_walk(note, all);
		for (unsigned i = 0; i < all->count; i++) {
			struct learn_record r = {.path = all->object[i].path};
			for (unsigned s = 0; s < all->object[i].segments; s++)
				touched(pagemap, &all->object[i], s, &r);
			if (r.ranges)
				put(&r, arg);
		}
	}
	if (all != MAP_FAILED)
		munmap(all, sizeof(*all));
	if (pagemap >= 0)
		sys_close(pagemap);
}
