/* SAN: plain ENV: TURBO_RUN=1 TURBO_HOSTMEM=on TURBO_HOSTMEM_MIN_MB=1 TURBO_HOSTMEM_CACHE_MB=256 TURBO_COPY=off BARE */
/*
 * Every function of the malloc family, of random sizes, on threads, with forks, against a shadow of what each block must
 * hold: its bytes, its alignment, its zeros, room for as much as was asked for. Blocks change threads, and come from C++'s
 * operators and, past us, from libc's own malloc. SEED and SOAK_S as for all random tests.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
#define BLOCKS 64
#define OPERATIONS "52000" /* a thread; the variable of this name says otherwise */
#define MAILBOXES 32
#define MIB ((size_t)1 << 20)

/* What gives a block back: any of C's functions; C++'s operators go in pairs. */
enum kind { C, NEW, NEW_ALIGNED };

struct block {
	unsigned char *p;
	size_t bytes, align;
	unsigned char mark;
	enum kind kind;
};

struct worker {
	unsigned seed, operations;
	struct block block[BLOCKS];
};

static _Atomic unsigned long total, large, moved;
/* Blocks on their way from one thread to another, each alone; acquire and release. */
static _Atomic(struct block *) mailbox[MAILBOXES];

/* What not every process has. */
extern void *__libc_malloc(size_t);
static struct {
	bool alone; /* no allocator but libc's: what is libc's can be freed by the program's */
	void (*free_sized)(void *, size_t);
	void (*free_aligned_sized)(void *, size_t, size_t);
	void *(*new)(size_t, const void *nothrow);
	void *(*new_aligned)(size_t, size_t align, const void *nothrow);
	void (*delete)(void *);
	void (*delete_sized)(void *, size_t);
	void (*delete_aligned)(void *, size_t align);
} have;

