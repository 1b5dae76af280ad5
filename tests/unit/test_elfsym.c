/* test_elfsym.c - symbols read from loaded objects, against the loader's own answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "elfsym.h"
#include "lookup.h"

/* ---- real objects ---- */

struct find {
	const char *library;
	struct elfsym_object object;
	unsigned seen;
};

static int find_step(struct elfsym_object *object, unsigned index, void *arg)
{
	struct find *find = arg;

	assert_int_equal(index, find->seen++);
	if (!elfsym_named(object, find->library))
		return 0;
	elfsym_load(object);
	find->object = *object;
	return 7;
}

/* The objects used here are never unloaded, so they may be read outside the walk. */
static struct elfsym_object object_named(const char *library)
{
	struct find find = {.library = library};

	assert_int_equal(elfsym_walk(find_step, &find), 7);
	return find.object;
}

static void walk_sees_every_object(void **state)
{
	struct find find = {.library = "no such object"};

	(void)state;
	assert_int_equal(elfsym_walk(find_step, &find), 0);
	assert_true(find.seen >= 3);
	struct elfsym_object libc = object_named("libc.so.6");
	assert_string_equal(libc.soname, "libc.so.6");
	assert_true(elfsym_contains(&libc, (const void *)libc.symbols));
	assert_false(elfsym_contains(&libc, (const void *)(libc.hi)));
	assert_false(elfsym_contains(&libc, (const void *)(libc.lo - 1)));
}

static void library_names_end_where_they_should(void **state)
{
	struct elfsym_object libc = object_named("libc.so.6");

	(void)state;
	assert_true(elfsym_is_library(&libc, "libc.so"));
	assert_true(elfsym_is_library(&libc, "libc.so.6"));
	assert_true(elfsym_is_library(&libc, "libc"));
	assert_false(elfsym_is_library(&libc, "libc.s"));
	assert_false(elfsym_is_library(&libc, "libc.so.66"));
	assert_true(elfsym_named(&libc, "lib"));
	assert_false(elfsym_named(&libc, "libcuda.so"));
	struct elfsym_object named = {.path = "/a/b/libcuda.so.580.1", .loaded = true};
	assert_true(elfsym_is_library(&named, "libcuda.so"));
	named.path = "/a/libcuda.so/libcudart.so.13";
	assert_false(elfsym_is_library(&named, "libcuda.so"));
	named.soname = "libcuda.so.1";
	assert_true(elfsym_is_library(&named, "libcuda.so"));
	named = (struct elfsym_object){.path = "/w/torch/lib/libcupti-5bcf1dd4.so.12", .loaded = true};
	assert_true(elfsym_is_library(&named, "libcupti.so"));
	assert_false(elfsym_is_library(&named, "libcupti"));
	assert_false(elfsym_is_library(&named, "libcuda.so"));
	named.path = "/w/libcupti-static.so.12";
	assert_false(elfsym_is_library(&named, "libcupti.so"));
	named.path = "/w/libcupti-5bcf1dd4.so.12";
	assert_false(elfsym_is_library(&named, "libcupti.so.13"));
}

/* Every function that libc and libm define, their indirect ones (memcpy, sin) among them. */
static unsigned compare_all(const char *library)
{
	void *handle = lookup_real_dlopen(library, RTLD_NOW); /* never closed */
	struct elfsym_object object = object_named(library);
	unsigned compared = 0;

	assert_non_null(handle);
	if (!object.gnu_hash)
		fail_msg("%s has no GNU hash table", library);
	/* The string table follows the symbol table in every linker's layout. */
	for (const ElfW(Sym) *s = object.symbols + 1; (const char *)s < object.strings; s++) {
		unsigned type = ELF64_ST_TYPE(s->st_info);
		const char *name = object.strings + s->st_name;

		if (s->st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_GNU_IFUNC))
			continue;
		/* dlsym has no address for what only old programs may use (one hidden version). */
		void *expected = lookup_real_dlsym(handle, name);
		if (expected) {
			compared++;
			if (elfsym_find(&object, name) != expected)
				fail_msg("%s: another address than dlsym's", name);
		}
	}
	return compared;
}

static void finds_what_dlsym_finds(void **state)
{
	(void)state;
	assert_true(compare_all("libc.so.6") > 1500);
	assert_true(compare_all("libm.so.6") > 300);
}

