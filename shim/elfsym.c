/*
 * elfsym.c - reading loaded objects in place; see elfsym.h.
 *
 * Formats: System V ABI chapter 5 (dynamic section, DT_HASH), the GNU hash section as
 * glibc's elf/dl-lookup.c reads it, symbol versions after "LSB symbol versioning".
 */
#include "elfsym.h"

#include <sys/auxv.h>

#include "elfsym_fork.h"
#include "text.h"

/* ---- the list ---- */

typedef int phdr_visit(struct dl_phdr_info *info, size_t size, void *arg);
typedef int iterate_fn(phdr_visit *visit, void *arg);

/* The loader's list of objects, by way of the program's DT_DEBUG; NULL when it has none. */
static const struct link_map *first_object(void)
{
	const ElfW(Phdr) *segments = (const ElfW(Phdr) *)getauxval(AT_PHDR);
	const ElfW(Dyn) *d = NULL;
	uintptr_t base = 0;

	for (unsigned long i = 0; i < getauxval(AT_PHNUM) && segments; i++)
		if (segments[i].p_type == PT_PHDR)
			base = (uintptr_t)segments - segments[i].p_vaddr;
	for (unsigned long i = 0; i < getauxval(AT_PHNUM) && segments; i++)
		if (segments[i].p_type == PT_DYNAMIC)
			d = (const ElfW(Dyn) *)(base + segments[i].p_vaddr);
	for (; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_DEBUG && d->d_un.d_ptr)
			return ((const struct r_debug *)d->d_un.d_ptr)->r_map;
	return NULL;
}

/* An object of that list; what is mapped behind its start is taken for its own. */
static struct elfsym_object object_at(const struct link_map *map)
{
	return (struct elfsym_object){.base = map->l_addr,
								  .lo = map->l_addr,
								  .hi = UINTPTR_MAX,
								  .path = map->l_name ? map->l_name : "",
								  .dynamic = map->l_ld};
}

/*
 * libc's own dl_iterate_phdr: ThreadSanitizer's, which is before it, asks dlsym() for the
 * real one and has none until we answer. The list is read without a lock no further than
 * libc, where nothing is ever removed.
 */
static int iterate(phdr_visit *visit, void *arg)
{
	static iterate_fn *real; /* relaxed: every thread finds the same */
	iterate_fn *fn = __atomic_load_n(&real, __ATOMIC_RELAXED);

	for (const struct link_map *map = fn ? NULL : first_object(); map && !fn; map = map->l_next) {
		struct elfsym_object libc = object_at(map);

		if (!text_begins(text_last_part(libc.path), "libc.so.6"))
			continue;
		fn = (iterate_fn *)elfsym_find(&libc, "dl_iterate_phdr");
		break;
	}
	if (!fn)
		fn = dl_iterate_phdr;
	__atomic_store_n(&real, fn, __ATOMIC_RELAXED);
	return elfsym_iterate_safely(fn, visit, arg);
}

struct walk {
	elfsym_visit *visit;
	void *arg;
	unsigned index;
};

static void object_of(struct elfsym_object *object, const struct dl_phdr_info *info)
{
	*object = (struct elfsym_object){0};
	object->base = info->dlpi_addr;
	object->path = info->dlpi_name ? info->dlpi_name : "";
	object->segments = info->dlpi_phdr;
	object->segment_count = info->dlpi_phnum;
	object->lo = UINTPTR_MAX;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_DYNAMIC)
			object->dynamic = (const ElfW(Dyn) *)start;
		if (segment->p_type != PT_LOAD)
			continue;
		if (start < object->lo)
			object->lo = start;
		if (start + segment->p_memsz > object->hi)
			object->hi = start + segment->p_memsz;
	}
	if (object->lo > object->hi)
		object->lo = object->hi;
}

static int walk_step(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct walk *walk = arg;
	struct elfsym_object object;

	(void)size;
	object_of(&object, info);
	return walk->visit(&object, walk->index++, walk->arg);
}

int elfsym_walk(elfsym_visit *visit, void *arg)
{
	struct walk walk = {visit, arg, 0};

	return iterate(walk_step, &walk);
}

struct locked {
	elfsym_body *body;
	void *arg;
};

static int locked_step(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct locked *locked = arg;

	(void)size; /* dlpi_adds and dlpi_subs are there since glibc 2.4 */
	locked->body(info->dlpi_adds, info->dlpi_subs, locked->arg);
	return 1;
}

void elfsym_locked(elfsym_body *body, void *arg)
{
	struct locked locked = {body, arg};

	iterate(locked_step, &locked);
}

/* ---- one object ---- */