#define CHECK(what, ...)                              \
	do {                                              \
		if (!(what)) {                                \
			printf("line %d: %s: ", __LINE__, #what); \
			printf(__VA_ARGS__);                      \
			puts("");                                 \
			fflush(stdout);                           \
			_exit(1);                                 \
		}                                             \
	} while (0)

static unsigned draw(struct worker *w, unsigned n)
{
	return (unsigned)rand_r(&w->seed) % n;
}

static size_t draw_size(struct worker *w)
{
	switch (draw(w, 20)) {
	case 0: return (size_t)draw(w, 6 * MIB) + MIB / 2;
	case 1: return MIB * (1 + draw(w, 6)) - draw(w, 3);
	case 2: return draw(w, 1u << 20);
	case 3: return 0;
	default: return draw(w, 600);
	}
}

/* Some places of a block, its ends among them. */
static void mark(struct block *b)
{
	for (size_t i = 0; i < b->bytes; i += 1 + b->bytes / 16)
		b->p[i] = (unsigned char)(b->mark + i);
	if (b->bytes)
		b->p[b->bytes - 1] = b->mark;
}

static void look(const struct block *b, size_t bytes, const char *after)
{
	for (size_t i = 0; i < bytes && i + 1 < b->bytes; i += 1 + b->bytes / 16)
		CHECK(b->p[i] == (unsigned char)(b->mark + i), "%s: byte %zu of %zu", after, i, b->bytes);
	if (b->bytes && bytes >= b->bytes)
		CHECK(b->p[b->bytes - 1] == b->mark, "%s: the last byte of %zu", after, b->bytes);
}

static bool aligned(const void *p, size_t bytes, size_t align)
{
	return !bytes || (uintptr_t)p % align == 0;
}

static void *take_aligned(struct worker *w, size_t bytes, size_t align)
{
	void *p = NULL;

	switch (draw(w, 5)) {
	case 0: CHECK(posix_memalign(&p, align, bytes) == 0, "posix_memalign(%zu)", align); break;
	case 1: p = aligned_alloc(align, bytes); break;
	case 2: p = memalign(align, bytes); break;
	case 3:
		p = have.alone ? pvalloc(bytes) : valloc(bytes);
		CHECK(!have.alone || !bytes || malloc_usable_size(p) >= (bytes + 4095) / 4096 * 4096, "pvalloc(%zu)",
			  bytes);
		align = 4096;
		break;
	default: p = valloc(bytes); align = 4096;
	}
	CHECK(aligned(p, bytes, align), "%zu bytes at a multiple of %zu", bytes, align);
	return p;
}

static void *take_plain(struct worker *w, size_t bytes)
{
	void *p;

	switch (draw(w, 5)) {
	case 0: p = malloc(bytes); break;
	case 1:
		p = calloc(bytes / 8 + 1, 8);
		for (size_t i = 0; i < bytes; i += 1 + bytes / 256)
			CHECK(((char *)p)[i] == 0, "calloc of %zu: byte %zu", bytes, i);
		break;
	case 2: p = realloc(NULL, bytes); break;
	case 3: p = have.alone ? __libc_malloc(bytes) : malloc(bytes); break;
	default: p = reallocarray(NULL, bytes / 4 + 1, 4);
	}
	CHECK(aligned(p, bytes, bytes < 16 ? 8 : 16), "%zu bytes", bytes);
	return p;
}

static struct block take(struct worker *w, size_t bytes)
{
	static const size_t aligns[] = {16, 64, 4096, MIB * 2, MIB * 4};
	static const char nothrow = 0;
	struct block b = {NULL, bytes, aligns[draw(w, 5)], (unsigned char)draw(w, 256), C};
	unsigned how = draw(w, 10);

	if (how == 0 && have.new) {
		b.kind = NEW;
		b.p = have.new(bytes, &nothrow);
	} else if (how == 1 && have.new_aligned) {
		b.kind = NEW_ALIGNED;
		b.p = have.new_aligned(bytes, b.align, &nothrow);
		CHECK(aligned(b.p, bytes, b.align), "operator new of %zu at %zu", bytes, b.align);
	} else {
		b.p = how < 6 ? take_plain(w, bytes) : take_aligned(w, bytes, b.align);
	}
	CHECK(b.p || !bytes, "no memory for %zu", bytes);
	CHECK(!b.p || malloc_usable_size(b.p) >= bytes, "%zu usable of %zu", malloc_usable_size(b.p), bytes);
	mark(&b);
	return b;
}

static void give(struct worker *w, struct block *b)
{
	unsigned how = draw(w, 4);

	errno = 56;
	if (b->kind == NEW && how)
		how == 1 ? have.delete_sized(b->p, b->bytes) : have.delete(b->p);
	else if (b->kind == NEW_ALIGNED)
		have.delete_aligned(b->p, b->align);
	else if (how == 0 && have.free_sized)
		have.free_sized(b->p, b->bytes);
	else if (how == 1 && have.free_aligned_sized)
		have.free_aligned_sized(b->p, b->align, b->bytes);
	else
		free(b->p);
	CHECK(errno == 56, "free changes errno");
	*b = (struct block){0};
}

static void resize(struct worker *w, struct block *b, size_t bytes)
{
	size_t old = b->bytes;
	unsigned char *p = draw(w, 4) ? realloc(b->p, bytes) : reallocarray(b->p, bytes, 1);

	CHECK(p, "realloc to %zu", bytes);
	b->p = p;
	look(b, bytes < old ? bytes : old, "realloc");
	b->bytes = bytes;
	mark(b);
}

/* Goes to whoever comes by next; what lies there is this thread's now. */
static void exchange(struct worker *w, struct block *b)
{
	struct block *mine = malloc(sizeof(*mine)), *theirs;

	*mine = *b;
	*b = (struct block){0};
	theirs = atomic_exchange(&mailbox[draw(w, MAILBOXES)], mine);
	if (theirs) {
		*b = *theirs;
		free(theirs);
		moved++;
	}
}

static void operation(struct worker *w)
{
	struct block *b = &w->block[draw(w, BLOCKS)];
	size_t bytes = draw_size(w);
	unsigned what = draw(w, 12);

	total++;
	large += bytes >= MIB;
	if (!b->p) {
		*b = take(w, bytes);
		return;
	}
	look(b, b->bytes, "later");
	if (what < 4 && bytes && b->kind == C)
		resize(w, b, bytes);
	else if (what == 4)
		exchange(w, b);
	else
		give(w, b);
}

/* The child uses and frees what its parent had, and takes more. */
static void fork_once(struct worker *w)
{
	pid_t pid = fork();
	int status;
	if (pid == 0) {
		for (int i = 0; i < 200; i++)
			operation(w);
		for (int i = 0; i < BLOCKS; i++)
			give(w, &w->block[i]);
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "a forked child: status %x", status);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	for (unsigned i = 0; i < w->operations; i++) {
		operation(w);
		if (draw(w, 20000) == 0)
			fork_once(w);
	}
	for (int i = 0; i < BLOCKS; i++) {
		look(&w->block[i], w->block[i].bytes, "at the end");
		give(w, &w->block[i]);
	}
	return NULL;
}

static void empty_mailboxes(struct worker *w)
{
	for (int i = 0; i < MAILBOXES; i++) {
		struct block *b = atomic_exchange(&mailbox[i], NULL);
		if (!b)
			continue;
		look(b, b->bytes, "in a mailbox");
		give(w, b);
		free(b);
	}
}

static void find(void)
{
	void *cxx = dlopen("libstdc++.so.6", RTLD_NOW);

	have.alone = !dlsym(RTLD_DEFAULT, "mallctl") && !dlsym(RTLD_DEFAULT, "tc_version");
	*(void **)&have.free_sized = dlsym(RTLD_DEFAULT, "free_sized");
	*(void **)&have.free_aligned_sized = dlsym(RTLD_DEFAULT, "free_aligned_sized");
	if (!cxx) {
		puts("no libstdc++: C++'s operators are left out");
		return;
	}
	*(void **)&have.new = dlsym(cxx, "_ZnwmRKSt9nothrow_t");
	*(void **)&have.new_aligned = dlsym(cxx, "_ZnwmSt11align_val_tRKSt9nothrow_t");
	*(void **)&have.delete = dlsym(cxx, "_ZdlPv");
	*(void **)&have.delete_sized = dlsym(cxx, "_ZdlPvm");
	*(void **)&have.delete_aligned = dlsym(cxx, "_ZdlPvSt11align_val_t");
}

/* What no allocator may answer but one way. */
static void edges(void)
{
	void *p = NULL;
	volatile size_t huge = SIZE_MAX / 2, most = SIZE_MAX;

	CHECK(!malloc(huge) && errno == ENOMEM, "malloc of half of everything");
	CHECK(!malloc(most), "malloc of everything");
	CHECK(!calloc(huge, 4) && !calloc(most, most), "calloc that overflows");
	CHECK(!reallocarray(NULL, huge, 4), "reallocarray that overflows");
	if (have.new) {
		CHECK(!have.new(huge, "") && !have.new_aligned(huge, 64, ""), "operator new of half of everything");
		have.delete(NULL);
	}
	if (have.free_sized)
		have.free_sized(NULL, 8);
	CHECK(!aligned_alloc(64, huge) && !memalign(64, huge) && !valloc(huge), "half of everything, aligned");
	CHECK(posix_memalign(&p, 64, huge) == ENOMEM, "posix_memalign of half of everything");
	CHECK(posix_memalign(&p, 3, 8 * MIB) == EINVAL && posix_memalign(&p, 4, 8 * MIB) == EINVAL,
		  "posix_memalign with a bad alignment");
	free(NULL);
	CHECK(malloc_usable_size(NULL) == 0, "usable size of nothing");
	p = malloc(8 * MIB);
	CHECK(!realloc(p, huge), "realloc to half of everything");
	memset(p, 1, 8 * MIB); /* still there */
	free(p);
}

int main(void)
{
	static struct worker worker[THREADS];
	const char *given = getenv("SEED"), *soak = getenv("SOAK_S"), *operations = getenv("OPERATIONS");
	unsigned seed = given ? (unsigned)strtoul(given, NULL, 0) : (unsigned)time(NULL);
	time_t until = time(NULL) + (soak ? atoi(soak) : 0);
	pthread_t thread[THREADS];

	find();
	edges();
	do {
		printf("seed %u\n", seed);
		for (unsigned i = 0; i < THREADS; i++) {
			worker[i].seed = seed++;
			worker[i].operations = (unsigned)atoi(operations ? operations : OPERATIONS);
			CHECK(pthread_create(&thread[i], NULL, work, &worker[i]) == 0, "no thread");
		}
		for (unsigned i = 0; i < THREADS; i++)
			pthread_join(thread[i], NULL);
		empty_mailboxes(&worker[0]);
	} while (!given && time(NULL) < until);
	printf("%lu operations, %lu of large blocks, %lu blocks went to another thread\n", total, large, moved);
	return 0;
}
