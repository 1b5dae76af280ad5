/*
 * calls.c - functions of the driver and of NCCL that this libturbo does not know, and those it knows that are not there.
 *
 * Read from the symbol tables of the files: nothing of them is run.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cuda.h>

#include "doctor.h"
#include "hooks.h"

struct file {
	const char *bytes;
	size_t size;
};

struct table {
	enum hook_lib lib;
	bool there[HOOK_COUNT];
	unsigned unknown;
	char names[400]; /* of the first */
};

static bool map(const char *path, struct file *f)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	f->size = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? (size_t)st.st_size : 0;
	f->bytes = f->size > sizeof(ElfW(Ehdr)) ? mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
	close(fd);
	return f->bytes != MAP_FAILED && !memcmp(f->bytes, ELFMAG, SELFMAG) && f->bytes[EI_CLASS] == ELFCLASS64;
}

static bool inside(const struct file *f, uint64_t at, uint64_t n)
{
	return at <= f->size && n <= f->size - at;
}

/* Does work, or memory, go through a function of this name? Of the driver's: not OpenGL's and others' functions, nor what only
 * asks and loads. Of NCCL's: public ones, which have a twin with a p before. */
static bool matters(const struct table *t, const char *name)
{
	static const char *const works[] = {"cuMem", "cuLaunch", "cuStream", "cuEvent", "cuGraph", "cuCtx"};
	if (t->lib == HOOK_LIB_NCCL)
		return !strncmp(name, "pnccl", 5) && isupper((unsigned char)name[5]);
	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++)
		if (!strncmp(name, works[i], strlen(works[i])))
			return strncmp(name, "cuGraphics", 10) != 0;
	return false;
}

static void note(struct table *t, const char *name)
{
	const struct hook_row *row = hook_find(name);
	if (row) {
		t->there[hook_id_of(row)] = true;
		return;
	}
	if (!matters(t, name))
		return;
	size_t used = strlen(t->names);
	if (t->unknown++ < 6)
		snprintf(t->names + used, sizeof(t->names) - used, "%s%s", used ? ", " : "",
				 name + (t->lib == HOOK_LIB_NCCL));
}

static bool read_names(const struct file *f, struct table *t)
{
	const ElfW(Ehdr) *head = (const void *)f->bytes;
	const ElfW(Shdr) *sections = (const void *)(f->bytes + head->e_shoff);
	if (head->e_shentsize != sizeof(*sections) || head->e_shoff % 8 ||
		!inside(f, head->e_shoff, (uint64_t)head->e_shnum * sizeof(*sections)))
		return false;
	for (unsigned i = 0; i < head->e_shnum; i++) {
		const ElfW(Shdr) *s = &sections[i];
		if (s->sh_type != SHT_DYNSYM || s->sh_link >= head->e_shnum || s->sh_offset % 8 ||
			!inside(f, s->sh_offset, s->sh_size))
			continue;
		const ElfW(Shdr) *strings = &sections[s->sh_link];
		if (!inside(f, strings->sh_offset, strings->sh_size) || !strings->sh_size ||
			f->bytes[strings->sh_offset + strings->sh_size - 1])
			return false;
		const ElfW(Sym) *symbol = (const void *)(f->bytes + s->sh_offset);
		for (size_t k = 0; k < s->sh_size / sizeof(*symbol); k++)
			if (symbol[k].st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol[k].st_info) == STT_FUNC &&
				symbol[k].st_name < strings->sh_size)
				note(t, f->bytes + strings->sh_offset + symbol[k].st_name);
		return true;
	}
	return false;
}

/* What a driver of the CUDA that libturbo was built for has beside it, no program calls: no header names it. */
static bool is_newer(const struct doctor *d, const struct table *t)
{
	return t->lib != HOOK_LIB_CUDA || d->board->facts.cuda_most > CUDA_VERSION;
}

static void look(struct doctor *d, const char *path, struct table *t, enum doctor_id id)
{
	struct file f;
	unsigned hooked = 0, lacking = 0;
	if (!map(path, &f) || !read_names(&f, t)) {
		doctor_say(d, id, DOCTOR_NOT_HERE, NULL, "%s has no symbol table that can be read", path);
		return;
	}
	for (int i = 0; i < HOOK_COUNT; i++)
		if (hook_table[i].lib == t->lib && hook_table[i].how != HOOK_HOW_PASS) {
			hooked++;
			lacking += !t->there[i];
		}
	struct finding *said =
		t->unknown && is_newer(d, t)
			? doctor_say(d, id, DOCTOR_WARN, NULL, "%u are not known to libturbo %s: %s%s", t->unknown,
						 TURBO_VERSION, t->names, t->unknown > 6 ? ", ..." : "")
			: doctor_say(d, id, DOCTOR_OK, NULL, "%u of %u that libturbo takes or counts are in %s",
						 hooked - lacking, hooked, path);
	doctor_value(said, "unknown", t->unknown);
	doctor_value(said, "lacking", lacking);
}

void probe_calls(struct doctor *d)
{
	static struct table cuda = {.lib = HOOK_LIB_CUDA}, nccl = {.lib = HOOK_LIB_NCCL};
	struct doctor_facts *facts = &d->board->facts;
	const char *path[DOCTOR_KINDS] = {NULL};
	for (unsigned i = 0; i < facts->libraries + facts->wheels; i++) {
		const struct doctor_library *l =
			i < facts->libraries ? &facts->library[i] : &facts->wheel[i - facts->libraries];
		if (!path[l->kind])
			path[l->kind] = l->path;
	}
	if (path[KIND_CUDA])
		look(d, path[KIND_CUDA], &cuda, F_unknown_calls);
	else
		doctor_say(d, F_unknown_calls, DOCTOR_NOT_HERE, NULL, "no libcuda.so.1");
	if (path[KIND_NCCL])
		look(d, path[KIND_NCCL], &nccl, F_unknown_nccl);
}