/*
 * glibc relocates the addresses in a writable dynamic section in place, and leaves those of
 * a read-only one (the vdso's) alone: an address that is not inside the object is an offset.
 */
static const void *address_of(const struct elfsym_object *object, ElfW(Addr) value)
{
	if (elfsym_contains(object, (const void *)value))
		return (const void *)value;
	if (elfsym_contains(object, (const void *)(object->base + value)))
		return (const void *)(object->base + value);
	return NULL;
}

void elfsym_load(struct elfsym_object *object)
{
	ElfW(Xword) soname = 0;

	if (object->loaded)
		return;
	object->loaded = true;
	for (const ElfW(Dyn) *d = object->dynamic; d && d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SONAME: soname = d->d_un.d_val; break;
		case DT_STRSZ: object->strings_size = d->d_un.d_val; break;
		case DT_SYMTAB: object->symbols = address_of(object, d->d_un.d_ptr); break;
		case DT_STRTAB: object->strings = address_of(object, d->d_un.d_ptr); break;
		case DT_HASH: object->sysv_hash = address_of(object, d->d_un.d_ptr); break;
		case DT_GNU_HASH: object->gnu_hash = address_of(object, d->d_un.d_ptr); break;
		case DT_VERSYM: object->versions = address_of(object, d->d_un.d_ptr); break;
		default: break;
		}
	}
	if (!object->strings || !object->symbols) {
		object->gnu_hash = NULL;
		object->sysv_hash = NULL;
	} else if (soname != 0 && soname < object->strings_size) {
		object->soname = object->strings + soname;
	}
}

/* A name to find, and whether it is a variable's rather than a function's. */
struct wanted {
	const char *name;
	bool variable;
};

static bool is_wanted(const struct elfsym_object *object, uint32_t index, const struct wanted *wanted)
{
	const ElfW(Sym) *symbol = &object->symbols[index];
	unsigned type = ELF64_ST_TYPE(symbol->st_info);
	unsigned visibility = ELF64_ST_VISIBILITY(symbol->st_other);

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS || symbol->st_value == 0)
		return false;
	if (wanted->variable ? type != STT_OBJECT
						 : type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
		return false;
	if (ELF64_ST_BIND(symbol->st_info) == STB_LOCAL || visibility == STV_HIDDEN || visibility == STV_INTERNAL)
		return false;
	return symbol->st_name < object->strings_size &&
		   text_order(object->strings + symbol->st_name, wanted->name) == 0;
}

/* Keeps the better of two symbols of one name: a default version before a hidden one. True: settled. */
static bool keep(const struct elfsym_object *object, uint32_t index, uint32_t *best)
{
	bool hidden = object->versions && (object->versions[index] & 0x8000);

	if (*best == 0 || !hidden)
		*best = index;
	return !hidden;
}

static uint32_t find_gnu(const struct elfsym_object *object, const struct wanted *wanted)
{
	const uint32_t *table = object->gnu_hash;
	uint32_t bucket_count = table[0], first = table[1], bloom_size = table[2], shift = table[3];
	const ElfW(Addr) *bloom = (const ElfW(Addr) *)(const void *)&table[4];
	const uint32_t *buckets = (const uint32_t *)(const void *)&bloom[bloom_size];
	const uint32_t *chain = &buckets[bucket_count];
	const unsigned bits = 8 * sizeof(ElfW(Addr));
	uint32_t hash = 5381, best = 0;

	if (bucket_count == 0 || bloom_size == 0)
		return 0;
	for (const unsigned char *c = (const unsigned char *)wanted->name; *c; c++)
		hash = hash * 33 + *c;
	ElfW(Addr) word = bloom[(hash / bits) % bloom_size];
	if (!((word >> (hash % bits)) & (word >> ((hash >> shift) % bits)) & 1))
		return 0;
	uint32_t index = buckets[hash % bucket_count];
	if (index < first)
		return 0;
	for (;; index++) {
		uint32_t entry = chain[index - first];

		if ((entry | 1) == (hash | 1) && is_wanted(object, index, wanted) && keep(object, index, &best))
			break;
		if (entry & 1)
			break;
	}
	return best;
}

static uint32_t find_sysv(const struct elfsym_object *object, const struct wanted *wanted)
{
	uint32_t bucket_count = object->sysv_hash[0], chain_count = object->sysv_hash[1];
	const uint32_t *buckets = &object->sysv_hash[2], *chain = &buckets[bucket_count];
	uint32_t hash = 0, best = 0;

	if (bucket_count == 0)
		return 0;
	for (const unsigned char *c = (const unsigned char *)wanted->name; *c; c++) {
		hash = (hash << 4) + *c;
		hash = (hash ^ ((hash & 0xf0000000u) >> 24)) & 0x0fffffffu;
	}
	for (uint32_t index = buckets[hash % bucket_count]; index != 0 && index < chain_count;
		 index = chain[index])
		if (is_wanted(object, index, wanted) && keep(object, index, &best))
			break;
	return best;
}

