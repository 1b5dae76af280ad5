/*
 * copies.c - copies of NCCL that come and go. A call from inside a copy reaches that copy, and
 * a call from a library that is linked with one reaches it, whatever was loaded before.
 *
 *     copies CASE NCCL_A NCCL_B USER_A USER_B CUDA_USER
 *
 * USER_x is linked with libnccl.so.2 and takes the one that is loaded, CUDA_USER with the driver.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { NCCL_A, NCCL_B, USER_A, USER_B, CUDA_USER, FILES };
static char **files;
static int bad;

typedef void *open_fn(const char *, int);
typedef int close_fn(void *);
static open_fn *open_library = dlopen;
static close_fn *close_library = dlclose;

static void *load(int file)
{
	void *handle = open_library(files[file], RTLD_NOW);

	if (!handle) {
		printf("%s\n", dlerror());
		exit(2);
	}
	return handle;
}

static int ask(void *handle, const char *name)
{
	int (*fn)(void) = (int (*)(void))dlsym(handle, name);

	return fn ? fn() : -1;
}

static int version_of(void *handle)
{
	int (*fn)(int *) = (int (*)(int *))dlsym(handle, "ncclGetVersion");
	int version = 0;

	return fn && fn(&version) == 0 ? version : -1;
}

static void expect(const char *what, int found, int wanted)
{
	if (found != wanted && __atomic_fetch_add(&bad, 1, __ATOMIC_RELAXED) < 5)
		printf("%s: %d, not %d\n", what, found, wanted);
}

/* Where the copy was there is nothing afterwards, so that the next one lands elsewhere. */
static void unload_and_block(void *handle)
{
	struct link_map *map;

	dlinfo(handle, RTLD_DI_LINKMAP, &map);
	void *start = (void *)map->l_addr;
	close_library(handle);
	void *hole = mmap(start, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	expect("the copy is unmapped", hole == start, 1);
}

/* The driver comes and goes with a library that is linked with it. */
static void case_driver(void)
{
	for (int i = 0; i < 5; i++) {
		void *user = load(CUDA_USER), *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

		expect("linked with the driver", ask(user, "user_asks"), 100);
		close_library(user);
		unload_and_block(driver);
	}
}

/* A copy's own calls, while it is loaded, later, and while it is unloaded. */
static void one_copy(int file)
{
	void *handle = load(file);

	expect("at load", ask(handle, "nccl_seen_at_load"), 1 + file);
	expect("by its own call", ask(handle, "nccl_own_call"), 1 + file);
	unload_and_block(handle);
}

static void case_in_turn(void)
{
	for (int i = 0; i < 20; i++)
		one_copy(i % 2 ? NCCL_B : NCCL_A);
}

/* As in_turn, loaded and unloaded where libturbo.so does not see it. */
static void case_unseen(void)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW);

	open_library = (open_fn *)dlsym(libc, "dlopen");
	close_library = (close_fn *)dlsym(libc, "dlclose");
	case_in_turn();
}

/* Another file of the same size at the same place: functions are elsewhere in it. */
static void case_same_place(void)
{
	for (int i = 0; i < 20; i++) {
		int file = i % 2 ? NCCL_B : NCCL_A;
		void *handle = load(file);

		expect("at load", ask(handle, "nccl_seen_at_load"), 1 + file);
		expect("by its own call", ask(handle, "nccl_own_call"), 1 + file);
		close_library(handle);
	}
}

/* The first copy becomes the second one, at the same place. */
static void case_again(void)
{
	void *a = load(NCCL_A), *b = load(NCCL_B);

	for (int i = 0; i < 20; i++) {
		expect("first copy", version_of(a), 1);
		expect("second copy", version_of(b), 2);
		close_library(a);
		a = load(NCCL_A);
		expect("now the first", version_of(b), 2);
		expect("now the second", version_of(a), 1);
		close_library(b);
		b = load(NCCL_B);
	}
}

/* A library that is linked with the copy that was there first, and one that came later. */
static void case_users(void)
{
	for (int i = 0; i < 20; i++) {
		int first = i % 2, second = !first;
		void *copy = load(NCCL_A + first), *user = load(USER_A), *other = load(NCCL_A + second);
		void *late = load(USER_B);

		expect("linked with the first", ask(user, "user_asks"), 1 + first);
		expect("as well, loaded later", ask(late, "user_asks"), 1 + first);
		expect("the other copy", ask(other, "nccl_own_call"), 1 + second);
		close_library(copy);
		expect("its handle closed", ask(user, "user_asks"), 1 + first);
		close_library(user);
		close_library(late);
		expect("the other alone", ask(other, "nccl_own_call"), 1 + second);
		late = load(USER_B);
		expect("linked with the other", ask(late, "user_asks"), 1 + second);
		close_library(late);
		unload_and_block(other);
	}
}

/* Called by each copy's constructor, if it is there, before the copy calls itself. */
static int opening, waiting;
void nccl_loading(void);
void nccl_loading(void)
{
	/* The other thread is on its way into dlopen, where it waits for this constructor. */
	if (__atomic_exchange_n(&waiting, 0, __ATOMIC_SEQ_CST))
		for (__atomic_store_n(&opening, 1, __ATOMIC_SEQ_CST); __atomic_load_n(&opening, __ATOMIC_SEQ_CST);)
			usleep(1000);
	usleep(50000);
}

static void *open_second(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&opening, __ATOMIC_SEQ_CST))
		usleep(1000);
	__atomic_store_n(&opening, 0, __ATOMIC_SEQ_CST);
	void *handle = load(NCCL_B);
	expect("second, at load", ask(handle, "nccl_seen_at_load"), 2);
	return handle;
}

static void case_waiting(void)
{
	pthread_t thread;
	void *a, *b;

	waiting = 1;
	pthread_create(&thread, NULL, open_second, NULL);
	a = load(NCCL_A);
	expect("first, at load", ask(a, "nccl_seen_at_load"), 1);
	pthread_join(thread, &b);
	unload_and_block(a);
	expect("second, the first unloaded", ask(b, "nccl_own_call"), 2);
	close_library(b);
}

/* Three threads a copy, so that it is now unloaded and now not. */
static void *reload(void *arg)
{
	int file = (int)(size_t)arg;

	for (int i = 0; i < 200; i++) {
		void *handle = load(file);

		expect("thread, at load", ask(handle, "nccl_seen_at_load"), 1 + file);
		sched_yield();
		for (int k = 0; k < 20; k++)
			expect("thread, own call", ask(handle, "nccl_own_call"), 1 + file);
		close_library(handle);
	}
	return NULL;
}

static void case_threads(void)
{
	pthread_t threads[6];

	for (size_t i = 0; i < 6; i++)
		pthread_create(&threads[i], NULL, reload, (void *)(i % 2));
	for (size_t i = 0; i < 6; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{"in_turn", case_in_turn}, {"unseen", case_unseen},   {"same_place", case_same_place},
		{"users", case_users},     {"waiting", case_waiting}, {"threads", case_threads},
		{"driver", case_driver},   {"again", case_again},
	};

	if (argc != 2 + FILES)
		return 2;
	files = argv + 2;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(argv[1], cases[i].name) == 0) {
			cases[i].run();
			printf("%s: %d wrong answers\n", argv[1], bad);
			return bad != 0;
		}
	return 2;
}
