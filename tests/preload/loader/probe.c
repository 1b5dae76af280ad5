/*
 * probe.c - what lookups find, one case a run: "what: SYMBOL@OBJECT" or "what: NULL: error".
 * Run bare and with libturbo.so by cases.sh, which knows what must be the same.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__aarch64__)
#define LIBC_VERSION "GLIBC_2.17"
#else
#define LIBC_VERSION "GLIBC_2.2.5"
#endif

typedef void *ask_fn(void *handle, const char *name);
typedef int init_fn(unsigned int flags);

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void show(const char *what, void *fn)
{
	const char *error = dlerror();
	Dl_info info;

	if (!fn)
		printf("%s: NULL: %s\n", what, error ? error : "no error");
	else if (dladdr(fn, &info))
		printf("%s: %s@%s%s%s\n", what, info.dli_sname ? info.dli_sname : "?", last_part(info.dli_fname),
			   error ? ": " : "", error ? error : "");
	else
		printf("%s: somewhere\n", what);
}

static void *open_library(const char *file, int mode)
{
	void *handle = dlopen(file, mode);

	if (!handle) {
		printf("%s\n", dlerror());
		exit(1);
	}
	return handle;
}

static ask_fn *asker(const char *file)
{
	ask_fn *ask = (ask_fn *)dlsym(open_library(file, RTLD_NOW | RTLD_LOCAL), "ask");

	if (!ask)
		exit(1);
	return ask;
}

/* ---- explicit handles ---- */