static void does_not_find_what_is_not_defined(void **state)
{
	(void)state;
	assert_non_null(lookup_real_dlopen("libm.so.6", RTLD_NOW));
	struct elfsym_object libm = object_named("libm.so.6");
	assert_null(elfsym_find(&libm, "no_such_symbol"));
	assert_null(elfsym_find(&libm, "malloc"));  /* not here */
	assert_null(elfsym_find(&libm, "fputs"));   /* undefined here, if named at all */
	assert_null(elfsym_find(&libm, "signgam")); /* data */
	assert_null(elfsym_find(&libm, ""));
	struct elfsym_object libc = object_named("libc.so.6");
	assert_null(elfsym_find(&libc, "environ"));
	assert_null(elfsym_find(&libc, "errno")); /* thread-local */
}

/* The vdso's dynamic section is read-only and holds offsets. */
static void reads_an_unrelocated_object(void **state)
{
	struct find find = {.library = "linux-vdso.so.1"};

	(void)state;
	if (elfsym_walk(find_step, &find) != 7) {
		print_message("no vdso in this process\n");
		return;
	}
#if defined(__x86_64__)
	assert_non_null(elfsym_find(&find.object, "__vdso_clock_gettime"));
#elif defined(__aarch64__)
	assert_non_null(elfsym_find(&find.object, "__kernel_clock_gettime"));
#endif
	assert_null(elfsym_find(&find.object, "cuInit"));
}

/* ---- objects made by hand ---- */

enum { SYM_PLAIN = 1, SYM_UNDEFINED, SYM_DATA, SYM_LOCAL, SYM_HIDDEN, SYM_OLD, SYM_NEW, SYM_WEAK, SYM_COUNT };
static const char strings[] = "\0plain\0undefined\0data\0local\0hidden\0versioned\0weak\0cut";

static uint32_t string_at(const char *text)
{
	for (uint32_t i = 1; i < sizeof(strings); i++)
		if (strcmp(strings + i, text) == 0)
			return i;
	fail();
	return 0;
}

static ElfW(Sym) symbol(const char *name, unsigned bind, unsigned type, unsigned visibility, uint16_t section,
						uintptr_t value)
{
	return (ElfW(Sym)){.st_name = string_at(name),
					   .st_info = ELF64_ST_INFO(bind, type),
					   .st_other = (unsigned char)visibility,
					   .st_shndx = section,
					   .st_value = value};
}

static ElfW(Sym) symbols[SYM_COUNT];
static uint16_t versions[SYM_COUNT] = {0, 1, 1, 1, 1, 1, 0x8002, 3, 1};

static struct elfsym_object made_by_hand(void)
{
	symbols[SYM_PLAIN] = symbol("plain", STB_GLOBAL, STT_FUNC, STV_DEFAULT, 5, 0x100);
	symbols[SYM_UNDEFINED] = symbol("undefined", STB_WEAK, STT_FUNC, STV_DEFAULT, SHN_UNDEF, 0x110);
	symbols[SYM_DATA] = symbol("data", STB_GLOBAL, STT_OBJECT, STV_DEFAULT, 6, 0x120);
	symbols[SYM_LOCAL] = symbol("local", STB_LOCAL, STT_FUNC, STV_DEFAULT, 5, 0x130);
	symbols[SYM_HIDDEN] = symbol("hidden", STB_GLOBAL, STT_FUNC, STV_HIDDEN, 5, 0x140);
	symbols[SYM_OLD] = symbol("versioned", STB_GLOBAL, STT_FUNC, STV_DEFAULT, 5, 0x150);
	symbols[SYM_NEW] = symbol("versioned", STB_GLOBAL, STT_FUNC, STV_DEFAULT, 5, 0x160);
	symbols[SYM_WEAK] = symbol("weak", STB_WEAK, STT_NOTYPE, STV_DEFAULT, 5, 0x170);
	return (struct elfsym_object){.base = 0x10000,
								  .path = "",
								  .loaded = true,
								  .symbols = symbols,
								  .strings = strings,
								  .strings_size = sizeof(strings),
								  .versions = versions};
}

static void check_by_hand(struct elfsym_object *object)
{
	assert_ptr_equal(elfsym_find(object, "plain"), (void *)0x10100);
	assert_ptr_equal(elfsym_find(object, "weak"), (void *)0x10170);
	assert_ptr_equal(elfsym_find(object, "versioned"), (void *)0x10160);
	assert_null(elfsym_find(object, "undefined"));
	assert_null(elfsym_find(object, "data"));
	assert_null(elfsym_find(object, "local"));
	assert_null(elfsym_find(object, "hidden"));
	assert_null(elfsym_find(object, "absent"));
}

