/*
 * elfsym.h - the dynamic symbols of loaded objects, read without any dl* call.
 *
 * dlsym() would come back to our own stub, move the program's dlerror(), and not see
 * objects in a local scope. Here the loader's list is walked with dl_iterate_phdr() and
 * the hash tables are read in place. An object and everything found in it is valid only
 * inside the walk (another thread may unload it afterwards) unless the caller knows better.
 *
 * Locks: a walk holds the loader's list lock (dl_load_write_lock), which is recursive on a
 * thread, excludes every other walk, and is never held while constructors or the program's
 * code run. Nothing here allocates or sets errno.
 */
#ifndef TURBO_ELFSYM_H
#define TURBO_ELFSYM_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

struct elfsym_object {
	uintptr_t base;           /* added to link-time addresses */
	uintptr_t lo, hi;         /* [lo, hi) covers all PT_LOAD segments */
	const char *path;         /* as the loader knows it; "" for the program */
	const ElfW(Dyn) *dynamic; /* NULL: none */
	const ElfW(Phdr) *segments;
	unsigned segment_count; /* 0 where they are not known */

	/* From the dynamic section, by elfsym_load(). */
	bool loaded;
	const char *soname; /* DT_SONAME or NULL */
	const ElfW(Sym) *symbols;
	const char *strings;
	size_t strings_size;
	const uint32_t *gnu_hash;  /* DT_GNU_HASH or NULL */
	const uint32_t *sysv_hash; /* DT_HASH or NULL */
	const uint16_t *versions;  /* DT_VERSYM or NULL */
};

/* Called for each object in load order, `index` from 0; a value but 0 ends the walk. */
typedef int elfsym_visit(struct elfsym_object *object, unsigned index, void *arg);

/* Walk the loaded objects of our own namespace; returns what ended the walk, or 0. */
int elfsym_walk(elfsym_visit *visit, void *arg);

/*
 * Run `body` once with the loader's list lock held. `adds` and `subs` count the objects
 * ever loaded and unloaded: while both stay, the list is the same; while subs stays, it has
 * only grown at its end. Costs a few nanoseconds. Walks may be nested in it.
 */
typedef void elfsym_body(uint64_t adds, uint64_t subs, void *arg);
void elfsym_locked(elfsym_body *body, void *arg);

/* Read the dynamic section; done by the functions below where they need it. */
void elfsym_load(struct elfsym_object *object);

/*
 * Address of the function `name` that the object itself defines (default version first),
 * or NULL. Data, thread-local and undefined symbols do not count. An indirect function is
 * resolved, as the loader would.
 */
void *elfsym_find(struct elfsym_object *object, const char *name);

/* Address of the variable `name` that the object itself defines, or NULL. Thread-local ones do not count. */
void *elfsym_find_variable(struct elfsym_object *object, const char *name);

/*
 * Eight bytes that tell a build of the object from others, the beginning of its build id; NULL:
 * none in the object's first page. That page is there whatever else is loaded at object->lo.
 */
const void *elfsym_build_id(const struct elfsym_object *object);

/* The object's DT_SONAME or the last part of its path begins with `prefix`. */
bool elfsym_named(struct elfsym_object *object, const char *prefix);

/* As elfsym_named, and a version or nothing follows: "libcuda.so" is libcuda.so.1, not libcuda.sound. A hash that a
 * Python wheel puts before ".so" (libcupti-5bcf1dd4.so.12) does not count. */
bool elfsym_is_library(struct elfsym_object *object, const char *name);

/*
 * In a forked child whose list cannot be walked (elfsym_fork.h): the function `name` of the
 * first `library` in the list, read without the lock. Where it is stuck nothing can be loaded
 * or unloaded any more. NULL where walks work.
 */
void *elfsym_find_unwalked(const char *library, const char *name);

static inline bool elfsym_contains(const struct elfsym_object *object, const void *address)
{
	return (uintptr_t)address - object->lo < object->hi - object->lo;
}

#endif