static void case_handle(void)
{
	void *handle = open_library("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	init_fn *init;

	show("hooked", dlsym(handle, "cuInit"));
	show("counted", dlsym(handle, "cuMemAlloc_v2"));
	init = (init_fn *)dlsym(handle, "cuInit");
	printf("cuInit(3): %d\n", init(3));
	show("again", dlsym(handle, "cuInit"));
	void *indirect = dlsym(handle, "cuMemAllocHost_v2"); /* what the driver chose has no name */
	Dl_info info;
	printf("indirect@%s\n", indirect && dladdr(indirect, &info) ? last_part(info.dli_fname) : "nothing");
	show("from a library", asker("libasker.so")(handle, "cuInit"));
	show("in another handle", dlsym(open_library("libm.so.6", RTLD_NOW), "cuInit"));
	show("unknown", dlsym(handle, "cuNoSuchThing"));
	show("hooked, after an error", dlsym(handle, "cuInit"));
	dlsym(handle, "cuNoSuchThing");
	show("hooked, with an error pending", dlsym(handle, "cuInit"));
}

static void case_left_alone(void)
{
	static const char *const tools[] = {"libcupti.so.13", "libToolsInjection64.so",
										"libsanitizer-collection.so", "libnvidia-tool.so.1"};
	void *handle = open_library("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

	for (unsigned i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
		ask_fn *ask = asker(tools[i]);

		for (int again = 0; again < 2; again++) {
			show(tools[i], ask(handle, "cuInit"));
			show("  by RTLD_DEFAULT", ask(RTLD_DEFAULT, "cuInit"));
		}
	}
	ask_fn *driver = (ask_fn *)dlsym(handle, "driver_ask");
	show("the driver", driver(handle, "cuInit"));
	show("the driver, RTLD_DEFAULT", driver(RTLD_DEFAULT, "cuMemAlloc_v2"));
	show("the driver, dlopen(NULL)", driver(dlopen(NULL, RTLD_NOW), "cuInit"));
}

/* cuGetProcAddress, called by whom? */
typedef int resolve_fn(const char *, void **, int, unsigned long long, int *);
typedef void *ask_driver_fn(resolve_fn *resolve, const char *name);

static void case_resolver(void)
{
	static const char *const libraries[] = {"libasker.so", "libcupti.so.13", "libToolsInjection64.so"};
	void *handle = open_library("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *fn = NULL;
	resolve_fn *resolve = (resolve_fn *)dlsym(handle, "cuGetProcAddress_v2");

	show("resolver", (void *)resolve);
	for (unsigned i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		void *library = open_library(libraries[i], RTLD_NOW | RTLD_LOCAL);
		ask_driver_fn *ask = (ask_driver_fn *)dlsym(library, "ask_driver");

		show(libraries[i], ask(resolve, "name"));
		show("  once more", ask(resolve, "name"));
	}
	printf("status: %d\n", resolve("name", &fn, 12000, 0, NULL));
	show("the program", fn);
}

/* The driver gives two names one address. */
static void case_alias(void)
{
	void *handle = open_library("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *fn = NULL;
	resolve_fn *resolve = (resolve_fn *)dlsym(handle, "cuGetProcAddress_v2");

	resolve("alias", &fn, 12000, 0, NULL);
	show("by address", fn);
	show("by one name", dlsym(handle, "cuMemFree"));
	show("by the other", dlsym(handle, "cuMemcpyHtoD_v2"));
}

/* ---- scopes ---- */

static void case_no_driver(void)
{
	show("RTLD_DEFAULT", dlsym(RTLD_DEFAULT, "cuInit"));
	show("counted", dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
	show("dlopen(NULL)", dlsym(dlopen(NULL, RTLD_NOW), "cuInit"));
	show("RTLD_NEXT", dlsym(RTLD_NEXT, "cuInit"));
}

static void case_no_driver_library(void)
{
	ask_fn *ask = asker("libasker.so");

	show("RTLD_DEFAULT", ask(RTLD_DEFAULT, "cuInit"));
	show("counted", ask(RTLD_DEFAULT, "cuMemAlloc_v2"));
	show("RTLD_NEXT", ask(RTLD_NEXT, "cuInit"));
}

static void case_global(void)
{
	open_library("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	ask_fn *ask = asker("libasker.so");

	show("RTLD_DEFAULT", dlsym(RTLD_DEFAULT, "cuInit"));
	show("RTLD_NEXT", dlsym(RTLD_NEXT, "cuInit"));
	show("dlopen(NULL)", dlsym(dlopen(NULL, RTLD_NOW), "cuLaunchHostFunc"));
	show("a library's RTLD_DEFAULT", ask(RTLD_DEFAULT, "cuInit"));
}

static void case_local(void)
{
	open_library("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	show("RTLD_DEFAULT", dlsym(RTLD_DEFAULT, "cuInit"));
	show("dlopen(NULL)", dlsym(dlopen(NULL, RTLD_NOW), "cuInit"));
}

/* libuser.so is linked with libcuda.so.1 and in a local scope. */
static void case_user(void)
{
	void *user = open_library("libuser.so", RTLD_NOW | RTLD_LOCAL);
	ask_fn *ask = (ask_fn *)dlsym(user, "ask");
	init_fn *init = (init_fn *)dlsym(user, "user_init");

	show("its RTLD_DEFAULT", ask(RTLD_DEFAULT, "cuInit"));
	show("by its handle", dlsym(user, "cuInit"));
	show("missing", ask(RTLD_DEFAULT, "cuNoSuchThing"));
	printf("its direct call: %d\n", init(2));
	show("the program's RTLD_DEFAULT", dlsym(RTLD_DEFAULT, "cuInit"));
}

static void case_user_next(void)
{
	ask_fn *ask = (ask_fn *)dlsym(open_library("libuser.so", RTLD_NOW | RTLD_LOCAL), "ask");

	show("RTLD_NEXT behind libturbo", ask(RTLD_NEXT, "cuInit"));
}

static void case_interposer(void)
{
	void *(*next)(const char *) = (void *(*)(const char *))dlsym(RTLD_DEFAULT, "interposer_next");
	init_fn *init = (init_fn *)dlsym(RTLD_DEFAULT, "cuInit");

	show("its next", next ? next("cuInit") : NULL);
	show("its next getppid", next ? next("getppid") : NULL);
	printf("cuInit(1): %d\n", init ? init(1) : -1);
}

static void *next_many(void *arg)
{
	bool *same = arg;
	void *first = dlsym(RTLD_NEXT, "getppid");

	*same = first != NULL;
	for (int i = 0; i < 1000; i++)
		*same &= dlsym(RTLD_NEXT, "getppid") == first && dlsym(RTLD_NEXT, "cuNoSuchThing") == NULL;
	return NULL;
}

static void case_next_threads(void)
{
	pthread_t threads[8];
	bool same[8];

	show("first", dlsym(RTLD_NEXT, "getppid"));
	show("second", dlsym(RTLD_NEXT, "getppid"));
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, next_many, &same[i]);
	for (int i = 0; i < 8; i++) {
		pthread_join(threads[i], NULL);
		printf("thread %d: %s\n", i, same[i] ? "same" : "differs");
	}
}

/* Code in no object, fn(handle, name, lookup): the loader refuses RTLD_NEXT to it. */
#if defined(__aarch64__)
/* stp x29, x30, [sp, -16]!; blr x2; ldp x29, x30, [sp], 16; ret */
static const unsigned int loose_code[] = {0xa9bf7bfd, 0xd63f0040, 0xa8c17bfd, 0xd65f03c0};
#else
/* push %rbx; call *%rdx; pop %rbx; ret */
static const unsigned char loose_code[] = {0x53, 0xff, 0xd2, 0x5b, 0xc3};
#endif

static void case_no_object(void)
{
	void *(*call)(void *, const char *, void *);
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return;
	memcpy(page, loose_code, sizeof(loose_code));
	__builtin___clear_cache(page, page + sizeof(loose_code));
	call = (void *(*)(void *, const char *, void *))(void *)page;
	show("RTLD_NEXT, hooked", call(RTLD_NEXT, "cuInit", (void *)dlsym));
	show("RTLD_NEXT, unknown", call(RTLD_NEXT, "getppid", (void *)dlsym));
	show("RTLD_DEFAULT, unknown", call(RTLD_DEFAULT, "strtol", (void *)dlsym));
}

/* ---- versions, errors, flags ---- */

static void case_versions(void)
{
	void *handle = open_library("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

	show("libc's", dlvsym(RTLD_DEFAULT, "strtol", LIBC_VERSION));
	show("libc's next", dlvsym(RTLD_NEXT, "strtol", LIBC_VERSION));
	show("no such version", dlvsym(RTLD_DEFAULT, "strtol", "GLIBC_1.0"));
	show("hooked", dlvsym(RTLD_DEFAULT, "cuInit", "CUDA_1"));
	show("hooked, by handle", dlvsym(handle, "cuInit", "CUDA_1"));
}

static void case_errors(void)
{
	show("missing", dlsym(RTLD_DEFAULT, "no_such_symbol"));
	show("missing next", dlsym(RTLD_NEXT, "no_such_symbol"));
	show("missing in a library", dlsym(open_library("libm.so.6", RTLD_NOW), "no_such_symbol"));
	show("NULL-valued", dlsym(open_library("libnull.so", RTLD_NOW), "null_symbol"));
	show("missing library", dlopen("libno-such-library.so.1", RTLD_NOW));
	show("bad mode", dlopen("libm.so.6", 0));
	dlopen("libno-such-library.so.1", RTLD_NOW);
	show("success clears", dlsym(RTLD_DEFAULT, "strtol"));
}

static void case_deepbind(void)
{
	void *user = open_library("libuser.so", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	ask_fn *ask = (ask_fn *)dlsym(user, "ask");

	show("its RTLD_DEFAULT", ask(RTLD_DEFAULT, "cuInit"));
}

static void case_runpath(void)
{
	void *outer = open_library("libouter.so", RTLD_NOW);
	void *(*ask_open)(const char *, int) = (void *(*)(const char *, int))dlsym(outer, "ask_open");
	void *inner = ask_open("libinner.so", RTLD_NOW);

	show("through the library's RUNPATH", inner ? dlsym(inner, "inner_value") : NULL);
	printf("$ORIGIN: %s\n",
		   inner && ask_open("$ORIGIN/sub/libinner.so", RTLD_NOW) == inner ? "same" : "differs");
	show("not the program's", dlopen("libinner2.so", RTLD_NOW));
}

static void case_dlmopen(void)
{
	void *handle = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);

	show("in a namespace of its own", handle ? dlsym(handle, "cuInit") : NULL);
}

/* ---- providers that come, go and come in copies ---- */

static void case_reload(const char *first, const char *second)
{
	const char *const files[] = {first, second, first};

	for (int i = 0; i < 3; i++) {
		void *handle = open_library(files[i], RTLD_NOW | RTLD_LOCAL);
		init_fn *init = (init_fn *)dlsym(handle, "cuInit");
		int (*alloc)(void **, size_t) = (int (*)(void **, size_t))dlsym(handle, "cuMemAlloc_v2");

		show("cuInit", (void *)init);
		printf("cuInit(0): %d, cuMemAlloc_v2: %d\n", init(0), alloc(NULL, 1));
		printf("dlclose: %d\n", dlclose(handle));
	}
}

static void nccl_ask(const char *what, void *handle)
{
	int (*version)(int *) = (int (*)(int *))dlsym(handle, "ncclGetVersion");
	int (*count)(void *, int *) = (int (*)(void *, int *))dlsym(handle, "ncclCommCount");
	int (*seen)(void) = (int (*)(void))dlsym(handle, "nccl_seen_at_load");
	int direct = 0, inner = 0;

	version(&direct);
	count(NULL, &inner);
	printf("%s: %d, by its own call %d, at load %d\n", what, direct, inner, seen());
}

static void case_nccl(const char *first, const char *second)
{
	void *a = open_library(first, RTLD_NOW | RTLD_LOCAL);

	nccl_ask("first copy", a);
	void *b = open_library(second, RTLD_NOW | RTLD_LOCAL);
	nccl_ask("second copy", b);
	nccl_ask("first copy again", a);
	dlclose(b);
	nccl_ask("first copy alone", a);
	b = open_library(second, RTLD_NOW | RTLD_LOCAL);
	nccl_ask("second copy again", b);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{"handle", case_handle},
		{"left_alone", case_left_alone},
		{"no_driver", case_no_driver},
		{"no_driver_library", case_no_driver_library},
		{"global", case_global},
		{"local", case_local},
		{"user", case_user},
		{"user_next", case_user_next},
		{"interposer", case_interposer},
		{"next_threads", case_next_threads},
		{"no_object", case_no_object},
		{"versions", case_versions},
		{"errors", case_errors},
		{"deepbind", case_deepbind},
		{"runpath", case_runpath},
		{"dlmopen", case_dlmopen},
		{"resolver", case_resolver},
		{"alias", case_alias},
	};

	if (argc == 4 && strcmp(argv[1], "reload") == 0)
		return case_reload(argv[2], argv[3]), 0;
	if (argc == 4 && strcmp(argv[1], "nccl") == 0)
		return case_nccl(argv[2], argv[3]), 0;
	for (unsigned i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(argv[1], cases[i].name) == 0)
			return cases[i].run(), 0;
	return 2;
}