static void *resolve_indirect(void *resolver)
{
#if defined(__aarch64__)
	/* sysdeps/aarch64/dl-irel.h; a resolver that wants the second argument sees no such flag. */
	return ((void *(*)(uint64_t))resolver)(getauxval(AT_HWCAP));
#else
	return ((void *(*)(void))resolver)();
#endif
}

/* NULL: the object does not define it. */
static const ElfW(Sym) *find_symbol(struct elfsym_object *object, struct wanted wanted)
{
	uint32_t index = 0;

	elfsym_load(object);
	if (object->gnu_hash)
		index = find_gnu(object, &wanted);
	else if (object->sysv_hash)
		index = find_sysv(object, &wanted);
	return index ? &object->symbols[index] : NULL;
}

void *elfsym_find_variable(struct elfsym_object *object, const char *name)
{
	const ElfW(Sym) *symbol = find_symbol(object, (struct wanted){name, true});

	return symbol ? (void *)(object->base + symbol->st_value) : NULL;
}

void *elfsym_find(struct elfsym_object *object, const char *name)
{
	const ElfW(Sym) *symbol = find_symbol(object, (struct wanted){name, false});

	if (!symbol)
		return NULL;
	void *address = (void *)(object->base + symbol->st_value);
	return ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC ? resolve_indirect(address) : address;
}

/* ---- names and builds ---- */

/* The notes in [at, end), each a header, a name and a description, padded to 4 bytes. */
static const void *build_id_in(uintptr_t at, uintptr_t end)
{
	while (end - at >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
		uintptr_t name = at + sizeof(*note), desc = name + ((note->n_namesz + 3) & ~3u);

		if (note->n_namesz > end - name || desc > end || note->n_descsz > end - desc)
			return NULL;
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && note->n_descsz >= 8 &&
			text_order((const char *)name, "GNU") == 0)
			return (const void *)desc;
		at = desc + ((note->n_descsz + 3) & ~3u);
		if (at > end)
			break;
	}
	return NULL;
}

const void *elfsym_build_id(const struct elfsym_object *object)
{
	for (unsigned i = 0; i < object->segment_count; i++) {
		const ElfW(Phdr) *segment = &object->segments[i];
		uintptr_t start = object->base + segment->p_vaddr - object->lo;

		/* Notes of 8 byte padding are of another kind. */
		if (segment->p_type != PT_NOTE || segment->p_align > 4 || start >= 4096 ||
			segment->p_memsz > 4096 - start)
			continue;
		const void *found = build_id_in(object->lo + start, object->lo + start + segment->p_memsz);
		if (found)
			return found;
	}
	return NULL;
}

bool elfsym_named(struct elfsym_object *object, const char *prefix)
{
	if (text_begins(text_last_part(object->path), prefix))
		return true;
	elfsym_load(object);
	return object->soname && text_begins(object->soname, prefix);
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* A copy inside a Python wheel has the beginning of its hash in its name: libcupti-5bcf1dd4.so.12. */
static size_t hash_length(const char *file, const char *name, size_t stem)
{
	size_t n = 0;

	if (!text_begins(name + stem, ".so") || file[stem] != '-')
		return 0;
	while (is_hex(file[stem + 1 + n]))
		n++;
	return n >= 8 ? n + 1 : 0;
}

static bool is_library(const char *file, const char *name, size_t length)
{
	size_t stem = 0, hash;

	while (stem < length && name[stem] != '.' && file[stem] == name[stem])
		stem++;
	hash = hash_length(file, name, stem);
	return text_begins(file + stem + hash, name + stem) &&
		   (file[length + hash] == '\0' || file[length + hash] == '.');
}

bool elfsym_is_library(struct elfsym_object *object, const char *name)
{
	size_t length = text_length(name);

	if (is_library(text_last_part(object->path), name, length))
		return true;
	elfsym_load(object);
	return object->soname && is_library(object->soname, name, length);
}

/* ---- without the lock ---- */

void *elfsym_find_unwalked(const char *library, const char *name)
{
	if (elfsym_walkable())
		return NULL;
	for (const struct link_map *map = first_object(); map; map = map->l_next) {
		struct elfsym_object object = object_at(map);
		void *fn = elfsym_is_library(&object, library) ? elfsym_find(&object, name) : NULL;

		if (fn)
			return fn;
	}
	return NULL;
}