/* One bucket: 1 -> 2 -> ... in order; the old version comes first. */
static void reads_sysv_hash(void **state)
{
	struct elfsym_object object = made_by_hand();
	uint32_t hash[2 + 1 + SYM_COUNT] = {1, SYM_COUNT, SYM_PLAIN};

	(void)state;
	for (uint32_t i = SYM_PLAIN; i + 1 < SYM_COUNT; i++)
		hash[3 + i] = i + 1;
	object.sysv_hash = hash;
	check_by_hand(&object);
	/* Nothing but the old version is left: it is taken. */
	symbols[SYM_NEW].st_shndx = SHN_UNDEF;
	assert_ptr_equal(elfsym_find(&object, "versioned"), (void *)0x10150);
	/* A table without versions: the first one. */
	object = made_by_hand();
	object.sysv_hash = hash;
	object.versions = NULL;
	assert_ptr_equal(elfsym_find(&object, "versioned"), (void *)0x10150);
	hash[0] = 0;
	assert_null(elfsym_find(&object, "plain"));
}

static void reads_gnu_hash(void **state)
{
	struct elfsym_object object = made_by_hand();
	struct {
		uint32_t buckets, first, bloom_size, shift;
		ElfW(Addr) bloom[1];
		uint32_t bucket[1], chain[SYM_COUNT];
	} hash = {1, 1, 1, 6, {~(ElfW(Addr))0}, {1}, {0}};

	(void)state;
	for (uint32_t i = 1; i < SYM_COUNT; i++) {
		uint32_t h = 5381;

		for (const char *c = strings + symbols[i].st_name; *c; c++)
			h = h * 33 + (unsigned char)*c;
		hash.chain[i - 1] = (h & ~1u) | (i + 1 == SYM_COUNT);
	}
	object.gnu_hash = (const uint32_t *)(const void *)&hash;
	check_by_hand(&object);
	hash.bloom[0] = 0;
	assert_null(elfsym_find(&object, "plain"));
	hash.bloom[0] = ~(ElfW(Addr))0;
	hash.bucket[0] = 0;
	assert_null(elfsym_find(&object, "plain"));
	object.gnu_hash = NULL;
	assert_null(elfsym_find(&object, "plain"));
	struct elfsym_object nothing = {.path = ""};
	assert_null(elfsym_find(&nothing, "plain"));
}

/* ---- the list's counters and lock ---- */

struct counts {
	uint64_t adds, subs;
	unsigned nested;
};

static int count_step(struct elfsym_object *object, unsigned index, void *arg)
{
	(void)object;
	((struct counts *)arg)->nested = index + 1;
	return 0;
}

static void count_body(uint64_t adds, uint64_t subs, void *arg)
{
	struct counts *counts = arg;

	counts->adds = adds;
	counts->subs = subs;
	elfsym_walk(count_step, counts);
}

static void counters_tell_of_loading_and_unloading(void **state)
{
	struct counts a = {0}, b = {0}, c = {0}, d = {0};

	(void)state;
	elfsym_locked(count_body, &a);
	elfsym_locked(count_body, &b);
	assert_memory_equal(&a, &b, sizeof(a));
	void *handle = lookup_real_dlopen("libcrypt.so.1", RTLD_NOW);
	if (!handle)
		handle = lookup_real_dlopen("libresolv.so.2", RTLD_NOW);
	assert_non_null(handle);
	elfsym_locked(count_body, &c);
	assert_true(c.adds > a.adds && c.subs == a.subs && c.nested > a.nested);
	dlclose(handle);
	elfsym_locked(count_body, &d);
	assert_true(d.adds == c.adds && d.subs > c.subs && d.nested == a.nested);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(walk_sees_every_object),
		cmocka_unit_test(library_names_end_where_they_should),
		cmocka_unit_test(finds_what_dlsym_finds),
		cmocka_unit_test(does_not_find_what_is_not_defined),
		cmocka_unit_test(reads_an_unrelocated_object),
		cmocka_unit_test(reads_sysv_hash),
		cmocka_unit_test(reads_gnu_hash),
		cmocka_unit_test(counters_tell_of_loading_and_unloading),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
